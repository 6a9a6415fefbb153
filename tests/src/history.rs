//! The record of a run: what callers were told about locks, judged by the check of the experiments.
//!
//! Times are the observer's: `observed_now` of the testkit, one clock of this machine that nothing steers, read by the test and
//! never by what is tested. Only that clock is used for the verdict, whatever a client believes.

use std::time::Duration;

use quorlock_experiment::checks::judge;
use quorlock_experiment::history::{Occurrence, TrialHistory, Who};

/// What a caller did or was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A lock is asked for.
    Asked {
        /// When.
        at: Duration,
    },
    /// An acquisition returned success.
    Acquired {
        /// When it returned.
        at: Duration,
        /// Until when the client claims the lock.
        claimed_until: Duration,
        /// The lock's fence, if it was asked for.
        fence: Option<u64>,
    },
    /// The client was told that the lock is lost.
    Lost {
        /// When it was told.
        at: Duration,
    },
    /// A release was asked for; from here on others may hold the lock.
    ReleaseAsked {
        /// When it was asked for.
        at: Duration,
    },
}

/// What happened. Shared by all callers of a run.
#[derive(Debug, Default)]
pub struct History {
    journal: TrialHistory,
}

impl History {
    /// Notes an event of a hold of a lock. The number of a hold is unique in a history.
    pub fn note(&self, lock: u32, hold: u64, event: Event) {
        let lock = lock.to_string();
        let (at, what) = match event {
            Event::Asked { at } => (at, Occurrence::Asked { lock }),
            Event::Acquired {
                at,
                claimed_until,
                fence,
            } => {
                let what = Occurrence::Acquired {
                    lock,
                    hold,
                    token: hold.to_string(),
                    valid_until_ns: nanos(claimed_until),
                    nodes: Vec::new(),
                    fence,
                };
                (at, what)
            }
            Event::Lost { at } => (at, Occurrence::Lost { lock, hold }),
            Event::ReleaseAsked { at } => (at, Occurrence::ReleaseAsked { lock, hold }),
        };
        let caller = Who::Client(hold.to_string());
        self.journal.note(nanos(at), caller, what);
    }

    /// How many acquisitions succeeded.
    pub fn acquisitions(&self) -> usize {
        let records = self.journal.records();
        let is_acquired = |what: &Occurrence| matches!(what, Occurrence::Acquired { .. });
        records.iter().filter(|one| is_acquired(&one.what)).count()
    }

    /// How many holds had a fence, and how many of these fences were no larger than one that was known before they were asked
    /// for.
    pub fn fences(&self) -> (u64, u64) {
        let verdict = judge(&self.journal.records());
        (verdict.fences, verdict.disordered_fences)
    }

    /// Every pair of holds of one lock that overlap, in words; empty if the locks excluded each other.
    pub fn overlaps(&self) -> Vec<String> {
        let found = judge(&self.journal.records()).violations.into_iter();
        let words = found.map(|overlap| {
            let (first, second) = overlap.holds;
            let length = Duration::from_nanos(overlap.length_ns);
            let lock = overlap.lock;
            format!("lock {lock}: holds {first} and {second} overlap by {length:?}")
        });
        words.collect()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn history(entries: &[(u32, u64, Event)]) -> History {
        let history = History::default();
        for (lock, hold, event) in entries {
            history.note(*lock, *hold, *event);
        }
        history
    }

    fn acquired(at: u64, until: u64) -> Event {
        Event::Acquired {
            at: ms(at),
            claimed_until: ms(until),
            fence: None,
        }
    }

    fn released(at: u64) -> Event {
        Event::ReleaseAsked { at: ms(at) }
    }

    #[test]
    fn holds_one_after_the_other_do_not_overlap() {
        let fine = history(&[
            (1, 1, acquired(0, 100)),
            (2, 2, acquired(5, 100)),
            (1, 1, released(10)),
            (1, 3, acquired(10, 100)),
            (1, 3, Event::Lost { at: ms(20) }),
            (1, 4, acquired(21, 30)),
            (1, 5, acquired(30, 90)),
        ]);
        assert_eq!(fine.overlaps(), Vec::<String>::new());
        assert_eq!(fine.acquisitions(), 5);
    }

    #[test]
    fn two_holders_at_once_are_seen_with_the_length() {
        let bad = history(&[
            (1, 1, acquired(0, 100)),
            (1, 2, acquired(8, 100)),
            (1, 1, released(10)),
            (1, 2, released(12)),
        ]);
        assert_eq!(bad.overlaps(), ["lock 1: holds 1 and 2 overlap by 2ms"]);
    }
}
