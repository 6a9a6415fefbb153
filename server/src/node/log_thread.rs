//! The one thread for log work that must not hold up a worker: the sync of every second, long
//! syncs, and making segments ahead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use quorlock_engine::control::Durability;
use quorlock_persistence::Preparer;
use tokio::sync::oneshot;

use crate::clock::{Clock, SystemClock};
use crate::node::commit::Failure;
use crate::node::shared::Shared;

/// Something to do.
pub(crate) enum Job {
    /// Sync what is written and say when it is done.
    SyncNow(Box<dyn FnOnce() + Send>),
    /// Write what is appended and sync it: somebody waits for it who is no reply (WAITAOF).
    WriteAndSync,
    /// Sync what is written within a second.
    SyncSoon,
    /// Make the next segment, and remove those no longer needed.
    Prepare,
    /// The same, for somebody who waits for it.
    PrepareNow(Sender<()>),
    /// The same, for a task.
    PrepareSoon(oneshot::Sender<()>),
    /// End.
    Stop,
}

/// The way to the log thread.
pub(crate) struct LogThread {
    jobs: Mutex<Sender<Job>>,
    sync_is_due: AtomicBool,
    /// A [`Job::WriteAndSync`] is on its way, and covers whatever is appended before it begins.
    write_and_sync_is_due: AtomicBool,
    /// A segment is being made, or could not be: then maintenance asks again, not every write.
    is_preparing: AtomicBool,
}

impl LogThread {
    /// The handle and the thread's end of it.
    pub(crate) fn new() -> (Self, Receiver<Job>) {
        let (sender, receiver) = channel();
        (
            Self {
                jobs: Mutex::new(sender),
                sync_is_due: AtomicBool::new(false),
                write_and_sync_is_due: AtomicBool::new(false),
                is_preparing: AtomicBool::new(false),
            },
            receiver,
        )
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(crate) fn spawn(
        shared: Arc<Shared>,
        jobs: Receiver<Job>,
        preparer: Preparer,
    ) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("quorlock-log".to_owned())
            .spawn(move || Turn::new(shared, preparer).run(&jobs))
    }

    /// Hands a job over.
    pub(crate) fn send(&self, job: Job) {
        // A receiver that is gone means the node is stopping: the job has no meaning then.
        let _ = self
            .jobs
            .lock()
            .expect("no holder of the sender can panic")
            .send(job);
    }

    /// Asks for a write and a sync of everything appended so far. However many ask, and whether or
    /// not they still wait, it is one job: those who wait for a reply's sync stand behind it.
    pub(crate) fn ask_for_sync(&self) {
        if !self.write_and_sync_is_due.swap(true, Ordering::AcqRel) {
            self.send(Job::WriteAndSync);
        }
    }

    /// The job begins: who asks from here on may have appended something that it misses.
    fn begin_write_and_sync(&self) {
        self.write_and_sync_is_due.swap(false, Ordering::AcqRel);
    }

    /// To be called after each write: asks for the sync of this second and for segments.
    pub(crate) fn after_write(&self, shared: &Shared) {
        if shared.commit.takes_segment_wish() && !self.is_preparing.swap(true, Ordering::AcqRel) {
            self.send(Job::Prepare);
        }
        if shared.needs_compaction() {
            // Without keys that expire, maintenance sleeps without a timer.
            shared.activity.notify_one();
        }
        if shared.durability() != Durability::No
            && shared.commit.synced() < shared.commit.written()
            && !self.sync_is_due.swap(true, Ordering::AcqRel)
        {
            self.send(Job::SyncSoon);
        }
    }
}

/// What the thread knows from job to job.
pub(crate) struct Turn {
    shared: Arc<Shared>,
    preparer: Preparer,
    due_raw_ns: Option<u64>,
    /// Whether the last segment asked for could be made.
    has_space: bool,
}

impl Turn {
    pub(crate) fn new(shared: Arc<Shared>, preparer: Preparer) -> Self {
        Self {
            shared,
            preparer,
            due_raw_ns: None,
            has_space: true,
        }
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let job = match self.due_raw_ns {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => {
                    let left = due.saturating_sub(SystemClock.raw_ns());
                    jobs.recv_timeout(Duration::from_nanos(left))
                }
            };
            let outcome = match job {
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(job) => self.handle(job),
                Err(RecvTimeoutError::Timeout) => self.sync_of_this_second(),
            };
            if let Err(failure) = outcome {
                self.shared.fail(&failure);
            }
        }
    }

    /// Does one job, but for [`Job::Stop`], which is not the turn's business.
    pub(crate) fn handle(&mut self, job: Job) -> Result<(), Failure> {
        match job {
            Job::SyncNow(done) => {
                let outcome = self.sync();
                done();
                outcome
            }
            Job::WriteAndSync => {
                self.shared.log_thread.begin_write_and_sync();
                let written = self.shared.commit.write(&self.shared.core);
                written.and_then(|()| self.sync())
            }
            Job::SyncSoon => {
                self.due_raw_ns = Some(SystemClock.raw_ns().saturating_add(SYNC_EVERY_NS));
                Ok(())
            }
            Job::Prepare => self.prepare(),
            Job::PrepareNow(done) => {
                let outcome = self.prepare();
                // Somebody who is gone needs no answer.
                let _ = done.send(());
                outcome
            }
            Job::PrepareSoon(done) => {
                let outcome = self.prepare();
                // A task that is gone needs no answer.
                let _ = done.send(());
                outcome
            }
            Job::Stop => Ok(()),
        }
    }

    /// The sync that [`Job::SyncSoon`] asked for; the next write asks again.
    pub(crate) fn sync_of_this_second(&mut self) -> Result<(), Failure> {
        self.due_raw_ns = None;
        let log_thread = &self.shared.log_thread;
        log_thread.sync_is_due.store(false, Ordering::Release);
        self.sync()
    }

    fn sync(&self) -> Result<(), Failure> {
        match self.shared.commit.begin_sync()? {
            Some(ticket) => self.shared.commit.finish_sync(ticket),
            None => Ok(()),
        }
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        let has_space = self
            .preparer
            .prepare()
            .map_err(|error| self.shared.commit.fail(&error))?;
        match (self.has_space, has_space) {
            (true, false) => tracing::warn!(
                "the disk is full: the log can make no further segment. Once what is prepared is \
                 used up, writes are refused with -MISCONF, until space is freed in the data \
                 directory"
            ),
            (false, true) => tracing::warn!("the disk has space again: writes are accepted"),
            _ => {}
        }
        self.has_space = has_space;
        if has_space {
            let log_thread = &self.shared.log_thread;
            log_thread.is_preparing.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// `appendfsync everysec`.
const SYNC_EVERY_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_who_ask_for_a_sync_make_one_job_until_it_begins() {
        let (log_thread, jobs) = LogThread::new();
        for _ in 0..1_000 {
            log_thread.ask_for_sync();
        }
        assert_eq!(jobs.try_iter().count(), 1);
        log_thread.begin_write_and_sync();
        log_thread.ask_for_sync();
        assert_eq!(jobs.try_iter().count(), 1, "it may miss what came since");
    }
}
