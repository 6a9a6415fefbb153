//! All keys of all databases: stored, found, counted, changed and undone.
//!
//! Invariants: a key has one entry; it keeps its slot while a command, script or transaction runs, and only ever moves to
//! a lower offset of its database between them (`shrinking.rs`); an entry is in the index exactly once, and in
//! the wheel exactly if it has a deadline. Nothing here writes to the
//! journal or depends on a command.

pub(crate) mod ages;
pub(crate) mod change;
pub(crate) mod collection;
pub(crate) mod counting;
mod databases;
mod discarded;
pub(crate) mod entry;
pub(crate) mod fields;
pub(crate) mod holders;
mod holding;
mod index;
pub(crate) mod list;
pub(crate) mod lock_holder;
pub(crate) mod members;
mod order;
pub(crate) mod partial;
mod reclaiming;
mod rollback;
mod rules;
pub(crate) mod shared_holders;
pub(crate) mod shrinking;
mod slab;
pub(crate) mod sorted_set;
pub(crate) mod table;
mod tracked;
mod undo;
pub(crate) mod waiters;
pub(crate) mod watches;
mod wheel;

use crate::channels::Channels;
use crate::control::Ceiling;
use crate::effects::Dependency;
use crate::fences::Fences;
use crate::keyspace::ages::Ages;
use crate::keyspace::change::Change;
use crate::keyspace::counting::{HeldLocks, OldestLock, Step};
use crate::keyspace::databases::Databases;
pub use crate::keyspace::discarded::Discarded;
pub use crate::keyspace::entry::DATABASES;
use crate::keyspace::entry::{Body, Entry, Slot, ValueRef};
use crate::keyspace::holders::Holders;
use crate::keyspace::index::Index;
use crate::keyspace::partial::Partial;
pub use crate::keyspace::reclaiming::Reclaimed;
pub use crate::keyspace::rules::JOURNAL_BYTES_MAX;
pub(crate) use crate::keyspace::rules::{COLLECTION_BYTES_MAX, KeyspaceRules, VALUE_BYTES_MAX};
use crate::keyspace::slab::Slab;
use crate::keyspace::tracked::Expired;
use crate::keyspace::undo::{Undo, UndoRecord, WrittenEnd};
use crate::keyspace::waiters::BlockedClients;
use crate::keyspace::watches::Watches;
use crate::keyspace::wheel::Wheel;
use crate::lock_counts::{LockCounts, LockPatterns};
use crate::lock_queues::LockQueues;
use crate::notifications::Events;
use crate::position::LogPosition;
use crate::reply::ReplyBudget;
use crate::time::{Deadline, NodeTime};
use crate::tracking::ClientTracking;

/// Where a key is, or would be. Valid until the next change of the keyspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySlot {
    pub(crate) database: u8,
    pub(crate) hash: u64,
    /// The stored entry, which may have expired.
    pub(crate) stored: Option<Slot>,
    /// The entry, if the key exists.
    pub(crate) live: Option<Slot>,
}

/// How many keys a database holds; expired keys count until they have been reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseCount {
    /// All keys.
    pub keys: u64,
    /// The keys that have a deadline.
    pub with_ttl: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceStatistics {
    /// Keys that have left memory because their deadline had come.
    pub expired: u64,
    /// Lookups that found a key.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Keyspace {
    slab: Slab,
    index: Index,
    databases: Databases,
    wheel: Wheel,
    undo: Undo,
    pub(crate) watches: Watches,
    pub(crate) waiters: BlockedClients,
    pub(crate) lock_queues: LockQueues,
    /// Here because scripts publish, and have the keyspace while they run.
    pub(crate) channels: Channels,
    pub(crate) tracking: ClientTracking,
    pub(crate) fences: Fences,
    pub(crate) holders: Holders,
    /// Which events of keys are published.
    pub(crate) events: Events,
    pub(crate) ages: Ages,
    expired: Expired,
    discarded: Discarded,
    /// The collection that a snapshot is taking in parts, or that replay has a part of.
    pub(crate) partial: Option<Partial>,
    counts: Box<[DatabaseCount; DATABASES as usize]>,
    held_locks: HeldLocks,
    oldest_lock: OldestLock,
    pub(crate) lock_counts: LockCounts,
    seed: u64,
    /// What earlier replies of the same transaction have taken.
    pub(crate) reply_bytes_before: usize,
    random: u64,
    /// The earliest wall clock that TIME may show next, in microseconds since the epoch.
    pub(crate) next_wall_us: u64,
    /// The last group that changed anything.
    pub(crate) last_position: LogPosition,
    /// The last group that wrote or deleted an uncovered key.
    pub(crate) last_uncovered: LogPosition,
    /// The last group that swapped databases: every reply about a key reveals it.
    swapped: LogPosition,
    pub(crate) statistics: KeyspaceStatistics,
    pub(crate) rules: KeyspaceRules,
}

impl Keyspace {
    pub(crate) fn new(seed: u64, rules: KeyspaceRules) -> Keyspace {
        Keyspace {
            index: Index::new(seed),
            lock_counts: LockCounts::new(LockPatterns::default()),
            ..Keyspace::placeholder(seed, rules)
        }
    }

    /// Stands in for a keyspace that is elsewhere while a script runs. Holds no table, so that
    /// making one is cheap.
    pub(crate) fn placeholder(seed: u64, rules: KeyspaceRules) -> Keyspace {
        Keyspace {
            slab: Slab::default(),
            index: Index::default(),
            databases: Databases::default(),
            wheel: Wheel::default(),
            undo: Undo::default(),
            watches: Watches::default(),
            waiters: BlockedClients::default(),
            lock_queues: LockQueues::default(),
            channels: Channels::default(),
            tracking: ClientTracking::new(seed),
            fences: Fences::new(Ceiling::NONE),
            holders: Holders::default(),
            events: Events::default(),
            ages: Ages::default(),
            expired: Expired::default(),
            discarded: Discarded::default(),
            partial: None,
            counts: Box::default(),
            held_locks: HeldLocks::default(),
            oldest_lock: OldestLock::default(),
            lock_counts: LockCounts::default(),
            seed,
            reply_bytes_before: 0,
            random: seed,
            next_wall_us: 0,
            last_position: LogPosition::ZERO,
            last_uncovered: LogPosition::ZERO,
            swapped: LogPosition::ZERO,
            statistics: KeyspaceStatistics::default(),
            rules,
        }
    }

    pub(crate) fn locate(&self, now: NodeTime, database: u8, key: &[u8]) -> KeySlot {
        let number = self.number_in_entries(database);
        let hash = self.index.hash(number, key);
        let stored = self.index.find(&self.slab, hash, number, key);
        let live = stored.filter(|&slot| self.slab.get(slot).is_live(now));
        KeySlot {
            database,
            hash,
            stored,
            live,
        }
    }

    pub(crate) fn hash(&self, database: u8, key: &[u8]) -> u64 {
        self.index.hash(self.number_in_entries(database), key)
    }

    /// Reads what [`Keyspace::locate`] will read for a key of this hash.
    pub(crate) fn prefetch(&self, hash: u64) {
        let deadline = self
            .index
            .find_alike(hash)
            .map(|slot| self.slab.get(slot).deadline);
        std::hint::black_box(deadline);
    }

    /// A key for replay, which finds expired keys as well.
    pub(crate) fn locate_stored(&self, database: u8, key: &[u8]) -> KeySlot {
        self.locate(NodeTime::ZERO, database, key)
    }

    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        self.slab.get(slot)
    }

    /// Notes that a key was read. Its memory is written only where that is news.
    #[inline]
    pub(crate) fn mark_read(&mut self, slot: Slot) {
        if !self.slab.get(slot).was_read() {
            self.slab.get_mut(slot).mark_read();
        }
    }

    /// Notes for those who wait for this key what it has.
    pub(crate) fn note_waited(&mut self, hash: u64, slot: Slot) {
        let body = &self.slab.get(slot).body;
        self.waiters.note_written(hash, || body.wanted());
    }

    /// The rules' budget for a reply, less what earlier ones of the same transaction have taken.
    pub(crate) fn reply_budget(&self) -> ReplyBudget {
        ReplyBudget::after(self.reply_bytes_before, self.rules.reply_bytes_max)
    }

    pub(crate) fn value(&self, slot: Slot) -> ValueRef<'_> {
        self.slab.get(slot).value()
    }

    /// What all keys take with their values, and the keyspace itself, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.slab.memory().saturating_add(size_of::<Keyspace>())
    }

    /// Whether that is more than the rules allow.
    #[inline]
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.rules.memory_max > 0 && self.memory() > self.rules.memory_max
    }

    /// The stored entries of a database, or of all.
    pub(crate) fn entries(&self, database: Option<u8>) -> impl Iterator<Item = (Slot, &Entry)> {
        self.numbers(database)
            .flat_map(|number| self.slab.iter(number))
    }

    /// How many slots the database has with this number in its entries, free ones as well.
    pub(crate) fn slots(&self, number: u8) -> u32 {
        self.slab.end(number)
    }

    /// One of them, by an offset below their number. A key that moves gets a lower offset.
    pub(crate) fn slot_at(&self, number: u8, offset: u32) -> Slot {
        self.slab.slot_at(number, offset)
    }

    /// Whether the maintenance has something to do so that less memory is taken.
    pub(crate) fn is_sparse(&mut self) -> bool {
        self.slab.sparse().is_some() || self.tracking.is_sparse()
    }

    /// What the seed of a large hash's own index is made from.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The positions a reply depends on that tells whether the key is there, and what it holds.
    pub(crate) fn dependency(&self, found: &KeySlot) -> Dependency {
        let shard = self.index.shard(found.hash);
        let written = found
            .stored
            .map_or(LogPosition::ZERO, |slot| self.slab.get(slot).position());
        let any = if found.live.is_some() {
            written
        } else {
            written.max(shard.deleted)
        };
        Dependency {
            any: any.max(self.swapped),
            synced: shard.uncovered,
        }
    }

    /// Remembers that an uncovered key was written or deleted.
    pub(crate) fn mark_uncovered(&mut self, hash: u64, position: LogPosition) {
        let shard = self.index.shard_mut(hash);
        shard.uncovered = shard.uncovered.max(position);
        self.last_uncovered = self.last_uncovered.max(position);
    }

    pub(crate) fn hash_of(&self, entry: &Entry) -> u64 {
        self.index.hash(entry.number(), entry.key())
    }

    /// Notes for those who watch keys which of them a flush takes away.
    pub(crate) fn touch_flushed(&self, now: NodeTime, database: Option<u8>) {
        if self.watches.is_empty() {
            return;
        }
        self.watches.touch_all(|number, key| {
            database.is_none_or(|flushed| flushed == number)
                && self.locate(now, number, key).live.is_some()
        });
    }

    /// Whether there is no slot left for another key of this database.
    pub(crate) fn is_full(&self, database: u8) -> bool {
        self.slab.is_full(self.number_in_entries(database))
    }

    /// Whether there certainly are slots for so many keys more.
    pub(crate) fn has_slots(&self, count: usize) -> bool {
        self.slab.has_unused(count)
    }

    /// A number below `limit`, 0 for 0: the next of a sequence that the seed and earlier calls decide.
    ///
    /// It picks keys for clients that want any one, and nothing hangs on it (SplitMix64).
    pub(crate) fn random_below(&mut self, limit: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let scaled = (mixed >> 32).wrapping_mul(u64::from(limit)) >> 32;
        u32::try_from(scaled).expect("it is below the limit")
    }

    /// Remembers that an uncovered key of any shard may have been deleted.
    pub(crate) fn mark_all_uncovered(&mut self, position: LogPosition) {
        for shard in self.index.shards_mut() {
            shard.uncovered = shard.uncovered.max(position);
        }
        self.last_uncovered = self.last_uncovered.max(position);
    }

    /// Writes a whole key: a new one, or over what is stored where it was found. Returns its slot; none when no slot is left.
    /// Who took it is to be noted, or forgotten.
    #[must_use]
    pub(crate) fn put(
        &mut self,
        found: &KeySlot,
        body: Body,
        deadline: Deadline,
        position: LogPosition,
    ) -> Option<Slot> {
        self.last_position = self.last_position.max(position);
        let Some(slot) = found.stored else {
            let number = self.number_in_entries(found.database);
            let entry = Entry::new(number, body, deadline, position);
            let slot = self.slab.insert(entry)?;
            self.index.insert(found.hash, slot);
            self.link(slot);
            self.count_key(slot, Step::Up);
            if self.is_recording() {
                self.undo.push(UndoRecord::Created { slot });
            }
            return Some(slot);
        };
        self.expired.forget(slot);
        self.end_partial(slot);
        let end = self.move_deadline(slot, deadline, position);
        self.count_lock(slot, Step::Down);
        let body = self.slab.change(slot, |old| std::mem::replace(old, body));
        self.count_lock(slot, Step::Up);
        if self.is_recording() {
            self.undo.push(UndoRecord::Replaced { slot, body, end });
        } else {
            self.discarded.add(body);
        }
        Some(slot)
    }

    pub(crate) fn set_deadline(&mut self, slot: Slot, deadline: Deadline, position: LogPosition) {
        self.last_position = self.last_position.max(position);
        let end = self.move_deadline(slot, deadline, position);
        if self.is_recording() {
            self.undo.push(UndoRecord::Deadline { slot, end });
        }
    }

    /// Changes a part of a collection; false if that changed nothing. The caller removes the key when
    /// nothing is left in it.
    pub(crate) fn change(
        &mut self,
        slot: Slot,
        change: &Change<'_>,
        position: LogPosition,
    ) -> bool {
        self.count_untaken(slot, change);
        let seed = self.seed;
        let old_position = self.slab.get(slot).position();
        let reversal = self.slab.change(slot, |body| {
            let collection = body.collection_mut();
            collection.and_then(|collection| collection.apply(change, seed))
        });
        let Some(reversal) = reversal else {
            return false;
        };
        self.slab.get_mut(slot).set_position(position);
        self.last_position = self.last_position.max(position);
        if self.undo.is_recording() {
            self.undo.push(UndoRecord::Changed {
                slot,
                part: change.part().unwrap_or_default().into(),
                reversal,
                position: old_position,
            });
        }
        true
    }

    /// Deletes a stored key.
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot, position: LogPosition) {
        self.last_position = self.last_position.max(position);
        let shard = self.index.shard_mut(hash);
        shard.deleted = shard.deleted.max(position);
        self.end_hold(slot);
        let entry = self.take_out(hash, slot);
        if self.is_recording() {
            let entry = Box::new(entry);
            self.undo.push(UndoRecord::Removed { slot, entry });
        } else {
            self.discarded.add(entry.body);
        }
    }

    fn take_out(&mut self, hash: u64, slot: Slot) -> Entry {
        self.expired.forget(slot);
        self.end_partial(slot);
        self.wheel.remove(&mut self.slab, slot);
        self.index.remove(hash, slot);
        self.count_key(slot, Step::Down);
        self.slab.remove(slot)
    }

    /// Gives an entry another deadline and position; returns the old ones.
    fn move_deadline(
        &mut self,
        slot: Slot,
        deadline: Deadline,
        position: LogPosition,
    ) -> WrittenEnd {
        let entry = self.slab.get(slot);
        let old = WrittenEnd {
            deadline: entry.deadline,
            position: entry.position(),
        };
        if old.deadline != deadline {
            self.wheel.remove(&mut self.slab, slot);
            self.count_ttl(slot, Step::Down);
            self.count_lock(slot, Step::Down);
            self.slab.get_mut(slot).deadline = deadline;
            self.count_ttl(slot, Step::Up);
            self.count_lock(slot, Step::Up);
            self.link(slot);
        }
        self.slab.get_mut(slot).set_position(position);
        old
    }

    fn link(&mut self, slot: Slot) {
        if self.slab.get(slot).deadline != Deadline::NEVER {
            self.wheel.insert(&mut self.slab, slot);
        }
    }
}
