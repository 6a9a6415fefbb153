//! C6: once all faults have ended, every lock is to be had within the stated bound.

use std::collections::BTreeSet;

use crate::history::{Occurrence, TrialRecord};

/// The locks of the record that nobody acquired within the bound after the last `healed`. Without a `healed` nothing
/// was promised.
pub(super) fn stuck(records: &[TrialRecord]) -> Vec<String> {
    let healed = records.iter().rev().find_map(|record| match record.what {
        Occurrence::Healed { bound_ns } => Some((record.at_ns, bound_ns)),
        _ => None,
    });
    let Some((healed_ns, bound_ns)) = healed else {
        return Vec::new();
    };
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    let mut had: BTreeSet<&str> = BTreeSet::new();
    for record in records {
        match &record.what {
            Occurrence::Asked { lock } => {
                wanted.insert(lock);
            }
            Occurrence::Acquired { lock, .. } => {
                wanted.insert(lock);
                let late_ns = record.at_ns.saturating_sub(healed_ns);
                if record.at_ns >= healed_ns && late_ns <= bound_ns {
                    had.insert(lock);
                }
            }
            _ => {}
        }
    }
    wanted
        .difference(&had)
        .map(|lock| (*lock).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Who;

    fn record(at_ns: u64, what: Occurrence) -> TrialRecord {
        TrialRecord {
            at_ns,
            who: Who::Harness,
            what,
        }
    }

    fn acquired(at_ns: u64, hold: u64) -> TrialRecord {
        let what = Occurrence::Acquired {
            lock: "x".to_owned(),
            hold,
            token: String::new(),
            valid_until_ns: at_ns + 1,
            nodes: Vec::new(),
            fence: None,
        };
        record(at_ns, what)
    }

    #[test]
    fn a_lock_must_be_had_within_the_bound_after_the_end_of_the_faults() {
        let healed = record(100, Occurrence::Healed { bound_ns: 50 });
        let before = acquired(10, 1);
        assert_eq!(stuck(std::slice::from_ref(&before)), Vec::<String>::new());
        assert_eq!(stuck(&[before.clone(), healed.clone()]), ["x"]);
        assert_eq!(
            stuck(&[before.clone(), healed.clone(), acquired(151, 2)]),
            ["x"]
        );
        assert_eq!(
            stuck(&[before, healed, acquired(150, 2)]),
            Vec::<String>::new()
        );
    }
}
