//! One checkpoint, step by step: the engine's state goes out in parts between requests, as frames of the
//! stream; once its end is durable everything before its beginning is removed.
//!
//! Invariant: each step takes the engine's lock at most once and briefly; the caller decides what happens
//! between two steps. A crash between any two leaves a log that reads the same.

use std::sync::atomic::Ordering;

use quorlock_engine::SnapshotCursor;
use quorlock_engine::control::{Control, Durability, Record, kind};
use quorlock_persistence::Kind;

use crate::node::commit::Failure;
use crate::node::core::Phase;
use crate::node::log_thread::Job;
use crate::node::shared::Shared;

/// A checkpoint that is being written.
#[derive(Debug)]
pub(crate) struct Compaction {
    stage: Stage,
    /// Bytes of one part: bounds how long a step holds the engine's lock.
    part_bytes: usize,
    /// Bytes of the parts written so far.
    bytes: u64,
    part: Vec<u8>,
}

/// What the next step does.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Adds up what the checkpoint will take, where the disk is full: one that is given up half way has used
    /// up the room of the last grants and releases, once a second.
    Measure(SnapshotCursor, u64),
    Open,
    Write(SnapshotCursor),
    Close,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// The checkpoint is durable.
    Complete,
    /// The log has no room for it. What was written of it does no harm.
    GivenUp,
}

impl Compaction {
    pub(crate) fn new(part_bytes: usize) -> Self {
        Self {
            stage: Stage::Measure(SnapshotCursor::default(), 2 * part_bytes as u64),
            part_bytes,
            bytes: 0,
            part: Vec::new(),
        }
    }

    /// Does the next step.
    ///
    /// # Errors
    /// When the log failed.
    pub(crate) fn step(&mut self, shared: &Shared) -> Result<Step, Failure> {
        match self.stage {
            Stage::Measure(from, bytes) => self.measure(shared, from, bytes),
            Stage::Open => self.open(shared),
            Stage::Write(from) => self.write(shared, from),
            Stage::Close => self.close(shared),
        }
    }

    fn measure(
        &mut self,
        shared: &Shared,
        from: SnapshotCursor,
        bytes: u64,
    ) -> Result<Step, Failure> {
        let core = shared.lock()?;
        if shared.durability() == Durability::Volatile || !core.appender.is_full() {
            self.stage = Stage::Open;
            return Ok(Step::More);
        }
        let next = core.engine.snapshot(from, self.part_bytes, &mut self.part);
        let bytes = bytes.saturating_add(self.part.len() as u64 + FRAME_BYTES);
        if bytes > core.appender.room() {
            return Ok(Step::GivenUp);
        }
        self.stage = next.map_or(Stage::Open, |next| Stage::Measure(next, bytes));
        Ok(Step::More)
    }

    fn open(&mut self, shared: &Shared) -> Result<Step, Failure> {
        let is_logged = shared.durability() != Durability::Volatile;
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        let promise_ns = if is_logged {
            core.promise.sink().unwrap_or(core.promise.on_record_ns)
        } else {
            core.promise.on_record_ns
        };
        let control = Control {
            start: shared.start,
            serving: core.phase == Phase::Serving,
            weakest: shared.durability(),
            promise_ns,
        };
        let mut payload = Vec::new();
        Record::Control(control).encode(&mut payload);
        let opening = Kind::checkpoint_begin(kind::CONTROL);
        core.appender.append(opening, now.as_nanos(), &payload);
        // Without a log of keys, a checkpoint is what drops the keys logged by an earlier run.
        self.stage = match is_logged {
            true => Stage::Write(SnapshotCursor::default()),
            false => Stage::Close,
        };
        Ok(Step::More)
    }

    fn write(&mut self, shared: &Shared, from: SnapshotCursor) -> Result<Step, Failure> {
        {
            let mut core = shared.lock()?;
            let now = core.time.node_now(&*shared.clock);
            let next = core.engine.snapshot(from, self.part_bytes, &mut self.part);
            if core.appender.room() < (self.part.len() + self.part_bytes) as u64 {
                tracing::warn!("compaction was given up: the log has no room for it");
                return Ok(Step::GivenUp);
            }
            if !self.part.is_empty() {
                let kind = Kind::new(kind::SNAPSHOT);
                core.appender.append(kind, now.as_nanos(), &self.part);
                self.bytes = self.bytes.saturating_add(self.part.len() as u64);
            }
            self.stage = next.map_or(Stage::Close, Stage::Write);
        }
        shared.commit.write(&shared.core)?;
        shared.log_thread.after_write(shared);
        Ok(Step::More)
    }

    fn close(&mut self, shared: &Shared) -> Result<Step, Failure> {
        {
            let mut core = shared.lock()?;
            let now = core.time.node_now(&*shared.clock);
            let end = Kind::checkpoint_end(kind::END);
            core.appender.append(end, now.as_nanos(), &[]);
        }
        shared.commit.write_and_sync(&shared.core)?;
        shared.checkpoint_bytes.store(self.bytes, Ordering::Relaxed);
        shared.log_thread.send(Job::Prepare);
        Ok(Step::Complete)
    }
}

/// Bytes of one part in a node that runs.
pub(crate) const PART_BYTES: usize = 64 * 1024;

/// More than a frame adds to its payload.
const FRAME_BYTES: u64 = 128;
