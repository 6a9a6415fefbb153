//! A directory in memory: for nodes that keep nothing, and for tests of everything that can go wrong.
//!
//! Invariant: it shows the same two worlds as a real disk. What was written is there after the process
//! ended; only what was synced is certain after a power loss. Faults happen where they were asked for.
//! It does nothing at random: its user chooses what survives, and may choose everything in turn.
//!
//! `content` is a file's bytes and what is synced of them, `names` the same for the directory, `loss` the choices
//! of a power loss, `faults` what goes wrong, `state` puts them behind one lock, `file` is an open file.

use super::holder::{DiskLock, HolderNote};
use super::{DirectoryEntry, Disk, File, FileOrigin, OpenError, Volume};
use std::io;
use std::sync::{Arc, MutexGuard};

mod content;
mod faults;
mod file;
mod loss;
mod names;
mod state;
#[cfg(test)]
mod tests;

pub use faults::{DiskFault, DiskOperation};
pub use loss::{Fate, PowerLoss, Sector, Unsynced};

use file::MemoryFile;
use state::{DiskState, SharedState};

/// A directory in memory. Clones are the same directory, so that a node can be started on it again once the last one has
/// stopped. As with a directory, a second node beside that one is refused.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    state: SharedState,
    holder: HolderNote,
}

/// The disk after one change.
#[derive(Clone, Debug)]
pub struct Point {
    /// What was done.
    pub operation: DiskOperation,
    /// The file it was done to; empty for the directory.
    pub file: String,
    /// A copy of the disk, as the next process would find it.
    pub disk: MemoryDisk,
}

impl Default for MemoryDisk {
    fn default() -> MemoryDisk {
        MemoryDisk::new()
    }
}

impl MemoryDisk {
    /// An empty directory that does not remember what was synced: a power loss would take all of it.
    pub fn new() -> MemoryDisk {
        MemoryDisk::of(DiskState::default())
    }

    /// An empty directory that keeps apart what was synced and what was not.
    pub fn with_power_loss() -> MemoryDisk {
        MemoryDisk::of(DiskState {
            remembers_sync: true,
            ..DiskState::default()
        })
    }

    /// The same bytes for the same seed, where random ones are asked for.
    pub fn seed(&self, seed: u64) {
        self.state().random = seed;
    }

    /// What the next process finds after this one ended: a copy of everything written.
    pub fn after_process_end(&self) -> MemoryDisk {
        MemoryDisk::of(self.state().copy())
    }

    /// What the next process finds if the system has also dropped from its cache what a failed sync had
    /// called clean.
    pub fn after_eviction(&self) -> MemoryDisk {
        let mut state = self.state().copy();
        for content in state.contents.values_mut() {
            Arc::make_mut(content).evict_abandoned();
        }
        MemoryDisk::of(state)
    }

    /// What is not durable, and therefore a choice of [`MemoryDisk::after_loss`].
    pub fn unsynced(&self) -> Unsynced {
        self.state().unsynced()
    }

    /// The disk after a power loss that takes the names which this does not keep. Whatever no name leads to is
    /// gone; lengths and sectors of the rest are still to be chosen.
    ///
    /// # Panics
    /// If the disk was not made with `with_power_loss`.
    pub fn after_loss_of_names(&self, survive: &[bool]) -> MemoryDisk {
        let mut state = self.lossy_copy();
        state.lose_names(survive);
        MemoryDisk::of(state)
    }

    /// The disk after a power loss that leaves what `loss` says.
    ///
    /// # Panics
    /// If the disk was not made with `with_power_loss`.
    pub fn after_loss(&self, loss: &PowerLoss) -> MemoryDisk {
        let mut state = self.lossy_copy();
        state.lose_power(loss);
        MemoryDisk::of(state)
    }

    /// What is found after a power loss: everything synced, all unsynced names or none, and those
    /// unsynced sectors for which `survives` (file, number of the 512-byte sector) says so.
    ///
    /// # Panics
    /// If the disk was not made with `with_power_loss`.
    pub fn after_power_loss(
        &self,
        names_survive: bool,
        mut survives: impl FnMut(&str, u64) -> bool,
    ) -> MemoryDisk {
        let unsynced = self.unsynced();
        let named = self.after_loss_of_names(&vec![names_survive; unsynced.names.len()]);
        let fate = |sector: &Sector| match survives(&sector.file, sector.number) {
            true => Fate::Kept,
            false => Fate::Lost,
        };
        named.after_loss(&PowerLoss {
            sectors: named.unsynced().sectors.iter().map(fate).collect(),
            ..PowerLoss::default()
        })
    }

    /// The operation after the next `after` ones of these kinds goes wrong, once.
    pub fn plan_fault(&self, operations: &[DiskOperation], after: u64, fault: DiskFault) {
        self.state().faults.plan(operations, after, fault);
    }

    /// The faults that have happened since the last call, oldest first.
    pub fn take_faults(&self) -> Vec<(DiskOperation, DiskFault)> {
        self.state().faults.take_done()
    }

    /// Lets the sync after the next `syncs` ones (of a file or the directory) fail with this error number,
    /// once. As on Linux the unsynced data counts as clean from then on, and is lost in a power loss.
    pub fn fail_sync_after(&self, syncs: u64, error_number: i32) {
        let operations = [DiskOperation::Sync, DiskOperation::SyncDirectory];
        self.plan_fault(&operations, syncs, DiskFault::Error(error_number));
    }

    /// From now on every sync answers Ok and makes nothing durable, or no longer does so.
    pub fn lie_about_syncs(&self, lies: bool) {
        self.state().faults.all_syncs_lie = lies;
    }

    /// Whether a failed sync has given up data that nothing has written since.
    pub fn has_abandoned(&self) -> bool {
        let state = self.state();
        state
            .contents
            .values()
            .any(|content| content.has_abandoned())
    }

    /// Calls this at the start of every sync: to move a clock, say, as a slow disk does.
    pub fn on_sync(&self, hook: Arc<dyn Fn() + Send + Sync>) {
        self.state().faults.on_sync = Some(hook);
    }

    /// The same for every direct write, which waits for the device.
    pub fn on_direct_write(&self, hook: Arc<dyn Fn() + Send + Sync>) {
        self.state().faults.on_direct_write = Some(hook);
    }

    /// The process ends after so many more changes (writes, syncs, names): all later ones fail.
    pub fn end_after(&self, changes: u64) {
        self.state().changes_left = Some(changes);
    }

    /// Whether the end set by `end_after` was reached.
    pub fn has_ended(&self) -> bool {
        self.state().changes_left == Some(0)
    }

    /// From now on files can be opened for direct writes, which must come in whole blocks of so many bytes, from
    /// memory that is aligned to them; `None` for a file system that has no such writes.
    pub fn set_direct_blocks(&self, bytes: Option<usize>) {
        self.state().direct_blocks = bytes;
    }

    /// The bytes that fit on the disk; `None` for no bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// From now on so many bytes fit on the disk beside those that are on it.
    pub fn leave_room(&self, bytes: u64) {
        let mut state = self.state();
        let used = state.used_bytes();
        state.capacity = Some(used.saturating_add(bytes));
    }

    /// From now on keeps the state after every change, for [`MemoryDisk::take_points`].
    pub fn record_points(&self) {
        self.state().recorded = Some(Vec::new());
    }

    /// The states since the last call, oldest first.
    pub fn take_points(&self) -> Vec<Point> {
        let mut state = self.state();
        let recorded = state.recorded.as_mut().map(std::mem::take);
        let points = recorded.unwrap_or_default().into_iter();
        let points = points.map(|recorded| Point {
            operation: recorded.operation,
            file: recorded.file,
            disk: MemoryDisk::of(recorded.state),
        });
        points.collect()
    }

    /// Changes a file's content directly, synced or not: bit flips, torn writes, remains of other files.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let id = state.names.id_of(name);
        let id = id.expect("the caller names an existing file");
        let content = state.content_mut(id).expect("every name has a content");
        content.edit(change);
    }

    /// Gives the directory a number. From then on it and its files can be told from copies of them: a file keeps its origin
    /// when it is renamed, and one that is put back has another.
    pub fn set_directory_number(&self, number: u64) {
        self.state().directory_number = Some(number);
    }

    /// The directory after `image`, an earlier state of it, was copied back over it: of the names that
    /// `is_replaced` picks it has those of the image, as new files with the same bytes. All of it is durable.
    pub fn with_put_back(
        &self,
        image: &MemoryDisk,
        is_replaced: impl Fn(&str) -> bool,
    ) -> MemoryDisk {
        let mut state = self.state().copy();
        state.put_back(&image.state(), is_replaced);
        MemoryDisk::of(state)
    }

    fn of(state: DiskState) -> MemoryDisk {
        MemoryDisk {
            state: SharedState::new(state),
            holder: HolderNote::default(),
        }
    }

    fn lossy_copy(&self) -> DiskState {
        let state = self.state().copy();
        assert!(
            state.remembers_sync,
            "only a disk made with_power_loss knows what was synced"
        );
        state
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock()
    }

    fn file(&self, id: u64, is_direct: bool) -> Arc<dyn File> {
        let disk = self.state.clone();
        Arc::new(MemoryFile {
            disk,
            id,
            is_direct,
        })
    }
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.begin(DiskOperation::Create)?;
        if state.names.contains(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.contents_made += 1;
        let (id, remembers) = (state.contents_made, state.remembers_sync);
        state.contents.insert(id, Arc::default());
        state.names.create(name, id, remembers);
        state.done(DiskOperation::Create, name);
        drop(state);
        Ok(self.file(id, false))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.begin(DiskOperation::Open)?;
        let id = state.names.id_of(name)?;
        drop(state);
        Ok(self.file(id, false))
    }

    fn open_direct(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        let mut state = self.state();
        if state.direct_blocks.is_none() {
            return Ok(None);
        }
        state.begin(DiskOperation::Open)?;
        let id = state.names.id_of(name)?;
        drop(state);
        Ok(Some(self.file(id, true)))
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        let mut state = self.state();
        state.begin(DiskOperation::List)?;
        let entry = |(name, _): (&String, u64)| DirectoryEntry {
            name: name.clone(),
            is_file: true,
        };
        Ok(state.names.seen().map(entry).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.begin(DiskOperation::Rename)?;
        let remembers = state.remembers_sync;
        state.names.rename(from, to, remembers)?;
        state.forget_unnamed();
        state.done(DiskOperation::Rename, from);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.begin(DiskOperation::Remove)?;
        let remembers = state.remembers_sync;
        state.names.remove(name, remembers)?;
        state.forget_unnamed();
        state.done(DiskOperation::Remove, name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.state.call_sync_hook();
        let mut state = self.state();
        match state.begin(DiskOperation::SyncDirectory)? {
            None => state.names.sync(),
            Some(DiskFault::Lie) => {}
            Some(fault) => return Err(fault.error()),
        }
        state.forget_unnamed();
        state.done(DiskOperation::SyncDirectory, "");
        Ok(())
    }

    fn origin_of(&self, name: &str) -> Option<FileOrigin> {
        let state = self.state();
        let directory_number = state.directory_number?;
        let number = match name {
            "" => Some(directory_number),
            name => state.names.id_of(name).ok(),
        };
        // 0 says that there is no such file.
        Some(FileOrigin {
            inode: number.map_or(0, |number| u128::from(number) + 1),
            born_ns: 0,
        })
    }

    fn volume(&self) -> io::Result<Option<Volume>> {
        let state = self.state();
        Ok(state.capacity.map(|total_bytes| Volume {
            total_bytes,
            free_bytes: total_bytes.saturating_sub(state.used_bytes()),
        }))
    }

    fn hold(&self) -> Result<DiskLock, OpenError> {
        let held = || OpenError::held_here("in memory".to_owned());
        self.holder.take().ok_or_else(held)
    }

    fn random(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // SplitMix64: the same run gives the same bytes, and no two numbers are alike.
        let mixed = (state.random ^ (state.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(mixed ^ (mixed >> 31))
    }

    fn describe(&self, name: &str) -> String {
        format!("memory:{name}")
    }
}
