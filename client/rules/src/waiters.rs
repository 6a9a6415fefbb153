//! The calls of one client that wait for the same lock: first in, first out.
//!
//! Invariant: only the first of a name asks the nodes; the others wait for their turn or for the
//! end of their own time. Calls that do not wait are not here.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;

use crate::OperationId;
use crate::clock::{ClientInstant, Timers};
use crate::link::earlier;
use crate::name::LockName;
use crate::place::Place;

/// What calls of one client wait for together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    Lock(LockName),
    /// Any permit of a semaphore, however many a call says that there are.
    PermitOf(Bytes),
}

#[derive(Debug)]
pub(super) struct Waiters {
    queues: HashMap<Wanted, Queue>,
    /// The names of the queues in which a place has changed that is to be told later, by the queue's number.
    names: HashMap<u64, Wanted>,
    timers: Timers<u64>,
    numbers: u64,
    /// How many calls were looked at to tell places.
    #[cfg(test)]
    pub(super) looks: usize,
}

/// The calls that wait for one lock.
#[derive(Debug)]
struct Queue {
    number: u64,
    calls: BTreeMap<u64, Waiter>,
    /// Where in the queue a call is.
    seats: HashMap<OperationId, u64>,
    next_seat: u64,
    /// The places are not counted before this: that takes a look at every call.
    counts_at: ClientInstant,
    /// Those in front of this seat were told with the last count.
    tells_from: u64,
}

impl Queue {
    /// How many times as long it is between two counts of a long queue: to count takes a time that grows with it.
    fn length_factor(&self) -> u32 {
        let more = self.calls.len() / CALLS_AT_ONCE;
        u32::try_from(more).map_or(u32::MAX, |more| more.saturating_add(1))
    }
}

#[derive(Debug)]
struct Waiter {
    operation: OperationId,
    /// Where somebody wants to know it.
    place: Option<Place>,
}

impl Waiters {
    pub(super) fn new() -> Self {
        Self {
            queues: HashMap::new(),
            names: HashMap::new(),
            timers: Timers::new(),
            numbers: 0,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Takes a place in the queue, which is told now, and at most once in `every`, if somebody wants to know it. Says how
    /// many came first.
    pub(super) fn join(
        &mut self,
        name: &Wanted,
        operation: OperationId,
        tells: Option<Duration>,
        now: ClientInstant,
    ) -> usize {
        let queue = self.queues.entry(name.clone()).or_insert_with(|| {
            self.numbers += 1;
            Queue {
                number: self.numbers,
                calls: BTreeMap::new(),
                seats: HashMap::new(),
                next_seat: 0,
                counts_at: now,
                tells_from: 0,
            }
        });
        let ahead = queue.calls.len();
        let place = tells.map(|every| Place::told(ahead, now, every));
        let seat = queue.next_seat;
        queue.next_seat += 1;
        queue.seats.insert(operation, seat);
        queue.calls.insert(seat, Waiter { operation, place });
        ahead
    }

    /// The calls behind the first whose place is to be told now, with how many came before each; what is to be told later
    /// is [due](Self::take_due) then. Where many leave at once their queue is not counted for each of them, and of a long
    /// queue a part is told at a time.
    pub(super) fn take_news(
        &mut self,
        name: &Wanted,
        now: ClientInstant,
        every: Duration,
    ) -> Vec<(usize, OperationId)> {
        let mut news = Vec::new();
        let Some(queue) = self.queues.get_mut(name) else {
            return news;
        };
        let mut next = None;
        if now.has_reached(queue.counts_at) {
            let pause = (every / COUNTS_IN_EVERY).saturating_mul(queue.length_factor());
            queue.counts_at = now.after(pause);
            let from = std::mem::take(&mut queue.tells_from);
            for (ahead, (seat, waiter)) in queue.calls.iter_mut().enumerate().skip(1) {
                let Some(place) = &mut waiter.place else {
                    continue;
                };
                place.moved(ahead);
                if *seat < from {
                    continue;
                }
                if news.len() == NEWS_MAX {
                    queue.tells_from = *seat;
                    break;
                }
                match place.take_news(now, every) {
                    Some(ahead) => news.push((ahead, waiter.operation)),
                    None => next = earlier(next, place.due_at()),
                }
            }
            #[cfg(test)]
            {
                self.looks += queue.calls.len();
            }
            if queue.tells_from > 0 || from > 0 {
                next = earlier(next, Some(queue.counts_at));
            }
        } else {
            next = Some(queue.counts_at);
        }
        if let Some(next) = next {
            self.names.insert(queue.number, name.clone());
            self.timers.arm(queue.number, next);
        }
        news
    }

    /// A lock of which places may have to be told now.
    pub(super) fn take_due(&mut self, now: ClientInstant) -> Option<Wanted> {
        let number = self.timers.take_due(now)?;
        self.names.remove(&number)
    }

    /// When [`take_due`](Self::take_due) is to be called.
    pub(super) fn next_time(&self) -> Option<ClientInstant> {
        self.timers.next()
    }

    /// Gives a place up. Names the call whose turn it now is, if that has changed.
    pub(super) fn leave(&mut self, name: &Wanted, operation: OperationId) -> Option<OperationId> {
        let queue = self.queues.get_mut(name)?;
        let seat = queue.seats.remove(&operation)?;
        let was_first = queue.calls.keys().next() == Some(&seat);
        queue.calls.remove(&seat);
        if queue.calls.is_empty() {
            self.timers.disarm(queue.number);
            self.names.remove(&queue.number);
            self.queues.remove(name);
            return None;
        }
        self.first(name).filter(|_| was_first)
    }

    /// The call whose turn it is.
    pub(super) fn first(&self, name: &Wanted) -> Option<OperationId> {
        let first = self.queues.get(name)?.calls.values().next();
        first.map(|waiter| waiter.operation)
    }

    /// All calls of a queue, in order.
    pub(super) fn all(&self, name: &Wanted) -> Vec<OperationId> {
        let queue = self.queues.get(name);
        let calls = queue.into_iter().flat_map(|queue| queue.calls.values());
        calls.map(|waiter| waiter.operation).collect()
    }

    /// How many calls are in all queues; a queue without calls is not kept.
    pub(super) fn size(&self) -> usize {
        self.queues.values().map(|queue| queue.calls.len()).sum()
    }
}

/// How often a queue is counted, at most, while a call may tell its place once.
const COUNTS_IN_EVERY: u32 = 8;
/// A queue of so many is counted half as often as a short one.
const CALLS_AT_ONCE: usize = 20_000;
/// So many are told at once, which wakes each of them: the others with the next count.
const NEWS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;

    const START: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
    const EVERY: Duration = Duration::from_millis(200);

    #[test]
    fn a_long_queue_is_told_in_parts_and_all_of_it() {
        let mut waiters = Waiters::new();
        let name = Wanted::Lock(LockName::from("a"));
        let calls = 5 * NEWS_MAX as u64;
        for number in 0..calls {
            waiters.join(&name, OperationId(number), Some(EVERY), START);
        }
        let mut now = START.after(EVERY);
        waiters.leave(&name, OperationId(0));
        let mut told: Vec<_> = waiters.take_news(&name, now, EVERY);
        assert_eq!(told.len(), NEWS_MAX);
        while let Some(next) = waiters.next_time() {
            now = next;
            assert_eq!(waiters.take_due(now), Some(name.clone()));
            let more = waiters.take_news(&name, now, EVERY);
            assert!(more.len() <= NEWS_MAX, "{}", more.len());
            told.extend(more);
        }
        // All but the first, whose turn it is, once.
        let expected =
            (2..calls).map(|number| (usize::try_from(number).unwrap() - 1, OperationId(number)));
        assert_eq!(told, expected.collect::<Vec<_>>());
        assert!(now.since(START) < 3 * EVERY);
    }

    #[test]
    fn turns_are_passed_on_in_order_whoever_leaves() {
        let mut waiters = Waiters::new();
        let name = Wanted::Lock(LockName::from("a"));
        let [first, second, third] = [1, 2, 3].map(OperationId);
        assert_eq!(waiters.join(&name, first, None, START), 0);
        assert_eq!(waiters.join(&name, second, Some(EVERY), START), 1);
        assert_eq!(waiters.join(&name, third, Some(EVERY), START), 2);
        let other = Wanted::PermitOf(Bytes::from_static(b"a"));
        assert_eq!(waiters.join(&other, third, Some(EVERY), START), 0);
        let now = START.after(EVERY);
        assert_eq!(waiters.take_news(&name, now, EVERY), [], "known already");
        assert_eq!(waiters.leave(&name, second), None);
        // They were counted a moment ago, and are counted again soon.
        assert_eq!(waiters.take_news(&name, now, EVERY), []);
        let now = waiters.next_time().unwrap();
        assert_eq!(waiters.take_due(now), Some(name.clone()));
        assert_eq!(waiters.take_news(&name, now, EVERY), [(1, third)]);
        assert_eq!(waiters.leave(&name, first), Some(third));
        assert_eq!(waiters.first(&name), Some(third));
        let now = now.after(EVERY);
        assert_eq!(waiters.take_news(&name, now, EVERY), []);
        assert_eq!(waiters.leave(&name, third), None);
        assert_eq!(waiters.queues.len(), 1);
        assert_eq!(waiters.leave(&name, first), None);
        assert_eq!((waiters.names.len(), waiters.next_time()), (0, None));
    }
}
