//! When a worker looks at its connections for those that have to go.
//!
//! A round of looks is due half a second after something is there that may have to go, and takes a
//! bounded part of the connections at a time. Without such a thing an idle worker needs no timer.

use std::ops::Range;
use std::time::Duration;

use quorlock_engine::RawTime;

/// The rounds of one worker. It reads no clock.
#[derive(Debug, Default)]
pub(crate) struct IdleReaper {
    /// There is something to look after.
    is_round_wanted: bool,
    due: Option<RawTime>,
    /// Where the round goes on that has begun.
    next: usize,
}

impl IdleReaper {
    /// Asks for another round.
    pub(crate) fn request_round(&mut self) {
        self.is_round_wanted = true;
    }

    /// Whether the clock matters to [`IdleReaper::take_due`].
    pub(crate) fn is_running(&self) -> bool {
        self.is_round_wanted || self.due.is_some()
    }

    /// How long until the next look; without end where none is wanted.
    pub(crate) fn pause(&self, now: RawTime) -> Option<Duration> {
        let due = self.due?;
        Some(due.saturating_since(now))
    }

    /// Sets the timer of a round that was asked for, unless one is under way.
    pub(crate) fn arm(&mut self, now: RawTime) {
        if self.due.is_none() && std::mem::take(&mut self.is_round_wanted) {
            self.due = Some(now.plus_nanos(EVERY_NS));
        }
    }

    /// The part of `count` connections to look at now, if it is time for one.
    pub(crate) fn take_due(&mut self, now: RawTime, count: usize) -> Option<Range<usize>> {
        self.arm(now);
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        let part = self.next.min(count)..count.min(self.next + PART);
        if part.end == count {
            (self.due, self.next) = (None, 0);
        } else {
            self.next = part.end;
        }
        Some(part)
    }
}

/// `timeout` counts whole seconds.
const EVERY_NS: u64 = 500_000_000;

/// So many connections are looked at in one iteration of the event loop: less than 100 us.
const PART: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const START: RawTime = RawTime::ZERO;
    const LAST: RawTime = RawTime::from_nanos(u64::MAX);
    const DUE: RawTime = RawTime::from_nanos(EVERY_NS);

    #[test]
    fn nothing_to_look_after_needs_no_timer() {
        let mut idle_reaper = IdleReaper::default();
        assert_eq!(idle_reaper.take_due(LAST, 10), None);
        assert_eq!(idle_reaper.pause(START), None);
        assert!(!idle_reaper.is_running());
    }

    #[test]
    fn a_round_comes_in_time_and_only_once() {
        let mut idle_reaper = IdleReaper::default();
        idle_reaper.request_round();
        assert!(idle_reaper.is_running());
        assert_eq!(idle_reaper.take_due(START.plus_nanos(7), 10), None);
        assert_eq!(
            idle_reaper.pause(START.plus_nanos(7)),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            idle_reaper.take_due(START.plus_nanos(6 + EVERY_NS), 10),
            None
        );
        assert_eq!(idle_reaper.take_due(DUE.plus_nanos(7), 10), Some(0..10));
        assert_eq!(idle_reaper.take_due(LAST, 10), None);
        assert_eq!(idle_reaper.pause(START), None);
    }

    #[test]
    fn many_connections_are_looked_at_part_by_part() {
        let mut idle_reaper = IdleReaper::default();
        idle_reaper.request_round();
        assert_eq!(idle_reaper.take_due(START, 2 * PART + 1), None);
        let now = DUE;
        let mut part = |count| {
            let part = idle_reaper.take_due(now, count);
            (part, idle_reaper.pause(now))
        };
        let at_once = Some(Duration::ZERO);
        assert_eq!(part(2 * PART + 1), (Some(0..PART), at_once));
        assert_eq!(part(2 * PART + 1), (Some(PART..2 * PART), at_once));
        assert_eq!(part(2 * PART + 1), (Some(2 * PART..2 * PART + 1), None));
        assert_eq!(part(2 * PART + 1), (None, None));
    }

    #[test]
    fn connections_may_become_fewer_during_a_round() {
        let mut idle_reaper = IdleReaper::default();
        idle_reaper.request_round();
        idle_reaper.take_due(START, 3 * PART);
        idle_reaper.take_due(DUE, 3 * PART);
        idle_reaper.take_due(DUE, 3 * PART);
        assert_eq!(idle_reaper.take_due(DUE, 10), Some(10..10));
        assert_eq!(idle_reaper.take_due(DUE, 10), None);
    }

    #[test]
    fn what_is_wanted_during_a_round_gets_the_next() {
        let mut idle_reaper = IdleReaper::default();
        idle_reaper.request_round();
        idle_reaper.take_due(START, 1);
        idle_reaper.request_round();
        assert_eq!(idle_reaper.take_due(DUE, 1), Some(0..1));
        assert_eq!(idle_reaper.pause(DUE), None);
        idle_reaper.arm(DUE);
        let pause = idle_reaper.pause(DUE);
        assert_eq!(
            pause,
            Some(Duration::from_millis(500)),
            "an idle worker wakes up for it"
        );
        assert_eq!(idle_reaper.take_due(DUE, 1), None);
        assert_eq!(
            idle_reaper.take_due(DUE.plus_nanos(EVERY_NS), 1),
            Some(0..1)
        );
    }
}
