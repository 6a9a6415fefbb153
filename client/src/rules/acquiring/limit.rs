//! How long one call may still wait.

use std::time::Duration;

use crate::clock::ClientInstant;
use crate::wait::Wait;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    wait: Wait,
    began: ClientInstant,
}

impl Limit {
    pub(super) fn new(wait: Wait, began: ClientInstant) -> Self {
        Self { wait, began }
    }

    /// What is left of the wait.
    pub(super) fn left(self, now: ClientInstant) -> Duration {
        match self.wait {
            Wait::None => Duration::ZERO,
            Wait::For(wait) => wait.saturating_sub(self.waited(now)),
            Wait::Forever => Duration::MAX,
        }
    }

    pub(super) fn waited(self, now: ClientInstant) -> Duration {
        now.since(self.began)
    }

    /// When the wait is over, if it ever is.
    pub(super) fn ends_at(self) -> Option<ClientInstant> {
        match self.wait {
            Wait::None => Some(self.began),
            Wait::For(wait) => Some(self.began.after(wait)),
            Wait::Forever => None,
        }
    }
}
