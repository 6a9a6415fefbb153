//! The directory behind its lock: names, contents, faults, and the record of every change.
//!
//! Invariant: every operation passes `begin` first, which decides whether it fails, and a change passes `done`
//! once it has happened, so that no state of the disk goes unrecorded.

use super::content::FileContent;
use super::faults::{DiskFault, DiskOperation, Faults, Hook};
use super::loss::{Fate, PowerLoss, Sector, Unsynced};
use super::names::FileNames;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// The directory behind its lock. Clones are the same directory.
#[derive(Clone, Debug)]
pub(super) struct SharedState(Arc<Mutex<DiskState>>);

impl SharedState {
    pub(super) fn new(state: DiskState) -> SharedState {
        SharedState(Arc::new(Mutex::new(state)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.0
            .lock()
            .expect("nothing panics while the directory is locked")
    }

    /// Without the lock: the hook may ask this disk, or anything else.
    pub(super) fn call_sync_hook(&self) {
        self.call(|faults| faults.on_sync.clone());
    }

    /// The same for direct writes.
    pub(super) fn call_direct_write_hook(&self) {
        self.call(|faults| faults.on_direct_write.clone());
    }

    fn call(&self, hook: impl FnOnce(&Faults) -> Option<Hook>) {
        let hook = hook(&self.lock().faults);
        if let Some(hook) = hook {
            hook();
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct DiskState {
    pub(super) names: FileNames,
    /// Shared with recorded states until they are written to.
    pub(super) contents: HashMap<u64, Arc<FileContent>>,
    pub(super) contents_made: u64,
    /// Whether what is not synced is remembered; a node that keeps nothing need not pay for it.
    pub(super) remembers_sync: bool,
    pub(super) random: u64,
    pub(super) capacity: Option<u64>,
    /// What direct writes must be multiples of; `None` where there are none.
    pub(super) direct_blocks: Option<usize>,
    /// What tells the directory from copies of it; `None` where nothing does.
    pub(super) directory_number: Option<u64>,
    pub(super) faults: Faults,
    /// So many more changes are done; then the process counts as ended.
    pub(super) changes_left: Option<u64>,
    /// The state after each change, while it is recorded.
    pub(super) recorded: Option<Vec<Recorded>>,
}

/// The state after one change.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) operation: DiskOperation,
    pub(super) file: String,
    pub(super) state: DiskState,
}

impl DiskState {
    /// An operation is about to be done: it fails here if it shall, or brings back a fault that the caller
    /// has to act out.
    pub(super) fn begin(&mut self, operation: DiskOperation) -> io::Result<Option<DiskFault>> {
        let is_change = DiskOperation::CHANGES.contains(&operation);
        if is_change && self.changes_left == Some(0) {
            return Err(io::Error::other("the simulated process has ended"));
        }
        if is_change && let Some(left) = &mut self.changes_left {
            *left -= 1;
        }
        match self.faults.take_due(operation) {
            Some(fault) if !acts_out(operation) => Err(fault.error()),
            fault => Ok(fault),
        }
    }

    /// A change has happened.
    pub(super) fn done(&mut self, operation: DiskOperation, file: &str) {
        if self.recorded.is_none() {
            return;
        }
        let after = Recorded {
            operation,
            file: file.to_owned(),
            state: self.copy(),
        };
        if let Some(recorded) = &mut self.recorded {
            recorded.push(after);
        }
    }

    /// The same directory, without faults and without a record.
    pub(super) fn copy(&self) -> DiskState {
        DiskState {
            names: self.names.clone(),
            contents: self.contents.clone(),
            contents_made: self.contents_made,
            remembers_sync: self.remembers_sync,
            random: self.random,
            direct_blocks: self.direct_blocks,
            directory_number: self.directory_number,
            ..DiskState::default()
        }
    }

    /// Whether a direct write of these bytes is one of whole blocks, as the kernel demands.
    pub(super) fn takes_blocks(&self, offset: u64, bytes: &[u8]) -> bool {
        self.direct_blocks.is_some_and(|block| {
            let is_multiple =
                offset.is_multiple_of(block as u64) && bytes.len().is_multiple_of(block);
            is_multiple && bytes.as_ptr().addr().is_multiple_of(block)
        })
    }

    pub(super) fn content(&self, id: u64) -> io::Result<&FileContent> {
        let content = self.contents.get(&id).map(|content| &**content);
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn content_mut(&mut self, id: u64) -> io::Result<&mut FileContent> {
        let content = self.contents.get_mut(&id).map(Arc::make_mut);
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The file's name, or its number if it has none.
    pub(super) fn name_of(&self, id: u64) -> String {
        let mut names = self.names.seen();
        let named = names.find(|(_, other)| *other == id);
        named.map_or_else(|| format!("file {id}"), |(name, _)| name.clone())
    }

    /// Frees what no name leads to any more, nor would after a power loss. An open handle of such a file reads
    /// as missing.
    pub(super) fn forget_unnamed(&mut self) {
        let named = self.names.ids();
        self.contents.retain(|id, _| named.contains(id));
    }

    /// What is not durable.
    pub(super) fn unsynced(&self) -> Unsynced {
        let mut unsynced = Unsynced {
            names: self.names.unsynced(),
            ..Unsynced::default()
        };
        for id in self.names.ids() {
            let Ok(content) = self.content(id) else {
                continue;
            };
            let file = self.name_of(id);
            let sectors = content.unsynced_sectors().map(|number| Sector {
                file: file.clone(),
                number,
            });
            unsynced.sectors.extend(sectors);
            if content.has_unsynced_length() {
                unsynced.lengths.push(file);
            }
        }
        unsynced
    }

    /// Power is lost: of what is not durable there remains what `loss` says.
    pub(super) fn lose_power(&mut self, loss: &PowerLoss) {
        let (mut lengths, mut sectors) = (loss.lengths.iter(), loss.sectors.iter());
        for id in self.names.ids() {
            let Ok(content) = self.content_mut(id) else {
                continue;
            };
            let numbers: Vec<u64> = content.unsynced_sectors().collect();
            let fates: Vec<Fate> = numbers
                .iter()
                .map(|_| sectors.next().copied().unwrap_or_default())
                .collect();
            let keeps_length = content.has_unsynced_length() && lengths.next() == Some(&true);
            content.settle(keeps_length, |sector| {
                let index = numbers.binary_search(&sector);
                index.map_or(Fate::Lost, |index| fates[index])
            });
        }
        self.lose_names(&loss.names);
    }

    /// The changes of names are gone for which `survive` does not say so, and what no name leads to any more.
    pub(super) fn lose_names(&mut self, survive: &[bool]) {
        let survives = |index| survive.get(index).copied().unwrap_or(false);
        self.names.settle(survives);
        self.forget_unnamed();
    }

    /// The names that `is_replaced` picks are from now on those of `image`, as new files with the same bytes.
    /// All of it is durable.
    pub(super) fn put_back(&mut self, image: &DiskState, is_replaced: impl Fn(&str) -> bool) {
        let old: Vec<String> = self.names.seen().map(|(name, _)| name.clone()).collect();
        for name in old.iter().filter(|name| is_replaced(name)) {
            // It was listed on the lines above.
            let _ = self.names.remove(name, false);
        }
        for (name, id) in image.names.seen().filter(|(name, _)| is_replaced(name)) {
            let Some(content) = image.contents.get(&id) else {
                continue;
            };
            self.contents_made += 1;
            let number = self.contents_made;
            self.contents.insert(number, Arc::new(content.copy()));
            self.names.create(name, number, false);
        }
        self.names.sync();
        for content in self.contents.values_mut() {
            Arc::make_mut(content).sync();
        }
        self.forget_unnamed();
    }

    /// What the named files take.
    pub(super) fn used_bytes(&self) -> u64 {
        let contents = self.names.seen().map(|(_, id)| self.contents.get(&id));
        let lengths = contents.map(|content| content.map_or(0, |it| it.len() as u64));
        lengths.sum()
    }

    /// Fails if the named files, with this one grown to `length`, would not fit.
    pub(super) fn make_room(&self, id: u64, length: usize) -> io::Result<()> {
        let Some(capacity) = self.capacity else {
            return Ok(());
        };
        let size = |id: u64| self.contents.get(&id).map_or(0, |content| content.len());
        let others: usize = self
            .names
            .seen()
            .filter(|(_, other)| *other != id)
            .map(|(_, other)| size(other))
            .sum();
        if length > size(id) && (others + length) as u64 > capacity {
            return Err(io::Error::from_raw_os_error(ERROR_NO_SPACE));
        }
        Ok(())
    }
}

/// Whether a fault of this operation does more than make it fail.
fn acts_out(operation: DiskOperation) -> bool {
    matches!(
        operation,
        DiskOperation::Write | DiskOperation::Sync | DiskOperation::SyncDirectory
    )
}

const ERROR_NO_SPACE: i32 = rustix::io::Errno::NOSPC.raw_os_error();
