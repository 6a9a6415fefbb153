//! What a command's changes mean for the counts of locks. Called before each change is made, and after it was admitted.

use crate::context::CommandContext;
use crate::keyspace::KeySlot;
use crate::keyspace::counting::is_lock;
use crate::keyspace::entry::{Body, Slot, ValueRef};
use crate::keyspace::lock_holder::may_be_lock;
use crate::lock_counts::{LockEndReason, LockOutcome, LockRefusal};
use crate::time::Deadline;

impl CommandContext<'_> {
    /// A lock of this name was refused.
    pub(crate) fn count_refusal(&mut self, key: &[u8], why: LockRefusal) {
        self.keyspace.count_event(key, LockOutcome::Refused(why));
    }

    /// A whole key is about to be written. Says whether that is a renewal: the same token over itself.
    pub(super) fn count_written(
        &mut self,
        found: &KeySlot,
        body: &Body,
        deadline: Deadline,
    ) -> bool {
        let becomes_lock = deadline != Deadline::NEVER && may_be_lock(body.value());
        if let Some(slot) = found.stored {
            let entry = self.keyspace.entry(slot);
            let is_renewal = becomes_lock
                && found.live.is_some()
                && is_lock(entry)
                && is_same_token(entry.value(), body.value());
            if is_renewal {
                return true;
            }
            self.count_ended(slot, LockEndReason::Overwritten);
        }
        if becomes_lock {
            self.keyspace.count_event(body.key(), LockOutcome::Granted);
        }
        false
    }

    /// A key that exists is about to get another deadline.
    pub(super) fn count_moved(&mut self, slot: Slot, key: &[u8], deadline: Deadline) {
        let entry = self.keyspace.entry(slot);
        match (entry.deadline, deadline) {
            (Deadline::NEVER, Deadline::NEVER) => {}
            (Deadline::NEVER, _) if may_be_lock(entry.value()) => {
                self.keyspace.count_event(key, LockOutcome::Granted);
            }
            (_, Deadline::NEVER) => self.count_ended(slot, LockEndReason::Persisted),
            _ => {}
        }
    }

    /// A stored key is about to go, or to be no lock any more.
    pub(super) fn count_ended(&mut self, slot: Slot, how: LockEndReason) {
        self.keyspace.count_end(slot, self.now.node, how);
    }
}

fn is_same_token(one: ValueRef<'_>, other: ValueRef<'_>) -> bool {
    matches!((one, other), (ValueRef::String(one), ValueRef::String(other)) if one == other)
}
