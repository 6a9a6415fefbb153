//! CLIENT PAUSE: until when requests wait, and which.
//!
//! A request that waits is not executed: its connection keeps it and asks again. Deadlines go on meanwhile.
//!
//! Invariant: of those that wait, whichever worker serves them, one that came later is executed later. Requests of other
//! connections that come once the pause is over do not queue behind them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorlock_engine::RawTime;

use crate::sync::{Mutex, MutexGuard};

/// The pause of a node; none at first.
#[derive(Default)]
pub(crate) struct Pause {
    /// So that requests of a node that is not paused read one word.
    is_on: AtomicBool,
    current: Mutex<Option<ActivePause>>,
    queue: Mutex<PauseQueue>,
}

/// The connections that wait, in the order in which they came.
#[derive(Default)]
struct PauseQueue {
    /// Whose worker each is.
    workers: BTreeMap<Ticket, usize>,
    last: u64,
}

/// A connection's place among those that wait. It is kept until its request was executed, or the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// Those of earlier places are smaller; the smallest is 1.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy)]
struct ActivePause {
    until_raw: RawTime,
    holds_up: HeldUp,
}

/// Which requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HeldUp {
    /// Those that may write or publish.
    Writes,
    /// All.
    All,
}

impl Pause {
    /// Begins a pause. Of one that is there already the later end and the stricter kind stay, as in Redis.
    pub(crate) fn begin(&self, now_raw: RawTime, until_raw: RawTime, holds_up: HeldUp) {
        let mut current = self.lock();
        let before = current.filter(|before| before.until_raw > now_raw);
        *current = Some(ActivePause {
            until_raw: before.map_or(until_raw, |before| before.until_raw.max(until_raw)),
            holds_up: before.map_or(holds_up, |before| before.holds_up.max(holds_up)),
        });
        self.is_on.store(true, Ordering::Release);
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        *self.lock() = None;
        self.is_on.store(false, Ordering::Release);
    }

    /// Whether there may be one.
    #[inline]
    pub(crate) fn may_be_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether a request waits now that may write, or may not.
    pub(crate) fn holds_up(&self, now_raw: RawTime, may_write: bool) -> bool {
        let current = *self.lock();
        current.is_some_and(|current| {
            now_raw < current.until_raw && (may_write || current.holds_up == HeldUp::All)
        })
    }

    /// How long it lasts; `None` without one.
    pub(crate) fn left(&self, now_raw: RawTime) -> Option<Duration> {
        let current = (*self.lock())?;
        let left = current.until_raw.saturating_since(now_raw);
        (!left.is_zero()).then_some(left)
    }

    /// Lets a connection of a worker wait behind all others.
    pub(crate) fn enqueue(&self, worker: usize) -> Ticket {
        let mut queue = self.lock_queue();
        queue.last += 1;
        let ticket = Ticket(queue.last);
        queue.workers.insert(ticket, worker);
        ticket
    }

    /// The last of the connections of this worker before which none of another one waits. None where the first is of another
    /// worker.
    pub(crate) fn last_due(&self, worker: usize) -> Option<Ticket> {
        let queue = self.lock_queue();
        let own = queue.workers.iter().take_while(|(_, of)| **of == worker);
        own.last().map(|(ticket, _)| *ticket)
    }

    /// A connection waits no longer. Says which worker is to be woken: that of the one which is first now.
    pub(crate) fn leave(&self, ticket: Ticket) -> Option<usize> {
        let mut queue = self.lock_queue();
        queue.workers.remove(&ticket);
        queue.workers.first_key_value().map(|(_, worker)| *worker)
    }

    fn lock(&self) -> MutexGuard<'_, Option<ActivePause>> {
        self.current.lock().expect("no holder of a pause can panic")
    }

    fn lock_queue(&self) -> MutexGuard<'_, PauseQueue> {
        self.queue.lock().expect("no holder of a queue can panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> RawTime {
        RawTime::from_nanos(nanos)
    }

    #[test]
    fn the_later_end_and_the_stricter_kind_stay_until_it_is_over() {
        let pause = Pause::default();
        assert!(!pause.may_be_on() && !pause.holds_up(at(0), true));
        pause.begin(at(0), at(10), HeldUp::Writes);
        assert!(pause.may_be_on() && pause.holds_up(at(9), true));
        assert!(!pause.holds_up(at(9), false) && !pause.holds_up(at(10), true));
        pause.begin(at(1), at(5), HeldUp::All);
        assert!(pause.holds_up(at(9), false), "the later end");
        pause.begin(at(2), at(20), HeldUp::Writes);
        assert!(pause.holds_up(at(19), false), "the stricter kind");
        assert_eq!(pause.left(at(15)), Some(Duration::from_nanos(5)));
        assert_eq!(pause.left(at(20)), None);
        pause.begin(at(20), at(30), HeldUp::Writes);
        assert!(!pause.holds_up(at(25), false), "the one before is over");
        pause.end();
        assert!(!pause.may_be_on() && pause.left(at(25)).is_none());
    }

    #[test]
    fn those_of_one_worker_are_due_together_up_to_the_first_of_another() {
        let pause = Pause::default();
        let [a, b, c, d] = [1, 1, 0, 1].map(|worker| pause.enqueue(worker));
        assert_eq!((pause.last_due(1), pause.last_due(0)), (Some(b), None));
        assert_eq!(pause.leave(b), Some(1), "the first one is still there");
        assert_eq!(pause.last_due(0), None);
        assert_eq!(pause.leave(a), Some(0));
        assert_eq!((pause.last_due(1), pause.last_due(0)), (None, Some(c)));
        assert_eq!((pause.leave(c), pause.leave(d)), (Some(1), None));
        assert!(pause.enqueue(0) > d);
    }
}
