//! Writers in line that may have vanished without an end of their connection: a node asks them whether they still wait, where
//! they keep readers out of a lock that other readers hold.
//!
//! The first writer is asked by the push `lock-wanted` once it has been silent for a while, and answers by asking again
//! (LOCK.WAIT). One that does not is sent `lock-free`, as though it was its turn: clients that know no other push try and ask
//! again. One that has answered neither leaves the queue. A reader wants the lock if it waits in the queue, or was refused since
//! the writer has asked. The longer no other one comes, the longer the writer is left alone ([`SILENCE_MIN`],
//! [`SILENCE_MAX`]): while nothing changes it is asked a few times a minute.
//!
//! Invariant: a writer leaves only after it was asked twice and had [`INTENT_LASTS`], or its turn, for each answer. Without a
//! reader that wants the lock no writer is asked.

use std::time::Duration;

use crate::lock_intents::INTENT_LASTS;
use crate::lock_queues::{LockQueues, Unanswered, Woken, earliest};
use crate::queue_name::QueueName;
use crate::time::NodeTime;

impl LockQueues {
    /// Asks the first writer whether it still waits, if that is due, and takes it out if it has not answered. Readers hold the
    /// lock. Returns when this is to be looked at again.
    pub(super) fn ask_silent(
        &mut self,
        name: &QueueName,
        now: NodeTime,
        woken: &mut Vec<Woken>,
    ) -> Option<NodeTime> {
        let queue = self.queues.get(name)?;
        let ticket = *queue.writers.first()?;
        let waiter = self.waiters.get_mut(&ticket)?;
        let has_readers = queue.order.len() > queue.writers.len();
        if !has_readers && queue.wanted_at <= waiter.asked_at {
            return None;
        }
        let unanswered = waiter.unanswered;
        let due = unanswered.map_or_else(
            || silent_until(waiter.asked_at, queue.wanted_at),
            |unanswered| unanswered.until,
        );
        if due > now {
            return Some(due);
        }
        if unanswered.is_some_and(|unanswered| unanswered.is_turn) {
            self.remove(ticket);
            // The next one may be a silent writer as well.
            return Some(NodeTime::ZERO);
        }
        let is_turn = unanswered.is_some();
        let until = now.saturating_add(INTENT_LASTS.max(waiter.turn));
        waiter.unanswered = Some(Unanswered { is_turn, until });
        let asked = waiter.to_wake();
        woken.push(Woken { is_turn, ..asked });
        Some(until)
    }

    /// A reader was refused. Where a writer in the queue was the reason, that one is asked whether it still waits.
    pub(crate) fn note_kept_out(&mut self, name: &QueueName, now: NodeTime) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let first = queue.writers.first().copied();
        let Some(waiter) = first.and_then(|first| self.waiters.get(&first)) else {
            return;
        };
        queue.wanted_at = now;
        let is_asked = waiter.unanswered.is_some();
        let due = (!is_asked).then(|| silent_until(waiter.asked_at, now));
        let at = earliest([queue.timer, due]);
        self.set_timer(name, at);
    }
}

/// When a writer is asked that has been silent since it asked.
fn silent_until(asked_at: NodeTime, wanted_at: NodeTime) -> NodeTime {
    let unchanged = asked_at.saturating_since(wanted_at);
    asked_at.saturating_add(unchanged.clamp(SILENCE_MIN, SILENCE_MAX))
}

/// How long a writer is silent before it is asked: as long as no reader had come when it asked last, within these. The bundled
/// client, which asks by itself less often than that, comes to less than a fifth of a request in a second with the longest.
pub(super) const SILENCE_MIN: Duration = Duration::from_secs(2);
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(11);
