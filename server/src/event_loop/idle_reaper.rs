//! When a worker looks at its connections for those that have to go.
//!
//! A round of looks is due half a second after something is there that may have to go, and takes a
//! bounded part of the connections at a time. Without such a thing an idle worker needs no timer.

use std::ops::Range;
use std::time::Duration;

/// The rounds of one worker. Times are readings of the raw clock in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct IdleReaper {
    /// There is something to look after.
    is_round_wanted: bool,
    due_ns: Option<u64>,
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
        self.is_round_wanted || self.due_ns.is_some()
    }

    /// How long until the next look; without end where none is wanted.
    pub(crate) fn pause(&self, now_ns: impl FnOnce() -> u64) -> Option<Duration> {
        let due_ns = self.due_ns?;
        Some(Duration::from_nanos(due_ns.saturating_sub(now_ns())))
    }

    /// Sets the timer of a round that was asked for, unless one is under way.
    pub(crate) fn arm(&mut self, now_ns: u64) {
        if self.due_ns.is_none() && std::mem::take(&mut self.is_round_wanted) {
            self.due_ns = Some(now_ns.saturating_add(EVERY_NS));
        }
    }

    /// The part of `count` connections to look at now, if it is time for one.
    pub(crate) fn take_due(&mut self, now_ns: u64, count: usize) -> Option<Range<usize>> {
        self.arm(now_ns);
        if self.due_ns.is_none_or(|due_ns| now_ns < due_ns) {
            return None;
        }
        let part = self.next.min(count)..count.min(self.next + PART);
        if part.end == count {
            (self.due_ns, self.next) = (None, 0);
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

    #[test]
    fn nothing_to_look_after_needs_no_timer() {
        let mut idle_reaper = IdleReaper::default();
        assert_eq!(idle_reaper.take_due(u64::MAX, 10), None);
        assert_eq!(idle_reaper.pause(|| 0), None);
        assert!(!idle_reaper.is_running());
    }

    #[test]
    fn a_round_comes_in_time_and_only_once() {
        let mut idle_reaper = IdleReaper::default();
        idle_reaper.request_round();
        assert!(idle_reaper.is_running());
        assert_eq!(idle_reaper.take_due(7, 10), None);
        assert_eq!(idle_reaper.pause(|| 7), Some(Duration::from_millis(500)));
        assert_eq!(idle_reaper.take_due(6 + EVERY_NS, 10), None);
        assert_eq!(idle_reaper.take_due(7 + EVERY_NS, 10), Some(0..10));
        assert_eq!(idle_reaper.take_due(u64::MAX, 10), None);
        assert_eq!(idle_reaper.pause(|| 0), None);
    }

    #[test]
    fn many_connections_are_looked_at_part_by_part() {
        let mut idle_reaper = IdleReaper::default();
        idle_reaper.request_round();
        assert_eq!(idle_reaper.take_due(0, 2 * PART + 1), None);
        let now_ns = EVERY_NS;
        let mut part = |count| {
            let part = idle_reaper.take_due(now_ns, count);
            (part, idle_reaper.pause(|| now_ns))
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
        idle_reaper.take_due(0, 3 * PART);
        idle_reaper.take_due(EVERY_NS, 3 * PART);
        idle_reaper.take_due(EVERY_NS, 3 * PART);
        assert_eq!(idle_reaper.take_due(EVERY_NS, 10), Some(10..10));
        assert_eq!(idle_reaper.take_due(EVERY_NS, 10), None);
    }

    #[test]
    fn what_is_wanted_during_a_round_gets_the_next() {
        let mut idle_reaper = IdleReaper::default();
        idle_reaper.request_round();
        idle_reaper.take_due(0, 1);
        idle_reaper.request_round();
        assert_eq!(idle_reaper.take_due(EVERY_NS, 1), Some(0..1));
        assert_eq!(idle_reaper.pause(|| EVERY_NS), None);
        idle_reaper.arm(EVERY_NS);
        let pause = idle_reaper.pause(|| EVERY_NS);
        assert_eq!(
            pause,
            Some(Duration::from_millis(500)),
            "an idle worker wakes up for it"
        );
        assert_eq!(idle_reaper.take_due(EVERY_NS, 1), None);
        assert_eq!(idle_reaper.take_due(2 * EVERY_NS, 1), Some(0..1));
    }
}
