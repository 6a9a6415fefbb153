//! Where the replies of one worker wait until they may leave.
//!
//! A worker commits after everything that was ready has been executed. So one write and one sync
//! serve all of it: commits are grouped by what the machine has ready, without a timer. Replies that
//! depend on nothing leave with the same turn, and never wait for a sync that others need.

use crate::node::commit::Failure;
use crate::node::core::Wait;
use crate::node::shared::Shared;

/// One worker's waiting replies.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    held: Vec<Held>,
    /// A sync for this worker runs on the log thread.
    is_syncing: bool,
}

/// A connection's replies, and how far the log must have come before they leave.
#[derive(Debug)]
struct Held {
    connection: usize,
    wait: Wait,
    is_new: bool,
}

impl Gate {
    /// Keeps the replies of a connection until `wait` is met.
    pub(crate) fn hold(&mut self, connection: usize, wait: Wait) {
        self.held.push(Held {
            connection,
            wait,
            is_new: true,
        });
    }

    /// Forgets the replies of a connection that is closed.
    pub(crate) fn forget(&mut self, connection: usize) {
        self.held.retain(|held| held.connection != connection);
    }

    /// The connections whose replies were not here when this was last asked.
    pub(crate) fn take_newly_held(&mut self) -> impl Iterator<Item = usize> {
        let new = self.held.iter_mut().filter(|held| held.is_new);
        new.map(|held| {
            held.is_new = false;
            held.connection
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The sync on the log thread has ended.
    pub(crate) fn note_synced(&mut self) {
        self.is_syncing = false;
    }

    /// Moves the connections whose wait is met to `released`; if the log has failed, the others as
    /// well: their replies must not leave.
    pub(crate) fn release(&mut self, shared: &Shared, released: &mut Vec<Released>) {
        let has_failed = shared.commit.failure().is_some();
        self.held.retain(|held| {
            let is_met = shared.commit.is_met(held.wait);
            if is_met || has_failed {
                released.push(Released {
                    connection: held.connection,
                    is_withheld: !is_met,
                });
            }
            !is_met && !has_failed
        });
    }

    /// One write, and a sync where a reply needs one: on this thread while syncs are short, on the
    /// log thread when they are long, so that reading and executing go on beside it. Returns whether
    /// the log thread is to be asked for a sync, whose end has to be noted here.
    pub(crate) fn commit(&mut self, shared: &Shared) -> Result<bool, Failure> {
        let lacks_sync = |held: &Held| shared.commit.lacks_sync(held.wait);
        let needs_sync = self.held.iter().any(lacks_sync);
        let only_write = !self.held.iter().all(lacks_sync);
        // Behind somebody else's sync this worker would be held as long as that takes.
        let is_quick = shared.commit.sync_ns() <= INLINE_SYNC_NS_MAX && !shared.commit.is_syncing();
        if needs_sync && !self.is_syncing && is_quick {
            shared.commit.write_and_sync(&shared.core)?;
            return Ok(false);
        }
        if only_write || !self.is_syncing {
            shared.commit.write(&shared.core)?;
        }
        let asks_for_sync = needs_sync && !self.is_syncing;
        self.is_syncing |= asks_for_sync;
        Ok(asks_for_sync)
    }
}

/// A connection whose replies leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    pub(crate) connection: usize,
    /// The client is told that the log has failed instead.
    pub(crate) is_withheld: bool,
}

/// What a client is told whose command may or may not be on disk.
pub(crate) fn refusal(failure: &Failure) -> Vec<u8> {
    let text = format!(
        "-MISCONF {failure}. Whether this command took effect is unknown: treat the lock as not \
         granted and not released. The node stops"
    );
    let mut line = text.replace(['\r', '\n'], " ").into_bytes();
    line.extend_from_slice(b"\r\n");
    line
}

/// Up to this duration a worker syncs itself: handing over costs two wake-ups of 10 to 50 us
/// and splits closed-loop clients into two halves.
const INLINE_SYNC_NS_MAX: u64 = 600_000;
