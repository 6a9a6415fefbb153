//! The machine's own clocks, for nodes and clients: the only place that asks it for the time by which locks live.

mod boot;

use std::sync::OnceLock;
use std::time::Duration;

use quorlock_clock::{Boot, BootTime, ClientInstant, Clock, RawTime, saturated_nanos};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The machine's own clocks.
///
/// # Example
/// ```
/// use quorlock_client::{Clock as _, SystemClock};
///
/// let before = SystemClock.now();
/// assert!(SystemClock.now().has_reached(before));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The clock that is before its zero, if one is. It reads as zero until that is over, so that no
    /// deadline would come meanwhile: a node does not start then.
    ///
    /// Only the raw clock can be there, and only in a time namespace: the kernel checks its offset
    /// against the steered clock, which may be ahead.
    #[doc(hidden)]
    #[must_use]
    pub fn before_zero(self) -> Option<&'static str> {
        first_before_zero([
            ("CLOCK_MONOTONIC_RAW", clock_gettime(ClockId::MonotonicRaw)),
            ("CLOCK_BOOTTIME", clock_gettime(ClockId::Boottime)),
            ("CLOCK_REALTIME", clock_gettime(ClockId::Realtime)),
        ])
    }

    /// What [`now`](Clock::now) makes of a machine's clocks, in nanoseconds, for a simulation whose machines have
    /// clocks of their own: it runs the same choice of clocks.
    #[doc(hidden)]
    pub fn now_on(read: impl FnMut(ClockId) -> u64) -> ClientInstant {
        instant_of(read)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> ClientInstant {
        instant_of(|clock| shifted(clock_gettime(clock)))
    }

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

fn instant_of(mut read: impl FnMut(ClockId) -> u64) -> ClientInstant {
    // The order matters, see `ClientInstant::from_readings`.
    let boot_ns = read(ClockId::Boottime);
    let monotonic_ns = read(ClockId::Monotonic);
    let raw_ns = read(ClockId::MonotonicRaw);
    ClientInstant::from_readings(boot_ns, monotonic_ns, raw_ns)
}

/// Only differences matter, so a clock's zero is not the smallest reading: in a time namespace the
/// raw clock may be before its zero for a while, and must neither stand still nor jump there.
fn shifted(time: Timespec) -> u64 {
    let nanos = time.tv_sec.saturating_mul(1_000_000_000);
    ZERO_NS.saturating_add_signed(nanos.saturating_add(time.tv_nsec))
}

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

/// The clock of node time.
const UNSTEERED: ClockId = ClockId::MonotonicRaw;

/// 36 years, so that the sum of two readings fits as well.
const ZERO_NS: u64 = 1 << 60;

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

    #[test]
    fn a_clock_before_its_zero_goes_on() {
        let at = |tv_sec, tv_nsec| shifted(Timespec { tv_sec, tv_nsec });
        let zero = at(0, 0);
        assert_eq!(zero - at(-2, 999_999_999), 1_000_000_001);
        assert_eq!(zero - at(-1, 750_000_000), 250_000_000);
        assert_eq!(at(7, 999_999_999) - zero, 7_999_999_999);
        assert!(at(i64::MIN, 0) < at(-1, 0) && at(1, 0) < at(i64::MAX, 0));
    }

    #[test]
    fn time_passes_on_a_raw_clock_before_its_zero() {
        let at = |ms: [i64; 3]| {
            let [boot, monotonic, raw] = ms.map(|ms| {
                shifted(Timespec {
                    tv_sec: ms.div_euclid(1_000),
                    tv_nsec: ms.rem_euclid(1_000) * 1_000_000,
                })
            });
            ClientInstant::from_readings(boot, monotonic, raw)
        };
        let begin = at([90_000, 80_000, -700]);
        // Slowed down by 8 %, then with 5 s of suspend.
        let since = |ms| at(ms).since(begin).as_millis();
        assert_eq!(since([90_920, 80_920, 300]), 1_000);
        assert_eq!(since([95_920, 80_920, 300]), 6_000);
    }

    #[test]
    fn the_clocks_are_those_that_count_sleep_and_those_that_nobody_steers() {
        let mut order = Vec::new();
        let mut at = |boot_ns: u64, monotonic_ns: u64, raw_ns: u64| {
            instant_of(|clock| {
                order.push(clock);
                match clock {
                    ClockId::Boottime => boot_ns,
                    ClockId::Monotonic => monotonic_ns,
                    ClockId::MonotonicRaw => raw_ns,
                    _ => 0,
                }
            })
        };
        let begin = at(50_000, 40_000, 30_000);
        assert_eq!(at(59_000, 41_000, 31_000).since(begin).as_nanos(), 9_000);
        assert_eq!(at(50_000, 40_000, 37_000).since(begin).as_nanos(), 7_000);
        assert_eq!(
            order[..3],
            [ClockId::Boottime, ClockId::Monotonic, ClockId::MonotonicRaw]
        );
    }

    #[test]
    fn system_time_goes_on() {
        let first = SystemClock.now();
        let second = SystemClock.now();
        assert!(second.has_reached(first));
        assert!(second.since(first) < Duration::from_secs(60));
    }
}
