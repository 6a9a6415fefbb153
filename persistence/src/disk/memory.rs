//! A directory in memory: for nodes that keep nothing, and for tests of everything that can go wrong.
//!
//! Invariant: it shows the same two worlds as a real disk. What was written is there after the process
//! ended; only what was synced is certain after a power loss. Faults happen where they were asked for.
//! It does not reorder operations by itself: `after_power_loss` lets the caller choose what survives.

use super::{Disk, Entry, File, Mapping};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// A directory in memory. Clones are the same directory, so that a node can be started on it again.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    contents: HashMap<u64, Content>,
    names: BTreeMap<String, u64>,
    /// The names a power loss would leave.
    synced_names: BTreeMap<String, u64>,
    contents_made: u64,
    /// Whether unsynced sectors are remembered; a node that keeps nothing need not pay for it.
    remembers_sync: bool,
    random: u64,
    capacity: Option<u64>,
    /// The n-th write or sync from now fails with this error number.
    failing_write: Option<(u64, i32)>,
    failing_sync: Option<(u64, i32)>,
    /// So many more changes are done; then the process counts as ended.
    changes_left: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    unsynced_sectors: BTreeSet<u64>,
}

impl Default for MemoryDisk {
    fn default() -> MemoryDisk {
        MemoryDisk::new()
    }
}

impl MemoryDisk {
    /// An empty directory that does not remember what was synced: a power loss would take all of it.
    pub fn new() -> MemoryDisk {
        MemoryDisk {
            state: Arc::default(),
        }
    }

    /// An empty directory that keeps apart what was synced and what was not.
    pub fn with_power_loss() -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.state().remembers_sync = true;
        disk
    }

    /// What the next process finds after this one ended: a copy of everything written.
    pub fn after_process_end(&self) -> MemoryDisk {
        let state = self.state();
        let copy = State {
            contents: state.contents.clone(),
            names: state.names.clone(),
            synced_names: state.synced_names.clone(),
            contents_made: state.contents_made,
            remembers_sync: state.remembers_sync,
            random: state.random,
            ..State::default()
        };
        MemoryDisk {
            state: Arc::new(Mutex::new(copy)),
        }
    }

    /// What is found after a power loss: everything synced, unsynced names if `names_survive`, and those
    /// unsynced sectors for which `survives` (file, number of the 512-byte sector) says so.
    ///
    /// # Panics
    /// If the disk was not made with `with_power_loss`.
    pub fn after_power_loss(
        &self,
        names_survive: bool,
        mut survives: impl FnMut(&str, u64) -> bool,
    ) -> MemoryDisk {
        let next = self.after_process_end();
        {
            let mut state = next.state();
            assert!(
                state.remembers_sync,
                "only a disk made with_power_loss knows what was synced"
            );
            if !names_survive {
                state.names = state.synced_names.clone();
            }
            state.synced_names = state.names.clone();
            let State {
                contents, names, ..
            } = &mut *state;
            for (name, id) in names.iter() {
                let Some(content) = contents.get_mut(id) else {
                    continue;
                };
                let mut kept = std::mem::take(&mut content.synced);
                for &sector in &content.unsynced_sectors {
                    if survives(name, sector) {
                        let from = index(sector * SECTOR_BYTES).min(content.bytes.len());
                        let to = index((sector + 1) * SECTOR_BYTES).min(content.bytes.len());
                        if kept.len() < to {
                            kept.resize(to, 0);
                        }
                        kept[from..to].copy_from_slice(&content.bytes[from..to]);
                    }
                }
                *content = Content {
                    bytes: kept.clone(),
                    synced: kept,
                    ..Content::default()
                };
            }
        }
        next
    }

    /// Lets the write after the next `writes` ones fail with this error number, once.
    pub fn fail_write_after(&self, writes: u64, error_number: i32) {
        self.state().failing_write = Some((writes, error_number));
    }

    /// Lets the sync after the next `syncs` ones (of a file or the directory) fail with this error number,
    /// once. As on Linux the unsynced data counts as clean from then on, and is lost in a power loss.
    pub fn fail_sync_after(&self, syncs: u64, error_number: i32) {
        self.state().failing_sync = Some((syncs, error_number));
    }

    /// The process ends after so many more changes (writes, syncs, names): all later ones fail.
    pub fn end_after(&self, changes: u64) {
        self.state().changes_left = Some(changes);
    }

    /// Whether the end set by `end_after` was reached.
    pub fn has_ended(&self) -> bool {
        self.state().changes_left == Some(0)
    }

    /// The bytes that fit on the disk; `None` for no bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Changes a file's content directly, synced or not: bit flips, torn writes, remains of other files.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let id = *state
            .names
            .get(name)
            .expect("the caller names an existing file");
        let content = state
            .contents
            .get_mut(&id)
            .expect("every name has a content");
        change(&mut content.bytes);
        content.synced = content.bytes.clone();
        content.unsynced_sectors.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while the directory is locked")
    }
}

impl State {
    /// Counts one change; every change after the end fails.
    fn change(&mut self) -> io::Result<()> {
        match &mut self.changes_left {
            Some(0) => Err(io::Error::other("the simulated process has ended")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn id_of(&self, name: &str) -> io::Result<u64> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Frees what no name leads to any more. An open handle of such a file reads as missing.
    fn forget_unnamed(&mut self) {
        let State {
            contents,
            names,
            synced_names,
            ..
        } = self;
        let named: BTreeSet<u64> = names
            .values()
            .chain(synced_names.values())
            .copied()
            .collect();
        contents.retain(|id, _| named.contains(id));
    }

    /// Fails if the named files, with this one grown to `length`, would not fit.
    fn make_room(&self, id: u64, length: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity else {
            return Ok(());
        };
        let size = |id: &u64| {
            self.contents
                .get(id)
                .map_or(0, |content| content.bytes.len() as u64)
        };
        let others: u64 = self
            .names
            .values()
            .filter(|other| **other != id)
            .map(size)
            .sum();
        if length > size(&id) && others + length > capacity {
            return Err(io::Error::from_raw_os_error(ERROR_NO_SPACE));
        }
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.change()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.contents_made += 1;
        let id = state.contents_made;
        state.contents.insert(id, Content::default());
        state.names.insert(name.to_owned(), id);
        drop(state);
        Ok(Arc::new(MemoryFile {
            disk: self.clone(),
            id,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let id = self.state().id_of(name)?;
        Ok(Arc::new(MemoryFile {
            disk: self.clone(),
            id,
        }))
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let entry = |name: &String| Entry {
            name: name.clone(),
            is_file: true,
        };
        Ok(self.state().names.keys().map(entry).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let id = state.id_of(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), id);
        state.forget_unnamed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        state.id_of(name)?;
        state.names.remove(name);
        state.forget_unnamed();
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        fail_if_due(&mut state.failing_sync)?;
        state.synced_names = state.names.clone();
        state.forget_unnamed();
        Ok(())
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

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    id: u64,
}

impl MemoryFile {
    fn with_content<T>(&self, read: impl FnOnce(&Content) -> T) -> io::Result<T> {
        let state = self.disk.state();
        state
            .contents
            .get(&self.id)
            .map(read)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl File for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        fail_if_due(&mut state.failing_write)?;
        let end = offset + bytes.len() as u64;
        state.make_room(self.id, end)?;
        let remembers_sync = state.remembers_sync;
        let content = state
            .contents
            .get_mut(&self.id)
            .ok_or(io::ErrorKind::NotFound)?;
        if content.bytes.len() < index(end) {
            content.bytes.resize(index(end), 0);
        }
        content.bytes[index(offset)..index(end)].copy_from_slice(bytes);
        if remembers_sync && !bytes.is_empty() {
            content
                .unsynced_sectors
                .extend(offset / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES);
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.with_content(|content| {
            let from = index(offset).min(content.bytes.len());
            let length = bytes.len().min(content.bytes.len() - from);
            bytes[..length].copy_from_slice(&content.bytes[from..from + length]);
            length
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        let failed = fail_if_due(&mut state.failing_sync);
        let remembers_sync = state.remembers_sync;
        let content = state
            .contents
            .get_mut(&self.id)
            .ok_or(io::ErrorKind::NotFound)?;
        if remembers_sync {
            let Content {
                bytes,
                synced,
                unsynced_sectors,
            } = content;
            let unsynced_sectors = std::mem::take(unsynced_sectors);
            failed?;
            synced.resize(bytes.len(), 0);
            for sector in unsynced_sectors {
                let from = index(sector * SECTOR_BYTES).min(bytes.len());
                let to = index((sector + 1) * SECTOR_BYTES).min(bytes.len());
                synced[from..to].copy_from_slice(&bytes[from..to]);
            }
            return Ok(());
        }
        failed
    }

    fn len(&self) -> io::Result<u64> {
        self.with_content(|content| content.bytes.len() as u64)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        state.make_room(self.id, length)?;
        let content = state
            .contents
            .get_mut(&self.id)
            .ok_or(io::ErrorKind::NotFound)?;
        content.bytes.resize(index(length), 0);
        Ok(())
    }

    fn map(&self) -> io::Result<Mapping> {
        self.with_content(|content| Mapping::copied(content.bytes.clone()))
    }
}

fn fail_if_due(fault: &mut Option<(u64, i32)>) -> io::Result<()> {
    match fault {
        Some((0, error_number)) => {
            let error = io::Error::from_raw_os_error(*error_number);
            *fault = None;
            Err(error)
        }
        Some((left, _)) => {
            *left -= 1;
            Ok(())
        }
        None => Ok(()),
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a file in memory is no longer than memory")
}

const SECTOR_BYTES: u64 = 512;
const ERROR_NO_SPACE: i32 = rustix::io::Errno::NOSPC.raw_os_error();
