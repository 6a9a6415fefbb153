//! C1 and C2: no lock has two holders at once.
//!
//! A hold lasts from the return of its acquisition until the first of: its release was asked for, its loss was told, the
//! validity that was claimed for it, extensions included, was over. What an application believes lasts until it last
//! looked and saw its lock valid, or until its release.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::history::{Occurrence, TrialRecord, Who};

/// One hold of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldInterval {
    /// Which lock.
    pub lock: String,
    /// Its number in the record.
    pub hold: u64,
    /// Who holds it.
    pub who: Who,
    /// When the acquisition returned.
    pub from_ns: u64,
    /// Until when the client may claim it (C1).
    pub valid_to_ns: u64,
    /// Until when the application believed it (C2).
    pub believed_to_ns: u64,
}

/// Two holds of one lock at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// Which lock.
    pub lock: String,
    /// The numbers of the two holds, the earlier first.
    pub holds: (u64, u64),
    /// Since when both held it.
    pub from_ns: u64,
    /// For how long.
    pub length_ns: u64,
}

/// All holds of a record, in the order of their beginnings.
pub fn holds(records: &[TrialRecord]) -> Vec<HoldInterval> {
    let mut holds: BTreeMap<u64, HoldInterval> = BTreeMap::new();
    let mut ended = BTreeMap::new();
    for record in records {
        let at_ns = record.at_ns;
        match &record.what {
            Occurrence::Acquired {
                lock,
                hold,
                valid_until_ns,
                ..
            } => {
                let new = HoldInterval {
                    lock: lock.clone(),
                    hold: *hold,
                    who: record.who.clone(),
                    from_ns: at_ns,
                    valid_to_ns: *valid_until_ns,
                    believed_to_ns: at_ns,
                };
                holds.insert(*hold, new);
            }
            Occurrence::Extended {
                hold,
                valid_until_ns,
                ..
            } => {
                if let Some(known) = holds.get_mut(hold) {
                    known.valid_to_ns = *valid_until_ns;
                    known.believed_to_ns = at_ns;
                }
            }
            Occurrence::SeenValid { hold, .. } | Occurrence::Wrote { hold, .. } => {
                if let Some(known) = holds.get_mut(hold) {
                    known.believed_to_ns = known.believed_to_ns.max(at_ns);
                }
            }
            Occurrence::Lost { hold, .. } | Occurrence::ReleaseAsked { hold, .. } => {
                ended.entry(*hold).or_insert(at_ns);
            }
            _ => {}
        }
    }
    for (hold, at_ns) in ended {
        if let Some(known) = holds.get_mut(&hold) {
            known.valid_to_ns = known.valid_to_ns.min(at_ns);
        }
    }
    let mut holds: Vec<HoldInterval> = holds.into_values().collect();
    holds.sort_by_key(|hold| (hold.from_ns, hold.hold));
    holds
}

/// Every hold that begins while an earlier one of the same lock lasts.
pub(super) fn overlaps(
    holds: &[HoldInterval],
    end_ns: impl Fn(&HoldInterval) -> u64,
) -> Vec<Overlap> {
    let mut longest: BTreeMap<&str, &HoldInterval> = BTreeMap::new();
    let mut found = Vec::new();
    for hold in holds {
        if let Some(before) = longest.get(hold.lock.as_str()) {
            let both_until_ns = end_ns(before).min(end_ns(hold));
            if hold.from_ns < both_until_ns {
                found.push(Overlap {
                    lock: hold.lock.clone(),
                    holds: (before.hold, hold.hold),
                    from_ns: hold.from_ns,
                    length_ns: both_until_ns - hold.from_ns,
                });
            }
            if end_ns(hold) <= end_ns(before) {
                continue;
            }
        }
        longest.insert(&hold.lock, hold);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_ns: u64, who: &str, what: Occurrence) -> TrialRecord {
        TrialRecord {
            at_ns,
            who: Who::Client(who.to_owned()),
            what,
        }
    }

    fn acquired(at_ns: u64, hold: u64, valid_until_ns: u64) -> TrialRecord {
        let what = Occurrence::Acquired {
            lock: "x".to_owned(),
            hold,
            token: hold.to_string(),
            valid_until_ns,
            nodes: Vec::new(),
            fence: None,
        };
        record(at_ns, &hold.to_string(), what)
    }

    fn released(at_ns: u64, hold: u64) -> TrialRecord {
        let lock = "x".to_owned();
        record(
            at_ns,
            &hold.to_string(),
            Occurrence::ReleaseAsked { lock, hold },
        )
    }

    fn extended(at_ns: u64, hold: u64, valid_until_ns: u64) -> TrialRecord {
        let what = Occurrence::Extended {
            lock: "x".to_owned(),
            hold,
            valid_until_ns,
        };
        record(at_ns, &hold.to_string(), what)
    }

    fn seen(at_ns: u64, hold: u64) -> TrialRecord {
        let lock = "x".to_owned();
        record(
            at_ns,
            &hold.to_string(),
            Occurrence::SeenValid { lock, hold },
        )
    }

    fn lengths(records: &[TrialRecord]) -> Vec<u64> {
        let holds = holds(records);
        let found = overlaps(&holds, |hold| hold.valid_to_ns);
        found.iter().map(|overlap| overlap.length_ns).collect()
    }

    #[test]
    fn one_after_the_other_is_fine() {
        let released = [acquired(0, 1, 100), released(10, 1), acquired(10, 2, 100)];
        assert_eq!(lengths(&released), Vec::<u64>::new());
        let expired = [acquired(0, 1, 30), acquired(30, 2, 60)];
        assert_eq!(lengths(&expired), Vec::<u64>::new());
    }

    #[test]
    fn a_second_holder_is_seen_with_the_length() {
        let twice = [acquired(0, 1, 100), acquired(8, 2, 100), released(10, 1)];
        assert_eq!(lengths(&twice), [2]);
        let extended = [
            acquired(0, 1, 100),
            extended(50, 1, 200),
            acquired(150, 2, 300),
        ];
        assert_eq!(lengths(&extended), [50]);
    }

    #[test]
    fn a_short_hold_inside_a_long_one_does_not_hide_the_next() {
        let nested = [
            acquired(0, 1, 100),
            acquired(10, 2, 20),
            acquired(50, 3, 60),
        ];
        assert_eq!(lengths(&nested), [10, 10]);
    }

    #[test]
    fn an_application_that_looked_long_ago_believes_no_longer() {
        let paused = [
            acquired(0, 1, 50),
            seen(10, 1),
            acquired(60, 2, 110),
            seen(70, 2),
            seen(80, 1),
        ];
        let holds = holds(&paused);
        let believed = overlaps(&holds, |hold| hold.believed_to_ns);
        assert_eq!(believed.len(), 1);
        assert_eq!(believed[0].length_ns, 10);
        assert_eq!(overlaps(&holds, |hold| hold.valid_to_ns), []);
    }
}
