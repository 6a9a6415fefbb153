//! The machine's own clocks.

use quorlock_client_rules::clock::{ClientInstant, Clock};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The machine's `CLOCK_BOOTTIME`, `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> ClientInstant {
        instant_of(|clock| reading(clock_gettime(clock)))
    }
}

impl SystemClock {
    /// What [`now`](Clock::now) makes of a machine's clocks, in nanoseconds, for a simulation whose machines have
    /// clocks of their own: it runs the same choice of clocks.
    #[doc(hidden)]
    pub fn now_on(read: impl FnMut(ClockId) -> u64) -> ClientInstant {
        instant_of(read)
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
fn reading(time: Timespec) -> u64 {
    let nanos = time.tv_sec.saturating_mul(1_000_000_000);
    ZERO_NS.saturating_add_signed(nanos.saturating_add(time.tv_nsec))
}

/// 36 years, so that the sum of two readings fits as well.
const ZERO_NS: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_before_its_zero_goes_on() {
        let at = |tv_sec, tv_nsec| reading(Timespec { tv_sec, tv_nsec });
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
                reading(Timespec {
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
