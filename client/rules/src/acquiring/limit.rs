//! How long one call may still wait.

use std::time::Duration;

use crate::clock::ClientInstant;
use crate::wait::Wait;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    wait: Wait,
    began: ClientInstant,
}

impl Limit {
    pub(super) fn new(wait: Wait, began: ClientInstant) -> Self {
        Self { wait, began }
    }

    /// What is left of the wait.
    pub(super) fn left(self, now: ClientInstant) -> Duration {
        match self.wait {
            Wait::None => Duration::ZERO,
            Wait::For(wait) => wait.saturating_sub(self.waited(now)),
            Wait::Forever => Duration::MAX,
        }
    }

    pub(super) fn waited(self, now: ClientInstant) -> Duration {
        now.since(self.began)
    }

    /// A pause of this length, or as much of it as leaves time for a round at the end of the wait.
    pub(super) fn cut(self, pause: Duration, round_trip: Duration, now: ClientInstant) -> Duration {
        let left = self.left(now);
        let last_start = left.saturating_sub(round_trip);
        match last_start.is_zero() {
            true => pause.min(left),
            false => pause.min(last_start),
        }
    }

    /// When the wait is over, if it ever is.
    pub(super) fn ends_at(self) -> Option<ClientInstant> {
        match self.wait {
            Wait::None => Some(self.began),
            Wait::For(wait) => Some(self.began.after(wait)),
            Wait::Forever => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_over_when_nothing_of_it_is_left() {
        let began = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let ms = Duration::from_millis;
        let wait = Limit::new(Wait::For(ms(100)), began);
        for (waited_ms, left_ms) in [(0, 100), (99, 1), (100, 0), (101, 0)] {
            let now = began.after(ms(waited_ms));
            assert_eq!(wait.left(now), ms(left_ms), "{waited_ms}");
            let is_over = wait.ends_at().is_some_and(|at| now.has_reached(at));
            assert_eq!(is_over, left_ms == 0, "{waited_ms}");
        }
        // Only one of the clocks went on: that counts.
        let slept = ClientInstant::from_nanos(7_060_000_000, 3_000_000_000);
        assert_eq!(wait.left(slept), ms(40));
        let none = Limit::new(Wait::None, began);
        assert_eq!((none.left(began), none.ends_at()), (ms(0), Some(began)));
        let forever = Limit::new(Wait::Forever, began);
        assert_eq!(
            (forever.left(slept), forever.ends_at()),
            (Duration::MAX, None)
        );
    }

    #[test]
    fn a_pause_leaves_time_for_a_last_round() {
        let began = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let ms = Duration::from_millis;
        let wait = Limit::new(Wait::For(ms(100)), began);
        for (waited_ms, pause_ms) in [(0, 50), (30, 50), (31, 49), (79, 1), (80, 20), (99, 1)] {
            let now = began.after(ms(waited_ms));
            let cut = wait.cut(ms(50), ms(20), now);
            assert_eq!(cut, ms(pause_ms), "{waited_ms}");
        }
        let forever = Limit::new(Wait::Forever, began);
        assert_eq!(forever.cut(ms(50), ms(20), began), ms(50));
    }
}
