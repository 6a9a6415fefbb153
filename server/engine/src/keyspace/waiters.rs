//! Clients that wait for an element of a key: in the order in which they came, and whose turn it is.
//!
//! A waiter is served by its own command, executed once more. Nothing here is logged: a client that
//! waits holds nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;

use crate::caller::Caller;
use crate::channels::ClientId;
use crate::command_guard::{CommandGuard, Purpose};
use crate::error::ErrorReply;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedKind {
    /// An element of a list.
    List,
    /// A member of a sorted set.
    SortedSet,
}

/// A client that waits, with the command that it sent.
#[derive(Clone, Debug)]
pub(crate) struct BlockedClient {
    pub(crate) caller: Caller,
    pub(crate) arguments: Vec<Box<[u8]>>,
    pub(crate) wanted: AwaitedKind,
    /// Its keys, each with its hash.
    pub(crate) keys: Vec<(u64, Box<[u8]>)>,
    /// Where they begin among the arguments. Where that is not right behind the command's name, the argument before says how
    /// many they are.
    pub(crate) first_key: usize,
    /// What is asked before the command is executed once more.
    pub(crate) guard: Option<CommandGuard>,
}

/// Who waits for a key, by the key's hash.
#[derive(Debug)]
struct KeyQueue {
    key: Box<[u8]>,
    tickets: BTreeSet<Ticket>,
    /// There is a second key of the same hash.
    is_shared: bool,
}

/// The place of a waiter in the order.
type Ticket = u64;

/// All who wait.
#[derive(Debug, Default)]
pub(crate) struct BlockedClients {
    by_ticket: BTreeMap<Ticket, BlockedClient>,
    by_client: BTreeMap<ClientId, Ticket>,
    by_hash: BTreeMap<u64, KeyQueue>,
    last_ticket: Ticket,
    /// The keys that may have something for those who wait, in the order in which they got it.
    ready: VecDeque<u64>,
}

impl BlockedClients {
    /// Lets a client wait behind all others. It must not wait already.
    pub(crate) fn add(&mut self, waiter: BlockedClient) {
        let client = waiter.caller.client_id;
        debug_assert!(!self.by_client.contains_key(&client), "it waits already");
        self.last_ticket = self.last_ticket.saturating_add(1);
        let ticket = self.last_ticket;
        enqueue(&mut self.by_hash, ticket, &waiter);
        self.by_client.insert(client, ticket);
        self.by_ticket.insert(ticket, waiter);
    }

    /// The keys of two databases have other hashes from now on.
    pub(crate) fn rehash(&mut self, both: [u8; 2], hash: impl Fn(u8, &[u8]) -> u64) {
        self.by_hash.clear();
        for (ticket, waiter) in &mut self.by_ticket {
            let database = waiter.caller.database;
            if both.contains(&database) {
                let keys = waiter.keys.iter_mut();
                keys.for_each(|(old, key)| *old = hash(database, key));
            }
            enqueue(&mut self.by_hash, *ticket, waiter);
        }
    }

    /// The keys of two databases for which clients wait, each with its database, in the order of the clients.
    pub(crate) fn keys_of(&self, both: [u8; 2]) -> Vec<(u8, Box<[u8]>)> {
        let waiters = self.by_ticket.values();
        let waiters = waiters.filter(|waiter| both.contains(&waiter.caller.database));
        waiters
            .flat_map(|waiter| {
                let keys = waiter.keys.iter();
                keys.map(|(_, key)| (waiter.caller.database, key.clone()))
            })
            .collect()
    }

    /// Asks this before the command of a client that waits is executed once more.
    pub(crate) fn guard(&mut self, client: ClientId, guard: CommandGuard) {
        let ticket = self.by_client.get(&client);
        if let Some(waiter) = ticket.and_then(|ticket| self.by_ticket.get_mut(ticket)) {
            waiter.guard = Some(guard);
        }
    }

    /// Takes a client out; `None` if it does not wait.
    pub(crate) fn remove(&mut self, client: ClientId) -> Option<BlockedClient> {
        let ticket = self.by_client.remove(&client)?;
        let waiter = self.by_ticket.remove(&ticket)?;
        for (hash, _) in &waiter.keys {
            if let Some(queue) = self.by_hash.get_mut(hash) {
                queue.tickets.remove(&ticket);
                if queue.tickets.is_empty() {
                    self.by_hash.remove(hash);
                }
            }
        }
        Some(waiter)
    }

    /// Notes that a key was written and now has this for those who wait. Its turn comes in the order in which keys got
    /// what a client wants of them.
    #[inline]
    pub(crate) fn note_written(&mut self, hash: u64, has: impl FnOnce() -> Option<AwaitedKind>) {
        if !self.by_hash.is_empty()
            && let Some(wanted) = has()
            && self.is_wanted(hash, wanted)
            && !self.ready.contains(&hash)
        {
            self.ready.push_back(hash);
        }
    }

    fn is_wanted(&self, hash: u64, wanted: AwaitedKind) -> bool {
        self.by_hash.get(&hash).is_some_and(|queue| {
            let mut waiters = queue.tickets.iter();
            waiters.any(|ticket| {
                let waiter = self.by_ticket.get(ticket);
                waiter.is_some_and(|waiter| waiter.wanted == wanted)
            })
        })
    }

    /// The key that has been ready for longest.
    pub(crate) fn next_ready(&self) -> Option<u64> {
        self.ready.front().copied()
    }

    /// The key that has been ready for longest has nothing for anybody any more.
    pub(crate) fn end_ready(&mut self) {
        self.ready.pop_front();
    }

    /// Who waits for a key of this hash and came after `after`, in their order.
    pub(crate) fn next_for(&self, hash: u64, after: Ticket) -> Option<(Ticket, &BlockedClient)> {
        let tickets = &self.by_hash.get(&hash)?.tickets;
        let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let ticket = *tickets.range(behind).next()?;
        Some((ticket, self.by_ticket.get(&ticket)?))
    }

    /// Whether clients wait for different keys of this hash.
    pub(crate) fn is_shared(&self, hash: u64) -> bool {
        self.by_hash.get(&hash).is_some_and(|queue| queue.is_shared)
    }

    /// For how many keys they wait.
    pub(crate) fn keys(&self) -> usize {
        self.by_hash.len()
    }

    /// How many clients wait.
    pub(crate) fn len(&self) -> usize {
        self.by_client.len()
    }
}

fn enqueue(by_hash: &mut BTreeMap<u64, KeyQueue>, ticket: Ticket, waiter: &BlockedClient) {
    for (hash, key) in &waiter.keys {
        let queue = by_hash.entry(*hash).or_insert_with(|| KeyQueue {
            key: key.clone(),
            tickets: BTreeSet::new(),
            is_shared: false,
        });
        queue.is_shared |= queue.key != *key;
        queue.tickets.insert(ticket);
    }
}

impl BlockedClient {
    /// Why its user may not have it executed any more.
    pub(crate) fn refusal(&self) -> Option<ErrorReply> {
        let arguments: Vec<&[u8]> = self.arguments.iter().map(AsRef::as_ref).collect();
        self.guard.as_ref()?.refuses(&arguments, Purpose::Call)
    }

    /// Its key of this hash.
    pub(crate) fn key(&self, hash: u64) -> Option<&[u8]> {
        let key = self.keys.iter().find(|(other, _)| *other == hash);
        key.map(|(_, key)| &**key)
    }

    /// Its command, for one of its keys alone.
    pub(crate) fn arguments_for<'a>(&'a self, key: &'a [u8]) -> SmallVec<[&'a [u8]; 8]> {
        let (before, rest) = self.arguments.split_at(self.first_key);
        let mut arguments: SmallVec<[&[u8]; 8]> = before.iter().map(|one| &**one).collect();
        if self.first_key > 1
            && let Some(count) = arguments.last_mut()
        {
            *count = b"1";
        }
        arguments.push(key);
        let behind = rest.iter().skip(self.keys.len());
        arguments.extend(behind.map(|one| &**one));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(client_id: ClientId, hashes: &[u64]) -> BlockedClient {
        let key = |hash: &u64| (*hash, hash.to_le_bytes().into());
        BlockedClient {
            caller: Caller {
                client_id,
                ..Caller::default()
            },
            arguments: Vec::new(),
            wanted: AwaitedKind::List,
            keys: hashes.iter().map(key).collect(),
            first_key: 1,
            guard: None,
        }
    }

    #[test]
    fn clients_wait_in_their_order_and_leave_nothing_behind() {
        let mut waiters = BlockedClients::default();
        for client in [7, 3, 5] {
            waiters.add(waiter(client, &[1, 2, 1]));
        }
        waiters.note_written(3, || Some(AwaitedKind::List));
        waiters.note_written(1, || Some(AwaitedKind::SortedSet));
        waiters.note_written(1, || None);
        assert_eq!(waiters.next_ready(), None);
        waiters.note_written(2, || Some(AwaitedKind::List));
        waiters.note_written(1, || Some(AwaitedKind::List));
        waiters.note_written(2, || Some(AwaitedKind::List));
        let mut order = Vec::new();
        let mut after = 0;
        while let Some((ticket, next)) = waiters.next_for(1, after) {
            order.push(next.caller.client_id);
            after = ticket;
        }
        assert_eq!(order, [7, 3, 5]);
        assert_eq!(waiters.next_ready(), Some(2));
        waiters.end_ready();
        assert_eq!(waiters.next_ready(), Some(1));
        waiters.end_ready();
        assert_eq!(waiters.next_ready(), None);
        for client in [3, 7, 5] {
            assert!(waiters.remove(client).is_some());
            assert!(waiters.remove(client).is_none());
        }
        assert!(waiters.by_hash.is_empty() && waiters.by_ticket.is_empty());
        assert_eq!((waiters.len(), waiters.keys()), (0, 0));
    }
}
