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
//! done so within its turn; then it is dropped and the next one is woken. If another client takes the lock in
//! between, the first stays first, and is woken again. A turn lasts [`TURN_LASTS`], or as long as the waiter said (`TURN
//! milliseconds`): a client whose attempt takes longer to arrive would never have its turn beside near ones.
//!
//! Readers (`LOCK.WAIT key token SHARED`) that stand at the head are woken together, one in each step, where nobody holds the
//! lock exclusively: others may hold it shared. A reader that does not wait, or stands behind a writer, gets the lock only
//! where no writer waits: not while a refused writer keeps readers out (`lock_intents`), and not while one stands before it in
//! the queue. While readers hold the lock no turn of that writer can lapse, and they may be many, one after the other. So it is
//! asked whether it still waits (`silent_writers`): one that has vanished without the end of its connection leaves.
//!
//! Invariant: a queue is never empty; its lock is held, or its first waiter is woken and has a timer, or is kept out and has
//! one. Those who are woken are the first ones in the order. No step looks at more than one waiter of one name, each in
//! logarithmic time.

mod silent_writers;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::channels::{ClientId, ClientIds, Published, PushMessage, Receivers};
use crate::lock_intents::WriterIntents;
use crate::queue_name::QueueName;
use crate::reply::Reply;
use crate::time::NodeTime;

/// All who wait for locks.
#[derive(Debug, Default)]
pub(crate) struct LockQueues {
    queues: BTreeMap<QueueName, LockQueue>,
    waiters: BTreeMap<Ticket, LockWaiter>,
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
    pub(crate) intents: WriterIntents,
}

/// The place of a waiter in the order of arrival.
type Ticket = u64;

#[derive(Debug, Default)]
struct LockQueue {
    order: BTreeSet<Ticket>,
    tokens: BTreeSet<(Arc<[u8]>, Ticket)>,
    /// Those who do not want to share it.
    writers: BTreeSet<Ticket>,
    turn: Option<LockTurn>,
    timer: Option<NodeTime>,
    /// When a reader last joined, or was refused because of a writer.
    wanted_at: NodeTime,
}

/// Who is woken, if the lock is free or readers may share it: the first one, or the first readers.
#[derive(Clone, Copy, Debug)]
struct LockTurn {
    /// The last one that is woken: so are all before it.
    last: Ticket,
    is_shared: bool,
    until: NodeTime,
}

#[derive(Debug)]
struct LockWaiter {
    client: ClientId,
    name: QueueName,
    token: Arc<[u8]>,
    since: NodeTime,
    is_shared: bool,
    /// How long its turn lasts.
    turn: Duration,
    /// When it last asked.
    asked_at: NodeTime,
    unanswered: Option<Unanswered>,
}

/// What a writer was sent that was asked whether it still waits, and has not answered.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    /// It was sent its turn, and is sent nothing more.
    is_turn: bool,
    until: NodeTime,
}

/// What a client asks that wants to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) client: ClientId,
    pub(crate) token: &'a [u8],
    /// It wants to read.
    pub(crate) is_shared: bool,
    /// How long its turn is to last.
    pub(crate) turn: Duration,
}

/// The lock of a name, where it is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) token: &'a [u8],
    /// None where it has no end.
    pub(crate) until: Option<NodeTime>,
    /// It was taken just now.
    pub(crate) is_new: bool,
    /// Readers hold it.
    pub(crate) is_shared: bool,
}

/// A client whose turn it is, or that is asked whether it still waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Woken {
    pub(crate) client: ClientId,
    pub(crate) name: QueueName,
    pub(crate) token: Arc<[u8]>,
    pub(crate) is_turn: bool,
}

/// Why a client may not wait: there is too much of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueRefusal {
    /// Names that it waits for.
    NamesOfClient,
    /// Memory of all that wait.
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

    /// How many wait for this name.
    pub(crate) fn len_of(&self, name: &QueueName) -> usize {
        self.queues.get(name).map_or(0, |queue| queue.order.len())
    }

    /// Lets a client wait for a lock, behind all others, or where it waits already. Returns how many wait for the name; 0 if
    /// it need not wait: the lock is free, and nobody comes before it.
    pub(crate) fn join(
        &mut self,
        request: Request<'_>,
        name: &QueueName,
        holder: Option<Holder<'_>>,
        now: NodeTime,
    ) -> Result<usize, QueueRefusal> {
        let Request {
            client,
            token,
            is_shared,
            turn,
        } = request;
        let known = self.by_client.get(&client).and_then(|it| it.get(name));
        if let Some(&ticket) = known {
            // It has room already, however many have come behind it.
            let before = self.waiters.get(&ticket).map_or(0, |it| it.token.len());
            self.admit(token.len().saturating_sub(before))?;
            match self.rename(ticket, request, now) {
                Some(waiting) => return Ok(waiting),
                // It wants the lock in another way now, and stands behind all others.
                None => self.remove_and_recheck(ticket),
            }
        }
        if self.is_open_to(is_shared, name, holder, now) {
            return Ok(0);
        }
        let names = self.by_client.get(&client).map_or(0, BTreeMap::len);
        if names >= NAMES_PER_CLIENT_MAX {
            return Err(QueueRefusal::NamesOfClient);
        }
        let bytes = name.len().saturating_add(token.len());
        self.admit(bytes.saturating_add(WAITER_BYTES.saturating_add(QUEUE_BYTES)))?;
        self.last_ticket = self.last_ticket.saturating_add(1);
        let ticket = self.last_ticket;
        // Those who wait for one name share it.
        let known = self.queues.get_key_value(name);
        let name = known.map_or(name, |(known, _)| known).clone();
        let token: Arc<[u8]> = token.into();
        self.bytes = self.bytes.saturating_add(name.len());
        self.bytes = self.bytes.saturating_add(token.len());
        let queue = self.queues.entry(name.clone()).or_default();
        queue.order.insert(ticket);
        queue.tokens.insert((Arc::clone(&token), ticket));
        if is_shared {
            queue.wanted_at = now;
        } else {
            queue.writers.insert(ticket);
        }
        let waiting = queue.order.len();
        let names = self.by_client.entry(client).or_default();
        names.insert(name.clone(), ticket);
        let waiter = LockWaiter {
            client,
            name: name.clone(),
            token,
            since: now,
            is_shared,
            turn,
            asked_at: now,
            unanswered: None,
        };
        self.waiters.insert(ticket, waiter);
        self.note_joined(&name, is_shared, holder, now);
        Ok(waiting)
    }

    /// Since when the one waits for a lock that would take it with this token.
    pub(crate) fn waits_since(&self, name: &QueueName, token: &[u8]) -> Option<NodeTime> {
        let queue = self.queues.get(name)?;
        let is_token = token.len() <= TOKEN_BYTES_MAX;
        let ticket = is_token.then(|| queue.ticket_of(token))??;
        self.waiters.get(&ticket).map(|waiter| waiter.since)
    }

    fn admit(&self, bytes: usize) -> Result<(), QueueRefusal> {
        match self.taken_bytes().saturating_add(bytes) <= BYTES_MAX {
            true => Ok(()),
            false => Err(QueueRefusal::Bytes),
        }
    }

    /// What all that wait take, whatever they wait for.
    fn taken_bytes(&self) -> usize {
        let waiters = self.waiters.len().saturating_mul(WAITER_BYTES);
        let queues = self.queues.len().saturating_mul(QUEUE_BYTES);
        self.bytes.saturating_add(waiters).saturating_add(queues)
    }

    /// A client asks again, with this token. Returns how many wait, or 0 while it is woken; nothing where it wants the lock
    /// in another way than before.
    fn rename(&mut self, ticket: Ticket, request: Request<'_>, now: NodeTime) -> Option<usize> {
        let waiter = self.waiters.get_mut(&ticket)?;
        if waiter.is_shared != request.is_shared {
            return None;
        }
        waiter.turn = request.turn;
        waiter.asked_at = now;
        waiter.unanswered = None;
        let queue = self.queues.get_mut(&waiter.name)?;
        let new: Arc<[u8]> = request.token.into();
        let old = std::mem::replace(&mut waiter.token, Arc::clone(&new));
        self.bytes = self.bytes.saturating_sub(old.len());
        self.bytes = self.bytes.saturating_add(new.len());
        queue.tokens.remove(&(old, ticket));
        queue.tokens.insert((new, ticket));
        Some(match queue.turn {
            Some(turn) if ticket <= turn.last => 0,
            _ => queue.order.len(),
        })
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
            self.wake_next(name, None, now, woken);
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

    /// A client may wait only for some of its names any more.
    pub(crate) fn leave_unless(&mut self, client: ClientId, may_wait: impl Fn(&QueueName) -> bool) {
        let Some(names) = self.by_client.get_mut(&client) else {
            return;
        };
        let left: BTreeMap<_, _> = names.extract_if(.., |name, _| !may_wait(name)).collect();
        if names.is_empty() {
            self.by_client.remove(&client);
        }
        if !left.is_empty() {
            self.departed.push(left);
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

    fn remove_and_recheck(&mut self, ticket: Ticket) {
        let name = self.waiters.get(&ticket).map(|waiter| waiter.name.clone());
        if let Some(name) = name
            && self.remove(ticket)
        {
            self.set_timer(&name, Some(NodeTime::ZERO));
        }
    }

    /// Takes a waiter out. Says whether it was a writer that was woken, and others are left: the lock is free then. Where
    /// others may be woken now in any other case the queue is to be looked at.
    fn remove(&mut self, ticket: Ticket) -> bool {
        let Some(LockWaiter {
            client,
            name,
            token,
            ..
        }) = self.waiters.remove(&ticket)
        else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(name.len());
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
        let was_writer = queue.writers.remove(&ticket);
        let was_woken = queue.turn.is_some_and(|turn| ticket <= turn.last);
        let first = queue.order.first().copied();
        queue.turn = queue.turn.filter(|turn| first <= Some(turn.last));
        let is_over = queue.turn.is_none();
        if first.is_none() {
            self.set_timer(&name, None);
            self.queues.remove(&name);
            return false;
        }
        let last = queue.turn.map_or(0, |turn| turn.last);
        let behind = (Bound::Excluded(last), Bound::Unbounded);
        let next = queue.order.range(behind).next();
        let is_reader = next.is_some_and(|next| !queue.writers.contains(next));
        if was_writer && !was_woken && is_reader || !was_writer && was_woken && is_over {
            self.set_timer(&name, Some(NodeTime::ZERO));
        }
        was_writer && was_woken
    }

    /// Many keys have changed at once: all queues are looked at.
    pub(crate) fn recheck_all(&mut self) {
        self.recheck = Some(QueueName::first());
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

impl LockQueue {
    fn ticket_of(&self, token: &[u8]) -> Option<Ticket> {
        let token: Arc<[u8]> = token.into();
        let with_token = (Arc::clone(&token), 0)..=(token, Ticket::MAX);
        self.tokens.range(with_token).next().map(|it| it.1)
    }
}

fn earliest<const N: usize>(times: [Option<NodeTime>; N]) -> Option<NodeTime> {
    times.into_iter().flatten().min()
}

impl Woken {
    /// What it is sent.
    pub(crate) fn into_message(self) -> Published {
        let (_, key) = self.name.parts();
        let kind = match self.is_turn {
            true => "lock-free",
            false => "lock-wanted",
        };
        let push = Reply::Push(vec![
            Reply::bulk(kind),
            Reply::Shared(key.into()),
            Reply::Shared(self.token),
        ]);
        Published {
            message: PushMessage::LockFree(Arc::new(push)),
            receivers: Receivers::Clients(ClientIds::from_elem(self.client, 1)),
        }
    }
}

/// A turn of a client that has named no other length: time for the message, the try and a few more round trips within a
/// region. Those behind a client that does not use it wait for so long.
pub(crate) const TURN_LASTS: Duration = Duration::from_millis(50);
/// The lengths that a client may name. The longest is one that has vanished at most in the way of others.
pub(crate) const TURN_MIN: Duration = Duration::from_millis(20);
pub(crate) const TURN_MAX: Duration = Duration::from_secs(2);

/// So many are taken out while a client goes; more in steps.
const DEPARTED_AT_ONCE: usize = 64;

/// The longest token of a lock.
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;

pub(crate) const NAMES_PER_CLIENT_MAX: usize = 1 << 14;
pub(crate) const BYTES_MAX: usize = 256 << 20;

/// What a waiter takes beside its name and token, and what the first of a name takes besides. Measured with a million names of 8
/// bytes, each waited for once with a token of 21: 1,033 bytes each.
const WAITER_BYTES: usize = 640;
const QUEUE_BYTES: usize = 384;

#[cfg(test)]
#[path = "lock_queues_readers_tests.rs"]
mod readers_tests;
#[cfg(test)]
#[path = "lock_queues_tests.rs"]
mod tests;
