//! Work on the log that must not hold up a worker, in the order in which it was asked for.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::core::log_duties::LogDuties;

/// Something to do.
pub(crate) enum Job {
    /// Write what is appended and sync it, for somebody who waits for it.
    CommitNow(Done),
    /// The same, for those who look themselves how far it came (WAITAOF).
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

/// Tells whoever asked for a job that it has ended.
pub(crate) type Done = Box<dyn FnOnce() + Send>;

/// Jobs that have not begun.
pub(crate) type Jobs = UnboundedReceiver<Job>;

/// The way to the log thread, or to a simulation that does its jobs.
pub(crate) struct LogQueue {
    jobs: UnboundedSender<Job>,
    pub(crate) duties: LogDuties,
}

impl LogQueue {
    /// The queue and the end from which jobs are taken.
    pub(crate) fn new() -> (Self, Jobs) {
        let (jobs, receiver) = unbounded_channel();
        (
            Self {
                jobs,
                duties: LogDuties::default(),
            },
            receiver,
        )
    }

    /// Hands a job over.
    pub(crate) fn send(&self, job: Job) {
        // A receiver that is gone means the node is stopping: the job has no meaning then.
        let _ = self.jobs.send(job);
    }

    /// Asks for a write and a sync of everything appended so far. However many ask, and whether or
    /// not they still wait, it is one job: those who wait for a reply's sync stand behind it.
    pub(crate) fn ask_for_sync(&self) {
        if self.duties.ask_for_commit() {
            self.send(Job::Commit);
        }
    }
}
