//! What an agent has answered about locks, apart for the patterns of their names that its configuration has.
//!
//! Invariant: there is one class for each pattern and one for all other names, so that what is shown does not grow with the names.
//! How long a lock was held is known of those that this agent has both granted and released, to one holder.

use std::collections::HashMap;

use bytes::Bytes;
use quorlock_clock::ClientInstant;
use quorlock_engine::lock_counts::{LockPatterns, TimeCounts};

use crate::counts::Step;

/// What was counted for each class of names.
#[derive(Clone, Debug)]
pub struct CountsByPattern {
    patterns: LockPatterns,
    classes: Vec<ClassCounts>,
    /// Since when locks are held, by their names and the own tokens of their holders.
    held_since: HashMap<(Bytes, Bytes), ClientInstant>,
    /// Of these names and tokens.
    held_bytes: usize,
}

/// What was counted for one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    steps: [u64; STEPS.len()],
    /// How long the requests took that got a lock.
    pub acquired_after: TimeCounts,
    /// How long locks were held that were released, from reply to reply.
    pub holds: TimeCounts,
}

impl CountsByPattern {
    /// Counts of these classes, all 0.
    #[must_use]
    pub fn new(patterns: LockPatterns) -> Self {
        Self {
            classes: patterns.labels().map(|_| ClassCounts::default()).collect(),
            patterns,
            held_since: HashMap::new(),
            held_bytes: 0,
        }
    }

    /// A reply leaves now to a request that came then. It tells of this step with the locks of these names, which the one with this
    /// own token takes or releases.
    pub fn count(
        &mut self,
        names: &[Bytes],
        own: Option<&Bytes>,
        step: Step,
        (came, now): (ClientInstant, ClientInstant),
    ) {
        for name in names {
            let class = self.patterns.class_of(name);
            let Some(counts) = self.classes.get_mut(class) else {
                continue;
            };
            counts.steps[step as usize] += 1;
            // The words of a request share its buffer, which is not to be kept.
            let copied = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
            let lock = own.map(|own| (copied(name), copied(own)));
            match (step, lock) {
                (Step::Acquired, lock) => {
                    counts.acquired_after.count(now.since(came));
                    let more = lock.as_ref().map_or(0, bytes_of);
                    // Those that were not released are never asked for.
                    if self.held_since.len() >= HELD_MAX || self.held_bytes + more > HELD_BYTES_MAX
                    {
                        self.held_since.clear();
                        self.held_bytes = 0;
                    }
                    if let Some(lock) = lock
                        && self.held_since.insert(lock, now).is_none()
                    {
                        self.held_bytes += more;
                    }
                }
                (Step::Released, Some(lock)) => {
                    if let Some(since) = self.held_since.remove(&lock) {
                        self.held_bytes -= bytes_of(&lock);
                        counts.holds.count(now.since(since));
                    }
                }
                _ => {}
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

fn bytes_of((name, own): &(Bytes, Bytes)) -> usize {
    name.len() + own.len()
}

/// About 4 MB with names and tokens of usual lengths.
const HELD_MAX: usize = 16_384;
/// Names have up to 64 KiB.
const HELD_BYTES_MAX: usize = 4 << 20;

/// The words for steps, as for those of all names together.
const STEPS: [(Step, &str); 4] = [
    (Step::Acquired, "acquired"),
    (Step::Extended, "extended"),
    (Step::Released, "released"),
    (Step::Refused, "refused"),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> ClientInstant {
        let nanos = 1_000_000_000 + ms * 1_000_000;
        ClientInstant::from_nanos(nanos, nanos)
    }

    #[test]
    fn a_lock_was_held_from_the_reply_that_granted_it_to_the_one_that_released_it() {
        let mut counts = CountsByPattern::new(LockPatterns::new(&["job:*".to_owned()]));
        let names = ["job:1", "job:2"].map(Bytes::from);
        let [me, you] = ["me", "you"].map(Bytes::from);
        counts.count(&names, Some(&me), Step::Acquired, (at(0), at(2)));
        counts.count(&names[..1], Some(&you), Step::Released, (at(3), at(4)));
        counts.count(&names[..1], Some(&me), Step::Extended, (at(5), at(6)));
        counts.count(&names[..1], Some(&me), Step::Released, (at(40), at(42)));
        // Its holder releases it again, and the other lock was released through another agent and taken once more.
        counts.count(&names[..1], Some(&me), Step::Released, (at(50), at(52)));
        counts.count(&names[1..], Some(&me), Step::Acquired, (at(60), at(61)));
        counts.count(&names[1..], Some(&me), Step::Released, (at(70), at(71)));
        let (_, class) = counts.classes().nth(1).unwrap();
        assert_eq!(class.holds.sum, Duration::from_millis(40 + 10));
        assert_eq!(class.holds.buckets.iter().sum::<u64>(), 2);
    }

    #[test]
    fn locks_that_are_never_released_are_forgotten() {
        let mut counts = CountsByPattern::new(LockPatterns::default());
        let me = Bytes::from("me");
        for number in 0..2 * HELD_MAX {
            let name = Bytes::from(number.to_string());
            counts.count(&[name], Some(&me), Step::Acquired, (at(0), at(1)));
            assert!(counts.held_since.len() <= HELD_MAX);
        }
        for number in 0..100 {
            let name = [Bytes::from(format!("{number:0>60000}"))];
            // It is taken twice, and each third is released.
            for _ in 0..2 {
                counts.count(&name, Some(&me), Step::Acquired, (at(0), at(1)));
            }
            if number % 3 == 0 {
                counts.count(&name, Some(&me), Step::Released, (at(2), at(3)));
            }
            let bytes: usize = counts.held_since.keys().map(bytes_of).sum();
            assert_eq!(bytes, counts.held_bytes);
            assert!(bytes <= HELD_BYTES_MAX);
        }
        let (_, class) = counts.classes().next().unwrap();
        assert_eq!(class.holds.buckets.iter().sum::<u64>(), 34);
    }

    #[test]
    fn each_name_of_a_request_counts_for_the_first_pattern_that_it_matches() {
        let patterns = ["job:*", "*:nightly"].map(str::to_owned);
        let mut counts = CountsByPattern::new(LockPatterns::new(&patterns));
        let names = ["job:nightly", "report:nightly", "other"].map(Bytes::from);
        let took = Duration::from_millis(3);
        let times = (at(0), at(3));
        counts.count(&names, None, Step::Acquired, times);
        counts.count(&names[..1], None, Step::Refused, times);
        counts.count(&names[..1], None, Step::Released, times);
        counts.count(&[], None, Step::Extended, times);
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
