//! The pauses of one call between its attempts.
//!
//! Invariant: a pause never lasts longer than the wait, and the last attempt begins early enough to end within it, as
//! far as is known. Nothing here asks a node.

use std::time::Duration;

use crate::settings::RetryDelay;

/// What is known when a pause begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// How long a majority of the nodes takes for a round.
    pub(super) round_trip: Duration,
    /// Whether several callers have split the votes.
    pub(super) is_split: bool,
    /// Time until enough nodes are free again, if they have told.
    pub(super) time_left: Option<Duration>,
    /// What is left of the wait.
    pub(super) wait_left: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Since the lock was seen to change hands.
    count: u32,
}

impl Pauses {
    /// The lock has changed hands: whoever waits for it asks as often as at first.
    pub(super) fn begin_anew(&mut self) {
        self.count = 0;
    }

    /// The length of the next pause, for a random number in 0..1.
    pub(super) fn next(&mut self, delay: RetryDelay, random: f64, known: Situation) -> Duration {
        let delay = match known.is_split {
            true => delay.for_round_trip(known.round_trip),
            false => delay,
        };
        let pause = delay.pause(self.count, random, known.time_left);
        self.count = self.count.saturating_add(1);
        let last_start = known.wait_left.saturating_sub(known.round_trip);
        match last_start.is_zero() {
            true => pause.min(known.wait_left),
            false => pause.min(last_start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const KNOWN: Situation = Situation {
        round_trip: Duration::from_millis(40),
        is_split: false,
        time_left: None,
        wait_left: Duration::from_secs(10),
    };

    fn longest(situation: Situation, count: usize) -> Vec<Duration> {
        let mut pauses = Pauses::default();
        let delay = RetryDelay::new(10 * MS, 100 * MS);
        (0..count)
            .map(|_| pauses.next(delay, 1.0, situation))
            .collect()
    }

    #[test]
    fn pauses_are_longer_where_votes_are_split_far_away_and_only_there() {
        assert_eq!(longest(KNOWN, 5), [10, 20, 40, 80, 100].map(|ms| ms * MS));
        let split = Situation {
            is_split: true,
            ..KNOWN
        };
        assert_eq!(longest(split, 4), [40, 80, 160, 160].map(|ms| ms * MS));
        let near = Situation {
            round_trip: MS,
            ..split
        };
        assert_eq!(longest(near, 5), longest(KNOWN, 5));
    }

    #[test]
    fn the_last_attempt_begins_a_round_before_the_waits_end() {
        for (wait_left_ms, pause_ms) in [(200, 10), (50, 10), (45, 5), (41, 1), (40, 10), (6, 6)] {
            let wait_left = wait_left_ms * MS;
            let pauses = longest(Situation { wait_left, ..KNOWN }, 1);
            assert_eq!(pauses, [pause_ms * MS], "{wait_left:?}");
        }
    }

    #[test]
    fn a_lock_that_changes_hands_is_asked_for_as_often_as_at_first() {
        let mut pauses = Pauses::default();
        let delay = RetryDelay::new(10 * MS, 100 * MS);
        let mut next = |anew: bool| {
            if anew {
                pauses.begin_anew();
            }
            pauses.next(delay, 1.0, KNOWN)
        };
        let told = [false, false, true, false].map(&mut next);
        assert_eq!(told, [10, 20, 10, 20].map(|ms| ms * MS));
    }
}
