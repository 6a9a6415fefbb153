//! The keys that clients keep, and which clients keep each.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::FixedState;

use crate::capacity::capacity_after;
use crate::channels::{ClientId, ClientIds};
use crate::links::Links;

/// Where a key is. Another key may have it later, and a key may move where most positions are free.
pub(crate) type Position = u32;

/// Keys by name and by position; a key is here for as long as a client keeps it.
#[derive(Debug)]
pub(crate) struct TrackingTable {
    /// From hashes to positions: many tables, so that growing one is short. There are none before the first key.
    shards: Box<[Links]>,
    hasher: FixedState,
    kept: Vec<Option<TrackedKey>>,
    free: BTreeSet<Position>,
    items: usize,
    bytes: usize,
}

#[derive(Debug)]
struct TrackedKey {
    key: Arc<[u8]>,
    /// In their order. Most keys have one, for which a tree would take five times the memory.
    clients: ClientIds,
}

impl TrackingTable {
    /// With a seed that nobody who chooses keys knows.
    pub(crate) fn new(seed: u64) -> TrackingTable {
        TrackingTable {
            shards: Box::default(),
            hasher: FixedState::with_seed(seed),
            kept: Vec::new(),
            free: BTreeSet::new(),
            items: 0,
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len().saturating_sub(self.free.len())
    }

    /// Keys, once for each client that keeps them.
    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// The memory of all of it, about.
    pub(crate) fn bytes(&self) -> usize {
        let items = self.items.saturating_mul(ITEM_BYTES);
        self.bytes.saturating_add(items)
    }

    /// One more than the last position.
    pub(crate) fn end(&self) -> Position {
        let length = self.kept.len();
        Position::try_from(length).expect("its memory is bounded, and each takes more than a byte")
    }

    pub(crate) fn position_of(&self, key: &[u8]) -> Option<Position> {
        if self.shards.is_empty() {
            return None;
        }
        self.find(self.hasher.hash_one(key), key)
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<Position> {
        let shard = self.shards.get(shard_of(hash))?;
        let is_it = |position: Position| {
            let kept = self.kept.get(position as usize);
            kept.and_then(Option::as_ref)
                .is_some_and(|kept| *kept.key == *key)
        };
        shard.find(hash, is_it)
    }

    /// Notes that a client keeps a key.
    pub(crate) fn insert(&mut self, key: &[u8], client: ClientId) -> Position {
        let hash = self.hasher.hash_one(key);
        let position = match self.find(hash, key) {
            Some(position) => position,
            None => self.add(hash, key),
        };
        if let Some(Some(kept)) = self.kept.get_mut(position as usize)
            && let Err(index) = kept.clients.binary_search(&client)
        {
            kept.clients.insert(index, client);
            self.items = self.items.saturating_add(1);
        }
        position
    }

    fn add(&mut self, hash: u64, key: &[u8]) -> Position {
        let kept = Some(TrackedKey {
            key: key.into(),
            clients: ClientIds::new(),
        });
        let position = match self.free.pop_first() {
            Some(position) => {
                self.kept[position as usize] = kept;
                position
            }
            None => {
                let position = self.end();
                self.kept.push(kept);
                position
            }
        };
        self.bytes = self.bytes.saturating_add(bytes_of(key));
        if self.shards.is_empty() {
            self.shards = (0..SHARDS).map(|_| Links::default()).collect();
        }
        self.shards[shard_of(hash)].insert(hash, position);
        position
    }

    /// Takes a key out, with those who keep it.
    pub(crate) fn remove(&mut self, position: Position) -> Option<(Arc<[u8]>, ClientIds)> {
        let TrackedKey { key, clients } = self.kept.get_mut(position as usize)?.take()?;
        let hash = self.hasher.hash_one(&*key);
        let was_there = self.shards[shard_of(hash)].remove(hash, position);
        debug_assert!(was_there, "a key that is kept has a link");
        self.items = self.items.saturating_sub(clients.len());
        self.bytes = self.bytes.saturating_sub(bytes_of(&key));
        self.free.insert(position);
        Some((key, clients))
    }

    /// Whether most positions are free.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.kept.len() > POSITIONS_KEPT && self.len() < self.kept.len() / 2
    }

    /// Takes the last position away. Says from where to where a key has moved for that.
    pub(crate) fn shorten(&mut self) -> Option<(Position, Position)> {
        let last = self.kept.pop()?;
        let from = self.end();
        let moved = match last {
            None => {
                self.free.remove(&from);
                None
            }
            Some(kept) => {
                let to = self.free.pop_first()?;
                let hash = self.hasher.hash_one(&*kept.key);
                let was_there = self.shards[shard_of(hash)].renumber(hash, from, to);
                debug_assert!(was_there, "a key that is kept has a link");
                self.kept[to as usize] = Some(kept);
                Some((from, to))
            }
        };
        if let Some(capacity) = capacity_after(self.kept.len(), self.kept.capacity()) {
            self.kept.shrink_to(capacity);
        }
        moved
    }

    /// Who keeps the key at a position.
    pub(crate) fn clients_at(&self, position: Position) -> &[ClientId] {
        let kept = self.kept.get(position as usize);
        let kept = kept.and_then(Option::as_ref);
        kept.map_or(&[], |kept| &kept.clients)
    }

    /// A client does not keep the key there any more, if it did.
    pub(crate) fn remove_client(&mut self, position: Position, client: ClientId) {
        let Some(Some(kept)) = self.kept.get_mut(position as usize) else {
            return;
        };
        if let Ok(index) = kept.clients.binary_search(&client) {
            kept.clients.remove(index);
            self.items = self.items.saturating_sub(1);
            if kept.clients.is_empty() {
                self.remove(position);
            }
        }
    }

    /// Takes all of it, to be dropped, and leaves an empty one.
    pub(crate) fn take(&mut self) -> TrackingTable {
        let empty = TrackingTable {
            hasher: self.hasher.clone(),
            ..TrackingTable::new(0)
        };
        std::mem::replace(self, empty)
    }
}

fn bytes_of(key: &[u8]) -> usize {
    key.len().saturating_add(KEY_BYTES)
}

/// [`Links`] use the lowest bits; the shard is chosen by others.
fn shard_of(hash: u64) -> usize {
    ((hash >> 40) & (SHARDS - 1)) as usize
}

const SHARDS: u64 = 256;
/// The room for keys that stays when there are few or none.
pub(crate) const POSITIONS_KEPT: usize = 1024;
/// Memory of a key beside its bytes: its place, its link, and what shares it with messages.
const KEY_BYTES: usize = 128;
/// Memory of a client at a key, and of the key in the client's set.
const ITEM_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_all_shards() {
        let mut table = TrackingTable::new(7);
        for key in 0..20 * SHARDS {
            table.insert(&key.to_le_bytes(), 0);
        }
        let has_links = |shard: &Links| shard.len() > 0;
        assert!(table.shards.iter().all(has_links));
    }

    #[test]
    fn the_seed_is_kept_when_all_is_forgotten() {
        let mut table = TrackingTable::new(7);
        let hash = |table: &TrackingTable| table.hasher.hash_one(b"key");
        assert_ne!(hash(&table), hash(&TrackingTable::new(8)));
        let taken = table.take();
        assert_eq!(hash(&table), hash(&taken));
    }
}
