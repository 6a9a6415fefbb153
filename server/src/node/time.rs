//! Node time and the anchored wall clock, from raw readings to the [`Moment`] a command sees.
//!
//! Node time never goes back, not even if the machine's clock does. The anchored wall clock is
//! advanced by boot time and slewed towards the real one within the drift bound, never stepped:
//! a stepped wall clock changes no TTL and moves TIME only gently.

use quorlock_engine::control::Start;
use quorlock_engine::{Moment, NodeTime, restart};

use crate::clock::Clock;

/// Turns clock readings into moments. Lives under the engine's lock.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    base: NodeTime,
    base_raw_ns: u64,
    newest: NodeTime,
    /// The raw clock's last reading.
    pub(crate) raw_ns: u64,
    wall: AnchoredWall,
    wall_read_at: NodeTime,
}

impl Timekeeper {
    /// Continues the time that `start` established.
    pub(crate) fn new(start: &Start, drift_ppm: u64) -> Self {
        Self {
            base: start.base,
            base_raw_ns: start.raw_ns,
            newest: start.base,
            raw_ns: start.raw_ns,
            wall: AnchoredWall {
                now_us: start.wall_us,
                boottime_ns: start.boottime_ns,
                drift_ppm,
            },
            wall_read_at: NodeTime::from_nanos(0),
        }
    }

    /// Never gives a time before this one.
    pub(crate) fn not_before(&mut self, newest: NodeTime) {
        self.newest = self.newest.max(newest);
    }

    /// The moment now.
    pub(crate) fn now(&mut self, clock: &dyn Clock) -> Moment {
        let node = self.node_now(clock);
        // TIME needs no better than a millisecond, and two more clock readings per request
        // would be seen in the profile.
        let since = node.as_nanos().saturating_sub(self.wall_read_at.as_nanos());
        if since >= WALL_READING_NS || self.wall_read_at.as_nanos() == 0 {
            self.wall.read(clock.boottime_ns(), clock.wall_us());
            self.wall_read_at = node;
        }
        let since = node.as_nanos().saturating_sub(self.wall_read_at.as_nanos());
        Moment {
            node,
            wall_us: self.wall.now_us.saturating_add(since / 1_000),
        }
    }

    /// Node time now, without the wall clock.
    pub(crate) fn node_now(&mut self, clock: &dyn Clock) -> NodeTime {
        self.raw_ns = clock.raw_ns();
        let reading = restart::node_time(self.base, self.base_raw_ns, self.raw_ns);
        self.newest = reading.map_or(self.newest, |time| time.max(self.newest));
        self.newest
    }
}

/// A wall clock that is never stepped.
#[derive(Clone, Copy, Debug)]
struct AnchoredWall {
    now_us: u64,
    boottime_ns: u64,
    drift_ppm: u64,
}

impl AnchoredWall {
    /// Advances by the boot time that passed, and by at most the drift bound towards `real_us`.
    fn read(&mut self, boottime_ns: u64, real_us: u64) {
        let elapsed_us = boottime_ns.saturating_sub(self.boottime_ns) / 1_000;
        if elapsed_us == 0 {
            return;
        }
        // Whole microseconds only, so that no remainder is lost to rounding.
        self.boottime_ns = self
            .boottime_ns
            .saturating_add(elapsed_us.saturating_mul(1_000));
        self.now_us = self.now_us.saturating_add(elapsed_us);
        let slew_us =
            u64::try_from(u128::from(elapsed_us) * u128::from(self.drift_ppm) / 1_000_000)
                .unwrap_or(u64::MAX);
        self.now_us = if real_us > self.now_us {
            self.now_us.saturating_add(slew_us).min(real_us)
        } else {
            self.now_us.saturating_sub(slew_us).max(real_us)
        };
    }
}

/// How long a wall-clock reading is carried forward on node time.
const WALL_READING_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorlock_engine::control::{Boot, Durability};

    use super::*;
    use crate::clock::SettableClock;

    fn timekeeper(clock: &SettableClock) -> Timekeeper {
        let start = Start {
            incarnation: 1,
            boot: Boot::default(),
            place: 0,
            durability: Durability::Always,
            base: NodeTime::from_nanos(5_000),
            raw_ns: clock.raw_ns(),
            wall_us: clock.wall_us(),
            boottime_ns: clock.boottime_ns(),
            pending: None,
            cap_ns: 60_000_000_000,
        };
        Timekeeper::new(&start, 10_000)
    }

    #[test]
    fn a_wall_step_moves_no_deadline_and_is_slewed_into_time() {
        let clock = SettableClock::new();
        let mut time = timekeeper(&clock);
        let before = time.now(&clock);
        clock.step_wall(3_600_000_000);
        clock.advance(Duration::from_secs(1));
        let after = time.now(&clock);
        assert_eq!(
            after.node.as_nanos() - before.node.as_nanos(),
            1_000_000_000
        );
        assert_eq!(
            after.wall_us - before.wall_us,
            1_010_000,
            "1 s and 1 % of slew"
        );
        clock.step_wall(-7_200_000_000);
        clock.advance(Duration::from_secs(1));
        assert_eq!(time.now(&clock).wall_us - after.wall_us, 990_000);
    }

    #[test]
    fn a_suspend_moves_time_but_not_node_time() {
        let clock = SettableClock::new();
        let mut time = timekeeper(&clock);
        let before = time.now(&clock);
        clock.suspend(Duration::from_secs(60));
        clock.advance(Duration::from_millis(2));
        let after = time.now(&clock);
        assert_eq!(after.node.as_nanos() - before.node.as_nanos(), 2_000_000);
        assert_eq!(after.wall_us - before.wall_us, 60_002_000);
    }

    #[test]
    fn node_time_never_goes_back() {
        let clock = SettableClock::new();
        let mut time = timekeeper(&clock);
        clock.advance(Duration::from_secs(5));
        let before = time.now(&clock).node;
        clock.reboot(Duration::from_secs(1));
        assert_eq!(time.now(&clock).node, before);
    }
}
