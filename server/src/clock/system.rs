//! The machine's own clocks.

use std::sync::OnceLock;

use quorlock_engine::control::Boot;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::{Clock, boot};

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn raw_ns(&self) -> u64 {
        nanoseconds(ClockId::MonotonicRaw)
    }

    fn boottime_ns(&self) -> u64 {
        nanoseconds(ClockId::Boottime)
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

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clocks_run_and_the_boot_is_stable() {
        let clock = SystemClock;
        assert!(clock.raw_ns() > 0 && clock.boottime_ns() > 0);
        assert!(clock.raw_ns() <= clock.raw_ns());
        assert_eq!(clock.boot(), clock.boot());
        assert_ne!(clock.boot(), Boot::default());
    }

    /// A time daemon steers CLOCK_MONOTONIC, so the two have drifted apart wherever one has run since the boot.
    #[test]
    fn node_time_is_the_raw_clock_which_nothing_steers() {
        let before = nanoseconds(ClockId::MonotonicRaw);
        let read = SystemClock.raw_ns();
        let after = nanoseconds(ClockId::MonotonicRaw);
        assert!(before <= read && read <= after, "{before} {read} {after}");
        let steered = nanoseconds(ClockId::Monotonic);
        if steered.abs_diff(after) <= 10 * (after - before).max(1_000) {
            eprintln!("skipped: on this machine the steered clock shows the same");
        }
    }
}
