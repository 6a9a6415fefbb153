//! Which keys each database has: databases are swapped by their numbers, and no key is moved.
//!
//! An entry keeps the number with which it was made, and its hash. Only here does that number differ from the one that
//! clients and the log know.

use std::ops::Range;

use crate::keyspace::entry::{DATABASES, Entry, Slot};
use crate::keyspace::undo::UndoRecord;
use crate::keyspace::{DatabaseCount, Keyspace};
use crate::position::LogPosition;
use crate::time::NodeTime;

/// For each database the number in its entries.
#[derive(Debug)]
pub(super) struct Databases([u8; DATABASES as usize]);

impl Default for Databases {
    fn default() -> Databases {
        let mut numbers = 0..DATABASES;
        Databases([(); DATABASES as usize].map(|()| numbers.next().unwrap_or_default()))
    }
}

impl Keyspace {
    /// The number in the entries of a database.
    pub(crate) fn number_in_entries(&self, database: u8) -> u8 {
        self.databases.0[usize::from(database)]
    }

    /// The numbers in the entries of a database, or of all.
    pub(super) fn numbers(&self, database: Option<u8>) -> Range<u8> {
        match database.map(|one| self.number_in_entries(one)) {
            Some(number) => number..number.saturating_add(1),
            None => 0..DATABASES,
        }
    }

    /// The database that an entry is in.
    pub(crate) fn database_of(&self, entry: &Entry) -> u8 {
        let number = entry.number();
        let found = (0..DATABASES).find(|&database| self.number_in_entries(database) == number);
        found.expect("databases are swapped, so that each number is there once")
    }

    pub(crate) fn is_in(&self, entry: &Entry, database: u8) -> bool {
        entry.number() == self.number_in_entries(database)
    }

    pub(crate) fn count(&self, database: u8) -> DatabaseCount {
        self.counts[usize::from(self.number_in_entries(database))]
    }

    fn remove_slot(&mut self, slot: Slot, position: LogPosition) {
        let entry = self.slab.get(slot);
        let hash = self.hash_of(entry);
        self.remove(hash, slot, position);
    }

    /// Deletes all keys of a database, or of all.
    pub(crate) fn flush(&mut self, database: Option<u8>, position: LogPosition) {
        for number in self.numbers(database) {
            for offset in 0..self.slab.end(number) {
                let slot = self.slab.slot_at(number, offset);
                if !self.slab.get(slot).is_vacant() {
                    self.remove_slot(slot, position);
                }
            }
        }
        for shard in self.index.shards_mut() {
            shard.deleted = shard.deleted.max(position);
        }
        self.last_position = self.last_position.max(position);
    }

    /// Gives each of two databases the keys of the other one.
    pub(crate) fn swap_databases(&mut self, both: [u8; 2], position: LogPosition) {
        self.last_position = self.last_position.max(position);
        self.swapped = self.swapped.max(position);
        self.exchange(both);
        if self.is_recording() {
            self.undo.push(UndoRecord::Swapped { both });
        }
    }

    /// The same without a trace. Those who watch keys or wait for them go on doing so under the same names.
    pub(super) fn exchange(&mut self, both: [u8; 2]) {
        let [one, other] = both.map(usize::from);
        self.databases.0.swap(one, other);
        let (mut watches, mut waiters) = (
            std::mem::take(&mut self.watches),
            std::mem::take(&mut self.waiters),
        );
        watches.rehash(both, |database, key| self.hash(database, key));
        waiters.rehash(both, |database, key| self.hash(database, key));
        (self.watches, self.waiters) = (watches, waiters);
    }

    /// Notes for those who watch keys which of them a swap of two databases replaces.
    pub(crate) fn touch_swapped(&self, now: NodeTime, both: [u8; 2]) {
        self.watches.touch_all(|number, key| {
            let is_live = |database: u8| self.locate(now, database, key).live.is_some();
            both.contains(&number) && both.into_iter().any(is_live)
        });
    }

    /// Notes for those who wait for keys of two databases which of them have come.
    pub(crate) fn note_swapped(&mut self, now: NodeTime, both: [u8; 2]) {
        for (database, key) in self.waiters.keys_of(both) {
            let found = self.locate(now, database, &key);
            if let Some(slot) = found.live {
                self.note_waited(found.hash, slot);
            }
        }
    }
}
