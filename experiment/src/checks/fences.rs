//! C3: fences grow. No two holds of a lock have the same one, and who asks when an acquisition has returned gets a larger
//! fence than that one had.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Occurrence, TrialRecord, Who};

/// How many holds have a fence, and how many of these fences were taken before, or are no larger than one that was known
/// before its holder asked.
pub(super) fn count(records: &[TrialRecord]) -> (u64, u64) {
    let mut asked: BTreeMap<(&Who, &str), u64> = BTreeMap::new();
    let mut largest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut taken: BTreeSet<(&str, u64)> = BTreeSet::new();
    let (mut fences, mut disordered) = (0, 0);
    for record in records {
        match &record.what {
            Occurrence::Asked { lock } => {
                let known = largest.get(lock.as_str()).copied().unwrap_or(0);
                asked.insert((&record.who, lock), known);
            }
            Occurrence::Acquired {
                lock,
                fence: Some(fence),
                ..
            } => {
                fences += 1;
                let before = asked.remove(&(&record.who, lock.as_str())).unwrap_or(0);
                let is_new = taken.insert((lock, *fence));
                if !is_new || *fence <= before {
                    disordered += 1;
                }
                let known = largest.entry(lock).or_default();
                *known = (*known).max(*fence);
            }
            _ => {}
        }
    }
    (fences, disordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(who: &str, what: Occurrence) -> TrialRecord {
        TrialRecord {
            at_ns: 0,
            who: Who::Client(who.to_owned()),
            what,
        }
    }

    fn asked(who: &str) -> TrialRecord {
        let lock = "x".to_owned();
        record(who, Occurrence::Asked { lock })
    }

    fn acquired(who: &str, fence: u64) -> TrialRecord {
        let what = Occurrence::Acquired {
            lock: "x".to_owned(),
            hold: fence,
            token: String::new(),
            valid_until_ns: 0,
            nodes: Vec::new(),
            fence: Some(fence),
        };
        record(who, what)
    }

    #[test]
    fn a_fence_is_larger_than_those_known_when_it_was_asked_for() {
        let one_after_the_other = [
            asked("a"),
            acquired("a", 1),
            asked("b"),
            acquired("b", 2),
            asked("a"),
            acquired("a", 7),
        ];
        assert_eq!(count(&one_after_the_other), (3, 0));
        let smaller = [asked("a"), acquired("a", 5), asked("b"), acquired("b", 4)];
        assert_eq!(count(&smaller), (2, 1));
        let at_once = [asked("a"), asked("b"), acquired("a", 5), acquired("b", 4)];
        assert_eq!(count(&at_once), (2, 0));
        let twice = [asked("a"), asked("b"), acquired("a", 5), acquired("b", 5)];
        assert_eq!(count(&twice), (2, 1));
    }
}
