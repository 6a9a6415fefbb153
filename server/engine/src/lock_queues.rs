//! Who waits for which lock: a queue for each name, and whose turn it is. Nothing here is logged, and nothing grants a lock.
//!
//! On the wire it is a subscription, not a command that blocks. `LOCK.WAIT key token` answers at once: 0 where the lock is
//! free and it is this connection's turn, else how many wait for the name, itself included. Later the node sends the push
//! `lock-free key token` on the same connection. A client library has one connection for each node and waits on it for many
//! names of many callers, so a command that blocks would cost a connection for each name, and a change of the set of names
//! would cost a round trip that ends the wait. A push is told from replies by RESP3 alone: with RESP2 a connection that
//! listens may do nothing else, which is the very thing that is wanted here. So LOCK.WAIT asks for HELLO 3. Messages leave
//! as invalidations do: behind what they reveal is on record, and within the limits on the output of a client.
//! `LOCK.UNWAIT key` leaves the queue. A connection waits for a name once; to ask again is to name another token, and keeps
//! the place. The token is the one that the client will try with: a node sees by it that the lock was taken by the one who
//! waited, over whatever connection. A client asks again after each try that has failed: then it never matters what the
//! node remembers of it.
//!
//! The rule: the first in the queue of a free lock is woken, and stays first until it takes the lock, leaves, or has not
//! done so within [`WAKE_LASTS`]; then it is dropped and the next one is woken. If another client takes the lock in
//! between, the first stays first, and is woken again.
//!
//! Invariant: a queue is never empty; its lock is held, or its first waiter is woken and has a timer. No step looks at more
//! than one waiter of one name, each in logarithmic time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::channels::{ClientId, ClientIds, Message, Published, Receivers};
use crate::reply::Reply;
use crate::time::NodeTime;

/// All who wait for locks.
#[derive(Debug, Default)]
pub(crate) struct LockQueues {
    queues: BTreeMap<QueueName, Queue>,
    waiters: BTreeMap<Ticket, Waiter>,
    by_client: BTreeMap<ClientId, BTreeMap<QueueName, Ticket>>,
    /// When a lock ends, or the turn of the one that was woken: one for each queue at most.
    timers: BTreeSet<(NodeTime, QueueName)>,
    last_ticket: Ticket,
    /// Of names and tokens.
    bytes: usize,
    /// What clients waited for that have gone: it is taken out in steps.
    departed: Vec<BTreeMap<QueueName, Ticket>>,
    /// The queues behind this one are to be looked at: many keys have changed at once.
    recheck: Option<QueueName>,
}

/// The place of a waiter in the order of arrival.
type Ticket = u64;

#[derive(Debug, Default)]
struct Queue {
    order: BTreeSet<Ticket>,
    tokens: BTreeSet<(Arc<[u8]>, Ticket)>,
    /// Who is woken, if the lock is free: the first one, until its turn ends.
    woken: Option<(Ticket, NodeTime)>,
    timer: Option<NodeTime>,
}

#[derive(Debug)]
struct Waiter {
    client: ClientId,
    name: QueueName,
    token: Arc<[u8]>,
}

/// The lock of a name, where it is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) token: &'a [u8],
    /// None where it has no end.
    pub(crate) until: Option<NodeTime>,
    /// It was taken just now.
    pub(crate) is_new: bool,
}

/// A client whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Woken {
    pub(crate) client: ClientId,
    pub(crate) name: QueueName,
    pub(crate) token: Arc<[u8]>,
}

/// Why a client may not wait: there is too much of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueRefusal {
    /// Names that it waits for.
    NamesOfClient,
    /// Clients that wait, each once for each name.
    Waiters,
    /// Bytes of their names and tokens.
    Bytes,
}

impl LockQueues {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Lets a client wait for a lock, behind all others, or where it waits already. Returns how many wait for the name; 0 if
    /// it need not wait: the lock is free, and nobody comes before it.
    pub(crate) fn join(
        &mut self,
        client: ClientId,
        name: &QueueName,
        token: &[u8],
        holder: Option<Holder<'_>>,
    ) -> Result<usize, QueueRefusal> {
        let known = self.by_client.get(&client).and_then(|it| it.get(name));
        if let Some(&ticket) = known {
            self.admit(token.len())?;
            return Ok(self.rename(ticket, token));
        }
        if holder.is_none() && !self.queues.contains_key(name) {
            return Ok(0);
        }
        let names = self.by_client.get(&client).map_or(0, BTreeMap::len);
        if names >= NAMES_PER_CLIENT_MAX {
            return Err(QueueRefusal::NamesOfClient);
        }
        if self.waiters.len() >= WAITERS_MAX {
            return Err(QueueRefusal::Waiters);
        }
        self.admit(name.0.len().saturating_add(token.len()))?;
        self.last_ticket = self.last_ticket.saturating_add(1);
        let ticket = self.last_ticket;
        // Those who wait for one name share it.
        let name = match self.queues.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => name.clone(),
        };
        let token: Arc<[u8]> = token.into();
        self.bytes = self.bytes.saturating_add(name.0.len());
        self.bytes = self.bytes.saturating_add(token.len());
        let queue = self.queues.entry(name.clone()).or_default();
        queue.order.insert(ticket);
        queue.tokens.insert((Arc::clone(&token), ticket));
        let waiting = queue.order.len();
        let names = self.by_client.entry(client).or_default();
        names.insert(name.clone(), ticket);
        let waiter = Waiter {
            client,
            name: name.clone(),
            token,
        };
        self.waiters.insert(ticket, waiter);
        if waiting == 1 {
            self.set_timer(&name, holder.and_then(|holder| holder.until));
        }
        Ok(waiting)
    }

    fn admit(&self, bytes: usize) -> Result<(), QueueRefusal> {
        match self.bytes.saturating_add(bytes) <= BYTES_MAX {
            true => Ok(()),
            false => Err(QueueRefusal::Bytes),
        }
    }

    /// A client asks again, with this token. Returns how many wait, or 0 while it is woken.
    fn rename(&mut self, ticket: Ticket, token: &[u8]) -> usize {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return 0;
        };
        let Some(queue) = self.queues.get_mut(&waiter.name) else {
            return 0;
        };
        let new: Arc<[u8]> = token.into();
        let old = std::mem::replace(&mut waiter.token, Arc::clone(&new));
        self.bytes = self.bytes.saturating_sub(old.len());
        self.bytes = self.bytes.saturating_add(new.len());
        queue.tokens.remove(&(old, ticket));
        queue.tokens.insert((new, ticket));
        match queue.woken {
            Some((woken, _)) if woken == ticket => 0,
            _ => queue.order.len(),
        }
    }

    /// A client waits for a lock no longer; false if it did not.
    pub(crate) fn leave(
        &mut self,
        client: ClientId,
        name: &QueueName,
        now: NodeTime,
        woken: &mut Vec<Woken>,
    ) -> bool {
        let names = self.by_client.get(&client);
        let Some(&ticket) = names.and_then(|names| names.get(name)) else {
            return false;
        };
        if self.remove(ticket) {
            self.wake_first(name, now, woken);
        }
        true
    }

    /// A client has gone. Where it was woken, the next one is once [`LockQueues::take_due`] is asked.
    pub(crate) fn leave_all(&mut self, client: ClientId) {
        if let Some(names) = self.by_client.remove(&client) {
            self.departed.push(names);
            self.forget_departed(DEPARTED_AT_ONCE);
        }
    }

    /// Takes out what clients waited for that have gone, so many at most. Returns how many were left.
    pub(crate) fn forget_departed(&mut self, count: usize) -> usize {
        let mut left = count;
        while let Some(names) = self.departed.last_mut()
            && left > 0
        {
            left = left.saturating_sub(1);
            match names.pop_first() {
                Some((name, ticket)) if self.remove(ticket) => {
                    self.set_timer(&name, Some(NodeTime::ZERO));
                }
                Some(_) => {}
                None => drop(self.departed.pop()),
            }
        }
        left
    }

    /// Takes a waiter out. Says whether it was woken, and others are left.
    fn remove(&mut self, ticket: Ticket) -> bool {
        let Some(Waiter {
            client,
            name,
            token,
        }) = self.waiters.remove(&ticket)
        else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(name.0.len());
        self.bytes = self.bytes.saturating_sub(token.len());
        // One that has left all at once may have come again meanwhile.
        if let Some(names) = self.by_client.get_mut(&client)
            && names.get(&name) == Some(&ticket)
        {
            names.remove(&name);
            if names.is_empty() {
                self.by_client.remove(&client);
            }
        }
        let Some(queue) = self.queues.get_mut(&name) else {
            return false;
        };
        queue.order.remove(&ticket);
        queue.tokens.remove(&(token, ticket));
        let was_woken = queue.woken.is_some_and(|(woken, _)| woken == ticket);
        if was_woken {
            queue.woken = None;
        }
        if queue.order.is_empty() {
            self.set_timer(&name, None);
            self.queues.remove(&name);
            return false;
        }
        was_woken
    }

    /// Notes whether the lock of a name is held now, and wakes the first where it is not.
    pub(crate) fn note(
        &mut self,
        name: &QueueName,
        holder: Option<Holder<'_>>,
        now: NodeTime,
        woken: &mut Vec<Woken>,
    ) {
        let Some(holder) = holder else {
            return self.note_free(name, now, woken);
        };
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        queue.woken = None;
        if holder.is_new && holder.token.len() <= TOKEN_BYTES_MAX {
            let token: Arc<[u8]> = holder.token.into();
            let with_token = (Arc::clone(&token), 0)..=(token, Ticket::MAX);
            let winner = queue.tokens.range(with_token).next().map(|it| it.1);
            if let Some(ticket) = winner {
                self.remove(ticket);
            }
        }
        self.set_timer(name, holder.until);
    }

    fn note_free(&mut self, name: &QueueName, now: NodeTime, woken: &mut Vec<Woken>) {
        let Some(queue) = self.queues.get(name) else {
            return;
        };
        match queue.woken {
            Some((_, until)) if until > now => self.set_timer(name, Some(until)),
            Some((lapsed, _)) => {
                if self.remove(lapsed) {
                    self.wake_first(name, now, woken);
                }
            }
            None => self.wake_first(name, now, woken),
        }
    }

    /// The lock is free, and nobody is woken.
    fn wake_first(&mut self, name: &QueueName, now: NodeTime, woken: &mut Vec<Woken>) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let first = queue.order.first();
        let Some((&ticket, waiter)) =
            first.and_then(|first| Some((first, self.waiters.get(first)?)))
        else {
            return;
        };
        let until = now.saturating_add(WAKE_LASTS);
        queue.woken = Some((ticket, until));
        woken.push(Woken {
            client: waiter.client,
            name: waiter.name.clone(),
            token: Arc::clone(&waiter.token),
        });
        self.set_timer(name, Some(until));
    }

    /// Many keys have changed at once: all queues are looked at.
    pub(crate) fn recheck_all(&mut self) {
        self.recheck = Some(QueueName(Arc::default()));
    }

    /// When [`LockQueues::take_due`] has something.
    pub(crate) fn next_due(&self) -> Option<NodeTime> {
        match self.recheck.is_some() || !self.departed.is_empty() {
            true => Some(NodeTime::ZERO),
            false => self.timers.first().map(|(at, _)| *at),
        }
    }

    /// Takes a name whose lock is to be looked at now, and noted.
    pub(crate) fn take_due(&mut self, now: NodeTime) -> Option<QueueName> {
        if let Some(last) = self.recheck.take() {
            let behind = (Bound::Excluded(&last), Bound::Unbounded);
            let next = self.queues.range(behind).next();
            if let Some((name, _)) = next {
                self.recheck = Some(name.clone());
                return self.recheck.clone();
            }
        }
        let due = self.timers.first().filter(|(at, _)| *at <= now);
        let name = due?.1.clone();
        self.set_timer(&name, None);
        Some(name)
    }

    fn set_timer(&mut self, name: &QueueName, at: Option<NodeTime>) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        if queue.timer == at {
            return;
        }
        if let Some(before) = std::mem::replace(&mut queue.timer, at) {
            self.timers.remove(&(before, name.clone()));
        }
        if let Some(at) = at {
            self.timers.insert((at, name.clone()));
        }
    }
}

impl Woken {
    /// What it is sent.
    pub(crate) fn into_message(self) -> Published {
        let (_, key) = self.name.parts();
        let push = Reply::Push(vec![
            Reply::bulk("lock-free"),
            Reply::Shared(key.into()),
            Reply::Shared(self.token),
        ]);
        Published {
            message: Message::LockFree(Arc::new(push)),
            receivers: Receivers::Clients(ClientIds::from_elem(self.client, 1)),
        }
    }
}

/// A lock's name in its database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueName(Arc<[u8]>);

impl QueueName {
    pub(crate) fn new(database: u8, key: &[u8]) -> QueueName {
        QueueName([&[database], key].concat().into())
    }

    pub(crate) fn parts(&self) -> (u8, &[u8]) {
        self.0
            .split_first()
            .map_or((0, &[]), |(database, key)| (*database, key))
    }
}

/// A turn: time for the message, the try and a few more round trips between continents. Those behind a client that does
/// not use it wait for so long.
pub(crate) const WAKE_LASTS: Duration = Duration::from_millis(50);

/// So many are taken out while a client goes; more in steps.
const DEPARTED_AT_ONCE: usize = 64;

/// The longest token of a lock.
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;

pub(crate) const NAMES_PER_CLIENT_MAX: usize = 1 << 14;
pub(crate) const WAITERS_MAX: usize = 1 << 20;
pub(crate) const BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
#[path = "lock_queues_tests.rs"]
mod tests;
