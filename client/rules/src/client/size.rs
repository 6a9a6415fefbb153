//! How much a client keeps, so that a simulation can bound it.
//!
//! Invariant: every collection of the client that grows with calls, locks, names or nodes is counted.

use super::Client;
use crate::link::Link;

/// How much a client keeps, by what it is kept for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Calls under way and locks that are held.
    pub operations: usize,
    /// Calls in the queues of those that wait for a lock of the same name.
    pub waiting: usize,
    /// Names of the sets that are waited for.
    pub sets: usize,
    /// Guards of owners, and the locks that they keep.
    pub owned: usize,
    /// Lines of nodes in which the client stands for locks.
    pub lines: usize,
    /// Observers of elections.
    pub observers: usize,
    /// Timers of operations.
    pub timers: usize,
    /// Calls that wait until what is owed is paid.
    pub settling: usize,
    /// Requests to nodes that are queued, in flight, or to be sent again.
    pub requests: usize,
    /// Replies that nobody has taken in yet, and actions that nobody has carried out yet.
    pub undelivered: usize,
    /// Names of which is remembered who refused them, and nodes of which is remembered who they are.
    pub remembered: usize,
}

impl Size {
    /// Everything that has to be gone once all calls have ended and nothing is owed.
    #[must_use]
    pub fn of_calls(&self) -> usize {
        self.operations
            + self.waiting
            + self.sets
            + self.owned
            + self.lines
            + self.observers
            + self.timers
            + self.settling
            + self.requests
            + self.undelivered
    }
}

impl Client {
    /// How much is kept.
    #[must_use]
    pub fn size(&self) -> Size {
        Size {
            operations: self.operations.len(),
            waiting: self.waiters.size(),
            sets: self.overlaps.size(),
            owned: self.owners.size(),
            lines: self.lines.size(),
            observers: self.observers.len(),
            timers: self.timers.len() + self.watchdogs.len(),
            settling: self.settling.len(),
            requests: self.links.iter().map(Link::size).sum(),
            undelivered: self.known.len() + self.links.iter().map(Link::undelivered).sum::<usize>(),
            remembered: self.refusals.size() + self.fences.size() + self.register.size(),
        }
    }
}
