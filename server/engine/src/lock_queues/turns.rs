//! Whose turn it is: what becomes of a queue when its lock is held, shared or free, and which reader may have a lock that
//! nobody holds exclusively.

use std::ops::Bound;
use std::sync::Arc;

use crate::lock_queues::{
    Holder, LockQueues, LockTurn, LockWaiter, TOKEN_BYTES_MAX, Woken, earliest,
};
use crate::queue_name::QueueName;
use crate::time::NodeTime;

impl LockQueues {
    /// Whether a client that comes now need not wait.
    pub(super) fn is_open_to(
        &self,
        is_shared: bool,
        name: &QueueName,
        holder: Option<Holder<'_>>,
        now: NodeTime,
    ) -> bool {
        let queue = self.queues.get(name);
        match is_shared {
            false => holder.is_none() && queue.is_none(),
            true => {
                holder.is_none_or(|holder| holder.is_shared)
                    && queue.is_none_or(|queue| queue.writers.is_empty())
                    && self.intents.until(name, now).is_none()
            }
        }
    }

    /// A client stands in the line now, as the last one.
    pub(super) fn note_joined(
        &mut self,
        name: &QueueName,
        is_shared: bool,
        holder: Option<Holder<'_>>,
        now: NodeTime,
    ) {
        let until = holder.and_then(|holder| holder.until);
        match self.len_of(name) {
            1 => {
                let intent = self.intents.until(name, now).filter(|_| is_shared);
                self.set_timer(name, earliest([until, intent]));
            }
            // A writer before it may have been silent for long.
            _ if is_shared && holder.is_some_and(|holder| holder.is_shared) => {
                self.set_timer(name, Some(NodeTime::ZERO));
            }
            _ => {}
        }
    }

    /// Whether a reader may have a lock that nobody holds exclusively: it is woken, or no writer waits before it. One that waited
    /// to write under this token waits for nothing else.
    pub(crate) fn admits_reader(&self, name: &QueueName, token: &[u8], now: NodeTime) -> bool {
        let queue = self.queues.get(name);
        let ticket = queue.and_then(|queue| queue.ticket_of(token));
        let turn = queue.and_then(|queue| queue.turn);
        if let (Some(ticket), Some(turn)) = (ticket, turn)
            && ticket <= turn.last
        {
            return true;
        }
        if self.intents.until(name, now).is_some() {
            return false;
        }
        let writer = queue.and_then(|queue| queue.writers.first());
        writer.is_none_or(|writer| ticket.is_some_and(|ticket| ticket <= *writer))
    }

    /// A reader has the lock, and waits no longer.
    pub(crate) fn note_reader(&mut self, name: &QueueName, token: &[u8]) {
        let queue = self.queues.get(name);
        if let Some(ticket) = queue.and_then(|queue| queue.ticket_of(token)) {
            self.remove_and_recheck(ticket);
        }
    }

    /// Notes whether the lock of a name is held now, and wakes the first where it is not.
    pub(crate) fn note(
        &mut self,
        name: &QueueName,
        holder: Option<Holder<'_>>,
        now: NodeTime,
        woken: &mut Vec<Woken>,
    ) {
        let holder = match holder {
            Some(holder) if !holder.is_shared => holder,
            readers => return self.note_open(name, readers, now, woken),
        };
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        queue.turn = None;
        if holder.is_new
            && holder.token.len() <= TOKEN_BYTES_MAX
            && let Some(ticket) = queue.ticket_of(holder.token)
        {
            self.remove(ticket);
        }
        self.set_timer(name, holder.until);
    }

    /// Nobody holds the lock, or readers do.
    fn note_open(
        &mut self,
        name: &QueueName,
        readers: Option<Holder<'_>>,
        now: NodeTime,
        woken: &mut Vec<Woken>,
    ) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        // Readers have taken it from the writer whose turn it was, which stays first.
        let is_lost = |turn: &LockTurn| readers.is_some() && !turn.is_shared;
        queue.turn = queue.turn.filter(|turn| !is_lost(turn));
        let lapsed = queue.turn.filter(|turn| turn.until <= now);
        if let (Some(_), Some(&first)) = (lapsed, queue.order.first()) {
            self.remove(first);
            let queue = self.queues.get(name);
            if queue.is_some_and(|queue| queue.turn.is_some()) {
                return self.set_timer(name, Some(NodeTime::ZERO));
            }
        }
        self.wake_next(name, readers, now, woken);
    }

    /// Wakes the next one, if it may be woken beside those who are.
    pub(super) fn wake_next(
        &mut self,
        name: &QueueName,
        readers: Option<Holder<'_>>,
        now: NodeTime,
        woken: &mut Vec<Woken>,
    ) {
        let intent = self.intents.until(name, now);
        let silent_at = readers.and_then(|_| self.ask_silent(name, now, woken));
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let last = queue.turn.map_or(0, |turn| turn.last);
        let behind = (Bound::Excluded(last), Bound::Unbounded);
        let mut next = queue.order.range(behind).copied();
        let waiter = next.next().and_then(|ticket| {
            let waiter = self.waiters.get(&ticket)?;
            Some((ticket, waiter))
        });
        let behind = next.next();
        let is_read = queue.turn.is_none_or(|turn| turn.is_shared);
        let may_wake = |waiter: &LockWaiter| match waiter.is_shared {
            true => is_read && intent.is_none(),
            false => queue.turn.is_none() && readers.is_none(),
        };
        let waits_for_intent = waiter.is_some_and(|(_, waiter)| waiter.is_shared);
        let has_ended = readers.and_then(|readers| readers.until);
        let mut at = earliest([has_ended, intent.filter(|_| waits_for_intent), silent_at]);
        if let Some((last, waiter)) = waiter.filter(|(_, waiter)| may_wake(waiter)) {
            woken.push(waiter.to_wake());
            let is_shared = waiter.is_shared;
            // Readers that are woken together have the time that the farthest of them needs.
            let until = now.saturating_add(waiter.turn);
            let until = queue.turn.map_or(until, |turn| turn.until.max(until));
            let is_followed =
                is_shared && behind.is_some_and(|behind| !queue.writers.contains(&behind));
            at = at.filter(|_| is_shared);
            at = earliest([at, is_followed.then_some(NodeTime::ZERO)]);
            queue.turn = Some(LockTurn {
                last,
                is_shared,
                until,
            });
        }
        let until = queue.turn.map(|turn| turn.until);
        self.set_timer(name, earliest([at, until]));
    }
}

impl LockWaiter {
    pub(super) fn to_wake(&self) -> Woken {
        Woken {
            client: self.client,
            name: self.name.clone(),
            token: Arc::clone(&self.token),
            is_turn: true,
        }
    }
}
