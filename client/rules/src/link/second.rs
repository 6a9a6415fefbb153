//! The second connection to a node whose first one is silent although it was not closed.
//!
//! Invariant: at most one is being made at a time, and after each that comes to nothing the next
//! one waits longer, so that a node that is only slow is not called again and again.

use std::time::Duration;

use super::ConnectionId;
use super::opening::Opening;
use crate::clock::ClientInstant;

#[derive(Debug, Default)]
pub(super) struct Second {
    opening: Option<Opening>,
    not_before: Option<ClientInstant>,
    failures: u32,
}

impl Second {
    pub(super) fn is(&self, id: ConnectionId) -> bool {
        self.opening
            .as_ref()
            .is_some_and(|opening| opening.id == id)
    }

    pub(super) fn opening(&mut self) -> Option<&mut Opening> {
        self.opening.as_mut()
    }

    pub(super) fn may_begin(&self, now: ClientInstant) -> bool {
        self.opening.is_none() && self.not_before.is_none_or(|at| now.has_reached(at))
    }

    pub(super) fn begin(&mut self, opening: Opening) {
        self.opening = Some(opening);
    }

    /// It came to nothing: the node is slow, and nothing changes.
    pub(super) fn failed(&mut self, now: ClientInstant) {
        self.opening = None;
        let pause = PAUSE_FIRST.saturating_mul(1 << self.failures.min(6));
        self.failures += 1;
        self.not_before = Some(now.after(pause.min(PAUSE_MAX)));
    }

    /// The first connection answers: a second one is not needed. Names the one to be closed.
    pub(super) fn end(&mut self) -> Option<ConnectionId> {
        let ended = std::mem::take(self);
        ended.opening.map(|opening| opening.id)
    }

    /// The first connection is gone: what was begun may become the next one.
    pub(super) fn take(&mut self) -> Option<Opening> {
        std::mem::take(self).opening
    }

    /// The connection that has not answered in time.
    pub(super) fn overdue(&self, now: ClientInstant) -> Option<ConnectionId> {
        let opening = self.opening.as_ref()?;
        now.has_reached(opening.deadline).then_some(opening.id)
    }

    pub(super) fn deadline(&self) -> Option<ClientInstant> {
        self.opening.as_ref().map(|opening| opening.deadline)
    }

    pub(super) fn is_open(&self) -> bool {
        self.opening.is_some()
    }
}

const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
