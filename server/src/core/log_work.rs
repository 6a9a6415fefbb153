//! What the log thread does, in two steps: a job begins; it runs, and then whoever asked for it is told.
//!
//! The log thread takes both steps back to back. The simulation takes them apart, so that workers go on while a
//! sync is under way.
//!
//! Invariant: when somebody is told that a job has ended, what it has done is published, or the node has
//! failed. Who is told looks at once, and would ask again if it found nothing.

use std::sync::Arc;

use quorlock_persistence::Preparer;

use crate::core::commit::Failure;
use crate::core::log_queue::{Done, Job};
use crate::core::log_writer::Syncing;
use crate::core::state::NodeState;

/// The jobs of one node's log; what is known from one to the next.
pub(crate) struct LogWork {
    node: Arc<NodeState>,
    preparer: Preparer,
    sync_due_raw_ns: Option<u64>,
    /// Whether the last segment asked for could be made.
    has_space: bool,
}

/// A job that has begun, and who is told of its end. They are told as well where this is dropped.
#[must_use = "it has only begun"]
pub(crate) struct BegunJob {
    left: Result<Left, Failure>,
    done: Option<Done>,
}

/// What is left to be run.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and a sync costs no allocation"
)]
enum Left {
    Nothing,
    /// Without anything where all that is written is synced.
    Sync(Option<Syncing>),
    Prepare,
}

#[cfg(feature = "simulation")]
impl BegunJob {
    /// Whether a sync is left to be run.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self.left, Ok(Left::Sync(_)))
    }
}

impl LogWork {
    pub(crate) fn new(node: Arc<NodeState>, preparer: Preparer) -> Self {
        Self {
            node,
            preparer,
            sync_due_raw_ns: None,
            has_space: true,
        }
    }

    /// Raw-clock reading at which the sync of this second is to begin, if one was asked for.
    pub(crate) fn sync_due_raw_ns(&self) -> Option<u64> {
        self.sync_due_raw_ns
    }

    /// Begins a job. A failure shows when it is finished.
    pub(crate) fn begin(&mut self, job: Job) -> BegunJob {
        let (left, done) = match job {
            Job::CommitNow(done) => (self.begin_commit(), Some(done)),
            Job::Commit => (self.begin_commit(), None),
            Job::SyncSoon => {
                let now_raw_ns = self.node.clock.raw_ns();
                self.sync_due_raw_ns = Some(now_raw_ns.saturating_add(SYNC_EVERY_NS));
                (Ok(Left::Nothing), None)
            }
            Job::Prepare => (Ok(Left::Prepare), None),
            Job::PrepareNow(done) => (Ok(Left::Prepare), Some(done)),
            // For those who take jobs.
            Job::Stop => (Ok(Left::Nothing), None),
        };
        BegunJob { left, done }
    }

    /// Begins the sync that [`Job::SyncSoon`] asked for; the next write asks again.
    pub(crate) fn begin_sync_of_second(&mut self) -> BegunJob {
        self.sync_due_raw_ns = None;
        self.node.log_queue.duties.begin_sync_of_second();
        BegunJob {
            left: self.begin_sync(),
            done: None,
        }
    }

    /// Runs what is left of a job, and tells whoever asked for it. It stays the caller's, so that after a panic the
    /// caller can let the node fail before they are told.
    ///
    /// # Errors
    /// When the log failed, now or before: then the node has failed.
    pub(crate) fn finish(&mut self, begun: &mut BegunJob) -> Result<(), Failure> {
        let left = std::mem::replace(&mut begun.left, Ok(Left::Nothing));
        let ran = left.and_then(|left| match left {
            Left::Sync(Some(syncing)) => self.node.log_writer.finish_sync(syncing),
            Left::Prepare => self.prepare(),
            Left::Sync(None) | Left::Nothing => Ok(()),
        });
        if let Err(failure) = &ran {
            self.node.fail(failure);
        }
        if let Some(done) = begun.done.take() {
            done();
        }
        ran
    }

    fn begin_sync(&self) -> Result<Left, Failure> {
        self.node.log_writer.begin_sync().map(Left::Sync)
    }

    /// All that is appended by now is written.
    fn begin_commit(&self) -> Result<Left, Failure> {
        self.node.log_queue.duties.begin_commit();
        self.node.log_writer.write(&self.node.executor)?;
        self.node.after_write();
        self.begin_sync()
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        // Who writes while a segment is made asks for no other one, and may have begun to fill this one.
        while self.prepare_one()? && self.preparer.needs_preparing() {}
        Ok(())
    }

    /// Says whether there was room for it.
    fn prepare_one(&mut self) -> Result<bool, Failure> {
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
        Ok(has_space)
    }
}

/// `appendfsync everysec`.
const SYNC_EVERY_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::sync::mpsc::channel;

    use quorlock_engine::control::Record;
    use quorlock_persistence::{Fault, MemoryDisk, Operation, Position};

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::Config;
    use crate::node::for_tests;

    /// A node's work on its log, and the position of a frame that is written and not synced.
    fn written(disk: &MemoryDisk) -> (Arc<NodeState>, LogWork, Position) {
        let (disk, clock) = (Arc::new(disk.clone()), Arc::new(SettableClock::new()));
        let (node, preparer, _jobs) = for_tests::started(Config::default(), disk, clock);
        let position = {
            let mut executor = node.lock().unwrap();
            let now = executor.time.node_now(&*node.clock);
            executor.append(now, &Record::Tick)
        };
        node.log_writer.write(&node.executor).unwrap();
        (Arc::clone(&node), LogWork::new(node, preparer), position)
    }

    /// Planted: the wake-up before the sync. Who is woken then looks, finds nothing and asks again.
    #[test]
    fn who_asked_for_a_sync_is_told_when_it_has_ended() {
        let (node, mut work, position) = written(&MemoryDisk::new());
        let (told, hears) = channel();
        let seen = Arc::clone(&node);
        let done = move || told.send(seen.commit.synced()).unwrap();
        let mut begun = work.begin(Job::CommitNow(Box::new(done)));
        assert!(hears.try_recv().is_err(), "it has only begun");
        work.finish(&mut begun).unwrap();
        assert_eq!(hears.recv(), Ok(position));
    }

    /// Planted: the failure noted after the wake-up.
    #[test]
    fn who_asked_for_a_sync_that_fails_is_told_when_the_node_has_failed() {
        let disk = MemoryDisk::new();
        let (node, mut work, _) = written(&disk);
        disk.plan_fault(&[Operation::Sync], 0, Fault::Error(5));
        let (told, hears) = channel();
        let seen = Arc::clone(&node);
        let done = move || told.send(*seen.signals.stop.borrow()).unwrap();
        let mut begun = work.begin(Job::CommitNow(Box::new(done)));
        work.finish(&mut begun).unwrap_err();
        assert_eq!(hears.recv(), Ok(true));
    }
}
