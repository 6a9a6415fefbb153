//! Client time: how often it is read on the way to a deadline, and which of many deadlines have come.
//!
//! Invariant: time since an instant is never too short; see [`ClientInstant`] for how. No clock is read here.

mod timers;

use std::time::Duration;

pub use quorlock_clock::ClientInstant;
pub(crate) use quorlock_clock::saturated;
pub(crate) use timers::Timers;

/// How long to sleep before reading the clock again on the way to a deadline `left` away.
///
/// The timer that wakes us is one of the clocks we do not trust, so a long sleep is cut up: a
/// suspend or a slewed clock is then noticed after at most a quarter of a second.
#[must_use]
pub fn slice(left: Duration) -> Duration {
    (left / 10).clamp(SLICE_MIN, SLICE_MAX).min(left)
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
