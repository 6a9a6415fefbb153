//! The directory behind its lock: names, contents, faults, and the record of every change.
//!
//! Invariant: every operation passes `begin` first, which decides whether it fails, and a change passes `done`
//! once it has happened, so that no state of the disk goes unrecorded.

use super::content::Content;
use super::faults::{Fault, Faults, Operation};
use super::names::Names;
use super::{MemoryDisk, Point};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) names: Names,
    /// Shared with recorded states until they are written to.
    pub(super) contents: HashMap<u64, Arc<Content>>,
    pub(super) contents_made: u64,
    /// Whether what is not synced is remembered; a node that keeps nothing need not pay for it.
    pub(super) remembers_sync: bool,
    pub(super) random: u64,
    pub(super) capacity: Option<u64>,
    pub(super) faults: Faults,
    /// So many more changes are done; then the process counts as ended.
    pub(super) changes_left: Option<u64>,
    /// The state after each change, while somebody watches.
    pub(super) points: Option<Vec<Point>>,
}

impl State {
    /// An operation is about to be done: it fails here if it shall, or brings back a fault that the caller
    /// has to act out.
    pub(super) fn begin(&mut self, operation: Operation) -> io::Result<Option<Fault>> {
        let is_change = Operation::CHANGES.contains(&operation);
        if is_change && self.changes_left == Some(0) {
            return Err(io::Error::other("the simulated process has ended"));
        }
        if is_change && let Some(left) = &mut self.changes_left {
            *left -= 1;
        }
        match self.faults.due(operation) {
            Some(fault) if !acts_out(operation) => Err(fault.error()),
            fault => Ok(fault),
        }
    }

    /// A change has happened.
    pub(super) fn done(&mut self, operation: Operation, file: &str) {
        if self.points.is_none() {
            return;
        }
        let disk = MemoryDisk::of(self.copy());
        let point = Point {
            operation,
            file: file.to_owned(),
            disk,
        };
        if let Some(points) = &mut self.points {
            points.push(point);
        }
    }

    /// The same directory, without faults and without a record.
    pub(super) fn copy(&self) -> State {
        State {
            names: self.names.clone(),
            contents: self.contents.clone(),
            contents_made: self.contents_made,
            remembers_sync: self.remembers_sync,
            random: self.random,
            ..State::default()
        }
    }

    pub(super) fn content(&self, id: u64) -> io::Result<&Content> {
        let content = self.contents.get(&id).map(|content| &**content);
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn content_mut(&mut self, id: u64) -> io::Result<&mut Content> {
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

    /// Fails if the named files, with this one grown to `length`, would not fit.
    pub(super) fn make_room(&self, id: u64, length: usize) -> io::Result<()> {
        let Some(capacity) = self.capacity else {
            return Ok(());
        };
        let size = |id: u64| {
            self.contents
                .get(&id)
                .map_or(0, |content| content.bytes().len())
        };
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
fn acts_out(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Write | Operation::Sync | Operation::SyncDirectory
    )
}

const ERROR_NO_SPACE: i32 = rustix::io::Errno::NOSPC.raw_os_error();
