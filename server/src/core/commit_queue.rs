//! The replies of one worker that wait until they may leave, and what has to be done for them: the
//! rules of group commit.
//!
//! A worker commits after everything that was ready has been executed. So one write and one sync
//! serve all of it: commits are grouped by what the machine has ready, without a timer. Replies that
//! depend on nothing leave with the same iteration, and never wait for a sync that others need.
//!
//! Short syncs run on the worker's own thread. Long ones run on the log thread, and so do the writes before them,
//! which wait for the disk where they go past the page cache; between two of them the worker may linger
//! (`core/linger.rs`).
//!
//! Nothing here writes, syncs or wakes anybody: a [`Plan`] says what to do.

use crate::core::commit::{Commit, Failure};
use crate::core::linger::Linger;
use crate::core::wait::Wait;

/// One worker's waiting replies.
#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    waiting: Vec<Waiting>,
    /// A sync for this worker runs on the log thread.
    is_syncing: bool,
    /// Such a sync has ended, and those that it answers have not left.
    has_synced: bool,
    linger: Linger,
}

/// What the queue needs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing: nobody waits, or a sync is under way that all of them wait for.
    Nothing,
    /// Write what was appended.
    Write,
    /// Write and sync it on this thread: syncs are short.
    Commit,
    /// Have the log thread write and sync it, so that reading and executing go on meanwhile; then
    /// [`CommitQueue::note_synced`].
    HandOver,
    /// The same, but write it first: some replies need no more.
    WriteAndHandOver,
    /// Ask again after so many nanoseconds, or when more replies wait.
    Linger(u64),
}

/// A connection's replies, and how far the log must have come before they leave.
#[derive(Debug)]
struct Waiting {
    connection: usize,
    wait: Wait,
    is_new: bool,
}

impl CommitQueue {
    /// Keeps the replies of a connection until `wait` is met.
    pub(crate) fn push(&mut self, connection: usize, wait: Wait) {
        self.waiting.push(Waiting {
            connection,
            wait,
            is_new: true,
        });
    }

    /// Forgets the replies of a connection that is closed.
    pub(crate) fn forget(&mut self, connection: usize) {
        self.waiting.retain(|one| one.connection != connection);
    }

    /// The connections whose replies were not here when this was last called.
    pub(crate) fn take_new(&mut self) -> impl Iterator<Item = usize> {
        let new = self.waiting.iter_mut().filter(|one| one.is_new);
        new.map(|one| {
            one.is_new = false;
            one.connection
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The sync on the log thread has ended.
    pub(crate) fn note_synced(&mut self) {
        self.is_syncing = false;
        self.has_synced = true;
    }

    /// Moves the connections whose wait is met to `released`; if the log has failed, the others as
    /// well: their replies must not leave.
    pub(crate) fn release(&mut self, commit: &Commit, released: &mut Vec<Released>) {
        let has_failed = commit.failure().is_some();
        let mut answered = 0;
        self.waiting.retain(|one| {
            let is_met = commit.is_met(one.wait);
            if is_met || has_failed {
                // One that is new has waited for no sync.
                answered += usize::from(!one.is_new);
                released.push(Released {
                    connection: one.connection,
                    is_withheld: !is_met,
                });
            }
            !is_met && !has_failed
        });
        if std::mem::take(&mut self.has_synced) {
            let ahead = self.waiting.len();
            let ended_raw_ns = commit.last_sync_raw_ns();
            self.linger
                .begin(answered, ahead, ended_raw_ns, commit.sync_ns());
        }
    }

    /// One write, and a sync where a reply needs one: on this thread while syncs are short, on the
    /// log thread when they are long. `may_linger` says that nothing is among them that must not wait for others.
    pub(crate) fn plan(
        &mut self,
        commit: &Commit,
        may_linger: bool,
        now_raw_ns: impl FnOnce() -> u64,
    ) -> Plan {
        if self.waiting.is_empty() {
            return Plan::Nothing;
        }
        let lacks_sync = |one: &Waiting| commit.lacks_sync(one.wait);
        let needs_sync = self.waiting.iter().any(lacks_sync);
        let only_write = !self.waiting.iter().all(lacks_sync);
        if needs_sync && !self.is_syncing {
            // Behind somebody else's sync this worker would be held as long as that takes.
            let is_long = commit.takes_long();
            if !is_long && !commit.is_syncing() {
                return Plan::Commit;
            }
            if !is_long || !may_linger || only_write {
                self.linger.end();
            }
            if let Some(left_ns) = self.linger.left_ns(self.waiting.len(), now_raw_ns()) {
                return Plan::Linger(left_ns);
            }
            self.is_syncing = true;
            return if only_write {
                Plan::WriteAndHandOver
            } else {
                Plan::HandOver
            };
        }
        if only_write {
            Plan::Write
        } else {
            Plan::Nothing
        }
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
