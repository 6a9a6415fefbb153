//! The one thread for log work that must not hold up a worker: the sync of every second, long
//! syncs, and making segments ahead.

use std::sync::Arc;
use std::thread::JoinHandle;

use quorlock_persistence::Preparer;
use tokio::runtime::Builder;

use crate::core::commit::Failure;
use crate::core::log_queue::{Job, Jobs};
use crate::core::state::NodeState;
use crate::runtime::alarm::Alarm;

/// Starts the thread.
///
/// # Errors
/// When the system has no thread to give.
pub(crate) fn spawn(
    node: Arc<NodeState>,
    jobs: Jobs,
    preparer: Preparer,
) -> std::io::Result<JoinHandle<()>> {
    // No I/O, only the timer of a sync: a job wakes the thread as a condition variable would.
    let runtime = Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new()
        .name("quorlock-log".to_owned())
        .spawn(move || runtime.block_on(LogWorker::new(node, preparer).run(jobs)))
}

/// Does the jobs; what it knows from one to the next.
pub(crate) struct LogWorker {
    node: Arc<NodeState>,
    preparer: Preparer,
    due_raw_ns: Option<u64>,
    /// Whether the last segment asked for could be made.
    has_space: bool,
}

impl LogWorker {
    pub(crate) fn new(node: Arc<NodeState>, preparer: Preparer) -> Self {
        Self {
            node,
            preparer,
            due_raw_ns: None,
            has_space: true,
        }
    }

    async fn run(mut self, mut jobs: Jobs) {
        let node = Arc::clone(&self.node);
        let _alarm = Alarm::new(&node, THREAD);
        loop {
            let due_raw_ns = self.due_raw_ns;
            let is_due = async {
                match due_raw_ns {
                    Some(due_raw_ns) => node.clock.pause_until(due_raw_ns).await,
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
                self.node.fail(&failure);
            }
        }
    }

    /// Does one job; [`Job::Stop`] is for the thread.
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
                self.due_raw_ns = Some(self.node.clock.raw_ns().saturating_add(SYNC_EVERY_NS));
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
        self.node.log_queue.duties.begin_commit();
        self.node.log_writer.write(&self.node.executor)
    }

    /// The sync that [`Job::SyncSoon`] asked for; the next write asks again.
    pub(crate) fn sync_of_this_second(&mut self) -> Result<(), Failure> {
        self.due_raw_ns = None;
        self.node.log_queue.duties.begin_sync_of_second();
        self.sync()
    }

    fn sync(&self) -> Result<(), Failure> {
        // Before anybody is told that a job has ended: else they ask for the next one.
        let _alarm = Alarm::new(&self.node, THREAD);
        match self.node.log_writer.begin_sync()? {
            Some(ticket) => self.node.log_writer.finish_sync(ticket),
            None => Ok(()),
        }
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        let _alarm = Alarm::new(&self.node, THREAD);
        let has_space = self
            .preparer
            .prepare()
            .map_err(|error| self.node.commit.fail(&error))?;
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
        self.node.log_queue.duties.note_prepared(has_space);
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
    use quorlock_persistence::{MemoryDisk, Position};

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::Config;
    use crate::node::for_tests;

    /// Appends a frame; returns its position.
    fn append(node: &NodeState) -> Position {
        let mut executor = node.lock().unwrap();
        let now = executor.time.node_now(&*node.clock);
        executor.append(now, &Record::Tick)
    }

    /// Planted: the wake-up before the sync. Who is woken then looks, finds nothing and asks again.
    #[test]
    fn who_asked_for_a_sync_is_told_when_it_has_ended() {
        let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
        let (node, preparer, _jobs) =
            for_tests::started(Config::default(), Arc::new(disk), Arc::new(clock));
        let mut worker = LogWorker::new(Arc::clone(&node), preparer);
        let position = append(&node);
        let (told, hears) = channel();
        let seen = Arc::clone(&node);
        let done = move || told.send(seen.commit.synced()).unwrap();
        node.log_writer.write(&node.executor).unwrap();
        worker.handle(Job::SyncNow(Box::new(done))).unwrap();
        assert_eq!(hears.recv(), Ok(position));
    }

    #[test]
    fn the_sync_of_a_second_waits_for_the_nodes_clock() {
        let clock = Arc::new(SettableClock::new());
        let disk = Arc::new(MemoryDisk::new());
        let (node, preparer, mut jobs) = for_tests::started(Config::default(), disk, clock.clone());
        while jobs.try_recv().is_ok() {}
        let runtime = Builder::new_current_thread().build().unwrap();
        let position = append(&node);
        node.log_writer.write(&node.executor).unwrap();
        node.log_queue.send(Job::SyncSoon);
        let worker = LogWorker::new(Arc::clone(&node), preparer);
        runtime.block_on(async {
            let run = worker.run(jobs);
            let test = async {
                tokio::task::yield_now().await;
                clock.advance(Duration::from_millis(999));
                tokio::task::yield_now().await;
                assert!(node.commit.synced() < position);
                clock.advance(Duration::from_millis(1));
                while node.commit.synced() < position {
                    tokio::task::yield_now().await;
                }
                node.log_queue.send(Job::Stop);
            };
            tokio::join!(run, test);
        });
    }
}
