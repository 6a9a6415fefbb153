//! The place of a call behind others of this client that wait for the same lock, and what of it was told.
//!
//! Invariant: a change is told when it happens, but not sooner after the last word than a pause between attempts lasts
//! at most: a queue that moves fast costs its callers no more words than one attempt after the other.

use std::time::Duration;

use crate::clock::ClientInstant;

#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    ahead: usize,
    told: usize,
    may_tell_at: ClientInstant,
}

impl Place {
    /// So many came first, which is told now.
    pub(super) fn told(ahead: usize, now: ClientInstant, every: Duration) -> Self {
        Self {
            ahead,
            told: ahead,
            may_tell_at: now.after(every),
        }
    }

    pub(super) fn moved(&mut self, ahead: usize) {
        self.ahead = ahead;
    }

    /// When a change is to be told, if there is one.
    pub(super) fn due_at(&self) -> Option<ClientInstant> {
        (self.ahead != self.told).then_some(self.may_tell_at)
    }

    /// How many came first, if that is to be told now; then it counts as told.
    pub(super) fn take_news(&mut self, now: ClientInstant, every: Duration) -> Option<usize> {
        let is_due = self.due_at().is_some_and(|at| now.has_reached(at));
        is_due.then(|| {
            *self = Self::told(self.ahead, now, every);
            self.ahead
        })
    }
}
