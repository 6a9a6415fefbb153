//! What the log thread does, in two steps: what is ready begins ([`LogSchedule`] says what); it runs, and then its end is
//! reported to all that asked for it.
//!
//! The log thread takes both steps back to back. The simulation takes them apart, so that workers go on while a
//! sync is under way.
//!
//! Invariant: when somebody is told that a job has ended, what it has done is published, or the node has
//! failed. Who is told looks at once, and would ask again if it found nothing.

use std::sync::Arc;

use quorlock_persistence::Preparer;

use crate::core::commit::Failure;
use crate::core::log_queue::LogEvent;
use crate::core::log_schedule::{LogSchedule, LongSync, Ready};
use crate::core::log_writer::Syncing;
use crate::core::next_commit::Done;
use crate::core::state::NodeState;
use quorlock_engine::RawTime;

/// The work on one node's log.
pub struct LogWork {
    node: Arc<NodeState>,
    preparer: Preparer,
    schedule: LogSchedule,
    /// Whether the last segment asked for could be made.
    has_space: bool,
    /// Whether what it lacks is descriptors.
    lacks_files: bool,
}

/// A job that has begun, and who is told of its end. They are told as well where this is dropped.
#[must_use = "it has only begun"]
pub struct BegunJob {
    left: Result<Left, Failure>,
    /// How many replies wait for its sync.
    replies: usize,
    done: Vec<Done>,
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

impl BegunJob {
    fn new(left: Result<Left, Failure>) -> Self {
        Self {
            left,
            replies: 0,
            done: Vec::new(),
        }
    }

    /// Whether a sync is left to be run.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self.left, Ok(Left::Sync(_)))
    }
}

impl LogWork {
    /// The work on the log of this node; `preparer` makes its segments.
    pub fn new(node: Arc<NodeState>, preparer: Preparer) -> Self {
        Self {
            node,
            preparer,
            schedule: LogSchedule::default(),
            has_space: true,
            lacks_files: false,
        }
    }

    /// Takes an event.
    pub fn receive(&mut self, event: LogEvent) {
        self.schedule.receive(event);
    }

    /// What is to be done now, which the caller begins before it asks again.
    pub fn ready(&mut self, now_raw: RawTime) -> Ready {
        let mut requests = self.node.log_queue.next_commit.lock();
        self.schedule.ready(&mut requests, now_raw)
    }

    /// Begins what is ready. A failure shows when it is finished.
    pub fn begin(&self, ready: Ready, now_raw: RawTime) -> BegunJob {
        match ready {
            Ready::Commit => self.begin_commit(now_raw),
            Ready::SyncOfSecond => {
                // The next write asks for the next one.
                self.node.log_queue.duties.begin_sync_of_second();
                BegunJob::new(self.begin_sync())
            }
            Ready::Prepare(done) => BegunJob {
                done,
                ..BegunJob::new(Ok(Left::Prepare))
            },
            Ready::Wait(_) | Ready::Stop => BegunJob::new(Ok(Left::Nothing)),
        }
    }

    /// Runs what is left of a job, and tells whoever asked for it. It stays the caller's, so that after a panic the
    /// caller can let the node fail before they are told.
    ///
    /// # Errors
    /// When the log failed, now or before: then the node has failed.
    pub fn finish(&mut self, begun: &mut BegunJob) -> Result<(), Failure> {
        let left = std::mem::replace(&mut begun.left, Ok(Left::Nothing));
        let ran = left.and_then(|left| match left {
            Left::Sync(Some(syncing)) => self.sync(syncing, begun.replies),
            Left::Prepare => self.prepare(!begun.done.is_empty()),
            Left::Sync(None) | Left::Nothing => Ok(()),
        });
        if let Err(failure) = &ran {
            self.node.fail(failure);
        }
        for done in begun.done.drain(..) {
            done();
        }
        ran
    }

    fn begin_sync(&self) -> Result<Left, Failure> {
        self.node.log_writer.begin_sync().map(Left::Sync)
    }

    /// What was asked for is taken before it is written: who asks from here on may have appended since.
    fn begin_commit(&self, now_raw: RawTime) -> BegunJob {
        let requests = self.node.log_queue.next_commit.take();
        BegunJob {
            left: self.begin_write_and_sync(requests.replies > 0, now_raw),
            replies: requests.replies,
            done: requests.into_told().collect(),
        }
    }

    /// All that is appended by now is written.
    fn begin_write_and_sync(&self, is_waited_for: bool, now_raw: RawTime) -> Result<Left, Failure> {
        let (log_writer, executor) = (&self.node.log_writer, &self.node.executor);
        match is_waited_for {
            true => log_writer.write_for_commit(executor)?,
            false => log_writer.write(executor)?,
        }
        self.node.after_write(now_raw);
        self.begin_sync()
    }

    /// Runs a sync for so many replies. The next commit is put off for those whom a long one has answered.
    fn sync(&mut self, syncing: Syncing, replies: usize) -> Result<(), Failure> {
        let node = &self.node;
        let ended = node.log_writer.run_sync(syncing)?;
        // Who asks before the sync is published is not among those whom it answers.
        let next_commit = &node.log_queue.next_commit;
        let ahead = next_commit.begin_returns();
        let answered = replies.saturating_sub(next_commit.take_gone());
        node.log_writer.publish(ended)?;
        if answered > 0 && node.commit.takes_long() {
            let latest_raw = self.schedule.note_long_sync(LongSync {
                answered,
                ahead,
                ended_raw: node.commit.last_sync_raw(),
                sync_ns: node.commit.sync_ns(),
            });
            next_commit.note_lingering(latest_raw);
        }
        Ok(())
    }

    /// Where somebody waits for a segment, one is made, however little is logged.
    fn prepare(&mut self, is_awaited: bool) -> Result<(), Failure> {
        // Who writes while a segment is made asks for no other one, and may have begun to fill this one.
        while self.prepare_one(is_awaited)? && self.preparer.needs_preparing() {}
        Ok(())
    }

    /// Says whether there was room for it.
    fn prepare_one(&mut self, is_awaited: bool) -> Result<bool, Failure> {
        let prepared = match is_awaited {
            true => self.preparer.prepare(),
            false => self.preparer.keep_up(),
        };
        let has_space = prepared.map_err(|error| self.node.commit.fail(error))?;
        if let Some(failure) = self.preparer.take_direct_failure() {
            tracing::warn!(
                "{failure}: this segment of the log is written through the page cache, which costs time with \
                 appendfsync always. Check the disk"
            );
        }
        let lacked_files =
            std::mem::replace(&mut self.lacks_files, self.preparer.is_out_of_files());
        match (self.has_space, has_space) {
            (true, false) if self.lacks_files => tracing::warn!(
                "the process can open no further file (too many open files), so the log can make no further segment; the disk \
                 is not full. Once what is prepared is used up, writes are refused with -MISCONF, until files or connections \
                 are closed or the limit of open files is raised"
            ),
            (true, false) => tracing::warn!(
                "the disk is full: the log can make no further segment. Once what is prepared is \
                 used up, writes are refused with -MISCONF, until space is freed in the data \
                 directory"
            ),
            (false, true) if lacked_files => {
                tracing::warn!("the process can open files again: writes are accepted");
            }
            (false, true) => tracing::warn!("the disk has space again: writes are accepted"),
            _ => {}
        }
        self.has_space = has_space;
        self.node.log_queue.duties.note_prepared(has_space);
        Ok(has_space)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::sync::mpsc::{TryRecvError, channel};
    use std::time::Duration;

    use quorlock_engine::control::{ControlRecord, kind};
    use quorlock_persistence::{DiskFault, DiskOperation, FrameKind, MemoryDisk, Position};

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::Config;
    use crate::core::log_queue::LogEvents;
    use crate::core::next_commit::CommitRequest;
    use crate::start::for_tests;

    /// A node, its work on its log, and the position of a frame that is written and not synced. Syncs take 4 ms.
    fn written(disk: &MemoryDisk) -> (Arc<NodeState>, (LogWork, LogEvents), Position) {
        written_on(disk, Duration::from_millis(4))
    }

    /// What is ready by now.
    fn ready(work: &mut LogWork) -> Ready {
        let now_raw = work.node.clock.raw();
        work.ready(now_raw)
    }

    /// Begins it.
    fn begin(work: &mut LogWork) -> BegunJob {
        let now_raw = work.node.clock.raw();
        let ready = work.ready(now_raw);
        work.begin(ready, now_raw)
    }

    fn append(node: &NodeState) -> Position {
        let mut executor = node.lock().unwrap();
        let now = executor.time.read(&*node.clock).node;
        executor.append(now, &ControlRecord::Tick)
    }

    fn written_on(
        disk: &MemoryDisk,
        sync: Duration,
    ) -> (Arc<NodeState>, (LogWork, LogEvents), Position) {
        let clock = Arc::new(SettableClock::new());
        let slow = Arc::clone(&clock);
        disk.on_sync(Arc::new(move || slow.advance(sync)));
        let on_disk = Arc::new(disk.clone());
        let (node, preparer, events) = for_tests::started(Config::default(), on_disk, clock);
        let position = append(&node);
        node.log_writer.write(&node.executor).unwrap();
        let work = LogWork::new(Arc::clone(&node), preparer);
        (node, (work, events), position)
    }

    /// Planted: the wake-up before the sync. Who is woken then looks, finds nothing and asks again.
    #[test]
    fn who_asked_for_a_sync_is_told_when_it_has_ended() {
        let (node, (mut work, _events), position) = written(&MemoryDisk::new());
        let (told, hears) = channel();
        let seen = Arc::clone(&node);
        let done = move || told.send(seen.commit.synced()).unwrap();
        node.log_queue.commit(Box::new(done));
        let mut begun = begin(&mut work);
        assert!(hears.try_recv().is_err(), "it has only begun");
        work.finish(&mut begun).unwrap();
        assert_eq!(hears.recv(), Ok(position));
    }

    /// Planted: the failure noted after the wake-up.
    #[test]
    fn who_asked_for_a_sync_that_fails_is_told_when_the_node_has_failed() {
        let disk = MemoryDisk::new();
        let (node, (mut work, _events), _) = written(&disk);
        disk.plan_fault(&[DiskOperation::Sync], 0, DiskFault::Error(5));
        let (told, hears) = channel();
        let seen = Arc::clone(&node);
        let done = move || told.send(seen.signals.stop.is_set()).unwrap();
        node.log_queue.commit(Box::new(done));
        let mut begun = begin(&mut work);
        work.finish(&mut begun).unwrap_err();
        assert_eq!(hears.recv(), Ok(true));
    }

    #[test]
    fn who_asked_for_a_segment_is_told_when_it_is_made() {
        let (node, (mut work, _events), _) = written(&MemoryDisk::new());
        let has_spare = || node.lock().unwrap().appender.has_spare();
        assert!(!has_spare());
        // To remove what is needed no more takes no room.
        let mut begun = work.begin(Ready::Prepare(Vec::new()), RawTime::ZERO);
        work.finish(&mut begun).unwrap();
        assert!(!has_spare(), "nobody wants one");
        let (told, hears) = channel();
        let done = move || told.send(()).unwrap();
        let mut begun = work.begin(Ready::Prepare(vec![Box::new(done)]), RawTime::ZERO);
        assert_eq!(hears.try_recv(), Err(TryRecvError::Empty));
        work.finish(&mut begun).unwrap();
        assert_eq!(hears.try_recv(), Ok(()));
        assert!(has_spare());
    }

    /// Until the next write the segments that it had made obsolete counted as older ones: another one was begun for them.
    #[test]
    fn the_sync_of_a_checkpoints_end_makes_the_log_short() {
        let disk = MemoryDisk::new();
        drop(written(&disk));
        let (node, _, _) = written(&disk);
        let older_bytes = || node.commit.size().older_bytes;
        for kind in [FrameKind::checkpoint_begin, FrameKind::checkpoint_end] {
            let mut executor = node.lock().unwrap();
            executor.appender.append(kind(kind::CONTROL), 0, &[]);
        }
        node.log_writer.write(&node.executor).unwrap();
        assert!(older_bytes() > 0, "it is not synced");
        node.log_writer.write_and_sync(&node.executor).unwrap();
        assert_eq!(older_bytes(), 0);
    }

    /// WAITAOF and the parts of a checkpoint made the log thread do what workers could.
    #[test]
    fn a_direct_write_that_no_reply_waits_for_does_not_count_as_a_long_sync() {
        for (replies, counted_ns) in [(0, 0), (1, 4_000)] {
            let write = Duration::from_nanos(4_000);
            let (node, preparer, _events) = for_tests::with_slow_direct_writes(write);
            append(&node);
            ask(&node, replies);
            let mut work = LogWork::new(Arc::clone(&node), preparer);
            let mut begun = begin(&mut work);
            work.finish(&mut begun).unwrap();
            assert_eq!(node.commit.sync_ns(), counted_ns);
        }
    }

    #[test]
    fn a_short_sync_keeps_nobody_waiting_for_those_whom_it_has_answered() {
        let short = Duration::from_micros(500);
        let (node, (mut work, _events), _) = written_on(&MemoryDisk::new(), short);
        ask(&node, 4);
        let mut begun = begin(&mut work);
        assert!(begun.is_sync());
        work.finish(&mut begun).unwrap();
        assert!(!begun.is_sync());
        ask(&node, 1);
        assert!(matches!(ready(&mut work), Ready::Commit));
    }

    /// Asks for a commit for so many replies.
    fn ask(node: &NodeState, replies: usize) {
        let asked_raw = node.clock.raw();
        node.log_queue.ask_for_commit(CommitRequest {
            replies,
            asked_raw,
            ..CommitRequest::default()
        });
    }

    #[test]
    fn clients_that_have_gone_are_not_expected_back() {
        let (node, (mut work, _events), _) = written(&MemoryDisk::new());
        ask(&node, 4);
        let mut begun = begin(&mut work);
        (0..2).for_each(|_| node.log_queue.next_commit.note_gone());
        work.finish(&mut begun).unwrap();
        ask(&node, 1);
        assert!(
            matches!(ready(&mut work), Ready::Wait(Some(_))),
            "one of two is missing"
        );
        ask(&node, 1);
        assert!(matches!(ready(&mut work), Ready::Commit));
    }

    /// What was answered was counted by a worker that was told, and was nothing where its replies had left before.
    #[test]
    fn those_who_ask_again_before_their_worker_is_told_of_the_sync_are_back() {
        let (node, (mut work, _events), _) = written(&MemoryDisk::new());
        ask(&node, 3);
        let asks = Arc::clone(&node);
        node.log_queue.commit(Box::new(move || ask(&asks, 2)));
        let mut begun = begin(&mut work);
        work.finish(&mut begun).unwrap();
        let now_raw = node.clock.raw();
        let one_is_missing = now_raw.plus_nanos(1_000_000);
        let Ready::Wait(until_raw) = work.ready(now_raw) else {
            panic!("one is missing");
        };
        assert_eq!(until_raw, Some(one_is_missing));
        ask(&node, 1);
        assert!(matches!(ready(&mut work), Ready::Commit));
    }
}
