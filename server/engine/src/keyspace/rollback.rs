//! Undoing a script or a transaction: its records are applied last to first.
//!
//! Then every key, slot and deadline is what it was. Counters of hits are not undone, and whether a key had been read is
//! not known: it counts as read.

use crate::keyspace::Keyspace;
use crate::keyspace::counting::Step;
use crate::keyspace::entry::{Entry, NONE};
use crate::keyspace::undo::UndoRecord;
use crate::position::LogPosition;

impl Keyspace {
    /// Starts to record how to undo what follows; returns how many records there are before it.
    pub(crate) fn begin_undo(&mut self) -> usize {
        self.undo.begin()
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.undo.is_recording()
    }

    /// Whether the recording that began last is inside another one: a script of a transaction.
    pub(crate) fn is_nested(&self) -> bool {
        self.undo.is_nested()
    }

    /// The slots written since the recording began; some may be free again.
    pub(crate) fn written_entries(&self) -> impl Iterator<Item = &Entry> {
        self.undo
            .records()
            .iter()
            .filter_map(|record| Some(self.slab.get(record.slot()?)))
    }

    /// Ends the recording; the changes stay. `has_written`: there is something to log at `position`.
    pub(crate) fn commit_undo(&mut self, position: LogPosition, has_written: bool) {
        let (mut records, has_taken_back) = self.undo.forget();
        self.discard_records(records.drain(..));
        self.undo.reuse(records);
        if has_taken_back && !has_written {
            self.lower_positions(position);
        }
    }

    /// Ends the recording and takes back all changes since, which had the position `position`.
    pub(crate) fn rollback(&mut self, before: usize, position: LogPosition) {
        for record in self.undo.take(before).into_iter().rev() {
            self.take_back(record);
        }
        // The transaction around it may have written before, at the same position.
        if !self.is_recording() {
            self.lower_positions(position);
        }
    }

    /// No reply may depend on this position any more, since nothing will be logged there. What
    /// the shards remember is therefore lowered to the group before, which is on the safe side.
    fn lower_positions(&mut self, position: LogPosition) {
        let before = position.previous();
        for shard in self.index.shards_mut() {
            shard.deleted = shard.deleted.min(before);
            shard.uncovered = shard.uncovered.min(before);
        }
        self.last_position = self.last_position.min(before);
        self.last_uncovered = self.last_uncovered.min(before);
        self.swapped = self.swapped.min(before);
    }

    fn take_back(&mut self, record: UndoRecord) {
        match record {
            UndoRecord::Created { slot } => {
                let hash = self.hash_of(self.slab.get(slot));
                self.holders.forget(slot);
                let entry = self.take_out(hash, slot);
                self.discarded.add(entry.body);
            }
            UndoRecord::Replaced { slot, body, end } => {
                self.move_deadline(slot, end.deadline, end.position);
                self.mark_read(slot);
                self.count_lock(slot, Step::Down);
                let body = self.slab.change(slot, |old| std::mem::replace(old, body));
                self.count_lock(slot, Step::Up);
                self.discarded.add(body);
            }
            UndoRecord::Deadline { slot, end } => {
                self.move_deadline(slot, end.deadline, end.position);
                self.mark_read(slot);
            }
            UndoRecord::Changed {
                slot,
                part,
                reversal,
                position,
            } => {
                let seed = self.seed;
                let entry = self.slab.get_mut(slot);
                entry.set_position(position);
                entry.mark_read();
                self.slab.change(slot, |body| {
                    if let Some(collection) = body.collection_mut() {
                        collection.revert(&part, reversal, seed);
                    }
                });
            }
            UndoRecord::Taken { slot } => self.holders.forget(slot),
            UndoRecord::Held { holder } => self.holders.put(holder),
            UndoRecord::Owned { slot, owner } => self.holders.put_owner(slot, owner),
            UndoRecord::Counted(counted) => self.lock_counts.take_back(counted),
            UndoRecord::Swapped { both } => self.exchange(both),
            UndoRecord::Removed { slot, mut entry } => {
                (entry.previous, entry.next) = (NONE, NONE);
                let hash = self.hash_of(&entry);
                let restored = self.slab.insert(*entry);
                debug_assert_eq!(
                    restored,
                    Some(slot),
                    "free slots are reused last in, first out"
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
