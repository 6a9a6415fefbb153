//! A clock that tests move by hand: in tests it stands for the machine's clocks.
//!
//! It knows true time, which no process can read, and shows what the machine's clocks would make
//! of it: each runs at a rate of its own, stops, is set, or belongs to another boot. A test
//! compares what a node did with [`SettableClock::true_time`].

use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use event_listener::Event;
use quorlock_engine::control::Boot;

use crate::clock::{Clock, LookAgain, Pause, saturated, saturated_nanos};
use quorlock_engine::{BootTime, RawTime};

/// A clock that tests move by hand. Clones of the `Arc` around it share one time.
pub struct SettableClock {
    clocks: Mutex<Clocks>,
    /// Notified at each move.
    moved: Event,
    /// Called at each move.
    watchers: Mutex<Vec<LookAgain>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clocks {
    true_ns: u64,
    raw: Hand,
    boottime: Hand,
    wall: Hand,
    boot: Boot,
    strobe_us: i64,
    is_strobed: bool,
}

impl SettableClock {
    /// A clock some time after boot, in the year 2026, that runs right.
    pub fn new() -> Self {
        Self {
            clocks: Mutex::new(Clocks {
                true_ns: 0,
                raw: Hand::new(1_000_000_000_000, 1),
                boottime: Hand::new(1_000_000_000_000, 1),
                wall: Hand::new(1_790_000_000_000_000, 1_000),
                boot: Boot([7; 16]),
                strobe_us: 0,
                is_strobed: false,
            }),
            moved: Event::new(),
            watchers: Mutex::default(),
        }
    }

    /// True time goes on, and every clock at its own rate.
    pub fn advance(&self, by: Duration) {
        let nanos = saturated_nanos(by);
        self.change(|clocks| {
            clocks.true_ns = clocks.true_ns.saturating_add(nanos);
            clocks.raw.run(nanos);
            clocks.boottime.run(nanos);
            clocks.wall.run(nanos);
        });
    }

    /// Time that has truly passed, suspends included, on no clock of the machine.
    pub fn true_time(&self) -> Duration {
        Duration::from_nanos(self.read().true_ns)
    }

    /// From here on a time daemon steers boot time and wall clock: their rates are off by this
    /// much; no clock runs backwards (below -1000000). The raw clock is out of its reach.
    pub fn steer(&self, by_ppm: i32) {
        self.change(|clocks| {
            clocks.boottime.rate_ppm = by_ppm;
            clocks.wall.rate_ppm = by_ppm;
        });
    }

    /// From here on the raw clock's rate is off by this much, as far as the hardware's crystal
    /// is; -1000000 lets it stand still.
    pub fn detune_raw(&self, by_ppm: i32) {
        self.change(|clocks| clocks.raw.rate_ppm = by_ppm);
    }

    /// The wall clock is stepped, forwards or backwards; the others are not changed.
    pub fn step_wall(&self, by_us: i64) {
        self.change(|clocks| clocks.wall.set_by(by_us));
    }

    /// The wall clock is set to this many microseconds since the epoch.
    pub fn set_wall(&self, wall_us: u64) {
        self.change(|clocks| clocks.wall.reading = wall_us);
    }

    /// From here on every second reading of the wall clock is off by this much; 0 ends it.
    pub fn strobe_wall(&self, by_us: i64) {
        self.change(|clocks| clocks.strobe_us = by_us);
    }

    /// The machine slept: boot time and wall clock went on, the raw clock did not.
    pub fn suspend(&self, by: Duration) {
        let nanos = saturated_nanos(by);
        self.change(|clocks| {
            clocks.true_ns = clocks.true_ns.saturating_add(nanos);
            // What was slept is measured by the machine's hardware clock, not by the steered one.
            clocks.boottime.pass(nanos, 0);
            clocks.wall.pass(nanos, 0);
        });
    }

    /// The raw clock is set forwards or backwards within the same boot, as no machine does.
    pub fn step_raw(&self, by_ns: i64) {
        self.change(|clocks| clocks.raw.set_by(by_ns));
    }

    /// Boot time is set forwards or backwards within the same boot, as no machine does.
    pub fn step_boottime(&self, by_ns: i64) {
        self.change(|clocks| clocks.boottime.set_by(by_ns));
    }

    /// The node is started in another time namespace, whose clocks are shifted.
    pub fn enter_namespace(&self, boot: Boot, raw_by_ns: i64, boottime_by_ns: i64) {
        self.change(|clocks| {
            clocks.raw.set_by(raw_by_ns);
            clocks.boottime.set_by(boottime_by_ns);
            clocks.boot = boot;
        });
    }

    /// The machine restarted: another boot, clocks that count from `uptime`. True time and wall
    /// clock go on only by [`SettableClock::advance`].
    pub fn reboot(&self, uptime: Duration) {
        let nanos = saturated_nanos(uptime);
        self.change(|clocks| {
            clocks.raw.reading = nanos;
            clocks.boottime.reading = nanos;
            clocks.boot.0[0] = clocks.boot.0[0].wrapping_add(1);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Clocks)) {
        let mut clocks = self.lock();
        let before = *clocks;
        change(&mut clocks);
        let is_same = *clocks == before;
        drop(clocks);
        if is_same {
            return;
        }
        self.moved.notify(usize::MAX);
        let mut watchers = self.watchers.lock().expect("no watcher panics");
        watchers.retain(|look_again| look_again());
    }

    fn read(&self) -> Clocks {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Clocks> {
        self.clocks
            .lock()
            .expect("no holder of the clocks can panic")
    }
}

impl fmt::Debug for SettableClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clocks = self.read();
        formatter
            .debug_struct("SettableClock")
            .field("clocks", &clocks)
            .finish_non_exhaustive()
    }
}

impl Default for SettableClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SettableClock {
    fn raw(&self) -> RawTime {
        RawTime::from_nanos(self.read().raw.reading)
    }

    fn boottime(&self) -> BootTime {
        BootTime::from_nanos(self.read().boottime.reading)
    }

    fn wall_us(&self) -> u64 {
        let mut clocks = self.lock();
        clocks.is_strobed = !clocks.is_strobed && clocks.strobe_us != 0;
        let strobe_us = if clocks.is_strobed {
            clocks.strobe_us
        } else {
            0
        };
        clocks.wall.reading.saturating_add_signed(strobe_us)
    }

    fn boot(&self) -> Boot {
        self.read().boot
    }

    fn when_moved(&self, look_again: LookAgain) {
        let mut watchers = self.watchers.lock().expect("no watcher panics");
        watchers.push(look_again);
    }

    /// Time passes only where a test moves it; a clock that was set back ends the pause. The last reading stands for "never":
    /// no time follows it, so what is to be done a while later would be due again at once, for ever.
    fn pause_until(&self, raw: RawTime) -> Pause<'_> {
        let began = self.raw();
        Some(Box::pin(async move {
            loop {
                let moved = self.moved.listen();
                let now = self.raw();
                let is_due = now >= raw && raw != RawTime::from_nanos(u64::MAX);
                if is_due || now < began {
                    return;
                }
                moved.await;
            }
        }))
    }
}

/// One clock: what it shows, how fast it runs, and the part of a unit it has not shown yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hand {
    reading: u64,
    unit_ns: u64,
    rate_ppm: i32,
    rest: u128,
}

impl Hand {
    fn new(reading: u64, unit_ns: u64) -> Self {
        Self {
            reading,
            unit_ns,
            rate_ppm: 0,
            rest: 0,
        }
    }

    fn run(&mut self, nanos: u64) {
        self.pass(nanos, self.rate_ppm);
    }

    fn pass(&mut self, nanos: u64, rate_ppm: i32) {
        let rate = u32::try_from(i64::from(rate_ppm) + 1_000_000)
            .expect("a clock stops at worst, it does not run backwards");
        let parts = u128::from(nanos) * u128::from(rate) + self.rest;
        let unit = u128::from(self.unit_ns) * 1_000_000;
        self.rest = parts % unit;
        let moved = saturated(parts / unit);
        self.reading = self.reading.saturating_add(moved);
    }

    fn set_by(&mut self, by: i64) {
        self.reading = self.reading.saturating_add_signed(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn readings(clock: &SettableClock) -> (u64, u64, u64) {
        (
            clock.raw().as_nanos(),
            clock.boottime().as_nanos(),
            clock.wall_us(),
        )
    }

    fn passed(clock: &SettableClock, change: impl FnOnce()) -> (i128, i128, i128) {
        let before = readings(clock);
        change();
        let after = readings(clock);
        let difference = |before: u64, after: u64| i128::from(after) - i128::from(before);
        (
            difference(before.0, after.0),
            difference(before.1, after.1),
            difference(before.2, after.2),
        )
    }

    #[test]
    fn clocks_run_at_rates_of_their_own_and_lose_no_part() {
        let clock = SettableClock::new();
        clock.steer(80_000);
        clock.detune_raw(-10_000);
        let thirds = || (0..3000).for_each(|_| clock.advance(Duration::from_nanos(333_333)));
        assert_eq!(
            passed(&clock, thirds),
            (989_999_010, 1_079_998_920, 1_079_998)
        );
        clock.steer(-80_000);
        clock.detune_raw(-1_000_000);
        let second = || clock.advance(SECOND);
        assert_eq!(
            passed(&clock, second),
            (0, 920_000_000, 920_000),
            "the raw clock stands still"
        );
        assert_eq!(clock.true_time(), Duration::from_nanos(1_999_999_000));
    }

    #[test]
    fn a_suspend_is_true_time_that_the_raw_clock_does_not_see() {
        let clock = SettableClock::new();
        clock.steer(-80_000);
        assert_eq!(
            passed(&clock, || clock.suspend(SECOND)),
            (0, 1_000_000_000, 1_000_000)
        );
        assert_eq!(clock.true_time(), SECOND);
    }

    #[test]
    fn a_strobe_lasts_until_it_is_ended() {
        let clock = SettableClock::new();
        let wall_us = clock.wall_us();
        clock.strobe_wall(-5);
        assert_eq!([clock.wall_us(), clock.wall_us()], [wall_us - 5, wall_us]);
        assert_eq!([clock.wall_us(), clock.wall_us()], [wall_us - 5, wall_us]);
        clock.strobe_wall(0);
        assert_eq!([clock.wall_us(), clock.wall_us()], [wall_us, wall_us]);
    }

    #[test]
    fn clocks_stop_at_their_ends() {
        let clock = SettableClock::new();
        clock.step_raw(i64::MIN);
        clock.step_boottime(i64::MIN);
        clock.step_wall(i64::MIN);
        assert_eq!(readings(&clock), (0, 0, 0));
        clock.set_wall(u64::MAX);
        clock.step_raw(i64::MAX);
        clock.step_raw(i64::MAX);
        clock.advance(Duration::MAX);
        assert_eq!(readings(&clock), (u64::MAX, u64::MAX, u64::MAX));
    }
}
