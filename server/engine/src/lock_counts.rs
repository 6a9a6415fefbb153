//! What is counted of locks: grants, refusals, ends, and how long locks were held and waited for.
//!
//! A lock is what LOCK.LIST shows: a key with a TTL whose value may be one. So a grant is the moment at which a key becomes
//! that, and an end the moment at which it ceases to be, whatever command or script did it; a lock that is held shared
//! counts once, from its first holder to its last. A renewal is neither.
//!
//! Counts are by class: the first pattern that a name matches, or none. Invariant: of each class, grants less ends are the
//! locks that are held, but for those that were there when the node started. What is counted of a script or transaction that
//! is undone is taken back. Replay counts nothing.

use std::time::Duration;

use crate::glob::GlobBudget;

/// The counts of all classes.
#[derive(Clone, Debug, Default)]
pub struct LockCounts {
    patterns: LockPatterns,
    /// Those of names that match no pattern, and then one for each pattern.
    classes: Vec<ClassCounts>,
}

/// The patterns of names by which locks are counted apart.
#[derive(Clone, Debug, Default)]
pub struct LockPatterns(Vec<Box<str>>);

/// What is counted of the locks of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Locks that were taken.
    pub grants: u64,
    refusals: [u64; LockRefusal::ALL.len()],
    ends: [u64; LockEndReason::ALL.len()],
    /// How long locks were held, of those of which it is known.
    pub holds: TimeCounts,
    /// How long those waited with LOCK.WAIT that have taken the lock.
    pub waits: TimeCounts,
}

/// Why a lock was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefusal {
    /// The key is there.
    Held,
    /// Readers hold it, and a writer waits.
    WriterWaits,
}

/// How a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEndReason {
    /// Its key was deleted.
    Released,
    /// Its time was over.
    Expired,
    /// LOCK.FORCE-RELEASE ended it.
    Forced,
    /// Another value was written over it.
    Overwritten,
    /// Its TTL was taken from it.
    Persisted,
    /// All keys of the database were deleted.
    Flushed,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeCounts {
    /// The sum of all.
    pub sum: Duration,
    /// How many were in each range: up to the bound of the same index, and above the one before it.
    pub buckets: [u64; LOCK_TIME_BOUNDS.len() + 1],
}

/// The upper bounds of the histograms' buckets; the last bucket has none.
pub const LOCK_TIME_BOUNDS: [Duration; 12] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(1_800),
    Duration::from_secs(7_200),
];

/// One thing that happened to a lock, so that it can be taken back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedLockEvent {
    class: u8,
    event: LockOutcome,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LockOutcome {
    Granted,
    Refused(LockRefusal),
    /// And how long it was held, where that is known.
    Ended(LockEndReason, Option<Duration>),
}

impl LockRefusal {
    /// All of them, in the order of their counters.
    pub const ALL: [LockRefusal; 2] = [LockRefusal::Held, LockRefusal::WriterWaits];

    /// The word for metrics.
    pub fn word(self) -> &'static str {
        match self {
            LockRefusal::Held => "held",
            LockRefusal::WriterWaits => "writer-waits",
        }
    }
}

impl LockEndReason {
    /// All of them, in the order of their counters.
    pub const ALL: [LockEndReason; 6] = [
        LockEndReason::Released,
        LockEndReason::Expired,
        LockEndReason::Forced,
        LockEndReason::Overwritten,
        LockEndReason::Persisted,
        LockEndReason::Flushed,
    ];

    /// The word for metrics.
    pub fn word(self) -> &'static str {
        match self {
            LockEndReason::Released => "released",
            LockEndReason::Expired => "expired",
            LockEndReason::Forced => "forced",
            LockEndReason::Overwritten => "overwritten",
            LockEndReason::Persisted => "persisted",
            LockEndReason::Flushed => "flushed",
        }
    }
}

impl LockCounts {
    /// Counts of these classes, all 0.
    pub(crate) fn new(patterns: LockPatterns) -> LockCounts {
        let classes = patterns.labels().map(|_| ClassCounts::default());
        LockCounts {
            classes: classes.collect(),
            patterns,
        }
    }

    /// The classes: their pattern, which is empty for the names that match none, and their counts.
    pub fn classes(&self) -> impl Iterator<Item = (&str, &ClassCounts)> {
        self.patterns.labels().zip(&self.classes)
    }

    /// Counts what happened to the lock of a name.
    #[inline]
    pub(crate) fn count(&mut self, name: &[u8], event: LockOutcome) -> CountedLockEvent {
        let class = self.patterns.class_of(name);
        let class = u8::try_from(class).expect("there are few patterns");
        let counted = CountedLockEvent { class, event };
        self.apply(counted, add);
        counted
    }

    /// Counts that the one who waited for so long has the lock.
    pub(crate) fn count_wait(&mut self, name: &[u8], waited: Duration) {
        let class = self.patterns.class_of(name);
        if let Some(counts) = self.classes.get_mut(class) {
            counts.waits.apply(waited, add);
        }
    }

    /// As if it had not been counted.
    pub(crate) fn take_back(&mut self, counted: CountedLockEvent) {
        self.apply(counted, u64::saturating_sub);
    }

    fn apply(&mut self, counted: CountedLockEvent, step: fn(u64, u64) -> u64) {
        let Some(counts) = self.classes.get_mut(usize::from(counted.class)) else {
            return;
        };
        let counter = match counted.event {
            LockOutcome::Granted => &mut counts.grants,
            LockOutcome::Refused(why) => &mut counts.refusals[why as usize],
            LockOutcome::Ended(how, held) => {
                if let Some(held) = held {
                    counts.holds.apply(held, step);
                }
                &mut counts.ends[how as usize]
            }
        };
        *counter = step(*counter, 1);
    }
}

impl LockPatterns {
    /// These patterns, at most [`LOCK_PATTERNS_MAX`].
    pub fn new(patterns: &[String]) -> LockPatterns {
        debug_assert!(patterns.len() <= LOCK_PATTERNS_MAX, "the caller checks");
        LockPatterns(
            patterns
                .iter()
                .map(|pattern| pattern.as_str().into())
                .collect(),
        )
    }

    /// The pattern of each class; the first class is that of the names that match none, and its pattern is empty.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let patterns = self.0.iter().map(|pattern| &**pattern);
        std::iter::once("").chain(patterns)
    }

    /// The class of a name: that of the first pattern that it matches.
    pub fn class_of(&self, name: &[u8]) -> usize {
        // A name that takes too long to match belongs to none.
        let matches = |pattern: &str| {
            let matched = GlobBudget::default().matches(pattern.as_bytes(), name);
            matched.unwrap_or(false)
        };
        let found = self.0.iter().position(|pattern| matches(pattern));
        found.map_or(0, |index| index.saturating_add(1))
    }
}

impl ClassCounts {
    /// How often a lock was refused for this reason.
    pub fn refused(&self, why: LockRefusal) -> u64 {
        self.refusals[why as usize]
    }

    /// How many locks ended like this.
    pub fn ended(&self, how: LockEndReason) -> u64 {
        self.ends[how as usize]
    }
}

impl TimeCounts {
    /// Counts one more.
    pub fn count(&mut self, time: Duration) {
        self.apply(time, add);
    }

    fn apply(&mut self, time: Duration, step: fn(u64, u64) -> u64) {
        let bucket = LOCK_TIME_BOUNDS.partition_point(|bound| *bound < time);
        self.buckets[bucket] = step(self.buckets[bucket], 1);
        self.sum = match step(0, 1) {
            0 => self.sum.saturating_sub(time),
            _ => self.sum.saturating_add(time),
        };
    }
}

fn add(count: u64, more: u64) -> u64 {
    count.saturating_add(more)
}

/// The most patterns.
pub const LOCK_PATTERNS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_in_the_class_of_the_first_pattern_that_it_matches() {
        let mut counts = LockCounts::new(LockPatterns::new(
            &["job:*", "*:nightly"].map(str::to_owned),
        ));
        for name in ["job:nightly", "report:nightly", "other"] {
            counts.count(name.as_bytes(), LockOutcome::Granted);
        }
        let counted: Vec<_> = counts.classes().map(|(of, it)| (of, it.grants)).collect();
        assert_eq!(counted, [("", 1), ("job:*", 1), ("*:nightly", 1)]);
    }

    #[test]
    fn what_is_taken_back_leaves_no_trace() {
        let mut counts = LockCounts::new(LockPatterns::default());
        let events = [
            LockOutcome::Granted,
            LockOutcome::Refused(LockRefusal::WriterWaits),
            LockOutcome::Ended(LockEndReason::Expired, Some(Duration::from_secs(3))),
        ];
        for event in events {
            let counted = counts.count(b"name", event);
            assert_ne!(counts.classes[0], ClassCounts::default());
            counts.take_back(counted);
            assert_eq!(counts.classes[0], ClassCounts::default());
        }
    }

    #[test]
    fn a_time_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let mut times = TimeCounts::default();
        let bound = LOCK_TIME_BOUNDS[2];
        let tick = Duration::from_nanos(1);
        for time in [bound - tick, bound, bound + tick, Duration::MAX] {
            times.apply(time, add);
        }
        assert_eq!(times.buckets[2..4], [2, 1]);
        assert_eq!(times.buckets.last(), Some(&1));
        assert_eq!(times.sum, Duration::MAX, "and not more");
    }
}
