//! How many keys there are, and how many of them are locks: counted as they come and go, so that nothing has to be walked.
//!
//! Invariant: each stored entry counts once, also one that has expired and was not reclaimed yet.

use crate::keyspace::entry::{Entry, Slot};
use crate::keyspace::lock_holder::may_be_lock;
use crate::keyspace::undo::UndoRecord;
use crate::keyspace::{DATABASES, Keyspace};
use crate::lock_counts::{LockEndReason, LockOutcome};
use crate::time::{Deadline, NodeTime};

/// How many keys may be locks, by their values; expired ones count until they have been reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldLocks {
    /// Those with a TTL: the locks that LOCK.LIST shows.
    pub with_ttl: u64,
    /// Those without: locks that no time ends, or keys that are none.
    pub without_ttl: u64,
}

/// The lock that is held for the longest time, looked for a few keys at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct OldestLock {
    /// Where the walk goes on: the number of a database, and how many of its slots were looked at.
    number: u8,
    offset: u32,
    /// Of this walk so far, and of the whole walk before.
    candidates: [Option<(NodeTime, Slot)>; 2],
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    Up,
    Down,
}

impl Step {
    fn take(self, count: &mut u64) {
        *count = match self {
            Step::Up => count.saturating_add(1),
            Step::Down => count.saturating_sub(1),
        };
    }
}

impl Keyspace {
    pub(super) fn count_key(&mut self, slot: Slot, step: Step) {
        let count = &mut self.counts[usize::from(self.slab.get(slot).number())];
        step.take(&mut count.keys);
        self.count_ttl(slot, step);
        self.count_lock(slot, step);
    }

    pub(super) fn count_ttl(&mut self, slot: Slot, step: Step) {
        let entry = self.slab.get(slot);
        if entry.deadline != Deadline::NEVER {
            step.take(&mut self.counts[usize::from(entry.number())].with_ttl);
        }
    }

    /// Called on both sides of a change of the deadline or of the whole value.
    pub(super) fn count_lock(&mut self, slot: Slot, step: Step) {
        let entry = self.slab.get(slot);
        if may_be_lock(entry.value()) {
            step.take(match entry.deadline {
                Deadline::NEVER => &mut self.held_locks.without_ttl,
                _ => &mut self.held_locks.with_ttl,
            });
        }
    }

    /// Counts what happens to a lock; a script or transaction that is undone takes it back.
    pub(crate) fn count_event(&mut self, key: &[u8], event: LockOutcome) {
        let counted = self.lock_counts.count(key, event);
        if self.is_recording() {
            self.undo.push(UndoRecord::Counted(counted));
        }
    }

    /// Counts that a stored key is about to go, or to be no lock any more. Where its time was over before, that ended it.
    pub(crate) fn count_end(&mut self, slot: Slot, now: NodeTime, how: LockEndReason) {
        let entry = self.slab.get(slot);
        if !is_lock(entry) {
            return;
        }
        let (how, end) = match entry.is_live(now) {
            true => (how, now),
            false => (LockEndReason::Expired, entry.deadline.node_time()),
        };
        // Of a lock that was taken before the start it is not known since when.
        let holder = self.holders.of(slot);
        let held = holder.map(|holder| end.saturating_since(holder.since));
        let event = LockOutcome::Ended(how, held);
        let counted = self.lock_counts.count(entry.key(), event);
        if self.is_recording() {
            self.undo.push(UndoRecord::Counted(counted));
        }
    }

    /// Counts that all keys of a database, or of all, are about to go.
    pub(crate) fn count_flushed(&mut self, database: Option<u8>, now: NodeTime) {
        for number in self.numbers(database) {
            for offset in 0..self.slab.end(number) {
                let slot = self.slab.slot_at(number, offset);
                self.count_end(slot, now, LockEndReason::Flushed);
            }
        }
    }

    /// How many keys may be locks.
    pub(crate) fn held_locks(&self) -> HeldLocks {
        self.held_locks
    }

    /// Since when the lock is held that is held for the longest time, of those of which it is known. It looks at so many
    /// slots and goes on there the next time: with more keys a lock is found once all were looked at.
    pub(crate) fn oldest_lock(&mut self, now: NodeTime, slots: u32) -> Option<NodeTime> {
        let mut walk = std::mem::take(&mut self.oldest_lock);
        let mut left = slots;
        while left > 0 {
            let end = self.slab.end(walk.number);
            if walk.offset < end {
                let slot = self.slab.slot_at(walk.number, walk.offset);
                walk.offset = walk.offset.saturating_add(1);
                left = left.saturating_sub(1);
                let found = self.held_since(slot, now).map(|since| (since, slot));
                walk.candidates[0] = [walk.candidates[0], found].into_iter().flatten().min();
                continue;
            }
            (walk.number, walk.offset) = (walk.number.saturating_add(1), 0);
            if walk.number == DATABASES {
                walk.number = 0;
                walk.candidates = [None, walk.candidates[0]];
                break;
            }
        }
        // Keys may have gone, and others come into their slots.
        let is_held =
            |(since, slot): &(NodeTime, Slot)| self.held_since(*slot, now) == Some(*since);
        let held = walk.candidates.into_iter().flatten().filter(is_held);
        let oldest = held.map(|(since, _)| since).min();
        self.oldest_lock = walk;
        oldest
    }

    fn held_since(&self, slot: Slot, now: NodeTime) -> Option<NodeTime> {
        let entry = self.slab.find(slot)?;
        let is_held = entry.is_live(now) && is_lock(entry);
        let holder = self.holders.of(slot).filter(|_| is_held);
        holder.map(|holder| holder.since)
    }
}

/// Whether a stored key is a lock, as LOCK.LIST has it.
pub(crate) fn is_lock(entry: &Entry) -> bool {
    entry.deadline != Deadline::NEVER && may_be_lock(entry.value())
}
