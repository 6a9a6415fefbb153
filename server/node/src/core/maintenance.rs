//! The node's life beside its clients, as a state machine: waiting out the restart delay, ticking
//! while keys with a TTL live, freeing what has expired, completing a change of the mode, compacting
//! the log, and the orderly stop.
//!
//! Each step looks at the engine once, under its lock, appends what has to be on record and returns
//! what has to be done about it. Its driver, the node's thread or a simulation, does that work
//! and comes back when the step said so. Nothing here blocks, writes, syncs or reads a clock.

use std::time::Duration;

use quorlock_engine::control::{ControlRecord, Pending, Start};
use quorlock_engine::{NodeTime, RawTime, incarnation};
use quorlock_persistence::Position;

use crate::clock::saturated_nanos;
use crate::core::compaction::{self, Compaction};
use crate::core::executor::{Executor, Phase, Unlogged};
use crate::core::rewrites::{LogSize, Rewrites};
use crate::core::settings::NodeSettings;
use crate::core::wait::to_engine;

/// Decides what the node does next beside its clients.
#[derive(Debug)]
pub struct Maintenance {
    start: Start,
    /// The delay that this incarnation waits out.
    pending: Option<Pending>,
    stage: Stage,
    ticks: Ticks,
    /// When what is due every second was last looked at.
    kept_up_raw: RawTime,
    /// So many steps more that free keys come one right after the other.
    steps_until_rest: u32,
    compaction: Option<RunningCheckpoint>,
    /// Bytes of one part of a checkpoint at most.
    part_bytes: usize,
}

/// How far the incarnation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits out the restart delay.
    Delay,
    /// SERVING is on its way to the disk.
    Serving(Unlogged),
    /// Serves.
    Served,
}

/// A checkpoint that is being written.
#[derive(Debug)]
struct RunningCheckpoint {
    compaction: Compaction,
    began_raw: RawTime,
    /// When the sync was asked for that the next step comes after.
    sync_asked_raw: Option<RawTime>,
}

/// What a step needs to see of the node, besides the engine.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Read behind the engine's lock.
    pub(crate) now: NodeTime,
    pub(crate) settings: &'a NodeSettings,
    pub(crate) rewrites: &'a Rewrites,
    pub(crate) log: LogSize,
    /// Position up to which the log is synced.
    pub(crate) synced: Position,
}

/// What one step asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// To be done before the next step. If it fails there is none.
    pub work: Work,
    /// Have a segment made ahead, or old ones removed, while the node goes on.
    pub(crate) prepares: bool,
    pub(crate) announcement: Option<MaintenanceNotice>,
    /// When the next step is due.
    pub wake: Wake,
}

/// Work on the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing is to be done.
    None,
    /// Write what was appended.
    Write,
    /// Write and sync what was appended.
    Commit,
    /// Write what was appended and have it synced, holding up no request meanwhile.
    Sync,
    /// Have the segment ahead made, or find that the disk has no room for it.
    MakeSegment,
}

/// When the next step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// After letting requests in.
    Soon,
    /// After letting in many: this long.
    After(Duration),
    /// At this reading of the raw clock, or earlier after a write that makes work; where `after_sync`
    /// is set, also after each sync.
    At {
        /// The reading.
        raw: RawTime,
        /// Whether each sync is a reason to look again.
        after_sync: bool,
    },
}

/// What people, and those who wait for the node, are told once the engine is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceNotice {
    /// The node serves since this moment. Keys that it has recovered and does not log cost a crash this
    /// many nanoseconds, and so many of them have no TTL.
    Serves { now: NodeTime, unlogged: Unlogged },
    /// The wall clock was set: it is so many microseconds off what TIME shows.
    WallClockSet { off_by_us: u64 },
    /// The log has no room for a checkpoint.
    NoRoomForCheckpoint,
}

impl Step {
    fn work(work: Work) -> Self {
        Self {
            work,
            prepares: false,
            announcement: None,
            wake: Wake::Soon,
        }
    }

    fn wait(wake: Wake) -> Self {
        Self {
            wake,
            ..Self::work(Work::None)
        }
    }
}

impl Maintenance {
    /// For an incarnation that begins with this record, and whose checkpoints have parts of so many
    /// bytes at most.
    pub(crate) fn new(start: Start, part_bytes: usize) -> Self {
        Self {
            start,
            pending: start.pending,
            stage: Stage::Delay,
            ticks: Ticks::default(),
            kept_up_raw: RawTime::ZERO,
            steps_until_rest: 0,
            compaction: None,
            part_bytes,
        }
    }

    /// Puts START on record, and SERVING with it where there is nothing to wait for: one sync for both.
    pub(crate) fn start(&mut self, executor: &mut Executor, now: NodeTime) -> Step {
        for record in incarnation::at_start(self.start) {
            executor.append(now, &record);
        }
        match self.pending {
            Some(_) => Step::work(Work::Commit),
            None => self.begin_serving(executor, now),
        }
    }

    /// Whether what [`Maintenance::start`] asked for is all that the node waits for.
    pub(crate) fn is_about_to_serve(&self) -> bool {
        matches!(self.stage, Stage::Serving(_))
    }

    /// The next step, now that the work of the last one is done.
    pub(crate) fn next(&mut self, executor: &mut Executor, view: View<'_>) -> Step {
        match self.stage {
            Stage::Delay => self.wait_out_delay(executor, view.now),
            Stage::Serving(unlogged) => self.serve(executor, view, unlogged),
            Stage::Served => self.live(executor, view),
        }
    }

    /// The orderly stop: no more grants, everything synced, SHUTDOWN last.
    pub(crate) fn stop(&mut self, executor: &mut Executor, now: NodeTime) -> Step {
        let waiting = match &executor.phase {
            Phase::Waiting(..) => self.pending,
            Phase::Serving | Phase::Stopped(_) => None,
        };
        let latest = executor.latest_unlogged();
        let shutdown = incarnation::at_stop(waiting, executor.mode.durability(), latest, now);
        executor.phase = Phase::Stopped("it is stopping");
        if let Some(record) = executor.time.wall_off_record() {
            executor.append(now, &record);
        }
        executor.append(now, &shutdown);
        Step::work(Work::Commit)
    }

    fn wait_out_delay(&mut self, executor: &mut Executor, now: NodeTime) -> Step {
        match executor.delay_left(now) {
            Some(Duration::ZERO) => self.begin_serving(executor, now),
            // In slices: node time is not the timer's time, which is steered.
            Some(left) => Step::wait(at(executor.time.raw, left.min(DELAY_SLICE))),
            None => Step::wait(at(executor.time.raw, IDLE_PAUSE)),
        }
    }

    /// Puts SERVING on record; once that is durable the node grants.
    fn begin_serving(&mut self, executor: &mut Executor, now: NodeTime) -> Step {
        self.stage = Stage::Serving(executor.append_serving(now));
        Step::work(Work::Commit)
    }

    fn serve(&mut self, executor: &mut Executor, view: View<'_>, unlogged: Unlogged) -> Step {
        let now = view.now;
        self.stage = Stage::Served;
        if matches!(executor.phase, Phase::Stopped(_)) {
            return Step::wait(at(executor.time.raw, IDLE_PAUSE));
        }
        executor.phase = Phase::Serving;
        if !executor.mode.is_logged() {
            // Drops the keys that an earlier run has logged.
            self.begin_compaction(view, executor.time.raw, u64::MAX);
        }
        Step {
            announcement: Some(MaintenanceNotice::Serves { now, unlogged }),
            ..Step::work(Work::None)
        }
    }

    fn live(&mut self, executor: &mut Executor, view: View<'_>) -> Step {
        executor.awake();
        let now = view.now;
        let raw = executor.time.raw;
        let is_due = raw.nanos_since(self.kept_up_raw) >= TICK_NS;
        if self.compaction.is_some() && !is_due {
            // Those who listen are told meanwhile what has expired.
            executor.reclaim(now, KEYS_PER_STEP);
            executor.hand_over_due(now);
            return self.compact(executor, view);
        }
        self.kept_up_raw = raw;
        let mut step = self.keep_up(executor, view, now);
        if self.compaction.is_none() {
            if view.is_compaction_due(raw) {
                self.begin_compaction(view, raw, u64::MAX);
            } else if executor.appender.is_full() && view.may_make_room(raw) {
                // It must not take more than it gives back.
                self.begin_compaction(view, raw, view.log.older_bytes);
            }
        }
        if self.compaction.is_some() {
            step.wake = Wake::Soon;
        } else if let Wake::At { raw: wakes_at, .. } = step.wake {
            // While nothing with a deadline lives, the next write of one wakes this, whenever that ends.
            let pause = Duration::from_nanos(wakes_at.nanos_since(raw));
            let has_deadlines = executor.engine.next_deadline().is_some();
            executor.sleep_until(match has_deadlines {
                true => now.saturating_add(pause),
                false => NodeTime::from_nanos(u64::MAX),
            });
        }
        step
    }

    /// Frees what has expired, completes a change of the mode, keeps time on record, asks for space.
    fn keep_up(&mut self, executor: &mut Executor, view: View<'_>, now: NodeTime) -> Step {
        let raw = executor.time.raw;
        let mut pause = reclaim(executor, now);
        if let Some(until_turn) = executor.hand_over_due(now) {
            pause = pause.min(until_turn);
        }
        let frees_more = pause.is_zero();
        let mut has_appended = false;
        let (mut wall_step_us, mut prepares) = (None, false);
        if executor.appender.is_full() {
            // The last bytes are for SHUTDOWN. A missing tick only gives time back.
            prepares = self.ticks.is_space_due(now);
            pause = pause.min(TICK);
        } else {
            has_appended |= complete_mode(executor, view.synced, now);
            has_appended |= self.ticks.keep(executor, now);
            if let Some(record) = executor.time.wall_off_record() {
                executor.append(now, &record);
                has_appended = true;
            }
            if executor.time.is_slewing() {
                pause = pause.min(TICK);
            }
            wall_step_us = executor.time.take_wall_step();
        }
        Step {
            work: if has_appended {
                Work::Write
            } else {
                Work::None
            },
            prepares,
            announcement: wall_step_us
                .map(|off_by_us| MaintenanceNotice::WallClockSet { off_by_us }),
            wake: if frees_more {
                self.rest()
            } else {
                Wake::At {
                    raw: after(raw, pause),
                    after_sync: executor.mode.is_incomplete(),
                }
            },
        }
    }

    /// After a step that has left something to free.
    fn rest(&mut self) -> Wake {
        self.steps_until_rest = self
            .steps_until_rest
            .checked_sub(1)
            .unwrap_or(STEPS_PER_REST - 1);
        match self.steps_until_rest {
            0 => Wake::After(REST),
            _ => Wake::Soon,
        }
    }

    fn begin_compaction(&mut self, view: View<'_>, now_raw: RawTime, bytes_max: u64) {
        view.rewrites.begin();
        self.compaction = Some(RunningCheckpoint {
            compaction: Compaction::new(self.part_bytes, bytes_max),
            began_raw: now_raw,
            sync_asked_raw: None,
        });
    }

    /// Whether the last step has made a part of a checkpoint, whose end is for
    /// [`NodeState::note_part`](crate::core::state::NodeState::note_part).
    pub fn has_made_part(&self) -> bool {
        matches!(&self.compaction, Some(running) if running.compaction.has_made_part())
    }

    /// The part of a checkpoint that the last step has made has held the engine until now.
    pub(crate) fn note_part(&mut self, now_raw: RawTime, rewrites: &Rewrites) {
        let Some(running) = &mut self.compaction else {
            return;
        };
        if let Some(began_raw) = running.compaction.take_part() {
            let took_ns = now_raw.nanos_since(began_raw);
            rewrites.note_part(running.compaction.pace(took_ns));
        }
    }

    /// One step of the checkpoint that is being written.
    fn compact(&mut self, executor: &mut Executor, view: View<'_>) -> Step {
        let Some(running) = &mut self.compaction else {
            return Step::wait(Wake::Soon);
        };
        let now_raw = executor.time.raw;
        if let Some(asked_raw) = running.sync_asked_raw.take() {
            // As long as it took, the disk belongs to requests.
            let took = now_raw.saturating_since(asked_raw);
            if !took.is_zero() {
                return Step::wait(Wake::After(took.min(REST_MAX)));
            }
        }
        let step = running
            .compaction
            .step(executor, view.now, &self.start, view.synced);
        let began_raw = running.began_raw;
        match step {
            compaction::Step::More => Step::work(Work::None),
            compaction::Step::LacksWrite => Step::work(Work::Write),
            compaction::Step::LacksSync => {
                running.sync_asked_raw = Some(now_raw);
                Step::work(Work::Sync)
            }
            compaction::Step::LacksSegment => Step::work(Work::MakeSegment),
            compaction::Step::Complete(bytes) => {
                self.compaction = None;
                view.rewrites
                    .complete(bytes, now_raw.nanos_since(began_raw));
                Step {
                    prepares: true,
                    ..Step::work(Work::None)
                }
            }
            compaction::Step::GivenUp { has_begun } => {
                self.compaction = None;
                view.rewrites.give_up(now_raw);
                Step {
                    announcement: has_begun.then_some(MaintenanceNotice::NoRoomForCheckpoint),
                    ..Step::work(Work::None)
                }
            }
        }
    }
}

impl View<'_> {
    fn is_compaction_due(&self, now_raw: RawTime) -> bool {
        self.rewrites.are_due(self.settings, self.log, now_raw)
    }

    fn may_make_room(&self, now_raw: RawTime) -> bool {
        self.rewrites
            .may_make_room(self.settings, self.log, now_raw)
    }
}

/// Frees expired keys, a bounded number at a time; returns for how long there is nothing to free, zero if there is more.
fn reclaim(executor: &mut Executor, now: NodeTime) -> Duration {
    if executor.reclaim(now, KEYS_PER_STEP) {
        return Duration::ZERO;
    }
    match executor.engine.next_deadline() {
        Some(deadline) => {
            let left_ns = deadline.as_nanos().saturating_sub(now.as_nanos());
            Duration::from_nanos(left_ns).clamp(RECLAIM_PAUSE, TICK)
        }
        None => IDLE_PAUSE,
    }
}

/// Puts on record that all a weaker mode has revealed is synced, once it is.
fn complete_mode(executor: &mut Executor, synced: Position, now: NodeTime) -> bool {
    if !executor.mode.is_incomplete() {
        return false;
    }
    let Some(mode) = executor.mode.complete(to_engine(synced)) else {
        return false;
    };
    executor.append(now, &ControlRecord::Mode(mode));
    true
}

/// Keeps node time on record while keys with a TTL live, and once more after the last has gone,
/// so that an idle hour is not given back to keys after a crash of the machine.
#[derive(Debug, Default)]
struct Ticks {
    had_deadlines: bool,
    /// How many keys had expired by then: one may come and go between two steps.
    expired: u64,
    last: NodeTime,
    space_asked: NodeTime,
}

impl Ticks {
    /// Puts one on record if it is due.
    fn keep(&mut self, executor: &mut Executor, now: NodeTime) -> bool {
        if !executor.mode.is_logged() {
            return false;
        }
        let has_deadlines = executor.engine.next_deadline().is_some();
        let expired = executor.engine.statistics().expired;
        let is_last = (self.had_deadlines || expired != self.expired) && !has_deadlines;
        let is_due = now.saturating_since(self.last) >= TICK;
        if !(has_deadlines && is_due || is_last) {
            return false;
        }
        (self.had_deadlines, self.expired) = (has_deadlines, expired);
        self.last = now;
        executor.append(now, &ControlRecord::Tick);
        true
    }

    /// On a full disk, tries once a second to make a segment: space may have been freed. Not more
    /// often, because a try writes zeros until the disk is full again.
    fn is_space_due(&mut self, now: NodeTime) -> bool {
        let is_due = now.saturating_since(self.space_asked) >= TICK;
        if is_due {
            self.space_asked = now;
        }
        is_due
    }
}

fn at(raw: RawTime, pause: Duration) -> Wake {
    Wake::At {
        raw: after(raw, pause),
        after_sync: false,
    }
}

fn after(raw: RawTime, pause: Duration) -> RawTime {
    raw.plus_nanos(saturated_nanos(pause))
}

const TICK: Duration = Duration::from_secs(1);
const TICK_NS: u64 = 1_000_000_000;

/// Expired keys freed per step: some tens of microseconds, for which a worker on the same core may have to wait.
const KEYS_PER_STEP: usize = 64;
const STEPS_PER_REST: u32 = 4;
const REST: Duration = Duration::from_micros(200);
/// A key may stay in memory this much longer than it lives.
const RECLAIM_PAUSE: Duration = Duration::from_millis(5);
const IDLE_PAUSE: Duration = Duration::from_secs(30);
/// Between two syncs of a checkpoint, however slow the disk is.
const REST_MAX: Duration = Duration::from_millis(50);
const DELAY_SLICE: Duration = Duration::from_millis(100);
