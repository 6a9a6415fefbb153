//! What a script has overwritten, so that it can be undone. Recorded only while a script runs.

use std::sync::Arc;

use crate::keyspace::entry::{Body, Entry, Slot};
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
    /// The field held this.
    Field {
        slot: Slot,
        field: Box<[u8]>,
        value: Option<Arc<[u8]>>,
        position: LogPosition,
    },
    /// The field was at this offset, and held this.
    FieldRemoved {
        slot: Slot,
        field: Box<[u8]>,
        value: Arc<[u8]>,
        offset: usize,
        position: LogPosition,
    },
    /// The key was stored here.
    Removed { slot: Slot, entry: Box<Entry> },
}

impl UndoRecord {
    /// The slot that was written.
    pub(crate) fn slot(&self) -> Slot {
        match self {
            UndoRecord::Created { slot }
            | UndoRecord::Replaced { slot, .. }
            | UndoRecord::Deadline { slot, .. }
            | UndoRecord::Field { slot, .. }
            | UndoRecord::FieldRemoved { slot, .. }
            | UndoRecord::Removed { slot, .. } => *slot,
        }
    }
}

/// The records of the script that runs.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    records: Vec<UndoRecord>,
    is_recording: bool,
}

impl Undo {
    pub(crate) fn begin(&mut self) {
        debug_assert!(self.records.is_empty(), "one script at a time");
        self.is_recording = true;
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Adds a record, which is only made while a script runs.
    pub(crate) fn push(&mut self, record: impl FnOnce() -> UndoRecord) {
        if self.is_recording {
            self.records.push(record());
        }
    }

    pub(crate) fn records(&self) -> &[UndoRecord] {
        &self.records
    }

    /// Ends the recording and returns the records, oldest first.
    pub(crate) fn take(&mut self) -> Vec<UndoRecord> {
        self.is_recording = false;
        std::mem::take(&mut self.records)
    }

    /// Ends the recording and drops the records, keeping their memory for the next script.
    pub(crate) fn forget(&mut self) {
        self.is_recording = false;
        self.records.clear();
        self.records.shrink_to(RECORDS_KEPT);
    }
}

/// The records for which memory is kept between scripts.
const RECORDS_KEPT: usize = 64;
