//! Client time: where it is read, and how often on the way to a deadline.
//!
//! Invariant: time since an instant is never too short; see `instant` for how. The system's
//! clocks are outside this crate; their twin, [`ManualClock`], moves when a test says so.

mod instant;
mod manual;
mod timers;

use std::fmt;
use std::task::Waker;
use std::time::Duration;

pub use instant::ClientInstant;
pub use manual::ManualClock;
pub(crate) use timers::Timers;

/// Where the client reads its time. The system's clocks, or a settable one in tests.
///
/// # Example
/// ```
/// use quorlock_client::{ClientInstant, Clock, SystemClock};
///
/// /// Counts how often it is read.
/// #[derive(Debug, Default)]
/// struct Counting(std::sync::atomic::AtomicU64);
///
/// impl Clock for Counting {
///     fn now(&self) -> ClientInstant {
///         self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         SystemClock.now()
///     }
/// }
/// let before = SystemClock.now();
/// assert!(Counting::default().now().has_reached(before));
/// ```
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment, read now and never cached.
    fn now(&self) -> ClientInstant;

    /// Called whenever a client has done what it had found to do, with the deadline that it sleeps towards, if it has one. More
    /// may have come meanwhile: then it does not sleep yet.
    ///
    /// A clock that only a test moves keeps the waker, wakes it at each move, and returns whether it does: then the client sets
    /// no timer. Where time passes by itself, it does nothing.
    #[doc(hidden)]
    fn sleep_towards(&self, _deadline: Option<ClientInstant>, _waker: &Waker) -> bool {
        false
    }
}

/// How long to sleep before reading the clock again on the way to a deadline `left` away.
///
/// The timer that wakes us is one of the clocks we do not trust, so a long sleep is cut up: a
/// suspend or a slewed clock is then noticed after at most a quarter of a second.
#[must_use]
pub fn slice(left: Duration) -> Duration {
    (left / 10).clamp(SLICE_MIN, SLICE_MAX).min(left)
}

/// The length of a duration in nanoseconds. One of more than 584 years is longer than a client
/// lives: it becomes the longest that 64 bits can count, which stands for "for ever".
fn saturated_nanos(duration: Duration) -> u64 {
    saturated(duration.as_nanos())
}

/// A length in nanoseconds: the longest that 64 bits can count stands for anything longer.
pub(crate) fn saturated(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

const SLICE_MIN: Duration = Duration::from_millis(1);
const SLICE_MAX: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

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
