//! One checkpoint, step by step: the engine's state goes out in parts between requests, as frames of the
//! stream; once its end is durable everything before its beginning is removed.
//!
//! Invariant: each step looks at the engine once and briefly; the caller decides what happens between two
//! steps. A crash between any two leaves a log that reads the same.
//!
//! It must not hold up a request, so a part is bounded in bytes and entries, and shrinks when it took long;
//! no step writes, syncs or has a segment made, but asks its caller for it; and the disk is not left with
//! much to sync at a time, since the next request's sync would have to wait for that. A string is never
//! split: the longest one bounds what a part can take.

use quorlock_engine::control::{Start, kind};
use quorlock_engine::{NodeTime, RawTime, SnapshotCursor, incarnation};
use quorlock_persistence::{FrameKind, Position};

use crate::core::executor::room::{CHECKPOINT_BYTES, KEPT_BACK_BYTES};
use crate::core::executor::{Executor, Phase};

/// A checkpoint that is being written.
#[derive(Debug)]
pub(crate) struct Compaction {
    stage: Stage,
    /// Bytes of one part: bounds how long a step holds the engine's lock.
    part_bytes: usize,
    part_bytes_max: usize,
    /// On a full disk a longer one is not begun.
    bytes_max: u64,
    /// Bytes of the parts written so far.
    bytes: u64,
    /// Those of them that no sync was asked for yet.
    unsynced: usize,
    part: Vec<u8>,
    /// When the lock was taken under which the last step has made a part.
    part_began_raw: Option<RawTime>,
    /// The longest time that a part held the engine, in nanoseconds.
    longest_part_ns: u64,
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
    /// Waits until the end, at this position, is synced.
    Settle(Position),
}

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next one.
    More,
    /// The next one, once what was appended is written.
    LacksWrite,
    /// The next one, once what was appended is synced.
    LacksSync,
    /// The next one, once the segment ahead is made, or is known not to fit the disk.
    LacksSegment,
    /// The checkpoint is durable; its parts hold so many bytes.
    Complete(u64),
    /// The log has no room for it. What was appended of it, if anything, does no harm.
    GivenUp {
        /// Whether a part of it is in the log.
        has_begun: bool,
    },
}

impl Compaction {
    /// On a full disk one of more than `bytes_max` is not begun.
    pub(crate) fn new(part_bytes: usize, bytes_max: u64) -> Self {
        Self {
            bytes_max,
            stage: Stage::Measure(SnapshotCursor::default(), 0),
            part_bytes,
            part_bytes_max: part_bytes,
            bytes: 0,
            unsynced: 0,
            part: Vec::new(),
            part_began_raw: None,
            longest_part_ns: 0,
        }
    }

    /// Whether the last step has made a part whose length is not noted.
    pub(crate) fn has_made_part(&self) -> bool {
        self.part_began_raw.is_some()
    }

    /// Since when the last step has held the engine, if it has made a part; the answer is given once. How long that was,
    /// to the end of the lock, is for [`Compaction::pace`].
    pub(crate) fn take_part(&mut self) -> Option<RawTime> {
        self.part_began_raw.take()
    }

    /// Does the next step; `start` is how the incarnation began, and the log is synced up to `synced`.
    pub(crate) fn step(
        &mut self,
        executor: &mut Executor,
        now: NodeTime,
        start: &Start,
        synced: Position,
    ) -> Step {
        match self.stage {
            Stage::Measure(from, bytes) => self.measure(executor, from, bytes),
            Stage::Open => self.open(executor, now, start),
            Stage::Write(from) => self.write(executor, now, from),
            Stage::Close => self.close(executor, now),
            Stage::Settle(end) if synced < end => Step::LacksSync,
            Stage::Settle(_) => Step::Complete(self.bytes),
        }
    }

    fn measure(&mut self, executor: &mut Executor, from: SnapshotCursor, bytes: u64) -> Step {
        if !executor.mode.is_logged() || !executor.appender.is_full() {
            self.stage = Stage::Open;
            return Step::More;
        }
        let next = executor
            .engine
            .snapshot(from, self.part_bytes, &mut self.part);
        let bytes = bytes.saturating_add(self.part.len() as u64 + FRAME_BYTES);
        // Requests go on while it is written. What is kept for checkpoints they leave alone; of more than that
        // they may take up two parts.
        let beside = match bytes.saturating_add(ENDS_BYTES) > CHECKPOINT_BYTES {
            true => 2 * self.part_bytes_max as u64,
            false => 0,
        };
        let needed = bytes.saturating_add(beside).saturating_add(ENDS_BYTES);
        if bytes > self.bytes_max || needed > executor.appender.room() {
            return Step::GivenUp { has_begun: false };
        }
        self.stage = next.map_or(Stage::Open, |next| Stage::Measure(next, bytes));
        Step::More
    }

    /// The opening frame says everything that earlier control records say.
    fn open(&mut self, executor: &mut Executor, now: NodeTime, start: &Start) -> Step {
        if executor.appender.room() < ENDS_BYTES {
            // What is left is for the records of an orderly stop.
            return if executor.appender.is_full() {
                Step::GivenUp { has_begun: false }
            } else {
                Step::LacksSegment
            };
        }
        let is_logged = executor.mode.is_logged();
        let ttl_bound_ns = if is_logged {
            executor
                .ttl_bound
                .lower()
                .unwrap_or(executor.ttl_bound.on_record_ns)
        } else {
            executor.ttl_bound.on_record_ns
        };
        let is_serving = executor.phase == Phase::Serving;
        let start = executor.time.with_wall_now(*start);
        let start = Start {
            ceiling: executor.engine.ceiling(),
            ..start
        };
        let control = executor.mode.control(&start, is_serving, ttl_bound_ns);
        let opening = incarnation::at_checkpoint(control, executor.owed_until, now);
        let mut payload = Vec::new();
        opening.record.encode(&mut payload);
        let begin = FrameKind::checkpoint_begin(kind::CONTROL);
        executor.appender.append(begin, now.as_nanos(), &payload);
        if let Some(owed) = opening.owed {
            executor.append(now, &owed);
        }
        // Without a log of keys, a checkpoint is what drops the keys logged by an earlier run.
        self.stage = match is_logged {
            true => Stage::Write(SnapshotCursor::default()),
            false => Stage::Close,
        };
        Step::More
    }

    fn write(&mut self, executor: &mut Executor, now: NodeTime, from: SnapshotCursor) -> Step {
        let is_last_of_segment =
            executor.appender.room() < 2 * self.part_bytes_max as u64 + KEPT_BACK_BYTES;
        if executor.is_segment_late() && is_last_of_segment {
            // A write into a log without one has it made under the writer's lock, and every
            // reply waits. What is left of the active segment is for requests.
            return Step::LacksSegment;
        }
        let next = executor
            .engine
            .snapshot(from, self.part_bytes, &mut self.part);
        let behind = match next {
            Some(_) => self.part_bytes as u64,
            None => ENDS_BYTES / 2,
        };
        if executor.appender.room() < self.part.len() as u64 + behind {
            return Step::GivenUp { has_begun: true };
        }
        if !self.part.is_empty() {
            let kind = FrameKind::new(kind::SNAPSHOT);
            executor.appender.append(kind, now.as_nanos(), &self.part);
            self.bytes = self.bytes.saturating_add(self.part.len() as u64);
        }
        self.stage = next.map_or(Stage::Close, Stage::Write);
        self.part_began_raw = Some(executor.time.raw);
        self.unsynced += self.part.len();
        if self.unsynced < SYNC_BYTES {
            return Step::LacksWrite;
        }
        self.unsynced = 0;
        Step::LacksSync
    }

    /// Makes the next part smaller or larger by how long this one held the engine's lock, in nanoseconds; returns the
    /// longest time of any so far.
    pub(crate) fn pace(&mut self, took_ns: u64) -> u64 {
        self.longest_part_ns = self.longest_part_ns.max(took_ns);
        if took_ns > PART_NS {
            let least = PART_BYTES_MIN.min(self.part_bytes_max);
            self.part_bytes = (self.part_bytes / 2).max(least);
        } else if took_ns < PART_NS / 4 {
            self.part_bytes = (self.part_bytes * 2).min(self.part_bytes_max);
        }
        self.longest_part_ns
    }

    fn close(&mut self, executor: &mut Executor, now: NodeTime) -> Step {
        if executor.appender.is_full() && executor.appender.room() < FRAME_BYTES {
            // Requests have taken it; what is left is for the records of an orderly stop.
            return Step::GivenUp { has_begun: true };
        }
        let end = FrameKind::checkpoint_end(kind::END);
        let position = executor.appender.append(end, now.as_nanos(), &[]);
        self.stage = Stage::Settle(position);
        Step::LacksSync
    }
}

/// Bytes of one part in a node that runs.
pub const PART_BYTES: usize = 64 * 1024;
/// Bytes of one part at least, however long it takes.
const PART_BYTES_MIN: usize = 4 * 1024;

/// A part holds the engine's lock for about this long, in nanoseconds, if no string is huge.
const PART_NS: u64 = 200_000;

/// Parts are synced after so many bytes, so that no request's sync has much more to do.
const SYNC_BYTES: usize = 256 << 10;

/// More than a frame adds to its payload.
const FRAME_BYTES: u64 = 128;

/// More than the frames that open and complete a checkpoint take together.
const ENDS_BYTES: u64 = 1024;
