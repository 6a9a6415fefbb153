//! Reclaiming: expired keys leave memory.
//!
//! The maintenance does it beside the clients, a little at a time. Clients that write more quickly than that do it
//! themselves, as amortized work: each deadline that is set comes with the steps that one such key takes until it is
//! gone, and one more, so that keys that have expired stay fewer than those that live.

use crate::keyspace::Keyspace;
use crate::lock_counts::LockEndReason;
use crate::time::NodeTime;

/// What a call of [`Engine::reclaim`](crate::Engine::reclaim) has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// How many expired keys have left memory.
    pub freed: usize,
    /// Whether the budget was spent before everything was done.
    pub more: bool,
}

impl Keyspace {
    /// Frees expired keys, at most `budget` steps of work.
    ///
    /// A later reply that says that such a key is absent depends on the write that set its deadline.
    pub(crate) fn reclaim(&mut self, now: NodeTime, budget: usize) -> Reclaimed {
        debug_assert!(
            !self.undo.is_recording(),
            "no slots are freed while a script runs"
        );
        let mut left = budget;
        let mut freed: usize = 0;
        // Nobody is missed because many keys end at once: those that are left end a little later.
        while !self.channels.is_half_used()
            && let Some(slot) = self.wheel.pop_due(&mut self.slab, now, &mut left)
        {
            self.tell_expired(slot);
            self.count_end(slot, now, LockEndReason::Expired);
            let entry = self.slab.get(slot);
            let (hash, position) = (self.hash_of(entry), entry.position());
            let shard = self.index.shard_mut(hash);
            shard.deleted = shard.deleted.max(position);
            self.holders.end(slot);
            let entry = self.take_out(hash, slot);
            self.discarded.add(entry.body);
            freed = freed.saturating_add(1);
        }
        self.statistics.expired = self.statistics.expired.saturating_add(freed as u64);
        let is_sparse = self.shrink(freed.saturating_mul(STEPS_PER_FREED).saturating_add(left));
        Reclaimed {
            freed,
            more: left == 0
                || self.channels.is_half_used()
                || is_sparse
                || self.tracking.forget_departed(budget),
        }
    }

    /// Frees expired keys, so many steps as come with the deadlines that were set since the last call: that takes about as
    /// long as setting them did.
    pub(crate) fn reclaim_owed(&mut self, now: NodeTime) -> Reclaimed {
        let budget = self.owed_steps();
        self.wheel.forget_inserted();
        if budget == 0 || self.next_due().is_none_or(|due| due > now) {
            return Reclaimed::default();
        }
        self.reclaim(now, budget)
    }

    /// How many steps that may be.
    pub(crate) fn owed_steps(&self) -> usize {
        self.wheel.inserted().saturating_mul(STEPS_PER_WRITE)
    }

    /// The first writer does not do the work for all that a replay has inserted.
    pub(crate) fn forget_owed(&mut self) {
        self.wheel.forget_inserted();
    }

    pub(crate) fn next_due(&self) -> Option<NodeTime> {
        self.wheel.next_due()
    }
}

/// The steps of [`Keyspace::shrink`] that a key takes which leaves a sparse database.
const STEPS_PER_FREED: usize = 2;

/// A key that lives for less than four minutes takes three steps at most until it has left memory, one for each level
/// of the wheel. With one more what has piled up gets less. Who lives longer is soon outnumbered by those that live.
const STEPS_PER_WRITE: usize = 4;
