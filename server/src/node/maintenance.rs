//! The node's life beside its clients: waiting out the restart delay, ticking while keys with a
//! TTL live, reclaiming what has expired, compacting the log, and the orderly stop.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::control::{Control, Durability, Pending, Record, kind};
use quorlock_engine::restart::Stop;
use quorlock_engine::{NodeTime, SnapshotCursor};
use quorlock_persistence::Kind;

use crate::node::commit::Failure;
use crate::node::core::Phase;
use crate::node::log_thread::Job;
use crate::node::shared::Shared;

/// Runs until the node is asked to stop.
pub(crate) async fn run(shared: &Shared) -> Result<(), Failure> {
    let mut stop = shared.signals.stop.subscribe();
    tokio::select! {
        biased;
        _ = stop.wait_for(|is_asked| *is_asked) => Ok(()),
        outcome = live(shared) => outcome,
    }
}

async fn live(shared: &Shared) -> Result<(), Failure> {
    wait_out_delay(shared).await?;
    if shared.durability() == Durability::Volatile {
        compact(shared).await?;
    }
    let mut ticks = Ticks {
        had_deadlines: false,
        last: NodeTime::from_nanos(0),
        space_asked: NodeTime::from_nanos(0),
    };
    loop {
        let next = shared.reclaim()?;
        ticks.turn(shared)?;
        ticks.ask_for_space(shared)?;
        if shared.needs_compaction() {
            compact(shared).await?;
        }
        match next {
            Some(pause) => tokio::time::sleep(pause).await,
            None => {
                // Nothing with a deadline lives: a write rings, until then there is no timer.
                let _ = tokio::time::timeout(IDLE_PAUSE, shared.activity.notified()).await;
            }
        }
    }
}

/// Waits until the restart delay is over, then puts SERVING on record and serves.
async fn wait_out_delay(shared: &Shared) -> Result<(), Failure> {
    loop {
        let left_ns = {
            let mut core = shared.lock()?;
            let now = core.time.node_now(&*shared.clock);
            match &core.phase {
                Phase::Waiting(until, _) => until.as_nanos().saturating_sub(now.as_nanos()),
                Phase::Serving | Phase::Stopped(_) => return Ok(()),
            }
        };
        if left_ns == 0 {
            break;
        }
        // In slices: node time is not the timer's time, and tests move it.
        tokio::time::sleep(Duration::from_nanos(left_ns).min(DELAY_SLICE)).await;
    }
    begin_serving(shared)
}

/// Puts SERVING on record; once that is durable the node grants.
pub(crate) fn begin_serving(shared: &Shared) -> Result<(), Failure> {
    {
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        core.append(now, &Record::Serving);
    }
    shared.commit.write_and_sync(&shared.core)?;
    let mut core = shared.lock()?;
    if !matches!(core.phase, Phase::Stopped(_)) {
        core.phase = Phase::Serving;
    }
    drop(core);
    shared.signals.serving.send_replace(true);
    shared.log_thread.after_write(shared);
    Ok(())
}

impl Shared {
    /// Whether enough was written since the last checkpoint for a new one to pay.
    pub(crate) fn needs_compaction(&self) -> bool {
        let base = self.checkpoint_bytes.load(Ordering::Relaxed);
        let kept = COMPACT_BYTES_MIN.max(base.saturating_mul(3));
        // Every start adds a segment, so many starts make a long log of few frames.
        self.commit.bytes_since_checkpoint() >= kept
            || self.commit.total_bytes() >= kept.saturating_add(SEGMENTS_BYTES)
    }

    /// Frees expired keys, a bounded number at a time; returns when to come again.
    fn reclaim(&self) -> Result<Option<Duration>, Failure> {
        let mut core = self.lock()?;
        let now = core.time.node_now(&*self.clock);
        let reclaimed = core.engine.reclaim(now, KEYS_PER_TURN);
        if reclaimed.more {
            return Ok(Some(BUSY_PAUSE));
        }
        let pause = core.engine.next_deadline().map(|deadline| {
            let left = Duration::from_nanos(deadline.as_nanos().saturating_sub(now.as_nanos()));
            left.clamp(RECLAIM_PAUSE, TICK)
        });
        if pause.is_none() {
            core.wish_for_activity();
        }
        Ok(pause)
    }
}

/// Keeps node time on record while keys with a TTL live, and once more after the last has gone,
/// so that an idle hour is not given back to keys after a crash of the machine.
struct Ticks {
    had_deadlines: bool,
    last: NodeTime,
    space_asked: NodeTime,
}

impl Ticks {
    /// On a full disk, tries once a second to make a segment: space may have been freed. Not more
    /// often, because a try writes zeros until the disk is full again.
    fn ask_for_space(&mut self, shared: &Shared) -> Result<(), Failure> {
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        let is_due = now.as_nanos().saturating_sub(self.space_asked.as_nanos()) >= TICK_NS;
        if core.appender.is_full() && is_due {
            self.space_asked = now;
            shared.log_thread.send(Job::Prepare);
        }
        Ok(())
    }

    fn turn(&mut self, shared: &Shared) -> Result<(), Failure> {
        if shared.durability() == Durability::Volatile {
            return Ok(());
        }
        {
            let mut core = shared.lock()?;
            let now = core.time.node_now(&*shared.clock);
            let has_deadlines = core.engine.next_deadline().is_some();
            let is_due = now.as_nanos().saturating_sub(self.last.as_nanos()) >= TICK_NS;
            let is_last = self.had_deadlines && !has_deadlines;
            // A full disk keeps its last bytes for SHUTDOWN; a missing tick only gives time back.
            if !(has_deadlines && is_due || is_last) || core.appender.is_full() {
                return Ok(());
            }
            self.had_deadlines = has_deadlines;
            self.last = now;
            core.append(now, &Record::Tick);
        }
        shared.commit.write(&shared.core)?;
        shared.log_thread.after_write(shared);
        Ok(())
    }
}

/// Writes the engine's state into the stream, part by part between requests; once its end is
/// durable everything before its beginning is removed.
pub(crate) async fn compact(shared: &Shared) -> Result<(), Failure> {
    if shared.durability() != Durability::Volatile && !fits(shared).await? {
        return Ok(());
    }
    {
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        let promise_ns = if shared.durability() == Durability::Volatile {
            core.promise.on_record_ns
        } else {
            core.promise.sink().unwrap_or(core.promise.on_record_ns)
        };
        let control = Control {
            start: shared.start,
            serving: core.phase == Phase::Serving,
            weakest: shared.durability(),
            promise_ns,
        };
        let mut payload = Vec::new();
        Record::Control(control).encode(&mut payload);
        core.appender.append(
            Kind::checkpoint_begin(kind::CONTROL),
            now.as_nanos(),
            &payload,
        );
    }
    let mut bytes = 0_u64;
    // Without a log of keys, a checkpoint is what drops the keys logged by an earlier run.
    let is_logged = shared.durability() != Durability::Volatile;
    let mut cursor = is_logged.then(SnapshotCursor::default);
    let mut part = Vec::new();
    while let Some(from) = cursor {
        {
            let mut core = shared.lock()?;
            let now = core.time.node_now(&*shared.clock);
            cursor = core.engine.snapshot(from, PART_BYTES, &mut part);
            if core.appender.room() < (part.len() + PART_BYTES) as u64 {
                tracing::warn!("compaction was given up: the log has no room for it");
                return Ok(());
            }
            if !part.is_empty() {
                core.appender
                    .append(Kind::new(kind::SNAPSHOT), now.as_nanos(), &part);
                bytes = bytes.saturating_add(part.len() as u64);
            }
        }
        shared.commit.write(&shared.core)?;
        shared.log_thread.after_write(shared);
        tokio::task::yield_now().await;
    }
    {
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        core.appender
            .append(Kind::checkpoint_end(kind::END), now.as_nanos(), &[]);
    }
    shared.commit.write_and_sync(&shared.core)?;
    shared.checkpoint_bytes.store(bytes, Ordering::Relaxed);
    shared.log_thread.send(Job::Prepare);
    Ok(())
}

/// Whether a checkpoint fits what the log has left, where the disk is full: one that is given up
/// half way has used up the room of the last grants and releases, once a second.
async fn fits(shared: &Shared) -> Result<bool, Failure> {
    let mut bytes = 2 * PART_BYTES as u64;
    let mut part = Vec::new();
    let mut cursor = Some(SnapshotCursor::default());
    while let Some(from) = cursor {
        {
            let core = shared.lock()?;
            if !core.appender.is_full() {
                return Ok(true);
            }
            part.clear();
            cursor = core.engine.snapshot(from, PART_BYTES, &mut part);
            bytes = bytes.saturating_add(part.len() as u64 + FRAME_BYTES);
            if bytes > core.appender.room() {
                return Ok(false);
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(true)
}

/// The orderly stop: no more grants, everything synced, SHUTDOWN last.
pub(crate) fn shut_down(shared: &Shared) -> Result<(), Failure> {
    {
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        let owed = match &core.phase {
            // A clean stop inside the delay does not end it.
            Phase::Waiting(..) => shared.verdict.delay,
            _ if shared.durability() == Durability::Volatile => core
                .engine
                .longest_deadline()
                .filter(|deadline| *deadline > now)
                .map(|until| Pending {
                    until,
                    length_ns: until.as_nanos() - now.as_nanos(),
                    cause: Stop::Clean,
                }),
            _ => None,
        };
        core.phase = Phase::Stopped("it is stopping");
        core.append(now, &Record::Shutdown(owed));
    }
    shared.commit.write_and_sync(&shared.core)
}

const TICK: Duration = Duration::from_secs(1);
const TICK_NS: u64 = 1_000_000_000;

/// Expired keys freed per turn of the maintenance task: a few tens of microseconds.
const KEYS_PER_TURN: usize = 256;
const BUSY_PAUSE: Duration = Duration::from_micros(200);
/// A key may stay in memory this much longer than it lives.
const RECLAIM_PAUSE: Duration = Duration::from_millis(5);
const IDLE_PAUSE: Duration = Duration::from_secs(30);
const DELAY_SLICE: Duration = Duration::from_millis(20);

/// Below this much log since the last checkpoint, compaction is not worth its writes.
const COMPACT_BYTES_MIN: u64 = 32 * 1024 * 1024;
/// More than a frame adds to its payload.
const FRAME_BYTES: u64 = 128;
/// What the segments of a log may hold beside its frames: the active one, the one ahead, and one
/// that is not removed yet.
const SEGMENTS_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of one checkpoint part: bounds how long it holds the engine's lock.
const PART_BYTES: usize = 64 * 1024;
