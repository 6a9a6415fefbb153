//! The node's life beside its clients: waiting out the restart delay, ticking while keys with a
//! TTL live, reclaiming what has expired, having the log compacted, and the orderly stop.
//!
//! The waiting is done here, each step is a function without await: a simulation takes the same steps at moments
//! of its own choice.

use std::time::Duration;

use quorlock_engine::control::Record;
use quorlock_engine::{NodeTime, incarnation};

use crate::clock::saturated_nanos;
use crate::node::commit::Failure;
use crate::node::compaction::{Compaction, PART_BYTES, Step};
use crate::node::core::Phase;
use crate::node::log_thread::Job;
use crate::node::report::StartReport;
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
    if !shared.is_logged() {
        compact(shared).await?;
    }
    let mut ticks = Ticks::default();
    loop {
        let began_raw_ns = shared.clock.raw_ns();
        let progress = shared.commit.progress();
        let next = turn(shared, &mut ticks)?;
        if shared.needs_compaction() {
            compact(shared).await?;
        }
        let pause = match next {
            Next::Now => {
                tokio::time::sleep(BUSY_PAUSE).await;
                continue;
            }
            Next::After(pause) => pause,
            // Nothing with a deadline lives: a write rings, until then there is no timer.
            Next::Idle => IDLE_PAUSE,
        };
        let is_incomplete = shared.lock()?.mode.is_incomplete();
        tokio::select! {
            () = shared.clock.pause_until(after(began_raw_ns, pause)) => {}
            () = shared.activity.notified() => {}
            () = progress, if is_incomplete => {}
        }
    }
}

fn after(raw_ns: u64, pause: Duration) -> u64 {
    raw_ns.saturating_add(saturated_nanos(pause))
}

/// When maintenance has something to do again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At once, after letting requests in.
    Now,
    After(Duration),
    /// When something is written.
    Idle,
}

impl Next {
    /// When the real node comes again; `None` where only a write can make work.
    #[cfg(feature = "simulation")]
    pub(crate) fn pause(self) -> Option<Duration> {
        match self {
            Self::Now => Some(BUSY_PAUSE),
            Self::After(pause) => Some(pause),
            Self::Idle => None,
        }
    }
}

/// One turn of the maintenance: frees what has expired, completes a change of the mode, keeps time
/// on record, asks for space. Returns when to come again.
pub(crate) fn turn(shared: &Shared, ticks: &mut Ticks) -> Result<Next, Failure> {
    shared.statistics.sample_rate(shared.clock.raw_ns());
    let next = shared.reclaim()?;
    shared.complete_mode()?;
    ticks.turn(shared)?;
    let is_slewing = keep_wall(shared)?;
    ticks.ask_for_space(shared)?;
    Ok(match next {
        Next::Idle if is_slewing => Next::After(TICK),
        next => next,
    })
}

/// Keeps on record where the anchored wall clock stands while it follows a step of the real one,
/// so that TIME goes on from there after a restart. Says whether it does.
fn keep_wall(shared: &Shared) -> Result<bool, Failure> {
    let (is_slewing, news, record) = {
        let mut core = shared.lock()?;
        if core.appender.is_full() {
            return Ok(false);
        }
        let now = core.time.node_now(&*shared.clock);
        let record = core.time.wall_off_record(&*shared.clock);
        if let Some(record) = &record {
            core.append(now, record);
        }
        (core.time.is_slewing(), core.time.wall_news(), record)
    };
    if record.is_some() {
        shared.commit.write(&shared.core)?;
        shared.log_thread.after_write(shared);
    }
    if let Some(off_by_us) = news {
        tell_of_wall(off_by_us, shared.config.clock_drift_millionths);
    }
    Ok(is_slewing)
}

fn tell_of_wall(off_by_us: u64, drift_ppm: u32) {
    let seconds = off_by_us / 1_000_000;
    let until_there = off_by_us / u64::from(drift_ppm.max(1));
    tracing::warn!(
        "the wall clock was set: it is {seconds} s off what TIME shows. No lock and no delay \
         changes. TIME follows within the drift bound and is there in about {until_there} s; until \
         then EXAT, PXAT, EXPIREAT and PEXPIREAT mean another moment than the wall clock does. \
         Relative TTLs are not concerned"
    );
}

/// Waits until the restart delay is over, then puts SERVING on record and serves.
async fn wait_out_delay(shared: &Shared) -> Result<(), Failure> {
    loop {
        let began_raw_ns = shared.clock.raw_ns();
        let Some(left) = delay_left(shared)? else {
            return Ok(());
        };
        if left.is_zero() {
            return begin_serving(shared);
        }
        // In slices: node time is not the timer's time, which is steered.
        let slice = after(began_raw_ns, left.min(DELAY_SLICE));
        shared.clock.pause_until(slice).await;
    }
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
    let (left_ns, without_ttl) = {
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        core.append_serving(now)
    };
    shared.commit.write_and_sync(&shared.core)?;
    let id = shared.shown_id();
    StartReport::tell_of_unlogged(&id, left_ns, without_ttl);
    let mut core = shared.lock()?;
    let takes_part = !matches!(core.phase, Phase::Stopped(_));
    if takes_part {
        core.phase = Phase::Serving;
    }
    let now = core.time.node_now(&*shared.clock);
    drop(core);
    if takes_part {
        shared.report.served(&id, now);
    }
    shared.signals.serving.send_replace(true);
    shared.log_thread.after_write(shared);
    Ok(())
}

impl Shared {
    /// Frees expired keys, a bounded number at a time; returns when to come again.
    fn reclaim(&self) -> Result<Next, Failure> {
        let mut core = self.lock()?;
        let now = core.time.node_now(&*self.clock);
        let reclaimed = core.engine.reclaim(now, KEYS_PER_TURN);
        if reclaimed.more {
            return Ok(Next::Now);
        }
        Ok(match core.engine.next_deadline() {
            Some(deadline) => {
                let left_ns = deadline.as_nanos().saturating_sub(now.as_nanos());
                Next::After(Duration::from_nanos(left_ns).clamp(RECLAIM_PAUSE, TICK))
            }
            None => {
                core.wish_for_activity();
                Next::Idle
            }
        })
    }

    /// Puts on record that all a weaker mode has revealed is synced, once it is.
    fn complete_mode(&self) -> Result<(), Failure> {
        {
            let mut core = self.lock()?;
            // A full disk keeps its last bytes for SHUTDOWN.
            if !core.mode.is_incomplete() || core.appender.is_full() {
                return Ok(());
            }
            let Some(mode) = core.mode.complete(self.commit.synced()) else {
                return Ok(());
            };
            let now = core.time.node_now(&*self.clock);
            core.append(now, &Record::Mode(mode));
        }
        self.commit.write(&self.core)?;
        self.log_thread.after_write(self);
        Ok(())
    }
}

/// Keeps node time on record while keys with a TTL live, and once more after the last has gone,
/// so that an idle hour is not given back to keys after a crash of the machine.
#[derive(Debug)]
pub(crate) struct Ticks {
    had_deadlines: bool,
    /// How many keys had expired by then: one may come and go between two turns.
    expired: u64,
    last: NodeTime,
    space_asked: NodeTime,
}

impl Default for Ticks {
    fn default() -> Self {
        Self {
            had_deadlines: false,
            expired: 0,
            last: NodeTime::from_nanos(0),
            space_asked: NodeTime::from_nanos(0),
        }
    }
}

impl Ticks {
    /// On a full disk, tries once a second to make a segment: space may have been freed. Not more
    /// often, because a try writes zeros until the disk is full again.
    fn ask_for_space(&mut self, shared: &Shared) -> Result<(), Failure> {
        let (now, is_full) = {
            let mut core = shared.lock()?;
            let now = core.time.node_now(&*shared.clock);
            (now, core.appender.is_full())
        };
        let is_due = now.as_nanos().saturating_sub(self.space_asked.as_nanos()) >= TICK_NS;
        if is_full && is_due {
            self.space_asked = now;
            shared.log_thread.send(Job::Prepare);
        }
        Ok(())
    }

    fn turn(&mut self, shared: &Shared) -> Result<(), Failure> {
        if !shared.is_logged() {
            return Ok(());
        }
        {
            let mut core = shared.lock()?;
            let now = core.time.node_now(&*shared.clock);
            let has_deadlines = core.engine.next_deadline().is_some();
            let is_due = now.as_nanos().saturating_sub(self.last.as_nanos()) >= TICK_NS;
            let expired = core.engine.statistics().expired;
            let is_last = (self.had_deadlines || expired != self.expired) && !has_deadlines;
            // A full disk keeps its last bytes for SHUTDOWN; a missing tick only gives time back.
            if !(has_deadlines && is_due || is_last) || core.appender.is_full() {
                return Ok(());
            }
            (self.had_deadlines, self.expired) = (has_deadlines, expired);
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
    let began_raw_ns = shared.clock.raw_ns();
    shared.rewrites.begin();
    let mut compaction = Compaction::new(PART_BYTES);
    loop {
        match compaction.step(shared)? {
            Step::More => tokio::task::yield_now().await,
            Step::LacksSync => {
                let began_raw_ns = shared.clock.raw_ns();
                shared.synced().await?;
                // As long as it took, the disk belongs to requests.
                let took_ns = shared.clock.raw_ns().saturating_sub(began_raw_ns);
                let rest = Duration::from_nanos(took_ns).min(REST_MAX);
                tokio::time::sleep(rest).await;
            }
            Step::LacksSegment => shared.segment_made().await?,
            ended @ (Step::Complete | Step::GivenUp) => {
                let now_raw_ns = shared.clock.raw_ns();
                shared.rewrites.end(ended, began_raw_ns, now_raw_ns);
                return Ok(());
            }
        }
    }
}

/// The orderly stop: no more grants, everything synced, SHUTDOWN last.
pub(crate) fn shut_down(shared: &Shared) -> Result<(), Failure> {
    {
        let mut core = shared.lock()?;
        let now = core.time.node_now(&*shared.clock);
        let waiting = match &core.phase {
            Phase::Waiting(..) => shared.verdict.delay,
            _ => None,
        };
        let latest = core.latest_unlogged();
        let shutdown = incarnation::at_stop(waiting, core.mode.durability(), latest, now);
        core.phase = Phase::Stopped("it is stopping");
        if let Some(record) = core.time.wall_off_record(&*shared.clock) {
            core.append(now, &record);
        }
        core.append(now, &shutdown);
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
/// Between two syncs of a checkpoint, however slow the disk is.
const REST_MAX: Duration = Duration::from_millis(50);
const DELAY_SLICE: Duration = Duration::from_millis(100);
