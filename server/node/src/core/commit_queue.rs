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
//! Requests that have no reply yet wait in a list of their own (`event_loop/pending.rs`; ADR 13 says why).
//!
//! Nothing here writes, syncs or wakes anybody: a [`CommitPlan`] says what to do.

use quorlock_engine::RawTime;

use crate::core::commit::{Commit, Failure};
use crate::core::next_commit::CommitRequest;
use crate::core::wait::DurabilityWait;

/// One worker's waiting replies.
#[derive(Debug, Default)]
pub struct CommitQueue {
    waiting: Vec<PendingRelease>,
}

/// What the queue needs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitPlan {
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
struct PendingRelease {
    connection: usize,
    wait: DurabilityWait,
    is_new: bool,
    /// The log thread was asked for a commit with it.
    is_handed_over: bool,
}

impl CommitQueue {
    /// Keeps the replies of a connection until `wait` is met.
    pub fn push(&mut self, connection: usize, wait: DurabilityWait) {
        self.waiting.push(PendingRelease {
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

    /// How many connections' replies wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Moves the connections whose wait is met to `released`; if the log has failed, the others as
    /// well: their replies must not leave.
    pub fn release(&mut self, commit: &Commit, released: &mut Vec<Released>) {
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
    pub fn plan(&mut self, commit: &Commit, may_linger: bool, now_raw: RawTime) -> CommitPlan {
        let lacks_sync = |one: &PendingRelease| commit.lacks_sync(one.wait);
        let only_write = !self.waiting.iter().all(lacks_sync);
        let otherwise = match only_write {
            true => CommitPlan::Write,
            false => CommitPlan::Nothing,
        };
        let is_unasked = |one: &PendingRelease| !one.is_handed_over && lacks_sync(one);
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
                return CommitPlan::Commit;
            }
        }
        let mut request = CommitRequest {
            replies: 0,
            is_urgent: !may_linger || only_write,
            asked_raw: now_raw,
        };
        for one in self.waiting.iter_mut().filter(|one| is_unasked(one)) {
            one.is_handed_over = true;
            request.replies += 1;
            request.is_urgent |= commit.is_urgent(one.wait);
        }
        match only_write {
            true => CommitPlan::WriteAndHandOver(request),
            false => CommitPlan::HandOver(request),
        }
    }
}

/// A connection whose replies leave.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    pub(crate) connection: usize,
    /// The client is told that the log has failed instead.
    pub is_withheld: bool,
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

#[cfg(test)]
mod tests {
    use quorlock_persistence::Position;

    use super::*;
    use crate::core::commit::Synced;
    use crate::core::durable_counts::Sample;
    use crate::core::rewrites::LogSize;

    const NOW: RawTime = RawTime::from_nanos(7);

    fn at(position: u64) -> Position {
        Position::from_raw(position)
    }

    fn until_written(position: u64) -> DurabilityWait {
        DurabilityWait {
            written: at(position),
            ..DurabilityWait::default()
        }
    }

    fn until_synced(position: u64) -> DurabilityWait {
        DurabilityWait::until_synced(at(position))
    }

    /// A log that is written up to 3 and synced up to 1, by a sync that has taken so long.
    fn commit(sync_ns: u64) -> Commit {
        let commit = Commit::new(at(3), at(1), LogSize::default(), RawTime::ZERO);
        note_synced(&commit, 1, sync_ns);
        commit
    }

    fn note_synced(commit: &Commit, position: u64, took_ns: u64) {
        let sample = Sample::default();
        commit.note_synced(Synced {
            began_raw: RawTime::ZERO,
            ended_raw: RawTime::from_nanos(took_ns),
            write_ns: 0,
            position: at(position),
            sample: &sample,
            newest: &sample,
        });
    }

    const SHORT: u64 = 100_000;
    const LONG: u64 = 5_000_000;

    /// The replies of connections 0, 1 and so on.
    fn queue(waits: &[DurabilityWait]) -> CommitQueue {
        let mut queue = CommitQueue::default();
        for (connection, wait) in waits.iter().enumerate() {
            queue.push(connection, *wait);
        }
        queue
    }

    fn plan(queue: &mut CommitQueue, commit: &Commit) -> CommitPlan {
        queue.plan(commit, true, NOW)
    }

    fn released(queue: &mut CommitQueue, commit: &Commit) -> Vec<(usize, bool)> {
        let mut released = Vec::new();
        queue.release(commit, &mut released);
        let released = released.into_iter();
        released
            .map(|one| (one.connection, one.is_withheld))
            .collect()
    }

    fn request(replies: usize) -> CommitRequest {
        CommitRequest {
            replies,
            is_urgent: false,
            asked_raw: NOW,
        }
    }

    #[test]
    fn replies_leave_once_their_wait_is_met_and_are_withheld_from_a_log_that_failed() {
        let commit = commit(SHORT);
        let mut queue = queue(&[until_written(3), until_synced(2), until_written(4)]);
        assert_eq!(released(&mut queue, &commit), [(0, false)]);
        note_synced(&commit, 2, SHORT);
        commit.fail("the disk is gone");
        assert_eq!(released(&mut queue, &commit), [(1, false), (2, true)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn new_replies_are_told_of_once() {
        let mut queue = queue(&[until_synced(2), until_synced(2)]);
        assert_eq!(queue.take_new().collect::<Vec<_>>(), [0, 1]);
        queue.push(2, until_synced(3));
        assert_eq!(queue.take_new().collect::<Vec<_>>(), [2]);
        assert_eq!(queue.take_new().count(), 0);
    }

    #[test]
    fn short_syncs_are_made_here_unless_one_is_under_way() {
        let commit = commit(SHORT);
        let mut queue = queue(&[until_synced(2), until_synced(3)]);
        assert_eq!(plan(&mut queue, &commit), CommitPlan::Commit);
        let running = commit.begin(NOW);
        assert_eq!(plan(&mut queue, &commit), CommitPlan::HandOver(request(2)));
        drop(running);
        assert_eq!(
            plan(&mut queue, &commit),
            CommitPlan::Nothing,
            "it was asked for"
        );
        queue.push(2, until_synced(3));
        assert_eq!(
            plan(&mut queue, &commit),
            CommitPlan::Nothing,
            "its end brings this worker back"
        );
    }

    #[test]
    fn long_syncs_are_asked_for_once_with_each_reply() {
        let commit = commit(LONG);
        let mut queue = queue(&[until_synced(2), until_synced(3)]);
        assert_eq!(plan(&mut queue, &commit), CommitPlan::HandOver(request(2)));
        assert_eq!(plan(&mut queue, &commit), CommitPlan::Nothing);
        queue.push(2, until_synced(3));
        assert_eq!(plan(&mut queue, &commit), CommitPlan::HandOver(request(1)));
    }

    #[test]
    fn replies_that_need_a_write_alone_get_it_at_once() {
        let mut queue_of_one = queue(&[until_written(4)]);
        assert_eq!(plan(&mut queue_of_one, &commit(SHORT)), CommitPlan::Write);
        assert_eq!(plan(&mut queue_of_one, &commit(LONG)), CommitPlan::Write);
        let mut both = queue(&[until_written(4), until_synced(3)]);
        let urgent = CommitRequest {
            is_urgent: true,
            ..request(1)
        };
        assert_eq!(
            plan(&mut both, &commit(LONG)),
            CommitPlan::WriteAndHandOver(urgent)
        );
        assert_eq!(plan(&mut both, &commit(LONG)), CommitPlan::Write);
    }

    #[test]
    fn a_sync_is_urgent_where_a_reply_or_its_worker_must_not_be_kept_waiting() {
        let commit = commit(LONG);
        let urgent = |replies| {
            CommitPlan::HandOver(CommitRequest {
                is_urgent: true,
                ..request(replies)
            })
        };
        let at_once = DurabilityWait::until_synced_at_once(at(3));
        let mut of_a_record = queue(&[until_synced(2), at_once, until_synced(2)]);
        assert_eq!(plan(&mut of_a_record, &commit), urgent(3));
        let mut of_a_worker = queue(&[until_synced(2)]);
        assert_eq!(of_a_worker.plan(&commit, false, NOW), urgent(1));
    }

    #[test]
    fn a_closed_connection_is_forgotten_and_counts_where_a_commit_was_asked_for_with_it() {
        let commit = commit(LONG);
        let mut queue = queue(&[until_synced(2), until_synced(2)]);
        plan(&mut queue, &commit);
        queue.push(2, until_synced(3));
        assert!(queue.forget(1));
        assert!(!queue.forget(1), "it is gone");
        assert!(!queue.forget(2), "nothing was asked for it");
        note_synced(&commit, 3, LONG);
        assert_eq!(released(&mut queue, &commit), [(0, false)]);
    }

    #[test]
    fn a_refusal_is_one_line_whatever_the_failure_says() {
        let failure = commit(SHORT).fail("first line\r\nsecond line");
        let text = String::from_utf8(refusal(&failure)).expect("a refusal is text");
        assert!(
            text.starts_with("-MISCONF the log failed and is not trusted any more: first line")
        );
        assert!(text.ends_with("The node stops\r\n"));
        assert_eq!(text.matches(['\r', '\n']).count(), 2, "{text:?}");
    }
}
