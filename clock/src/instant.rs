//! A moment on the client's clocks, and the deadlines that are measured with it.
//!
//! Invariant: time since an instant is never too short. `CLOCK_BOOTTIME` counts a suspended
//! machine but may be steered by a time daemon; `CLOCK_MONOTONIC_RAW` is not steered but stops in
//! suspend. Either alone is too short where the other has its strength, and both are where a
//! suspend and a slew fall into one lease. So there is a third reading: the raw clock plus all
//! the time slept since boot, which is what `CLOCK_BOOTTIME` is ahead of `CLOCK_MONOTONIC`; both
//! are steered alike, so that the difference is not. The largest of the three differences is what
//! has passed. `std::time::Instant` has both weaknesses and decides nothing about a lock's
//! validity here.

use std::time::Duration;

use crate::saturated_nanos;

/// A moment on the client's clocks.
///
/// Only differences mean anything. A deadline is an instant too: it has been reached as soon as
/// any of the clocks has reached its part, which is the same as "the largest difference".
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_client::{Clock as _, SystemClock};
///
/// let deadline = SystemClock.now().after(Duration::from_secs(60));
/// assert!(!SystemClock.now().has_reached(deadline));
/// assert!(SystemClock.now().until(deadline) <= Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientInstant {
    boot_ns: u64,
    raw_ns: u64,
    /// The raw clock plus the time slept.
    whole_ns: u64,
}

impl ClientInstant {
    /// An instant from two clocks' readings, for simulators and tests that know of no sleep.
    #[must_use]
    pub const fn from_nanos(boot_ns: u64, raw_ns: u64) -> Self {
        Self {
            boot_ns,
            raw_ns,
            whole_ns: raw_ns,
        }
    }

    /// An instant from readings of `CLOCK_BOOTTIME`, `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`,
    /// taken in this order: a pause between them then makes what was slept too short, and the
    /// raw reading too late by as much.
    #[must_use]
    pub const fn from_readings(boot_ns: u64, monotonic_ns: u64, raw_ns: u64) -> Self {
        // In this order it also works in a time namespace that sets boot time behind.
        let whole_ns = raw_ns.saturating_add(boot_ns).saturating_sub(monotonic_ns);
        Self {
            boot_ns,
            raw_ns,
            whole_ns,
        }
    }

    /// Time that has passed since `earlier`: the largest of the differences.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let boot = self.boot_ns.saturating_sub(earlier.boot_ns);
        let raw = self.raw_ns.saturating_sub(earlier.raw_ns);
        let whole = self.whole_ns.saturating_sub(earlier.whole_ns);
        Duration::from_nanos(boot.max(raw).max(whole))
    }

    /// Time left until `deadline`, zero once any clock has reached it.
    #[must_use]
    pub fn until(self, deadline: Self) -> Duration {
        let boot = deadline.boot_ns.saturating_sub(self.boot_ns);
        let raw = deadline.raw_ns.saturating_sub(self.raw_ns);
        let whole = deadline.whole_ns.saturating_sub(self.whole_ns);
        Duration::from_nanos(boot.min(raw).min(whole))
    }

    /// Whether `deadline` has come.
    #[must_use]
    pub fn has_reached(self, deadline: Self) -> bool {
        self.boot_ns >= deadline.boot_ns
            || self.raw_ns >= deadline.raw_ns
            || self.whole_ns >= deadline.whole_ns
    }

    /// This instant moved forward.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        let nanos = saturated_nanos(time);
        self.map(|clock_ns| clock_ns.saturating_add(nanos))
    }

    /// This instant moved back; not before the clocks' zero.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        let nanos = saturated_nanos(time);
        self.map(|clock_ns| clock_ns.saturating_sub(nanos))
    }

    /// The deadline that comes first, clock by clock.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        Self {
            boot_ns: self.boot_ns.min(other.boot_ns),
            raw_ns: self.raw_ns.min(other.raw_ns),
            whole_ns: self.whole_ns.min(other.whole_ns),
        }
    }

    /// Its part on each of the three clocks: for what orders many deadlines, which are due as soon as one part is.
    #[doc(hidden)]
    #[must_use]
    pub const fn parts_ns(self) -> [u64; 3] {
        [self.boot_ns, self.raw_ns, self.whole_ns]
    }

    /// The instant with these parts.
    #[doc(hidden)]
    #[must_use]
    pub const fn from_parts_ns([boot_ns, raw_ns, whole_ns]: [u64; 3]) -> Self {
        Self {
            boot_ns,
            raw_ns,
            whole_ns,
        }
    }

    fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self {
            boot_ns: change(self.boot_ns),
            raw_ns: change(self.raw_ns),
            whole_ns: change(self.whole_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: ClientInstant = ClientInstant::from_nanos(5_000, 9_000);

    #[test]
    fn elapsed_is_the_larger_difference_not_the_larger_total() {
        let later = ClientInstant::from_nanos(5_100, 9_050);
        assert_eq!(later.since(START), Duration::from_nanos(100));
        // The raw total is larger, yet its difference is the smaller one.
        let slewed = ClientInstant::from_nanos(5_010, 9_080);
        assert_eq!(slewed.since(START), Duration::from_nanos(80));
    }

    #[test]
    fn a_deadline_is_reached_when_either_clock_reaches_it() {
        let deadline = START.after(Duration::from_nanos(100));
        assert!(!ClientInstant::from_nanos(5_099, 9_099).has_reached(deadline));
        assert!(ClientInstant::from_nanos(5_100, 9_000).has_reached(deadline));
        assert!(ClientInstant::from_nanos(5_000, 9_100).has_reached(deadline));
        assert_eq!(
            ClientInstant::from_nanos(5_090, 9_000)
                .until(deadline)
                .as_nanos(),
            10
        );
        assert_eq!(
            ClientInstant::from_nanos(5_200, 9_000).until(deadline),
            Duration::ZERO
        );
    }

    #[test]
    fn what_was_slept_is_added_to_the_raw_clock() {
        // A machine that slept 2000 before: only what it sleeps from here on counts.
        let start = ClientInstant::from_readings(7_000, 5_000, 9_000);
        let deadline = start.after(Duration::from_nanos(1_000));
        // Slept 80, then steered back by 80 of 1000: 920 more on both steered clocks.
        let later = ClientInstant::from_readings(8_000, 5_920, 9_900);
        assert_eq!(later.since(start), Duration::from_nanos(1_000));
        let later = ClientInstant::from_readings(8_000 - 75, 5_920 - 75, 9_920);
        assert_eq!(later.since(start), Duration::from_nanos(1_000));
        assert!(later.has_reached(deadline));
        assert_eq!(later.until(deadline), Duration::ZERO);
        let sooner = ClientInstant::from_readings(7_900, 5_820, 9_919);
        assert_eq!(sooner.until(deadline), Duration::from_nanos(1));
        assert!(!sooner.has_reached(deadline));
    }

    #[test]
    fn a_namespace_that_sets_boot_time_behind_hides_no_sleep() {
        let start = ClientInstant::from_readings(1_000, 9_000, 9_000);
        let later = ClientInstant::from_readings(1_500, 9_400, 9_450);
        assert_eq!(later.since(start), Duration::from_nanos(550));
    }

    #[test]
    fn clocks_that_go_back_never_make_time_negative() {
        assert_eq!(ClientInstant::from_nanos(1, 1).since(START), Duration::ZERO);
        let behind = ClientInstant::from_readings(3, 9, 5);
        assert_eq!(
            behind.since(ClientInstant::from_nanos(3, 5)),
            Duration::ZERO
        );
    }
}
