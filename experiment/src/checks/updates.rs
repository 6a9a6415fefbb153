//! C4: updates of a register that another holder has overwritten without having seen them.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Occurrence, TrialRecord};

/// How many writes there were, and how many of them rest on a value that was no longer the newest.
pub(super) fn count(records: &[TrialRecord]) -> (u64, u64) {
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut read: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut updates, mut lost) = (0, 0);
    for record in records {
        match &record.what {
            Occurrence::Read { hold, value, .. } => {
                read.insert(*hold, *value);
            }
            Occurrence::Wrote { lock, hold, value } => {
                updates += 1;
                let base = read.get(hold).copied();
                if newest
                    .get(lock.as_str())
                    .is_some_and(|newest| base != Some(*newest))
                {
                    lost += 1;
                }
                newest.insert(lock, *value);
            }
            _ => {}
        }
    }
    (updates, lost)
}

/// How many acknowledged updates are missing in what the database counted at the end, of all locks; none where it was not
/// read back.
pub(super) fn missing(records: &[TrialRecord]) -> Option<u64> {
    let stored = records.iter().filter_map(|record| match record.what {
        Occurrence::Stored { writes, count, .. } => Some(writes.saturating_sub(count)),
        _ => None,
    });
    stored.reduce(|one, other| one + other)
}

/// How many holds some node has forgotten.
pub(super) fn forgotten(records: &[TrialRecord]) -> u64 {
    holds(records, |what| match what {
        Occurrence::Forgot { hold, .. } => Some(*hold),
        _ => None,
    })
}

/// How many holders the register has refused.
pub(super) fn refused(records: &[TrialRecord]) -> u64 {
    holds(records, |what| match what {
        Occurrence::Stale { hold, .. } => Some(*hold),
        _ => None,
    })
}

/// How many holds have such an event.
fn holds(records: &[TrialRecord], of: impl Fn(&Occurrence) -> Option<u64>) -> u64 {
    let holds: BTreeSet<u64> = records
        .iter()
        .filter_map(|record| of(&record.what))
        .collect();
    holds.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Who;

    fn step(hold: u64, writes: Option<u64>, value: u64) -> TrialRecord {
        let lock = "x".to_owned();
        let what = match writes {
            None => Occurrence::Read { lock, hold, value },
            Some(value) => Occurrence::Wrote { lock, hold, value },
        };
        TrialRecord {
            at_ns: 0,
            who: Who::Harness,
            what,
        }
    }

    #[test]
    fn a_write_that_rests_on_an_old_value_loses_the_one_between() {
        let fine = [
            step(1, None, 0),
            step(1, Some(1), 0),
            step(2, None, 1),
            step(2, Some(2), 0),
        ];
        assert_eq!(count(&fine), (2, 0));
        let lost = [
            step(1, None, 0),
            step(2, None, 0),
            step(2, Some(1), 0),
            step(1, Some(1), 0),
        ];
        assert_eq!(count(&lost), (2, 1));
    }

    #[test]
    fn what_the_database_counts_less_than_it_has_acknowledged_is_missing() {
        let stored = |writes, count| TrialRecord {
            at_ns: 0,
            who: Who::Harness,
            what: Occurrence::Stored {
                lock: "x".to_owned(),
                writes,
                count,
            },
        };
        assert_eq!(missing(&[step(1, Some(1), 0)]), None);
        assert_eq!(missing(&[stored(3, 3), stored(5, 5)]), Some(0));
        assert_eq!(missing(&[stored(2, 1), stored(5, 3)]), Some(3));
    }
}
