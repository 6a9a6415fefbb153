//! The machine's own clocks.

use rustix::time::{ClockId, clock_gettime};

use crate::clock::{ClientInstant, Clock};

/// The machine's `CLOCK_BOOTTIME`, `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> ClientInstant {
        // The order matters, see `ClientInstant::from_readings`.
        let boot_ns = read(ClockId::Boottime);
        let monotonic_ns = read(ClockId::Monotonic);
        ClientInstant::from_readings(boot_ns, monotonic_ns, read(ClockId::MonotonicRaw))
    }
}

fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn system_time_goes_on() {
        let first = SystemClock.now();
        let second = SystemClock.now();
        assert!(second.has_reached(first));
        assert!(second.since(first) < Duration::from_secs(60));
    }
}
