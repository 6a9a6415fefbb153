//! The one thread for log work that must not hold up a worker: the sync of every second, long
//! syncs, and making segments ahead.

use std::sync::Arc;
use std::thread::JoinHandle;

use quorlock_persistence::Preparer;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::node::alarm::Alarm;
use crate::node::commit::Failure;
use crate::node::log_duties::LogDuties;
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
    PrepareNow(Box<dyn FnOnce() + Send>),
    /// End.
    Stop,
}

/// What the log thread still has to do.
pub(crate) type Jobs = UnboundedReceiver<Job>;

/// The way to the log thread.
pub(crate) struct LogThread {
    jobs: UnboundedSender<Job>,
    duties: LogDuties,
}

impl LogThread {
    /// The handle and the thread's end of it.
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

    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(crate) fn spawn(
        shared: Arc<Shared>,
        jobs: Jobs,
        preparer: Preparer,
    ) -> std::io::Result<JoinHandle<()>> {
        // No I/O, only the timer of a sync: a job wakes the thread as a condition variable would.
        let runtime = Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new()
            .name("quorlock-log".to_owned())
            .spawn(move || runtime.block_on(Turn::new(shared, preparer).run(jobs)))
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
            self.send(Job::WriteAndSync);
        }
    }

    /// To be called after each write: asks for the sync of this second and for segments.
    pub(crate) fn after_write(&self, shared: &Shared) {
        let asks = self.duties.after_write(&shared.commit, shared.durability());
        if asks.prepares {
            self.send(Job::Prepare);
        }
        if shared.is_compaction_due() {
            // Without keys that expire, maintenance sleeps without a timer.
            shared.activity.notify_one();
        }
        if asks.syncs_soon {
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

    async fn run(mut self, mut jobs: Jobs) {
        let shared = Arc::clone(&self.shared);
        let _alarm = Alarm::new(&shared, THREAD);
        loop {
            let due_raw_ns = self.due_raw_ns;
            let is_due = async {
                match due_raw_ns {
                    Some(due_raw_ns) => shared.clock.pause_until(due_raw_ns).await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                biased;
                () = is_due => self.sync_of_this_second(),
                job = jobs.recv() => match job {
                    Some(Job::Stop) | None => return,
                    Some(job) => self.handle(job),
                },
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
                let written = self.begin_write_and_sync();
                written.and_then(|()| self.sync())
            }
            Job::SyncSoon => {
                self.due_raw_ns = Some(self.shared.clock.raw_ns().saturating_add(SYNC_EVERY_NS));
                Ok(())
            }
            Job::Prepare => self.prepare(),
            Job::PrepareNow(done) => {
                let outcome = self.prepare();
                done();
                outcome
            }
            Job::Stop => Ok(()),
        }
    }

    /// The first half of [`Job::WriteAndSync`]: all that is appended by now is written.
    pub(crate) fn begin_write_and_sync(&self) -> Result<(), Failure> {
        self.shared.log_thread.duties.begin_commit();
        self.shared.log_writer.write(&self.shared.core)
    }

    /// The sync that [`Job::SyncSoon`] asked for; the next write asks again.
    pub(crate) fn sync_of_this_second(&mut self) -> Result<(), Failure> {
        self.due_raw_ns = None;
        self.shared.log_thread.duties.begin_sync_of_second();
        self.sync()
    }

    fn sync(&self) -> Result<(), Failure> {
        // Before anybody is told that a job has ended: else they ask for the next one.
        let _alarm = Alarm::new(&self.shared, THREAD);
        match self.shared.log_writer.begin_sync()? {
            Some(ticket) => self.shared.log_writer.finish_sync(ticket),
            None => Ok(()),
        }
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        let _alarm = Alarm::new(&self.shared, THREAD);
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
        self.shared.log_thread.duties.note_prepared(has_space);
        Ok(())
    }
}

/// `appendfsync everysec`.
const SYNC_EVERY_NS: u64 = 1_000_000_000;

/// What the failure says where it panicked.
const THREAD: &str = "the log thread";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::sync::mpsc::channel;
    use std::time::Duration;

    use quorlock_engine::control::Record;
    use quorlock_persistence::MemoryDisk;

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::Config;
    use crate::node::for_tests;

    /// Appends a frame; returns its position.
    fn append(shared: &Shared) -> u64 {
        let mut core = shared.lock().unwrap();
        let now = core.time.node_now(&*shared.clock);
        core.append(now, &Record::Tick)
    }

    /// Planted: the wake-up before the sync. Who is woken then looks, finds nothing and asks again.
    #[test]
    fn who_asked_for_a_sync_is_told_when_it_has_ended() {
        let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
        let (shared, preparer, _jobs) =
            for_tests::started(Config::default(), Arc::new(disk), Arc::new(clock));
        let mut turn = Turn::new(Arc::clone(&shared), preparer);
        let position = append(&shared);
        let (told, hears) = channel();
        let seen = Arc::clone(&shared);
        let done = move || told.send(seen.commit.synced()).unwrap();
        shared.log_writer.write(&shared.core).unwrap();
        turn.handle(Job::SyncNow(Box::new(done))).unwrap();
        assert_eq!(hears.recv(), Ok(position));
    }

    #[test]
    fn the_sync_of_a_second_waits_for_the_nodes_clock() {
        let clock = Arc::new(SettableClock::new());
        let disk = Arc::new(MemoryDisk::new());
        let (shared, preparer, mut jobs) =
            for_tests::started(Config::default(), disk, clock.clone());
        while jobs.try_recv().is_ok() {}
        let runtime = Builder::new_current_thread().build().unwrap();
        let position = append(&shared);
        shared.log_writer.write(&shared.core).unwrap();
        shared.log_thread.send(Job::SyncSoon);
        let turn = Turn::new(Arc::clone(&shared), preparer);
        runtime.block_on(async {
            let run = turn.run(jobs);
            let test = async {
                tokio::task::yield_now().await;
                clock.advance(Duration::from_millis(999));
                tokio::task::yield_now().await;
                assert!(shared.commit.synced() < position);
                clock.advance(Duration::from_millis(1));
                while shared.commit.synced() < position {
                    tokio::task::yield_now().await;
                }
                shared.log_thread.send(Job::Stop);
            };
            tokio::join!(run, test);
        });
    }
}
