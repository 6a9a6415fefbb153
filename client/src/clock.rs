//! Client time: a pair of clocks, and the deadlines that are measured with it.
//!
//! Invariant: time since an instant is never too short. `CLOCK_BOOTTIME` counts a suspended
//! machine but may be steered by a time daemon; `CLOCK_MONOTONIC_RAW` is not steered but stops in
//! suspend. The larger of the two differences is what has passed. `std::time::Instant` has both
//! weaknesses and decides nothing about a lock's validity here.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on the client's two clocks.
///
/// Only differences mean anything. A deadline is an instant too: it has been reached as soon as
/// either clock has reached its part, which is the same as "the larger difference".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientInstant {
    boot_ns: u64,
    raw_ns: u64,
}

impl ClientInstant {
    /// An instant from the two clocks' readings, for simulators and tests.
    #[must_use]
    pub const fn from_nanos(boot_ns: u64, raw_ns: u64) -> Self {
        Self { boot_ns, raw_ns }
    }

    /// Time that has passed since `earlier`: the larger of the two differences.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let boot = self.boot_ns.saturating_sub(earlier.boot_ns);
        let raw = self.raw_ns.saturating_sub(earlier.raw_ns);
        Duration::from_nanos(boot.max(raw))
    }

    /// Time left until `deadline`, zero once either clock has reached it.
    #[must_use]
    pub fn until(self, deadline: Self) -> Duration {
        let boot = deadline.boot_ns.saturating_sub(self.boot_ns);
        let raw = deadline.raw_ns.saturating_sub(self.raw_ns);
        Duration::from_nanos(boot.min(raw))
    }

    /// Whether `deadline` has come.
    #[must_use]
    pub fn has_reached(self, deadline: Self) -> bool {
        self.boot_ns >= deadline.boot_ns || self.raw_ns >= deadline.raw_ns
    }

    /// This instant moved forward.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        let nanos = nanos(time);
        Self {
            boot_ns: self.boot_ns.saturating_add(nanos),
            raw_ns: self.raw_ns.saturating_add(nanos),
        }
    }

    /// This instant moved back; not before the clocks' zero.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        let nanos = nanos(time);
        Self {
            boot_ns: self.boot_ns.saturating_sub(nanos),
            raw_ns: self.raw_ns.saturating_sub(nanos),
        }
    }

    /// The deadline that comes first, clock by clock.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        Self {
            boot_ns: self.boot_ns.min(other.boot_ns),
            raw_ns: self.raw_ns.min(other.raw_ns),
        }
    }
}

/// Where the client reads its time. The system's clocks, or a settable one in tests.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment, read now and never cached.
    fn now(&self) -> ClientInstant;
}

/// The machine's `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC_RAW`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> ClientInstant {
        ClientInstant {
            boot_ns: read(ClockId::Boottime),
            raw_ns: read(ClockId::MonotonicRaw),
        }
    }
}

/// A clock that moves only when told to, each of its two parts on its own.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<ClientInstant>,
}

impl ManualClock {
    /// A clock that stands at an arbitrary moment after its zero.
    #[must_use]
    pub fn new() -> Self {
        let start = 1_000_000_000_000;
        Self {
            now: Mutex::new(ClientInstant::from_nanos(start, start)),
        }
    }

    /// Both clocks go on, as on a running machine.
    pub fn advance(&self, time: Duration) {
        let mut now = self.lock();
        *now = now.after(time);
    }

    /// Only `CLOCK_BOOTTIME` goes on, as in suspend.
    pub fn advance_boot(&self, time: Duration) {
        let mut now = self.lock();
        now.boot_ns = now.boot_ns.saturating_add(nanos(time));
    }

    /// Only `CLOCK_MONOTONIC_RAW` goes on, as when a daemon holds the steered clocks back.
    pub fn advance_raw(&self, time: Duration) {
        let mut now = self.lock();
        now.raw_ns = now.raw_ns.saturating_add(nanos(time));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ClientInstant> {
        self.now
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> ClientInstant {
        *self.lock()
    }
}

/// How long to sleep before reading the clock again on the way to a deadline `left` away.
///
/// The timer that wakes us is one of the clocks we do not trust, so a long sleep is cut up: a
/// suspend or a slewed clock is then noticed after at most a quarter of a second.
pub(crate) fn slice(left: Duration) -> Duration {
    (left / 10).clamp(SLICE_MIN, SLICE_MAX).min(left)
}

fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

const SLICE_MIN: Duration = Duration::from_millis(1);
const SLICE_MAX: Duration = Duration::from_millis(250);

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
    fn clocks_that_go_back_never_make_time_negative() {
        assert_eq!(ClientInstant::from_nanos(1, 1).since(START), Duration::ZERO);
    }

    #[test]
    fn system_time_goes_on() {
        let first = SystemClock.now();
        let second = SystemClock.now();
        assert!(second.has_reached(first));
        assert!(second.since(first) < Duration::from_secs(60));
    }

    #[test]
    fn sleeps_towards_a_deadline_are_cut_up() {
        assert_eq!(slice(Duration::from_secs(30)), Duration::from_millis(250));
        assert_eq!(slice(Duration::from_millis(100)), Duration::from_millis(10));
        assert_eq!(
            slice(Duration::from_micros(300)),
            Duration::from_micros(300)
        );
        assert_eq!(slice(Duration::ZERO), Duration::ZERO);
    }
}
