//! The machine's own clocks.

use std::sync::OnceLock;
use std::time::Duration;

use quorlock_engine::control::Boot;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::clock::{Clock, boot, saturated_nanos};
use quorlock_engine::{BootTime, RawTime};

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The clock that is before its zero, if one is. It reads as zero until that is over, so that no
    /// deadline would come meanwhile: a node does not start then.
    ///
    /// Only the raw clock can be there, and only in a time namespace: the kernel checks its offset
    /// against the steered clock, which may be ahead.
    pub(crate) fn before_zero(self) -> Option<&'static str> {
        first_before_zero([
            ("CLOCK_MONOTONIC_RAW", clock_gettime(ClockId::MonotonicRaw)),
            ("CLOCK_BOOTTIME", clock_gettime(ClockId::Boottime)),
            ("CLOCK_REALTIME", clock_gettime(ClockId::Realtime)),
        ])
    }
}

impl Clock for SystemClock {
    fn raw(&self) -> RawTime {
        RawTime::from_nanos(nanoseconds(UNSTEERED))
    }

    fn stopwatch(&self) -> RawTime {
        self.raw()
    }

    fn boottime(&self) -> BootTime {
        BootTime::from_nanos(nanoseconds(ClockId::Boottime))
    }

    fn wall_us(&self) -> u64 {
        nanoseconds(ClockId::Realtime) / 1_000
    }

    /// Read once: a running process cannot change its boot, nor the time namespace it reads.
    fn boot(&self) -> Boot {
        static BOOT: OnceLock<Boot> = OnceLock::new();
        *BOOT.get_or_init(|| boot::read(self.wall_us()))
    }
}

/// The clock of node time.
const UNSTEERED: ClockId = ClockId::MonotonicRaw;

fn first_before_zero(clocks: [(&'static str, Timespec); 3]) -> Option<&'static str> {
    let is_before = |(_, time): &(_, Timespec)| since_zero(*time).is_none();
    clocks.into_iter().find(is_before).map(|(name, _)| name)
}

/// The clock's reading; it stands at zero where it is before that.
fn nanoseconds(clock: ClockId) -> u64 {
    since_zero(clock_gettime(clock)).unwrap_or(0)
}

/// Nanoseconds since the clock's zero; `None` before it.
fn since_zero(time: Timespec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds are below a second");
    Some(saturated_nanos(Duration::new(seconds, nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clocks_run_and_the_boot_is_stable() {
        let clock = SystemClock;
        assert!(clock.raw() > RawTime::ZERO && clock.boottime() > BootTime::ZERO);
        assert!(clock.raw() <= clock.raw());
        assert_eq!(clock.boot(), clock.boot());
        assert_ne!(clock.boot(), Boot::default());
        assert_eq!(clock.before_zero(), None);
    }

    #[test]
    fn a_clock_before_its_zero_has_no_reading() {
        let at = |tv_sec, tv_nsec| since_zero(Timespec { tv_sec, tv_nsec });
        assert_eq!(at(-1, 250_000_000), None);
        assert_eq!(at(-1, 999_999_999), None);
        assert_eq!(at(0, 0), Some(0));
        assert_eq!(at(7, 999_999_999), Some(7_999_999_999));
        assert_eq!(at(i64::MAX, 0), Some(u64::MAX));

        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 1 };
        let first = |of: [i64; 3]| {
            first_before_zero([("a", time(of[0])), ("b", time(of[1])), ("c", time(of[2]))])
        };
        assert_eq!(first([0, 0, 0]), None);
        assert_eq!(first([0, 0, -1]), Some("c"));
        assert_eq!(first([-1, -1, 0]), Some("a"));
    }

    /// Where no time daemon has steered CLOCK_MONOTONIC since the boot, the two show the same: so the clock's number
    /// is checked as well as its reading.
    #[test]
    fn node_time_is_the_raw_clock_which_nothing_steers() {
        let before = nanoseconds(ClockId::MonotonicRaw);
        let read = SystemClock.raw().as_nanos();
        let after = nanoseconds(ClockId::MonotonicRaw);
        assert!(before <= read && read <= after, "{before} {read} {after}");
        assert_eq!(UNSTEERED, ClockId::MonotonicRaw);
    }
}
