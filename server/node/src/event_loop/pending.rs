//! The requests of one worker that have no reply yet: by what they wait for, and by the end of their time.
//!
//! What is waited for comes in an order, and so is a number that grows: a position of the log, a place in a queue.
//! An entry is met once what has come has reached its number. Nothing here knows what the numbers are.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use quorlock_engine::RawTime;

use crate::session::Condition;

/// The pending requests, each known by its connection.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    /// With the number that has to be reached.
    queued: BTreeSet<(Condition, u64, usize)>,
    deadlines: BTreeSet<(RawTime, usize)>,
    entries: HashMap<usize, Entry>,
    /// The last place that was given.
    place: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    awaited: Option<(Condition, u64)>,
    until_raw: Option<RawTime>,
}

impl PendingRequests {
    /// Whether none waits for a number or a time.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A number behind all that were given before, for what is met for all at once.
    pub(crate) fn next_place(&mut self) -> u64 {
        self.place += 1;
        self.place
    }

    /// Lets a connection's request wait until a number is reached, or until the end of its time. One that waits for
    /// neither is ended by others alone, and is not kept here.
    pub(crate) fn insert(
        &mut self,
        connection: usize,
        awaited: Option<(Condition, u64)>,
        until_raw: Option<RawTime>,
    ) {
        if let Some((awaited, number)) = awaited {
            self.queued.insert((awaited, number, connection));
        }
        if let Some(until_raw) = until_raw {
            self.deadlines.insert((until_raw, connection));
        }
        if awaited.is_some() || until_raw.is_some() {
            let entry = Entry { awaited, until_raw };
            let before = self.entries.insert(connection, entry);
            debug_assert!(before.is_none(), "a connection waits for one thing");
        }
    }

    /// Forgets the request of a connection, if it has one here.
    pub(crate) fn remove(&mut self, connection: usize) {
        let Some(entry) = self.entries.remove(&connection) else {
            return;
        };
        if let Some((awaited, number)) = entry.awaited {
            self.queued.remove(&(awaited, number, connection));
        }
        if let Some(until_raw) = entry.until_raw {
            self.deadlines.remove(&(until_raw, connection));
        }
    }

    /// The next condition behind this one that a request waits for by a number; the first one behind nothing.
    pub(crate) fn next_condition(&self, last: Option<Condition>) -> Option<Condition> {
        let behind = last.map(|last| Bound::Excluded((last, u64::MAX, usize::MAX)));
        let range = (behind.unwrap_or(Bound::Unbounded), Bound::Unbounded);
        let (condition, _, _) = self.queued.range(range).next()?;
        Some(*condition)
    }

    /// The smallest number that a request waits for.
    pub(crate) fn first(&self, awaited: Condition) -> Option<u64> {
        let mut queued = self.queued.range((awaited, 0, 0)..);
        let (kind, number, _) = queued.next()?;
        (*kind == awaited).then_some(*number)
    }

    /// Whether a request waits for this very number.
    pub(crate) fn is_awaited(&self, awaited: Condition, number: u64) -> bool {
        let mut queued = self
            .queued
            .range((awaited, number, 0)..=(awaited, number, usize::MAX));
        queued.next().is_some()
    }

    /// Takes the connection that waits for the smallest number, if that is reached.
    pub(crate) fn take_met(&mut self, awaited: Condition, reached: u64) -> Option<usize> {
        let mut queued = self
            .queued
            .range((awaited, 0, 0)..=(awaited, reached, usize::MAX));
        let (_, _, connection) = *queued.next()?;
        self.remove(connection);
        Some(connection)
    }

    /// When the time of the next one ends.
    pub(crate) fn next_deadline(&self) -> Option<RawTime> {
        self.deadlines.first().map(|(until_raw, _)| *until_raw)
    }

    /// Takes the connection whose time has ended first.
    pub(crate) fn take_due(&mut self, now_raw: RawTime) -> Option<usize> {
        let (until_raw, connection) = *self.deadlines.first()?;
        if until_raw > now_raw {
            return None;
        }
        self.remove(connection);
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> RawTime {
        RawTime::from_nanos(nanos)
    }

    #[test]
    fn those_whose_number_is_reached_come_in_the_order_of_their_numbers() {
        let mut pending = PendingRequests::default();
        for (connection, awaited, number) in [
            (0, Condition::Synced, 9),
            (1, Condition::PauseOver, 2),
            (2, Condition::Synced, 4),
            (3, Condition::PauseOver, 1),
        ] {
            pending.insert(connection, Some((awaited, number)), None);
        }
        assert_eq!(pending.first(Condition::Synced), Some(4));
        assert_eq!(pending.first(Condition::Segment), None);
        let behind = |last| pending.next_condition(last);
        assert_eq!(behind(None), Some(Condition::Synced));
        assert_eq!(behind(Some(Condition::Synced)), Some(Condition::PauseOver));
        assert_eq!(behind(Some(Condition::PauseOver)), None);
        assert_eq!(pending.take_met(Condition::Synced, 3), None);
        assert_eq!(pending.take_met(Condition::Synced, 9), Some(2));
        assert_eq!(pending.take_met(Condition::PauseOver, u64::MAX), Some(3));
        pending.remove(0);
        assert_eq!(pending.take_met(Condition::Synced, u64::MAX), None);
        assert_eq!(pending.take_met(Condition::PauseOver, u64::MAX), Some(1));
        assert!(pending.is_empty());
    }

    #[test]
    fn what_is_met_has_no_deadline_any_more_and_what_is_due_waits_for_no_number() {
        let mut pending = PendingRequests::default();
        pending.insert(0, Some((Condition::Synced, 5)), Some(at(7)));
        pending.insert(1, None, Some(at(6)));
        pending.insert(2, Some((Condition::Synced, 5)), Some(at(9)));
        pending.insert(3, None, None);
        assert_eq!(pending.take_met(Condition::Synced, 5), Some(0));
        assert_eq!(
            (pending.next_deadline(), pending.take_due(at(5))),
            (Some(at(6)), None)
        );
        assert_eq!(pending.take_due(at(9)), Some(1));
        assert_eq!(pending.take_due(at(9)), Some(2));
        assert_eq!(pending.take_met(Condition::Synced, u64::MAX), None);
        assert!(pending.is_empty() && pending.next_deadline().is_none());
    }
}
