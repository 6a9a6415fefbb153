//! The restart delay: may this node serve locks, and if not, until when?
//!
//! A node that stopped uncleanly serves no locks until every lock it may have forgotten has
//! expired. [`History`] folds the control records of the recovered log; [`History::judge`] turns
//! it into a [`RestartVerdict`]. Both are plain data and a pure function, so that a model checker can
//! drive the code that runs in production. The rules are those of the Redlock page ("delayed
//! restarts") made enforceable: <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>.
//!
//! [`TtlBound`] is the other half: it bounds the TTLs of locks that the log might forget.

use std::time::Duration;

use crate::control::{Boot, Ceiling, ControlRecord, Durability, Pending, Start};
use crate::relocation::{Adoption, Relocation};
pub use crate::stop::Stop;
use crate::time::{BootTime, NodeTime, RawTime, saturated, saturated_nanos};

/// What the recovered log says about the node's past.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// Any record at all, `INIT` included: this is not an empty directory.
    pub is_initialised: bool,
    /// The last incarnation's start; `None` when the node has never run.
    pub start: Option<Start>,
    /// The last incarnation may have granted locks.
    pub is_serving: bool,
    /// The weakest durability of the last incarnation's replies since everything was last synced.
    pub weakest: Durability,
    /// The largest `restart-delay-max` that the last incarnation had in force, in nanoseconds;
    /// 0 where the log does not say.
    pub cap_ns: u64,
    /// The last TTL bound, in nanoseconds: no forgotten lock had a longer TTL.
    pub ttl_bound_ns: u64,
    /// The last frame is a complete `SHUTDOWN`.
    pub is_shut_down: bool,
    /// A delay that no `SERVING` has cleared.
    pub pending: Option<Pending>,
    /// A repair cut off durable data, no `SERVING` followed, and no pending delay accounts for it
    /// yet: the longest TTL that may have gone with it, in nanoseconds.
    pub lost_ns: Option<u64>,
    /// Until when a crash of the last incarnation has to be waited out for keys that it had
    /// recovered and did not log; zero where it logs its keys.
    pub owed_until: NodeTime,
    /// The newest node time on record.
    pub newest: NodeTime,
    /// Up to where the node may have taken fences, as far as its log knows.
    pub ceiling: Ceiling,
    /// What was said of a move since the last start.
    pub relocation: Relocation,
}

impl Default for History {
    fn default() -> Self {
        Self {
            is_initialised: false,
            start: None,
            is_serving: false,
            weakest: Durability::Always,
            cap_ns: 0,
            ttl_bound_ns: 0,
            is_shut_down: false,
            pending: None,
            lost_ns: None,
            owed_until: NodeTime::ZERO,
            newest: NodeTime::ZERO,
            ceiling: Ceiling::NONE,
            relocation: Relocation::None,
        }
    }
}

impl History {
    /// Takes note of one control record, in log order.
    pub fn record(&mut self, time: NodeTime, record: &ControlRecord) {
        self.frame(time);
        match record {
            ControlRecord::Init | ControlRecord::Tick => {}
            ControlRecord::Start(start) => {
                self.start = Some(*start);
                self.is_serving = false;
                self.weakest = start.durability;
                self.cap_ns = start.cap_ns;
                self.ceiling = start.ceiling;
                self.relocation = self.relocation.after_start();
                self.set_pending(start.pending);
            }
            ControlRecord::Serving => {
                self.is_serving = true;
                self.pending = None;
                self.lost_ns = None;
                self.owed_until = NodeTime::ZERO;
            }
            ControlRecord::Owed(until) => self.owed_until = *until,
            ControlRecord::Ceiling(ceiling) => self.ceiling = *ceiling,
            ControlRecord::Mode(mode) => {
                self.weakest = if mode.is_complete {
                    mode.durability
                } else {
                    self.weakest.min(mode.durability)
                };
                self.cap_ns = self.cap_ns.max(mode.cap_ns);
            }
            ControlRecord::Promise(ttl_ns) => self.ttl_bound_ns = *ttl_ns,
            ControlRecord::Shutdown(pending) => {
                self.is_shut_down = true;
                self.pending = *pending;
            }
            ControlRecord::Control(control) => {
                self.start = Some(control.start);
                self.is_serving = control.serving;
                self.weakest = control.weakest;
                self.cap_ns = control.start.cap_ns;
                self.ceiling = control.start.ceiling;
                self.ttl_bound_ns = control.ttl_bound_ns;
                // `owed_until` stays: the record that repeats it comes next, and may be missing.
                if control.serving {
                    self.pending = None;
                    self.lost_ns = None;
                } else {
                    self.set_pending(control.start.pending);
                }
            }
            // Only a clean stop is released, and nothing runs before the adoption: neither undoes it.
            ControlRecord::Released(digest) => {
                self.is_shut_down = true;
                self.relocation = Relocation::Released(*digest);
            }
            ControlRecord::Adopted(adoption) => self.adopt(adoption),
            // Repaired twice before it served: the longer one counts.
            ControlRecord::Lost(ttl_ns) => self.lost_ns = self.lost_ns.max(Some(*ttl_ns)),
            ControlRecord::Wall { wall_us, boottime } => {
                if let Some(start) = &mut self.start {
                    start.wall_us = *wall_us;
                    start.boottime = *boottime;
                }
            }
        }
    }

    fn adopt(&mut self, adoption: &Adoption) {
        self.is_shut_down = true;
        self.relocation = Relocation::of(adoption);
        if let Some(start) = &mut self.start {
            start.incarnation = adoption.incarnation;
            start.fingerprint = adoption.fingerprint;
        }
    }

    /// A start recorded what it has to wait out. Where that is nothing (`restart-delay off`), a loss
    /// still counts for the next start, so that an experiment does not erase it.
    fn set_pending(&mut self, pending: Option<Pending>) {
        self.pending = pending;
        if pending.is_some() {
            self.lost_ns = None;
        }
    }

    /// Takes note of any frame: a `SHUTDOWN` that another frame follows is not the end.
    pub fn frame(&mut self, time: NodeTime) {
        self.is_initialised = true;
        self.is_shut_down = false;
        self.newest = self.newest.max(time);
    }

    /// Whether the clocks of `boot`, at `raw` and `boottime`, continue those in the log,
    /// and what ties node time to the raw clock.
    ///
    /// In the same boot node time continues, also while the process was down. In another boot (or
    /// where a clock went back) it resumes at the newest time on record, so that every key lives
    /// at least as long as it was given. So it does where the log was moved: another machine's clocks may continue by chance.
    pub fn rebase(&self, boot: Boot, raw: RawTime, boottime: BootTime) -> Rebased {
        if let Some(start) = &self.start
            && self.relocation == Relocation::None
            && start.boot == boot
            && start.boottime <= boottime
            && let Some(now) = node_time(start.base, start.raw, raw)
            && now >= self.newest
        {
            return Rebased {
                is_same_boot: true,
                base: start.base,
                raw: start.raw,
            };
        }
        let first_ns = self.start.map_or(raw.as_nanos(), |_| 0);
        Rebased {
            is_same_boot: false,
            base: self.newest.max(NodeTime::from_nanos(first_ns)),
            raw,
        }
    }

    /// Decides whether the node must wait.
    pub fn judge(&self, seen: &Seen, policy: &Policy) -> RestartVerdict {
        let stop = self.stop(seen);
        let owed_ns = match (stop, policy.restart_delay) {
            (_, RestartDelay::Off) => return RestartVerdict { stop, delay: None },
            (Stop::Clean | Stop::NeverServed | Stop::NeverRan, _) => 0,
            (Stop::Unknown, _) if policy.first_start_waits => policy.stretch(policy.cap_ns),
            (Stop::Unknown, _) => 0,
            (_, RestartDelay::Fixed(delay)) => saturated_nanos(delay),
            (Stop::Complete, RestartDelay::Auto) => 0,
            (Stop::PowerLoss, RestartDelay::Auto) if policy.trusts_fsync => 0,
            (Stop::Moved | Stop::Emptied | Stop::Lost, _) => policy
                .stretch(self.longest_ns(policy))
                .max(self.left_ns(seen)),
            // A machine went down, and its disk may have lost what it acknowledged in that run: the TTL
            // bound as well as the grants.
            (Stop::Complete | Stop::PowerLoss | Stop::Unclean, _)
                if !seen.is_same_boot && !policy.trusts_fsync =>
            {
                policy
                    .stretch(self.longest_ns(policy))
                    .max(self.left_ns(seen))
            }
            (Stop::Complete | Stop::PowerLoss | Stop::Unclean, _) => {
                policy.stretch(self.ttl_bound_ns).max(self.left_ns(seen))
            }
        };
        let fresh = (owed_ns > 0).then(|| Pending {
            until: NodeTime::from_nanos(seen.now.as_nanos().saturating_add(owed_ns)),
            length_ns: owed_ns,
            cause: stop,
        });
        let delay =
            later(self.carried(seen, policy), fresh).filter(|pending| pending.until > seen.now);
        RestartVerdict { stop, delay }
    }

    /// Where the fences of the run begin that follows this stop. A crash loses none, because each is covered by a synced record;
    /// what loses durable data may have lost fences as well.
    pub fn ceiling(&self, stop: Stop, seen: &Seen, policy: &Policy) -> Ceiling {
        let uncertain = Ceiling::Uncertain(self.ceiling.value());
        match stop {
            // Locks may be granted at once where nobody says that no node ever ran here; what a resource has stored outlives them.
            Stop::Unknown if !policy.vouches_for_first_start => uncertain,
            Stop::Unknown | Stop::NeverRan => Ceiling::NONE,
            Stop::Emptied | Stop::Lost | Stop::Moved => uncertain,
            // A torn end may be a frame that was synced, and that the disk has not kept.
            Stop::Complete | Stop::PowerLoss | Stop::Unclean
                if !(policy.trusts_fsync || seen.is_same_boot && seen.is_whole) =>
            {
                uncertain
            }
            _ => self.ceiling,
        }
    }

    /// The longest TTL that a delay may have to cover where the log cannot say what it forgot.
    ///
    /// A cap lowered in the configuration between crash and start shortens nothing: the one that
    /// was in force counts as well.
    fn longest_ns(&self, policy: &Policy) -> u64 {
        let recorded_ns = self.ttl_bound_ns.max(self.cap_ns);
        recorded_ns
            .max(self.lost_ns.unwrap_or(0))
            .max(policy.cap_ns)
    }

    /// How long the last of the keys would live on that the last incarnation recovered and did not
    /// log. A deadline of this node's own time needs no allowance for drift.
    fn left_ns(&self, seen: &Seen) -> u64 {
        let until_ns = self.owed_until.as_nanos();
        until_ns.saturating_sub(seen.now.as_nanos())
    }

    /// The delay an earlier incarnation left: same end in the same boot, full length in another.
    ///
    /// `first-start serve` ends the delay of an unknown past, also at the second start: the log of the
    /// first one advises to set it.
    fn carried(&self, seen: &Seen, policy: &Policy) -> Option<Pending> {
        let pending = self.pending?;
        if pending.cause == Stop::Unknown && policy.vouches_for_first_start {
            return None;
        }
        if seen.is_same_boot {
            return Some(pending);
        }
        let until = seen.now.as_nanos().saturating_add(pending.length_ns);
        Some(Pending {
            until: NodeTime::from_nanos(until),
            ..pending
        })
    }

    fn stop(&self, seen: &Seen) -> Stop {
        if self.lost_ns.is_some() {
            return Stop::Lost;
        }
        if !self.is_initialised {
            return if seen.has_identity {
                Stop::Emptied
            } else {
                Stop::Unknown
            };
        }
        if self.start.is_none() && seen.has_marker {
            // It ran, and the log that is left goes back to before that. A first start that died
            // before its record looks the same.
            return Stop::Emptied;
        }
        if self.start.is_none() && !seen.has_identity {
            // INIT alone: the directory was being created, or its identity is lost.
            return Stop::Unknown;
        }
        if self.start.is_none() {
            return if seen.is_whole {
                Stop::NeverRan
            } else {
                Stop::Unclean
            };
        }
        let is_at_home = matches!(self.relocation, Relocation::None | Relocation::Adopted);
        if !(seen.is_same_directory && is_at_home) {
            return Stop::Moved;
        }
        if !seen.is_whole {
            return Stop::Unclean;
        }
        if self.is_shut_down {
            return Stop::Clean;
        }
        match (seen.is_same_boot, self.is_serving, self.weakest) {
            // SERVING is synced before the first grant: without it there was none.
            (true, false, _) => Stop::NeverServed,
            (true, true, Durability::Always) => Stop::Complete,
            (false, _, Durability::Always) => Stop::PowerLoss,
            _ => Stop::Unclean,
        }
    }
}

/// How node time continues: it is `raw clock - raw + base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rebased {
    /// The clocks are those of the last incarnation.
    pub is_same_boot: bool,
    /// Node time at `raw`.
    pub base: NodeTime,
    /// The raw clock's reading at `base`.
    pub raw: RawTime,
}

/// What the starting process sees around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Node time now, re-based.
    pub now: NodeTime,
    /// The clock of the last incarnation continues.
    pub is_same_boot: bool,
    /// Nothing but zeros follows the last good frame.
    pub is_whole: bool,
    /// Machine and directory are those of the last incarnation.
    pub is_same_directory: bool,
    /// The directory holds a node identity.
    pub has_identity: bool,
    /// The directory holds the marker of a run.
    pub has_marker: bool,
}

/// Whether a node stays out after an unclean stop until what it forgot has expired (`restart-delay`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestartDelay {
    /// As long as needed, and not at all where the log proves that nothing was lost.
    Auto,
    /// After every unclean stop.
    Always,
    /// Never. For experiments: a crash can grant one lock twice.
    Off,
    /// A fixed time after every unclean stop. For experiments.
    Fixed(Duration),
}

/// The operator's choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// `restart-delay`.
    pub restart_delay: RestartDelay,
    /// `trust-fsync`: what was synced survives a power loss.
    pub trusts_fsync: bool,
    /// `restart-delay-max` in nanoseconds.
    pub cap_ns: u64,
    /// The clock drift bound in parts per million.
    pub drift_ppm: u64,
    /// An empty directory without identity waits the cap (`first-start`, resolved).
    pub first_start_waits: bool,
    /// The operator says that no node ever ran here (`first-start serve`).
    pub vouches_for_first_start: bool,
}

impl Policy {
    /// The delay that outlasts a TTL on any clock within the drift bound: `P * (1 + 2 * drift)
    /// + 10 ms`.
    pub fn stretch(&self, ttl_ns: u64) -> u64 {
        let twice = u128::from(ttl_ns).saturating_mul(2);
        let drift = twice.saturating_mul(u128::from(self.drift_ppm)) / 1_000_000;
        saturated(drift)
            .saturating_add(ttl_ns)
            .saturating_add(DELAY_MARGIN_NS)
    }
}

/// The outcome of [`History::judge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestartVerdict {
    /// How the last incarnation ended.
    pub stop: Stop,
    /// The delay to wait out, if any.
    pub delay: Option<Pending>,
}

/// The TTL bound: the longest TTL that may be granted without being in the log after a crash. The
/// record `PROMISE` keeps it.
///
/// A longer TTL first raises the bound on record; the raise is durable before the grant is revealed.
/// Lowering needs no sync: a log that holds the lower bound holds everything granted under the higher
/// one, because what a crash leaves is a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TtlBound {
    /// The bound on record, in nanoseconds.
    pub on_record_ns: u64,
    /// The longest TTL granted since the bound was last lowered, in nanoseconds.
    pub longest_ns: u64,
}

impl TtlBound {
    /// Notes a grant of this TTL; returns the bound to put on record before it, if that must rise.
    pub fn raise(&mut self, ttl_ns: u64) -> Option<u64> {
        self.longest_ns = self.longest_ns.max(ttl_ns);
        if ttl_ns <= self.on_record_ns {
            return None;
        }
        self.on_record_ns = round_up(ttl_ns);
        Some(self.on_record_ns)
    }

    /// Lowers the bound to the longest TTL granted since the last call; returns it if it fell.
    pub fn lower(&mut self) -> Option<u64> {
        let lower = round_up(self.longest_ns);
        self.longest_ns = 0;
        if lower >= self.on_record_ns {
            return None;
        }
        self.on_record_ns = lower;
        Some(lower)
    }
}

/// Node time at `raw`, for the pair `(base, base_raw)`; `None` if the clock went back.
pub fn node_time(base: NodeTime, base_raw: RawTime, raw: RawTime) -> Option<NodeTime> {
    let elapsed_ns = raw.as_nanos().checked_sub(base_raw.as_nanos())?;
    base.as_nanos()
        .checked_add(elapsed_ns)
        .map(NodeTime::from_nanos)
}

fn later(left: Option<Pending>, right: Option<Pending>) -> Option<Pending> {
    match (left, right) {
        (Some(left), Some(right)) => Some(Pending {
            until: left.until.max(right.until),
            length_ns: left.length_ns.max(right.length_ns),
            // Lost data stays the cause until it has been waited out; `first-start serve`, which ends
            // the delay of an unknown past, must not end what another stop made necessary. Otherwise
            // the cause is the one with the longest delay.
            cause: match (left.cause, right.cause) {
                (Stop::Lost, _) | (_, Stop::Lost) => Stop::Lost,
                (Stop::Unknown, other) | (other, Stop::Unknown) => other,
                (earlier, _) if left.until > right.until => earlier,
                (_, latest) => latest,
            },
        }),
        (left, right) => left.or(right),
    }
}

/// Steps keep raises rare (each costs a sync) and the delay close to what is needed.
fn round_up(ttl_ns: u64) -> u64 {
    let step = if ttl_ns <= SECOND_NS {
        SECOND_NS / 10
    } else {
        SECOND_NS
    };
    ttl_ns.checked_next_multiple_of(step).unwrap_or(ttl_ns)
}

const SECOND_NS: u64 = 1_000_000_000;

/// Covers the rounding of clocks and of the stop itself.
const DELAY_MARGIN_NS: u64 = 10_000_000;

#[cfg(test)]
#[path = "restart_tests.rs"]
mod tests;
