//! The replies of one worker that wait until they may leave, and what has to be done for them: the
//! rules of group commit.
//!
//! A worker commits after everything that was ready has been executed. So one write and one sync
//! serve all of it: commits are grouped by what the machine has ready, without a timer. Replies that
//! depend on nothing leave with the same iteration, and never wait for a sync that others need.
//!
//! Short syncs run on the worker's own thread. Long ones run on the log thread, and so do the writes before them,
//! which wait for the disk where they go past the page cache. Each reply that needs one asks for the log thread's next
//! commit (`core/next_commit.rs`), also while another one is under way, and all workers share it.
//!
//! Nothing here writes, syncs or wakes anybody: a [`Plan`] says what to do.

use crate::core::commit::{Commit, Failure};
use crate::core::next_commit::CommitRequest;
use crate::core::wait::Wait;

/// One worker's waiting replies.
#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    waiting: Vec<Waiting>,
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
    /// Have the log thread write and sync it, so that reading and executing go on meanwhile.
    HandOver(CommitRequest),
    /// The same, but write it first: some replies need no more.
    WriteAndHandOver(CommitRequest),
}

/// A connection's replies, and how far the log must have come before they leave.
#[derive(Debug)]
struct Waiting {
    connection: usize,
    wait: Wait,
    is_new: bool,
    /// The log thread was asked for a commit with it.
    is_handed_over: bool,
}

impl CommitQueue {
    /// Keeps the replies of a connection until `wait` is met.
    pub(crate) fn push(&mut self, connection: usize, wait: Wait) {
        self.waiting.push(Waiting {
            connection,
            wait,
            is_new: true,
            is_handed_over: false,
        });
    }

    /// Forgets the replies of a connection that is closed; says whether the log thread was asked for a commit with them.
    pub(crate) fn forget(&mut self, connection: usize) -> bool {
        let of_it = self
            .waiting
            .extract_if(.., |one| one.connection == connection);
        of_it.filter(|one| one.is_handed_over).count() > 0
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

    /// Moves the connections whose wait is met to `released`; if the log has failed, the others as
    /// well: their replies must not leave.
    pub(crate) fn release(&mut self, commit: &Commit, released: &mut Vec<Released>) {
        let has_failed = commit.failure().is_some();
        self.waiting.retain(|one| {
            let is_met = commit.is_met(one.wait);
            if is_met || has_failed {
                released.push(Released {
                    connection: one.connection,
                    is_withheld: !is_met,
                });
            }
            !is_met && !has_failed
        });
    }

    /// One write, and a sync where a reply needs one: on this thread while syncs are short, on the
    /// log thread when they are long. `may_linger` says that none of the replies must be kept waiting for others.
    pub(crate) fn plan(
        &mut self,
        commit: &Commit,
        may_linger: bool,
        now_raw_ns: impl FnOnce() -> u64,
    ) -> Plan {
        let lacks_sync = |one: &Waiting| commit.lacks_sync(one.wait);
        let only_write = !self.waiting.iter().all(lacks_sync);
        let otherwise = match only_write {
            true => Plan::Write,
            false => Plan::Nothing,
        };
        let is_unasked = |one: &Waiting| !one.is_handed_over && lacks_sync(one);
        if !self.waiting.iter().any(is_unasked) {
            return otherwise;
        }
        if !commit.takes_long() {
            if self.waiting.iter().any(|one| one.is_handed_over) {
                // The end of that commit brings this worker back to its own.
                return otherwise;
            }
            // Behind somebody else's sync this worker would be held as long as that takes.
            if !commit.is_syncing() {
                return Plan::Commit;
            }
        }
        let mut request = CommitRequest {
            replies: 0,
            is_urgent: !may_linger || only_write,
            asked_raw_ns: now_raw_ns(),
        };
        for one in self.waiting.iter_mut().filter(|one| is_unasked(one)) {
            one.is_handed_over = true;
            request.replies += 1;
            request.is_urgent |= commit.is_urgent(one.wait);
        }
        match only_write {
            true => Plan::WriteAndHandOver(request),
            false => Plan::HandOver(request),
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
