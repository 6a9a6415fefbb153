//! The way back: what a script has overwritten, so that it can be undone.
//!
//! Recorded only while a script runs. Records are played back last to first, and then every key,
//! slot and deadline is what it was. Counters of hits are not undone.

use std::sync::Arc;

use crate::keyspace::entry::{Body, Entry, NONE, Slot};
use crate::keyspace::{Keyspace, Step};
use crate::time::Deadline;

/// One step back.
#[derive(Debug)]
pub(crate) enum UndoRecord {
    /// The key was not stored before.
    Created { slot: Slot },
    /// The key held this.
    Replaced {
        slot: Slot,
        body: Body,
        deadline: Deadline,
        position: u64,
    },
    /// The key had this deadline.
    Deadline {
        slot: Slot,
        deadline: Deadline,
        position: u64,
    },
    /// The field held this.
    Field {
        slot: Slot,
        field: Box<[u8]>,
        value: Option<Arc<[u8]>>,
        position: u64,
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

    /// Remembers a step, which is only made up while a script runs.
    pub(crate) fn push(&mut self, record: impl FnOnce() -> UndoRecord) {
        if self.is_recording {
            self.records.push(record());
        }
    }

    pub(crate) fn records(&self) -> &[UndoRecord] {
        &self.records
    }

    /// Ends the recording and hands the records out, oldest first.
    pub(crate) fn take(&mut self) -> Vec<UndoRecord> {
        self.is_recording = false;
        std::mem::take(&mut self.records)
    }

    /// Ends the recording and forgets the records, keeping their memory for the next script.
    pub(crate) fn forget(&mut self) {
        self.is_recording = false;
        self.records.clear();
        self.records.shrink_to(RECORDS_KEPT);
    }
}

impl Keyspace {
    /// Starts to record the way back.
    pub(crate) fn begin_undo(&mut self) {
        self.undo.begin();
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.undo.is_recording()
    }

    /// The places written since the recording began; some may be free again.
    pub(crate) fn written_entries(&self) -> impl Iterator<Item = &Entry> {
        self.undo
            .records()
            .iter()
            .map(|record| self.slab.get(record.slot()))
    }

    /// Ends the recording; the changes stay.
    pub(crate) fn commit_undo(&mut self) {
        self.undo.forget();
    }

    /// Ends the recording and takes back all changes since, which had the position `position`.
    ///
    /// No reply may depend on that position any more, since nothing will be logged there. What
    /// the shards remember is therefore lowered to the group before, which is on the safe side.
    pub(crate) fn rollback(&mut self, position: u64) {
        let before = position.saturating_sub(1);
        for record in self.undo.take().into_iter().rev() {
            self.take_back(record);
        }
        for shard in self.index.shards_mut() {
            shard.deleted = shard.deleted.min(before);
            shard.uncovered = shard.uncovered.min(before);
        }
        self.last_position = self.last_position.min(before);
        self.last_uncovered = self.last_uncovered.min(before);
    }

    fn take_back(&mut self, record: UndoRecord) {
        match record {
            UndoRecord::Created { slot } => {
                let entry = self.slab.get(slot);
                let hash = self.index.hash(entry.database(), entry.key());
                self.take_out(hash, slot);
            }
            UndoRecord::Replaced {
                slot,
                body,
                deadline,
                position,
            } => {
                self.move_deadline(slot, deadline, position);
                self.slab.get_mut(slot).body = body;
            }
            UndoRecord::Deadline {
                slot,
                deadline,
                position,
            } => {
                self.move_deadline(slot, deadline, position);
            }
            UndoRecord::Field {
                slot,
                field,
                value,
                position,
            } => {
                let seed = self.seed;
                let entry = self.slab.get_mut(slot);
                entry.set_position(position);
                if let Some(fields) = entry.body.fields_mut() {
                    match value {
                        Some(value) => drop(fields.set(&field, value, seed)),
                        None => drop(fields.remove(&field)),
                    }
                }
            }
            UndoRecord::Removed { slot, mut entry } => {
                (entry.previous, entry.next) = (NONE, NONE);
                let hash = self.index.hash(entry.database(), entry.key());
                let restored = self.slab.insert(*entry);
                debug_assert_eq!(
                    restored,
                    Some(slot),
                    "free places are reused last in, first out"
                );
                if let Some(slot) = restored {
                    self.index.insert(hash, slot);
                    self.link(slot);
                    self.count_key(slot, Step::Up);
                }
            }
        }
    }
}

/// The records for which memory is kept between scripts.
const RECORDS_KEPT: usize = 64;
