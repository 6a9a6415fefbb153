//! The way to the log thread: what is asked of it, in the order in which it was asked for.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::LookAgain;
use crate::core::log_duties::LogDuties;
use crate::core::next_commit::{CommitRequest, Done, NextCommit};
use crate::sync::channel::{Receiver, Sender};
use crate::sync::unbounded;

/// What happens to the log thread.
pub enum LogEvent {
    /// The requests for the next commit are to be looked at ([`NextCommit`]).
    Commit,
    /// Something was written that is to be synced within a second.
    SyncSoon,
    /// Segments no longer needed are to be removed, and the next one is to be made where one is wanted ahead. Whoever is here
    /// needs it in any case, and hears of the end of it.
    Prepare(Option<Done>),
    /// Somebody wants to know whether the log thread comes to its events.
    Question(Done),
    /// A test has moved the clock.
    TimeMoved,
    /// The log thread is to end.
    Stop,
}

/// The events that the log thread has not seen. Dropped, it reports to all that wait for the log thread.
pub struct LogEvents {
    receiver: Receiver<LogEvent>,
    next_commit: Arc<NextCommit>,
}

impl LogEvents {
    /// The next event, if there is one.
    pub fn take(&self) -> Option<LogEvent> {
        self.receiver.try_recv().ok()
    }

    /// Waits for an event; `None` where the time is over before one has come.
    pub fn wait(&self, at_most: Option<Duration>) -> Option<LogEvent> {
        match at_most {
            Some(at_most) => self.receiver.recv_timeout(at_most).ok(),
            // Without any sender the node is gone.
            None => Some(self.receiver.recv().unwrap_or(LogEvent::Stop)),
        }
    }
}

impl Drop for LogEvents {
    fn drop(&mut self) {
        drop(self.next_commit.close());
    }
}

/// The sending end of [`LogEvents`], and what is asked for without an event of its own.
pub struct LogQueue {
    events: Sender<LogEvent>,
    /// Who waits for the next commit.
    pub next_commit: Arc<NextCommit>,
    pub(crate) duties: LogDuties,
}

impl LogQueue {
    /// Both ends.
    pub fn new() -> (Self, LogEvents) {
        let (events, receiver) = unbounded();
        let next_commit = Arc::<NextCommit>::default();
        (
            Self {
                events,
                next_commit: Arc::clone(&next_commit),
                duties: LogDuties::default(),
            },
            LogEvents {
                receiver,
                next_commit,
            },
        )
    }

    /// Sends an event.
    pub fn send(&self, event: LogEvent) {
        // A receiver that is gone means the node is stopping: the event has no meaning then.
        let _ = self.events.send(event);
    }

    /// For [`crate::clock::Clock::when_moved`].
    pub fn when_moved(&self) -> LookAgain {
        let events = self.events.clone();
        Box::new(move || events.send(LogEvent::TimeMoved).is_ok())
    }

    /// Asks for a write and a sync of everything appended so far, for those who look themselves how far it came.
    pub fn ask_for_commit(&self, request: CommitRequest) {
        if self.next_commit.ask(request) {
            self.send(LogEvent::Commit);
        }
    }

    /// The same for a worker of this number, which is notified when it has ended.
    pub fn commit_for(&self, worker: usize, request: CommitRequest, done: impl FnOnce() -> Done) {
        if self
            .next_commit
            .ask_and_be_told(Some(worker), request, done)
        {
            self.send(LogEvent::Commit);
        }
    }

    /// The same for a caller that is no worker.
    pub fn commit(&self, done: Done) {
        let request = CommitRequest::default();
        if self.next_commit.ask_and_be_told(None, request, || done) {
            self.send(LogEvent::Commit);
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
    fn many_requests_for_a_commit_are_one_event_until_it_begins() {
        let (queue, events) = LogQueue::new();
        let count = || std::iter::from_fn(|| events.take()).count();
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
        let (queue, _events) = LogQueue::new();
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
        let (queue, events) = LogQueue::new();
        let before = commit_for(&queue, 1);
        drop(events);
        for hears in [before, commit_for(&queue, 1), commit_for(&queue, 1)] {
            assert_eq!(hears.try_recv(), Err(TryRecvError::Disconnected));
        }
    }
}
