//! From keys to slots: many small hash tables, so that growing one of them is short.
//!
//! Each shard also records how far the log must be durable before the *absence* of one of its
//! keys may be revealed: coarse, but in bounded memory, and it errs towards waiting.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::keyspace::entry::{NONE, Slot};
use crate::keyspace::slab::Slab;
use crate::position::LogPosition;

/// The shards of the index. The default has none and is only a placeholder.
#[derive(Debug, Default)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    hasher: FixedState,
}

/// A part of the keys. Alone in its cache line: every lookup reads all of it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Shard {
    slots: HashTable<Link>,
    /// The last group that made a key of this shard disappear.
    pub(crate) deleted: LogPosition,
    /// The last group that wrote or deleted an uncovered key of this shard.
    pub(crate) uncovered: LogPosition,
}

/// A key's slot, with enough of its hash to grow the table without looking at the key.
#[derive(Clone, Copy, Debug)]
struct Link {
    hash: u32,
    slot: Slot,
}

impl Link {
    fn new(hash: u64, slot: Slot) -> Link {
        // The lowest bits; the shard was chosen by others.
        let [a, b, c, d, ..] = hash.to_le_bytes();
        Link {
            hash: u32::from_le_bytes([a, b, c, d]),
            slot,
        }
    }

    /// The hash the table sees: it uses the lowest and the highest bits.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) | u64::from(hash) << 32
    }
}

impl Index {
    pub(crate) fn new(seed: u64) -> Index {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Index {
            shards,
            hasher: FixedState::with_seed(seed),
        }
    }

    pub(crate) fn hash(&self, database: u8, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.write_u8(database);
        hasher.finish()
    }

    pub(crate) fn shard(&self, hash: u64) -> &Shard {
        &self.shards[shard_of(hash)]
    }

    pub(crate) fn shard_mut(&mut self, hash: u64) -> &mut Shard {
        &mut self.shards[shard_of(hash)]
    }

    pub(crate) fn shards_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.shards.iter_mut()
    }

    pub(crate) fn find(&self, slab: &Slab, hash: u64, database: u8, key: &[u8]) -> Option<Slot> {
        let wanted = Link::new(hash, NONE).hash;
        let matches = |link: &Link| {
            link.hash == wanted && {
                let entry = slab.get(link.slot);
                entry.key() == key && entry.database() == database
            }
        };
        let found = self.shard(hash).slots.find(Link::spread(wanted), matches);
        found.map(|link| link.slot)
    }

    /// A key with the same 32 bits of its hash, most likely the one that has all of it.
    pub(crate) fn find_alike(&self, hash: u64) -> Option<Slot> {
        let wanted = Link::new(hash, NONE).hash;
        let slots = &self.shard(hash).slots;
        let found = slots.find(Link::spread(wanted), |link| link.hash == wanted);
        found.map(|link| link.slot)
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, slot: Slot) {
        let link = Link::new(hash, slot);
        let rehash = |link: &Link| Link::spread(link.hash);
        self.shard_mut(hash)
            .slots
            .insert_unique(rehash(&link), link, rehash);
    }

    /// Takes out the entry with this slot.
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) {
        let wanted = Link::spread(Link::new(hash, slot).hash);
        let found = self
            .shard_mut(hash)
            .slots
            .find_entry(wanted, |other| other.slot == slot);
        debug_assert!(found.is_ok(), "a key that is stored is in the index");
        if let Ok(occupied) = found {
            occupied.remove();
        }
    }

    /// Takes the tables out of empty shards, to be dropped.
    pub(crate) fn take_tables(&mut self) -> Tables {
        let take = |shard: &mut Shard| {
            debug_assert!(shard.slots.is_empty(), "only an empty index is reset");
            std::mem::take(&mut shard.slots)
        };
        Tables(self.shards.iter_mut().map(take).collect())
    }
}

/// The tables of all shards, which hold nothing.
#[derive(Debug)]
pub(crate) struct Tables(
    #[expect(dead_code, reason = "they are only dropped")] Vec<HashTable<Link>>,
);

/// A [`Link`] keeps the lowest bits; the shard is chosen by others.
fn shard_of(hash: u64) -> usize {
    ((hash >> 40) & (SHARDS - 1)) as usize
}

const SHARDS: u64 = 1024;
