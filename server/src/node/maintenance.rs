//! The node's life beside its clients: waiting out the restart delay, ticking while keys with a
//! TTL live, reclaiming what has expired, compacting the log, and the orderly stop.
//!
//! The waiting is done here, each step is a function without await: a simulation takes the same steps at moments
//! of its own choice.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::NodeTime;
use quorlock_engine::control::{Durability, Pending, Record};
use quorlock_engine::restart::Stop;

use crate::node::commit::Failure;
use crate::node::compaction::{Compaction, PART_BYTES, Step};
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
    let mut ticks = Ticks::default();
    loop {
        let next = turn(shared, &mut ticks)?;
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

/// One turn of the maintenance: frees what has expired, keeps time on record, asks for space.
/// Returns when to come again; `None` where only a write can make work.
pub(crate) fn turn(shared: &Shared, ticks: &mut Ticks) -> Result<Option<Duration>, Failure> {
    let next = shared.reclaim()?;
    ticks.turn(shared)?;
    ticks.ask_for_space(shared)?;
    Ok(next)
}

/// Waits until the restart delay is over, then puts SERVING on record and serves.
async fn wait_out_delay(shared: &Shared) -> Result<(), Failure> {
    while let Some(left) = delay_left(shared)? {
        if left.is_zero() {
            return begin_serving(shared);
        }
        // In slices: node time is not the timer's time, and tests move it.
        tokio::time::sleep(left.min(DELAY_SLICE)).await;
    }
    Ok(())
}

/// What is left of the restart delay; `None` where the node does not wait.
pub(crate) fn delay_left(shared: &Shared) -> Result<Option<Duration>, Failure> {
    let mut core = shared.lock()?;
    let now = core.time.node_now(&*shared.clock);
    Ok(match &core.phase {
        Phase::Waiting(until, _) => {
            let left_ns = until.as_nanos().saturating_sub(now.as_nanos());
            Some(Duration::from_nanos(left_ns))
        }
        Phase::Serving | Phase::Stopped(_) => None,
    })
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
    let now = core.time.node_now(&*shared.clock);
    drop(core);
    shared.report.served(&shared.identity.id.to_string(), now);
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
#[derive(Debug)]
pub(crate) struct Ticks {
    had_deadlines: bool,
    last: NodeTime,
    space_asked: NodeTime,
}

impl Default for Ticks {
    fn default() -> Self {
        Self {
            had_deadlines: false,
            last: NodeTime::from_nanos(0),
            space_asked: NodeTime::from_nanos(0),
        }
    }
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

/// Writes a checkpoint, with requests executed between its steps.
pub(crate) async fn compact(shared: &Shared) -> Result<(), Failure> {
    let mut compaction = Compaction::new(PART_BYTES);
    while compaction.step(shared)? == Step::More {
        tokio::task::yield_now().await;
    }
    Ok(())
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
/// What the segments of a log may hold beside its frames: the active one, the one ahead, and one
/// that is not removed yet.
const SEGMENTS_BYTES: u64 = 64 * 1024 * 1024;
