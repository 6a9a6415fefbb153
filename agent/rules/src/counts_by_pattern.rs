//! What an agent has answered about locks, apart for the patterns of their names that its configuration has.
//!
//! Invariant: there is one class for each pattern and one for all other names, so that what is shown does not grow with the names.

use bytes::Bytes;
use quorlock_engine::lock_counts::LockPatterns;

use crate::counts::Step;

/// How many locks each class of names had for each step.
#[derive(Clone, Debug)]
pub struct CountsByPattern {
    patterns: LockPatterns,
    classes: Vec<[u64; STEPS.len()]>,
}

impl CountsByPattern {
    /// Counts of these classes, all 0.
    #[must_use]
    pub fn new(patterns: LockPatterns) -> Self {
        Self {
            classes: patterns.labels().map(|_| [0; STEPS.len()]).collect(),
            patterns,
        }
    }

    /// A reply leaves that tells of this step with the locks of these names.
    pub fn count(&mut self, names: &[Bytes], step: Step) {
        for name in names {
            let class = self.patterns.class_of(name);
            if let Some(counts) = self.classes.get_mut(class) {
                counts[step as usize] += 1;
            }
        }
    }

    /// The pattern of each class, which is empty for names that match none, and its counts under the word for each step.
    pub fn classes(&self) -> impl Iterator<Item = (&str, [(&'static str, u64); STEPS.len()])> {
        let worded =
            |counts: &[u64; STEPS.len()]| STEPS.map(|(step, word)| (word, counts[step as usize]));
        self.patterns.labels().zip(self.classes.iter().map(worded))
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
        counts.count(&names, Step::Acquired);
        counts.count(&names[..1], Step::Refused);
        counts.count(&names[..1], Step::Released);
        counts.count(&[], Step::Extended);
        let of = |counted: [u64; 4]| {
            let words = ["acquired", "extended", "released", "refused"];
            let mut pairs = [("", 0); 4];
            for (pair, one) in pairs.iter_mut().zip(words.into_iter().zip(counted)) {
                *pair = one;
            }
            pairs
        };
        assert_eq!(
            counts.classes().collect::<Vec<_>>(),
            [
                ("", of([1, 0, 0, 0])),
                ("job:*", of([1, 0, 1, 1])),
                ("*:nightly", of([1, 0, 0, 0])),
            ]
        );
    }
}
