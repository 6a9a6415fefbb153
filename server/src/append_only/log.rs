//! The log of a node that was imported: what a start and a checkpoint of a node would have put on record.
//!
//! Invariant: a start finds that the directory of its last run was another one, as `quorlock node restored` has it: the
//! fingerprint on record is no directory's. So it waits for the longest of all `restart-delay-max`, from its own beginning
//! on, and takes no fences until it is told what others took.

use quorlock_engine::control::{Boot, Ceiling, Control, ControlRecord, Durability, Start, kind};
use quorlock_engine::{BootTime, Engine, NodeTime, RawTime, SnapshotCursor, incarnation};
use quorlock_node::core::compaction::PART_BYTES;
use quorlock_node::past::{NodeId, NodeIdentity};
use quorlock_node::start::StartError;
use quorlock_persistence::{FrameBatch, FrameKind, Log, LogIdentity, LogOptions, Recovery};

use super::target::Target;
use crate::clock::{Clock, saturated_nanos};
use crate::config::Config;
use crate::random;

/// Writes identity and log into the directory, the name by which a start finds the node last.
pub(super) fn write_log(
    target: Target,
    config: &Config,
    engine: &mut Engine,
    now: &ClockReadings,
) -> Result<NodeId, StartError> {
    let mut bytes = [0; 20];
    random::fill(&mut bytes).map_err(|_| StartError::Randomness)?;
    let identity = NodeIdentity::known(bytes, config);
    let target = target.take()?;
    let disk = target.disk();
    let options = LogOptions::default().on(disk.volume().unwrap_or(None));
    let recovery = Recovery::read(disk.clone(), &options).map_err(StartError::Log)?;
    let log_identity = LogIdentity {
        node_id: identity.id.bytes(),
        boot_id: now.boot.0,
        incarnation: INCARNATION,
    };
    let log = recovery.into_log(log_identity).map_err(StartError::Write)?;
    let mut frames = FrameAppender {
        log,
        time: now.node,
        batch: FrameBatch::default(),
    };
    write_frames(&mut frames, engine, &start(config, now))?;
    frames.log.writer.sync().map_err(StartError::Sync)?;
    drop(frames);
    target.complete(&identity)?;
    Ok(identity.id)
}

/// A start that served nothing, a checkpoint of all keys, and an orderly stop.
fn write_frames(
    frames: &mut FrameAppender,
    engine: &mut Engine,
    start: &Start,
) -> Result<(), StartError> {
    for record in incarnation::at_start(*start) {
        frames.record(FrameKind::new(record.kind()), &record)?;
    }
    let control = Control {
        start: *start,
        serving: false,
        weakest: start.durability,
        ttl_bound_ns: 0,
    };
    let opening = incarnation::at_checkpoint(control, NodeTime::ZERO, frames.time);
    frames.record(FrameKind::checkpoint_begin(kind::CONTROL), &opening.record)?;
    let mut part = Vec::new();
    let mut cursor = Some(SnapshotCursor::default());
    while let Some(from) = cursor {
        cursor = engine.snapshot(from, PART_BYTES, &mut part);
        if !part.is_empty() {
            frames.append(FrameKind::new(kind::SNAPSHOT), &part)?;
        }
    }
    frames.append(FrameKind::checkpoint_end(kind::END), &[])?;
    let stop = incarnation::at_stop(None, start.durability, None, frames.time);
    frames.record(FrameKind::new(stop.kind()), &stop)?;
    frames.write()
}

fn start(config: &Config, now: &ClockReadings) -> Start {
    Start {
        incarnation: INCARNATION,
        boot: now.boot,
        fingerprint: NO_DIRECTORY,
        durability: Durability::Always,
        base: now.node,
        raw: now.raw,
        wall_us: now.wall_us,
        boottime: now.boottime,
        pending: None,
        cap_ns: saturated_nanos(config.restart_delay_max),
        ceiling: Ceiling::NONE,
    }
}

/// The clocks at the moment at which the log begins.
pub(super) struct ClockReadings {
    /// Node time: the time since the epoch.
    pub(super) node: NodeTime,
    pub(super) raw: RawTime,
    pub(super) boottime: BootTime,
    pub(super) boot: Boot,
    pub(super) wall_us: u64,
}

impl ClockReadings {
    pub(super) fn of(clock: &dyn Clock) -> Self {
        // The wall clock first: what passes until the raw clock is read makes no key end too early.
        let wall_us = clock.wall_us();
        Self {
            node: NodeTime::from_nanos(wall_us.saturating_mul(1000)),
            raw: clock.raw(),
            boottime: clock.boottime(),
            boot: clock.boot(),
            wall_us,
        }
    }
}

/// Frames on their way into the log, all at one node time.
struct FrameAppender {
    log: Log,
    time: NodeTime,
    batch: FrameBatch,
}

impl FrameAppender {
    fn record(&mut self, kind: FrameKind, record: &ControlRecord) -> Result<(), StartError> {
        let mut payload = Vec::new();
        record.encode(&mut payload);
        self.append(kind, &payload)
    }

    fn append(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), StartError> {
        self.log
            .appender
            .append(kind, self.time.as_nanos(), payload);
        match self.log.appender.pending_bytes() < WRITE_BYTES {
            true => Ok(()),
            false => self.write(),
        }
    }

    fn write(&mut self) -> Result<(), StartError> {
        let mut batch = self.log.appender.take(std::mem::take(&mut self.batch));
        self.log
            .writer
            .write(&mut batch)
            .map_err(StartError::Write)?;
        self.batch = batch;
        Ok(())
    }
}

/// The run in which the other server made the keys.
const INCARNATION: u64 = 1;

/// A fingerprint that no directory has.
const NO_DIRECTORY: u64 = 0;

/// So much is written at once.
const WRITE_BYTES: usize = 1 << 20;
