//! When the log's positions were written, about: from that it follows for how long a key has not been.
//!
//! An entry knows the position of its last write, which costs it no byte more. Kept are some moments at which a position
//! was the next one: up to a second apart, and further apart the older they are. Nothing hangs on them but what OBJECT
//! IDLETIME answers.

use std::time::Duration;

use crate::position::LogPosition;
use crate::time::NodeTime;

/// Moments and the positions that came next at each, in their order.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    moments: Vec<(NodeTime, LogPosition)>,
    /// Before this no moment is added.
    next: NodeTime,
    /// When the last command ran.
    #[cfg(debug_assertions)]
    latest: NodeTime,
}

impl Ages {
    /// A command runs, and its group would get this position.
    #[inline]
    pub(crate) fn note(&mut self, now: NodeTime, position: LogPosition) {
        #[cfg(debug_assertions)]
        {
            assert!(now >= self.latest, "node time does not go back");
            self.latest = now;
        }
        if now >= self.next {
            self.add(now, position);
        }
    }

    fn add(&mut self, now: NodeTime, position: LogPosition) {
        self.next = now.saturating_add(STEP);
        if self.moments.len() >= MOMENTS_MAX {
            self.thin_out(now);
        }
        self.moments.push((now, position));
    }

    /// Drops moments whose neighbours are so near to each other that an age is told about as well without them.
    fn thin_out(&mut self, now: NodeTime) {
        let times: Vec<NodeTime> = self.moments.iter().map(|(time, _)| *time).collect();
        let (mut number, mut kept) = (0_usize, None);
        self.moments.retain(|(time, _)| {
            number = number.saturating_add(1);
            let (Some(before), Some(after)) = (kept, times.get(number)) else {
                kept = Some(*time);
                return true;
            };
            let is_needed = after.saturating_since(before).saturating_mul(EXACTNESS)
                > now.saturating_since(*time);
            if is_needed {
                kept = Some(*time);
            }
            is_needed
        });
    }

    /// How long ago this position was written, about. What was written before the first moment is as old as that.
    pub(crate) fn since(&self, position: LogPosition, now: NodeTime) -> Duration {
        let after = self.moments.partition_point(|(_, next)| *next <= position);
        let moment = self.moments.get(after.saturating_sub(1));
        moment.map_or(Duration::ZERO, |(then, _)| now.saturating_since(*then))
    }
}

/// Two moments are so far apart at least.
const STEP: Duration = Duration::from_secs(1);
/// An age is told too high by this part of it at most.
const EXACTNESS: u32 = 64;
/// Of so many far fewer are left, also after a hundred years.
const MOMENTS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> NodeTime {
        NodeTime::from_nanos(second * 1_000_000_000)
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "node time does not go back")]
    fn a_command_before_the_last_one_is_a_defect() {
        let mut ages = Ages::default();
        for second in [7, 7, 8, 7] {
            ages.note(at(second), LogPosition::from_raw(1));
        }
    }

    #[test]
    fn ages_are_right_to_the_second_where_they_are_young_and_about_right_for_days() {
        let mut ages = Ages::default();
        assert_eq!(ages.since(LogPosition::from_raw(1), at(9)), Duration::ZERO);
        let end: u64 = 3 * 86_400;
        for half in 2..=2 * end {
            let now = NodeTime::from_nanos(half * 500_000_000);
            ages.note(now, LogPosition::from_raw(half * 10));
        }
        assert!(ages.moments.len() <= MOMENTS_MAX);
        ages.thin_out(at(end));
        assert!(
            ages.moments.len() < MOMENTS_MAX / 2,
            "{}",
            ages.moments.len()
        );
        for age in [0, 1, 59, 400, 3600, 86_400, 2 * 86_400] {
            let written = LogPosition::from_raw((end - age) * 20 + 5);
            let found = ages.since(written, at(end)).as_secs();
            let error = found.abs_diff(age);
            assert!(error <= 1 + age / 32, "{age}: {found}");
        }
        // Before all of them.
        let old = ages.since(LogPosition::from_raw(3), at(end)).as_secs();
        assert_eq!(old, end - 1);
    }
}
