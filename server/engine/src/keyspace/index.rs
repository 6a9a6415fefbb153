//! From keys to slots: many small hash tables, so that growing one of them is short.
//!
//! Each shard also records how far the log must be durable before the *absence* of one of its
//! keys may be revealed: coarse, but in bounded memory, and it errs towards waiting.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

use crate::keyspace::entry::Slot;
use crate::keyspace::slab::Slab;
use crate::links::Links;
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
    slots: Links,
    /// The last group that made a key of this shard disappear.
    pub(crate) deleted: LogPosition,
    /// The last group that wrote or deleted an uncovered key of this shard.
    pub(crate) uncovered: LogPosition,
}

impl Index {
    pub(crate) fn new(seed: u64) -> Index {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Index {
            shards,
            hasher: FixedState::with_seed(seed),
        }
    }

    /// `number` is the one in the entries of the key's database.
    pub(crate) fn hash(&self, number: u8, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.write_u8(number);
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

    pub(crate) fn find(&self, slab: &Slab, hash: u64, number: u8, key: &[u8]) -> Option<Slot> {
        self.shard(hash).slots.find(hash, |slot| {
            let entry = slab.get(slot);
            entry.key() == key && entry.number() == number
        })
    }

    /// A key with the same 32 bits of its hash, most likely the one that has all of it.
    pub(crate) fn find_alike(&self, hash: u64) -> Option<Slot> {
        self.shard(hash).slots.find(hash, |_| true)
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, slot: Slot) {
        self.shard_mut(hash).slots.insert(hash, slot);
    }

    /// Takes out the entry with this slot.
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) {
        let was_there = self.shard_mut(hash).slots.remove(hash, slot);
        debug_assert!(was_there, "a key that is stored is in the index");
    }

    /// The key in one slot is in another one now.
    pub(crate) fn renumber(&mut self, hash: u64, from: Slot, to: Slot) {
        let was_there = self.shard_mut(hash).slots.renumber(hash, from, to);
        debug_assert!(was_there, "a key that is stored is in the index");
    }
}

/// [`Links`] use the lowest bits; the shard is chosen by others.
fn shard_of(hash: u64) -> usize {
    ((hash >> 40) & (SHARDS - 1)) as usize
}

const SHARDS: u64 = 1024;
