//! Work on the log that must not hold up a worker, in the order in which it was asked for.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::core::log_duties::LogDuties;
use crate::core::next_commit::{CommitRequest, Done, NextCommit};

/// Something to do.
pub(crate) enum Job {
    /// Write what is appended, sync it, and tell those who wait for it ([`NextCommit`]).
    Commit,
    /// Sync what is written within a second.
    SyncSoon,
    /// Make the next segment, and remove those no longer needed.
    Prepare,
    /// The same, for somebody who waits for it.
    PrepareNow(Done),
    /// End.
    Stop,
}

/// Jobs that have not begun. Where this is dropped, everybody who waits for one is told.
pub(crate) struct Jobs {
    receiver: UnboundedReceiver<Job>,
    next_commit: Arc<NextCommit>,
}

impl Jobs {
    /// The next job, once there is one; `None` where none can come any more.
    pub(crate) async fn recv(&mut self) -> Option<Job> {
        self.receiver.recv().await
    }

    /// The next job, if there is one.
    pub(crate) fn try_recv(&mut self) -> Option<Job> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        // In this order: who asks looks in the other one.
        self.receiver.close();
        drop(self.next_commit.take());
    }
}

/// The way to the log thread, or to a simulation that does its jobs.
pub(crate) struct LogQueue {
    jobs: UnboundedSender<Job>,
    pub(crate) next_commit: Arc<NextCommit>,
    pub(crate) duties: LogDuties,
}

impl LogQueue {
    /// The queue and the end from which jobs are taken.
    pub(crate) fn new() -> (Self, Jobs) {
        let (jobs, receiver) = unbounded_channel();
        let next_commit = Arc::<NextCommit>::default();
        (
            Self {
                jobs,
                next_commit: Arc::clone(&next_commit),
                duties: LogDuties::default(),
            },
            Jobs {
                receiver,
                next_commit,
            },
        )
    }

    /// Hands a job over.
    pub(crate) fn send(&self, job: Job) {
        // A receiver that is gone means the node is stopping: the job has no meaning then.
        let _ = self.jobs.send(job);
    }

    /// Asks for a write and a sync of everything appended so far, for those who look themselves how far it came.
    pub(crate) fn ask_for_commit(&self, request: CommitRequest) {
        if self.next_commit.ask(request) {
            self.send(Job::Commit);
        }
    }

    /// The same for a worker of this number, which is told when it has ended.
    pub(crate) fn commit_for(
        &self,
        worker: usize,
        request: CommitRequest,
        done: impl FnOnce() -> Done,
    ) {
        self.ask_and_be_told(Some(worker), request, done);
    }

    /// The same for somebody else.
    pub(crate) fn commit(&self, done: Done) {
        self.ask_and_be_told(None, CommitRequest::default(), || done);
    }

    fn ask_and_be_told(
        &self,
        worker: Option<usize>,
        request: CommitRequest,
        done: impl FnOnce() -> Done,
    ) {
        let is_first = self.next_commit.ask_and_be_told(worker, request, done);
        if is_first {
            self.send(Job::Commit);
        }
        if self.jobs.is_closed() {
            drop(self.next_commit.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, TryRecvError, channel};

    use super::*;

    /// Asks for a commit; what is told comes from the result, which ends with what tells it.
    fn commit_for(queue: &LogQueue, worker: usize) -> Receiver<()> {
        let (told, hears) = channel();
        let done = move || told.send(()).expect("it is waited for");
        queue.commit_for(worker, CommitRequest::default(), || Box::new(done));
        hears
    }

    #[test]
    fn many_who_ask_for_a_commit_make_one_job_until_it_begins() {
        let (queue, mut jobs) = LogQueue::new();
        let mut count = || std::iter::from_fn(|| jobs.try_recv()).count();
        let _told = [commit_for(&queue, 1), commit_for(&queue, 2)];
        queue.ask_for_commit(CommitRequest::URGENT);
        queue.commit(Box::new(|| {}));
        assert_eq!(count(), 1);
        let requests = queue.next_commit.take();
        assert_eq!(requests.into_told().count(), 3);
        queue.ask_for_commit(CommitRequest::default());
        assert_eq!(count(), 1, "the first may miss what came since");
    }

    #[test]
    fn a_worker_that_asks_again_is_told_once_by_each_commit() {
        let (queue, _jobs) = LogQueue::new();
        let (first, again) = (commit_for(&queue, 1), commit_for(&queue, 1));
        let requests = queue.next_commit.take();
        let next = commit_for(&queue, 1);
        requests.into_told().for_each(|done| done());
        assert_eq!(first.try_recv(), Ok(()));
        assert_eq!(again.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(next.try_recv(), Err(TryRecvError::Empty));
    }

    /// Planted: nobody looks whether the log thread has ended.
    #[test]
    fn who_asks_a_log_thread_that_has_ended_does_not_wait() {
        let (queue, jobs) = LogQueue::new();
        let before = commit_for(&queue, 1);
        drop(jobs);
        for hears in [before, commit_for(&queue, 1), commit_for(&queue, 1)] {
            assert_eq!(hears.try_recv(), Err(TryRecvError::Disconnected));
        }
    }
}
