//! The machine's own clocks.

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::clock::{ClientInstant, Clock};

/// The machine's `CLOCK_BOOTTIME`, `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> ClientInstant {
        // The order matters, see `ClientInstant::from_readings`.
        let boot_ns = reading(clock_gettime(ClockId::Boottime));
        let monotonic_ns = reading(clock_gettime(ClockId::Monotonic));
        let raw_ns = reading(clock_gettime(ClockId::MonotonicRaw));
        ClientInstant::from_readings(boot_ns, monotonic_ns, raw_ns)
    }
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
    fn system_time_goes_on() {
        let first = SystemClock.now();
        let second = SystemClock.now();
        assert!(second.has_reached(first));
        assert!(second.since(first) < Duration::from_secs(60));
    }
}
