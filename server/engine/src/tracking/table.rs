//! The keys that clients keep, and which clients keep each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::channels::ClientId;

/// Where a key is. Another key may have it later.
pub(crate) type Position = u32;

/// Keys by name and by position; a key is here for as long as a client keeps it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    positions: BTreeMap<Arc<[u8]>, Position>,
    kept: Vec<Option<Kept>>,
    free: Vec<Position>,
    items: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    key: Arc<[u8]>,
    clients: BTreeSet<ClientId>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
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
        self.positions.get(key).copied()
    }

    /// Notes that a client keeps a key.
    pub(crate) fn insert(&mut self, key: &[u8], client: ClientId) -> Position {
        let position = match self.position_of(key) {
            Some(position) => position,
            None => self.add(key),
        };
        if let Some(Some(kept)) = self.kept.get_mut(position as usize)
            && kept.clients.insert(client)
        {
            self.items = self.items.saturating_add(1);
        }
        position
    }

    fn add(&mut self, key: &[u8]) -> Position {
        let key: Arc<[u8]> = key.into();
        let kept = Some(Kept {
            key: Arc::clone(&key),
            clients: BTreeSet::new(),
        });
        let position = match self.free.pop() {
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
        self.bytes = self.bytes.saturating_add(bytes_of(&key));
        self.positions.insert(key, position);
        position
    }

    /// Takes a key out, with those who keep it.
    pub(crate) fn remove(&mut self, position: Position) -> Option<(Arc<[u8]>, BTreeSet<ClientId>)> {
        let Kept { key, clients } = self.kept.get_mut(position as usize)?.take()?;
        self.positions.remove(&key);
        self.items = self.items.saturating_sub(clients.len());
        self.bytes = self.bytes.saturating_sub(bytes_of(&key));
        self.free.push(position);
        if self.positions.is_empty() {
            // What many keys have taken is given back.
            *self = Table::default();
        }
        Some((key, clients))
    }

    /// A client does not keep the key there any more, if it did.
    pub(crate) fn remove_client(&mut self, position: Position, client: ClientId) {
        let Some(Some(kept)) = self.kept.get_mut(position as usize) else {
            return;
        };
        if kept.clients.remove(&client) {
            self.items = self.items.saturating_sub(1);
            if kept.clients.is_empty() {
                self.remove(position);
            }
        }
    }
}

fn bytes_of(key: &[u8]) -> usize {
    key.len().saturating_add(KEY_BYTES)
}

/// Memory of a key beside its bytes: its entries by name and by position, and the set of its clients.
const KEY_BYTES: usize = 256;
/// Memory of a client in a key's set, and of the key in the client's.
const ITEM_BYTES: usize = 64;
