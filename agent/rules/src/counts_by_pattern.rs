//! What an agent has answered about locks, apart for the patterns of their names that its configuration has.
//!
//! Invariant: there is one class for each pattern and one for all other names, so that what is shown does not grow with the names.

use std::time::Duration;

use bytes::Bytes;
use quorlock_engine::lock_counts::{LockPatterns, TimeCounts};

use crate::counts::Step;

/// What was counted for each class of names.
#[derive(Clone, Debug)]
pub struct CountsByPattern {
    patterns: LockPatterns,
    classes: Vec<ClassCounts>,
}

/// What was counted for one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    steps: [u64; STEPS.len()],
    /// How long the requests took that got a lock.
    pub acquired_after: TimeCounts,
}

impl CountsByPattern {
    /// Counts of these classes, all 0.
    #[must_use]
    pub fn new(patterns: LockPatterns) -> Self {
        Self {
            classes: patterns.labels().map(|_| ClassCounts::default()).collect(),
            patterns,
        }
    }

    /// A reply leaves that tells of this step with the locks of these names, so long after its request.
    pub fn count(&mut self, names: &[Bytes], step: Step, took: Duration) {
        for name in names {
            let class = self.patterns.class_of(name);
            let Some(counts) = self.classes.get_mut(class) else {
                continue;
            };
            counts.steps[step as usize] += 1;
            if step == Step::Acquired {
                counts.acquired_after.count(took);
            }
        }
    }

    /// The pattern of each class, which is empty for names that match none, and its counts.
    pub fn classes(&self) -> impl Iterator<Item = (&str, &ClassCounts)> {
        self.patterns.labels().zip(&self.classes)
    }
}

impl ClassCounts {
    /// How many locks it was for each step, under the word for the step.
    #[must_use]
    pub fn by_outcome(&self) -> [(&'static str, u64); STEPS.len()] {
        STEPS.map(|(step, word)| (word, self.steps[step as usize]))
    }
}

/// The words for steps, as for those of all names together.
const STEPS: [(Step, &str); 4] = [
    (Step::Acquired, "acquired"),
    (Step::Extended, "extended"),
    (Step::Released, "released"),
    (Step::Refused, "refused"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_request_counts_for_the_first_pattern_that_it_matches() {
        let patterns = ["job:*", "*:nightly"].map(str::to_owned);
        let mut counts = CountsByPattern::new(LockPatterns::new(&patterns));
        let names = ["job:nightly", "report:nightly", "other"].map(Bytes::from);
        let took = Duration::from_millis(3);
        counts.count(&names, Step::Acquired, took);
        counts.count(&names[..1], Step::Refused, took);
        counts.count(&names[..1], Step::Released, took);
        counts.count(&[], Step::Extended, took);
        let of = |class: &ClassCounts| class.by_outcome().map(|(_, count)| count);
        let counted: Vec<_> = counts
            .classes()
            .map(|(of_class, it)| (of_class, of(it)))
            .collect();
        assert_eq!(
            counted,
            [
                ("", [1, 0, 0, 0]),
                ("job:*", [1, 0, 1, 1]),
                ("*:nightly", [1, 0, 0, 0]),
            ]
        );
        for (pattern, class) in counts.classes() {
            assert_eq!(
                class.acquired_after.sum, took,
                "{pattern}: only of the lock that it got"
            );
            let words = class.by_outcome().map(|(word, _)| word);
            assert_eq!(words, ["acquired", "extended", "released", "refused"]);
        }
    }
}
