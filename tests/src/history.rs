//! The record of a run, and the check that decides it: no two holders of a lock at once.
//!
//! Times are the observer's: one clock of this machine that nobody steers, read by the test and
//! never by what is tested. Only that clock is used for the verdict, whatever a client believes.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The observer's clock: time since an arbitrary moment.
pub fn observed_now() -> Duration {
    let time = clock_gettime(ClockId::MonotonicRaw);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// What a caller did or was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An acquisition returned success.
    Acquired {
        /// When it returned.
        at: Duration,
        /// Until when the client claims the lock.
        claimed_until: Duration,
    },
    /// An extension returned success.
    Extended {
        /// Until when the client claims the lock now.
        claimed_until: Duration,
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

/// One hold of one lock by one caller: all its events carry the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which lock.
    pub lock: u32,
    /// Which hold: unique in a history.
    pub hold: u64,
    /// What happened.
    pub event: Event,
}

/// Two holds of the same lock that overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Which lock.
    pub lock: u32,
    /// The two holds, the earlier first.
    pub holds: (u64, u64),
    /// For how long both were held.
    pub length: Duration,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = self.holds;
        let length = self.length;
        write!(
            f,
            "lock {}: holds {first} and {second} overlap by {length:?}",
            self.lock
        )
    }
}

/// What happened, in the order in which it was noted. Shared by all callers of a run.
#[derive(Debug, Default)]
pub struct History {
    entries: Mutex<Vec<Entry>>,
}

impl History {
    /// Notes an event.
    pub fn note(&self, lock: u32, hold: u64, event: Event) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry { lock, hold, event });
    }

    /// How many acquisitions succeeded.
    pub fn acquisitions(&self) -> usize {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries
            .iter()
            .filter(|entry| matches!(entry.event, Event::Acquired { .. }))
            .count()
    }

    /// Every pair of holds of one lock that overlap; empty if the locks excluded each other.
    pub fn overlaps(&self) -> Vec<Overlap> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        overlaps(&entries)
    }
}

/// A lock was held from the return of its acquisition until the first of: the release was asked
/// for, the loss was told, the claimed validity ended.
#[derive(Clone, Copy)]
struct Interval {
    lock: u32,
    hold: u64,
    start: Duration,
    end: Duration,
}

fn overlaps(entries: &[Entry]) -> Vec<Overlap> {
    let mut intervals = intervals(entries);
    intervals.sort_by_key(|interval| (interval.lock, interval.start, interval.hold));
    let mut found = Vec::new();
    let mut latest: Option<Interval> = None;
    for interval in intervals {
        match latest {
            Some(previous) if previous.lock == interval.lock => {
                let both_until = previous.end.min(interval.end);
                if interval.start < both_until {
                    let length = both_until.saturating_sub(interval.start);
                    let holds = (previous.hold, interval.hold);
                    found.push(Overlap {
                        lock: interval.lock,
                        holds,
                        length,
                    });
                }
                if interval.end > previous.end {
                    latest = Some(interval);
                }
            }
            _ => latest = Some(interval),
        }
    }
    found
}

fn intervals(entries: &[Entry]) -> Vec<Interval> {
    let mut intervals: Vec<Interval> = Vec::new();
    for entry in entries {
        let Entry { lock, hold, event } = *entry;
        if let Event::Acquired { at, claimed_until } = event {
            intervals.push(Interval {
                lock,
                hold,
                start: at,
                end: claimed_until,
            });
            continue;
        }
        let known = intervals
            .iter_mut()
            .rev()
            .find(|interval| interval.hold == hold);
        let Some(interval) = known else { continue };
        match event {
            Event::Extended { claimed_until } => interval.end = claimed_until,
            Event::Lost { at } | Event::ReleaseAsked { at } => {
                interval.end = interval.end.min(at);
            }
            Event::Acquired { .. } => {}
        }
    }
    intervals
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
        assert_eq!(fine.overlaps(), []);
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
        let expected = Overlap {
            lock: 1,
            holds: (1, 2),
            length: ms(2),
        };
        assert_eq!(bad.overlaps(), [expected]);
    }

    #[test]
    fn a_claim_that_goes_on_counts_until_it_ends() {
        let unreleased = history(&[(1, 1, acquired(0, 100)), (1, 2, acquired(99, 150))]);
        assert_eq!(unreleased.overlaps().len(), 1);
        let extended = history(&[
            (1, 1, acquired(0, 100)),
            (
                1,
                1,
                Event::Extended {
                    claimed_until: ms(200),
                },
            ),
            (1, 2, acquired(150, 300)),
        ]);
        assert_eq!(extended.overlaps().len(), 1);
    }

    #[test]
    fn a_short_hold_inside_a_long_one_does_not_hide_the_next() {
        let nested = history(&[
            (1, 1, acquired(0, 100)),
            (1, 2, acquired(10, 20)),
            (1, 3, acquired(50, 60)),
        ]);
        assert_eq!(nested.overlaps().len(), 2);
    }
}
