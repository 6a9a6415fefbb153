//! What a script or a transaction has overwritten, so that it can be undone. Recorded only while one runs.

use crate::keyspace::change::Reversal;
use crate::keyspace::entry::{Body, Entry, Slot};
use crate::keyspace::holders::Holder;
use crate::lock_counts::CountedLockEvent;
use crate::position::LogPosition;
use crate::time::Deadline;

/// A deadline, and the position of the group that wrote the entry with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenEnd {
    pub(crate) deadline: Deadline,
    pub(crate) position: LogPosition,
}

/// What undoes one change.
#[derive(Debug)]
pub(crate) enum UndoRecord {
    /// The key was not stored before.
    Created { slot: Slot },
    /// The key held this.
    Replaced {
        slot: Slot,
        body: Body,
        end: WrittenEnd,
    },
    /// The key had this deadline.
    Deadline { slot: Slot, end: WrittenEnd },
    /// A part of the collection was changed.
    Changed {
        slot: Slot,
        /// Its name, where parts have names.
        part: Box<[u8]>,
        reversal: Reversal,
        position: LogPosition,
    },
    /// The key was stored here.
    Removed { slot: Slot, entry: Box<Entry> },
    /// This was known of who took a key.
    Held { holder: Holder },
    /// Somebody else may have taken the key since.
    Taken { slot: Slot },
    /// This was what the holder said about itself.
    Owned { slot: Slot, owner: Box<str> },
    /// This was counted of a lock.
    Counted(CountedLockEvent),
    /// These databases had each other's keys.
    Swapped { both: [u8; 2] },
}

impl UndoRecord {
    /// The slot that was written, if one was.
    pub(crate) fn slot(&self) -> Option<Slot> {
        match self {
            UndoRecord::Created { slot }
            | UndoRecord::Replaced { slot, .. }
            | UndoRecord::Deadline { slot, .. }
            | UndoRecord::Changed { slot, .. }
            | UndoRecord::Removed { slot, .. } => Some(*slot),
            UndoRecord::Held { .. }
            | UndoRecord::Taken { .. }
            | UndoRecord::Owned { .. }
            | UndoRecord::Counted(_)
            | UndoRecord::Swapped { .. } => None,
        }
    }
}

/// The records of the script or transaction that runs.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    records: Vec<UndoRecord>,
    /// Recordings that have begun and not ended: a script may run inside a transaction.
    depth: u8,
    /// A script of the transaction that runs was undone.
    has_taken_back: bool,
}

impl Undo {
    /// Begins a recording; returns how many records there are before it.
    pub(crate) fn begin(&mut self) -> usize {
        self.depth = self.depth.saturating_add(1);
        self.records.len()
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.depth > 0
    }

    /// Whether the recording that began last is inside another one.
    pub(crate) fn is_nested(&self) -> bool {
        self.depth > 1
    }

    /// Adds a record. Something records.
    pub(crate) fn push(&mut self, record: UndoRecord) {
        debug_assert!(self.is_recording(), "nobody will take it back");
        self.records.push(record);
    }

    pub(crate) fn records(&self) -> &[UndoRecord] {
        &self.records
    }

    /// Ends the recording that began with so many records before it, and returns its own, oldest first.
    pub(crate) fn take(&mut self, before: usize) -> Vec<UndoRecord> {
        self.depth = self.depth.saturating_sub(1);
        self.has_taken_back = self.is_recording();
        self.records.split_off(before)
    }

    /// Ends the recording that began last. Of the outermost the records are nobody's any more, for
    /// [`Undo::reuse`] after their use, and it is said whether something inside it was undone.
    pub(crate) fn forget(&mut self) -> (Vec<UndoRecord>, bool) {
        self.depth = self.depth.saturating_sub(1);
        if self.is_recording() {
            return (Vec::new(), false);
        }
        let records = std::mem::take(&mut self.records);
        (records, std::mem::take(&mut self.has_taken_back))
    }

    /// Keeps the memory of empty records for the next recording.
    pub(crate) fn reuse(&mut self, mut records: Vec<UndoRecord>) {
        if !self.is_recording() {
            records.clear();
            records.shrink_to(RECORDS_KEPT);
            self.records = records;
        }
    }
}

/// The records for which memory is kept between two recordings.
const RECORDS_KEPT: usize = 64;
