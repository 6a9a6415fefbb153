//! Client-side caching: which clients keep which keys, and who has to hear that a key has changed.
//!
//! `command/call.rs` runs each command. The keys that it changed are read from what it added to the journal, so that no
//! change can be missed, and are looked up here. Before each request of a client that is sent changes or messages, its
//! connection takes what was published until then, with the engine locked: no reply shows a change before the client was
//! sent it.
//!
//! Invariant: a client that was sent a key hears of its next change, or of the loss of its entry here. Nothing
//! here is logged, and what a client is told may be more than it has to forget, never less. As in Redis a key is
//! its name: two keys of that name in two databases are one.

pub(crate) mod eviction;
mod prefixes;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::channels::{ClientId, ClientIds, Published, PushMessage, Receivers};
use crate::reply::Reply;
use crate::tracking::prefixes::{Changed, Prefixes};
use crate::tracking::table::{POSITIONS_KEPT, Position, TrackingTable};

/// How a client wants to be told.
#[derive(Clone, Debug, Default)]
pub struct TrackingOptions {
    /// Another client is told in its place.
    pub redirect: Option<ClientId>,
    /// It is not told of what it has changed itself.
    pub ignores_own: bool,
    /// It is told of all keys that begin with its prefixes, whatever it has read.
    pub broadcasts: bool,
}

/// Who changes a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author {
    pub(crate) client: ClientId,
    /// Its script does. As in Redis a client that broadcasts is told of that also where it ignores what it changes
    /// itself.
    pub(crate) is_script: bool,
}

/// Who keeps what.
#[derive(Debug)]
pub struct ClientTracking {
    clients: BTreeMap<ClientId, Tracker>,
    table: TrackingTable,
    prefixes: Prefixes,
    /// What clients keep that are told of nothing now: as in Redis they are told of it once they are told of changes again.
    silent: BTreeMap<ClientId, BTreeSet<Position>>,
    /// Clients that have gone and whose entries are still being taken out, a bounded number at a time.
    departed: BTreeMap<ClientId, BTreeSet<Position>>,
    discarded: Vec<DiscardedKeys>,
    keys_max: usize,
}

/// What is remembered no more and takes long to free.
#[derive(Debug)]
pub(crate) struct DiscardedKeys {
    #[expect(dead_code, reason = "it is only dropped")]
    table: TrackingTable,
    #[expect(dead_code, reason = "it is only dropped")]
    of_clients: Vec<BTreeSet<Position>>,
}

#[derive(Debug)]
struct Tracker {
    options: TrackingOptions,
    /// Where the table has the keys that it keeps.
    keys: BTreeSet<Position>,
    prefixes: BTreeSet<Arc<[u8]>>,
}

impl ClientTracking {
    /// Nobody keeps anything. The seed is one that nobody who chooses keys knows.
    pub(crate) fn new(seed: u64) -> ClientTracking {
        ClientTracking {
            clients: BTreeMap::new(),
            table: TrackingTable::new(seed),
            prefixes: Prefixes::default(),
            silent: BTreeMap::new(),
            departed: BTreeMap::new(),
            discarded: Vec::new(),
            keys_max: TRACKED_KEYS_MAX,
        }
    }

    /// Tells a client of changes from now on, or in another way than before.
    pub fn start(&mut self, client: ClientId, options: TrackingOptions) {
        let keys = self.silent.remove(&client);
        let tracker = self.clients.entry(client).or_insert(Tracker {
            options: TrackingOptions::default(),
            keys: keys.unwrap_or_default(),
            prefixes: BTreeSet::new(),
        });
        tracker.options = options;
    }

    /// Tells a client that broadcasts of another prefix as well.
    pub fn add_prefix(&mut self, client: ClientId, prefix: &[u8]) {
        if let Some(tracker) = self.clients.get_mut(&client) {
            let prefix: Arc<[u8]> = prefix.into();
            self.prefixes.add(&prefix, client);
            tracker.prefixes.insert(prefix);
        }
    }

    /// The prefixes that a client is told of, in their order.
    pub fn prefixes_of(&self, client: ClientId) -> impl Iterator<Item = &[u8]> {
        let tracker = self.clients.get(&client);
        let prefixes = tracker.into_iter().flat_map(|it| &it.prefixes);
        prefixes.map(AsRef::as_ref)
    }

    /// How many prefixes somebody is told of.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// The client is told of nothing until it starts again.
    pub fn stop(&mut self, client: ClientId) {
        if let Some(tracker) = self.clients.remove(&client) {
            for prefix in &tracker.prefixes {
                self.prefixes.remove(prefix, client);
            }
            if !tracker.keys.is_empty() {
                self.silent.insert(client, tracker.keys);
            }
        }
    }

    /// The client has gone.
    pub fn leave(&mut self, client: ClientId) {
        self.stop(client);
        if let Some(keys) = self.silent.remove(&client) {
            self.departed.insert(client, keys);
            self.forget_departed(ENTRIES_PER_STOP);
        }
    }

    /// Whether a client keeps a key beside these.
    pub fn keeps_beside<'a>(&self, client: ClientId, keys: impl Iterator<Item = &'a [u8]>) -> bool {
        let positions: SmallVec<[_; 2]> =
            keys.filter_map(|key| self.table.position_of(key)).collect();
        let tracker = self.clients.get(&client);
        let mut kept = tracker.into_iter().flat_map(|tracker| &tracker.keys);
        kept.any(|kept| !positions.contains(kept))
    }

    /// How many clients are told of changes.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many keys they keep.
    pub fn keys(&self) -> usize {
        self.table.len()
    }

    /// How many keys they keep, a key once for each client.
    pub fn items(&self) -> usize {
        self.table.items()
    }

    /// Sets how many keys may be remembered; 0 is no limit but that on memory.
    pub fn set_keys_max(&mut self, keys: usize) {
        self.keys_max = keys;
    }

    /// Whether nobody is told of anything, and nobody keeps a key of which it may be told later.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.clients.is_empty() && self.silent.is_empty()
    }

    /// Whether entries of clients that have gone are still here: [`Engine::reclaim`](crate::Engine::reclaim) takes
    /// them out.
    pub fn has_departed(&self) -> bool {
        !self.departed.is_empty()
    }

    /// One more than the last position.
    pub(crate) fn end(&self) -> Position {
        self.table.end()
    }

    /// The memory of the keys, about.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Takes out entries of clients that have gone, at most so many. Says whether there are more.
    pub(crate) fn forget_departed(&mut self, entries: usize) -> bool {
        let mut left = entries;
        while let Some(mut departed) = self.departed.last_entry() {
            let client = *departed.key();
            while let Some(position) = departed.get_mut().pop_first() {
                // Meanwhile it may be another key's, which the client never kept.
                self.table.remove_client(position, client);
                left = left.saturating_sub(1);
                if left == 0 {
                    return true;
                }
            }
            departed.remove();
        }
        self.discard_if_empty();
        false
    }

    /// What many keys have taken is given back once none is left, by somebody who does not hold the engine.
    fn discard_if_empty(&mut self) {
        if self.table.len() == 0 && self.table.end() as usize > POSITIONS_KEPT {
            self.discard(Vec::new());
        }
    }

    /// Whether most of the table's memory is for keys that have gone.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.table.is_sparse()
    }

    /// Gives some of it back; a step is a position, and a client that is told where its key is now. Says whether there is more.
    #[inline(never)]
    pub(crate) fn shrink(&mut self, steps: usize) -> bool {
        let mut left = steps;
        while left > 0 && self.table.is_sparse() {
            left = left.saturating_sub(1);
            let Some((from, to)) = self.table.shorten() else {
                continue;
            };
            for client in self.table.clients_at(to) {
                left = left.saturating_sub(1);
                let silent = &mut self.silent;
                let departed = &mut self.departed;
                let keys = match self.clients.get_mut(client) {
                    Some(tracker) => Some(&mut tracker.keys),
                    None => silent.get_mut(client).or_else(|| departed.get_mut(client)),
                };
                if let Some(keys) = keys {
                    keys.remove(&from);
                    keys.insert(to);
                }
            }
        }
        self.table.is_sparse()
    }

    fn discard(&mut self, of_clients: Vec<BTreeSet<Position>>) {
        let table = self.table.take();
        self.discarded.push(DiscardedKeys { table, of_clients });
    }

    /// Takes what is to be freed.
    pub(crate) fn take_discarded(&mut self) -> Vec<DiscardedKeys> {
        std::mem::take(&mut self.discarded)
    }

    pub(crate) fn has_discarded(&self) -> bool {
        !self.discarded.is_empty()
    }

    /// Tells those who keep a key that it has changed, and that it is not remembered for them any more.
    pub(crate) fn invalidate(
        &mut self,
        key: &[u8],
        by: Option<Author>,
        published: &mut Vec<Published>,
    ) {
        let itself = by.filter(|by| !by.is_script).map(|by| by.client);
        if self.prefixes.note(key, itself) {
            self.take_broadcasts(published);
        }
        if let Some(position) = self.table.position_of(key) {
            self.invalidate_at(position, by.map(|by| by.client), published);
        }
    }

    /// The same for the key at a position; nothing happens where there is none.
    pub(crate) fn invalidate_at(
        &mut self,
        position: Position,
        by: Option<ClientId>,
        published: &mut Vec<Published>,
    ) {
        if let Some((key, receivers)) = self.take_out(position, by) {
            let keys = Reply::Array(vec![Reply::Shared(key)]);
            self.tell(keys, receivers, published);
            self.discard_if_empty();
        }
    }

    /// Takes out the key at a position, with those who are to be told.
    fn take_out(
        &mut self,
        position: Position,
        by: Option<ClientId>,
    ) -> Option<(Arc<[u8]>, ClientIds)> {
        let (key, mut receivers) = self.table.remove(position)?;
        receivers.retain(|client| {
            let Some(tracker) = self.clients.get_mut(client) else {
                if let Some(keys) = self.silent.get_mut(client) {
                    keys.remove(&position);
                    if keys.is_empty() {
                        self.silent.remove(client);
                    }
                }
                return false;
            };
            tracker.keys.remove(&position);
            let ignores = tracker.options.ignores_own && by == Some(*client);
            !tracker.options.broadcasts && !ignores
        });
        Some((key, receivers))
    }

    /// Whether clients that broadcast are to be told of something.
    pub fn has_broadcasts(&self) -> bool {
        self.prefixes.has_changed()
    }

    /// Takes what clients that broadcast are to be told. It depends on all that has changed since the last call.
    pub fn take_broadcasts(&mut self, published: &mut Vec<Published>) {
        let keys = |changed: &Changed, but: Option<ClientId>| {
            let keys = changed
                .iter()
                .filter(|(_, by)| but.is_none() || **by != but);
            let keys = keys.map(|(key, _)| Reply::Shared(Arc::clone(key)));
            keys.collect::<Vec<_>>()
        };
        for (changed, listeners) in self.prefixes.take_changed() {
            let writers: BTreeSet<ClientId> = changed.values().copied().flatten().collect();
            let is_own = |client: &ClientId| {
                let tracker = self.clients.get(client);
                writers.contains(client) && tracker.is_some_and(|it| it.options.ignores_own)
            };
            let (own, others): (Vec<_>, Vec<_>) = listeners.into_iter().partition(is_own);
            let all = Reply::Array(keys(&changed, None));
            self.tell(all, others.into(), published);
            for client in own {
                let keys = keys(&changed, Some(client));
                if !keys.is_empty() {
                    let client = ClientIds::from_elem(client, 1);
                    self.tell(Reply::Array(keys), client, published);
                }
            }
        }
    }

    /// Tells everybody that no key is what it was, and remembers none.
    pub(crate) fn flush(&mut self, published: &mut Vec<Published>) {
        let departed = std::mem::take(&mut self.departed).into_values();
        let silent = std::mem::take(&mut self.silent).into_values();
        let trackers = self.clients.values_mut();
        let of_trackers = trackers.map(|tracker| std::mem::take(&mut tracker.keys));
        let of_clients = departed.chain(silent).chain(of_trackers).collect();
        if self.table.len() > 0 {
            self.discard(of_clients);
        }
        let receivers = self.clients.keys().copied().collect();
        self.tell(Reply::Nil, receivers, published);
    }

    fn tell(&self, keys: Reply, receivers: ClientIds, published: &mut Vec<Published>) {
        let push = Arc::new(Reply::Push(vec![Reply::bulk("invalidate"), keys]));
        let mut direct = receivers;
        direct.retain(|client| {
            let owner = *client;
            let redirect = self.clients.get(&owner).and_then(|it| it.options.redirect);
            let Some(target) = redirect else {
                return true;
            };
            published.push(Published {
                message: PushMessage::Redirected {
                    push: Arc::clone(&push),
                    owner,
                },
                receivers: Receivers::Clients(ClientIds::from_elem(target, 1)),
            });
            false
        });
        if !direct.is_empty() {
            published.push(Published {
                message: PushMessage::Invalidated(push),
                receivers: Receivers::Clients(direct),
            });
        }
    }

    /// Notes that a client has read a key.
    pub(crate) fn remember(&mut self, client: ClientId, key: &[u8]) {
        if let Some(tracker) = self.clients.get_mut(&client) {
            tracker.keys.insert(self.table.insert(key, client));
        }
    }
}

/// So many keys are remembered unless told otherwise, as in Redis.
const TRACKED_KEYS_MAX: usize = 1_000_000;
/// What few have is taken out at once. Thousands of clients may go at one moment, and others wait meanwhile.
pub(crate) const ENTRIES_PER_STOP: usize = 16;
