//! One command's context: what a command function may see and do.
//!
//! Every change goes through here, so that no change can miss the journal, the reply's dependency
//! or the rules on keys without a TTL. A change is either made and journalled, or refused and
//! nothing has happened.

mod collections;
mod counting;
mod publishing;
mod several;
mod shared_locks;
mod tracking;
pub(crate) mod undo;
mod waiting;

use std::sync::Arc;

use crate::caller::Caller;
use crate::effects::{Dependency, Effects};
use crate::error::ErrorReply;
use crate::keyspace::entry::{Body, Slot, ValueRef};
use crate::keyspace::{DATABASES, KeySlot, Keyspace};
use crate::lock_counts::LockEndReason;
use crate::mutation;
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::{Deadline, Moment, NodeTime};

/// What a command works on. A script makes one for each command it calls.
#[derive(Debug)]
pub(crate) struct CommandContext<'e> {
    pub(crate) keyspace: &'e mut Keyspace,
    pub(crate) now: Moment,
    pub(crate) caller: Caller,
    pub(crate) effects: &'e mut Effects,
}

impl CommandContext<'_> {
    /// Finds a key and notes nothing: the reply must not depend on the result, or
    /// [`CommandContext::reveal`] must follow.
    pub(crate) fn peek(&self, key: &[u8]) -> KeySlot {
        self.keyspace
            .locate(self.now.node, self.caller.database, key)
    }

    /// Makes the reply depend on the writes that made this key what it is, or made it absent.
    pub(crate) fn reveal(&mut self, found: &KeySlot) {
        self.effects.depends.raise(self.keyspace.dependency(found));
    }

    /// Finds a key that is to be read, for a reply that reveals it.
    pub(crate) fn lookup(&mut self, key: &[u8]) -> KeySlot {
        let found = self.lookup_to_write(key);
        self.notify_missing(&found, key);
        found
    }

    /// The same for a reply that does not tell what the key holds: whether it is there, its type, its deadline.
    pub(crate) fn lookup_unread(&mut self, key: &[u8]) -> KeySlot {
        let found = self.look_at(key);
        self.notify_missing(&found, key);
        found
    }

    /// The same as [`CommandContext::lookup`] for a key that is to be changed: no event tells that it is not there.
    pub(crate) fn lookup_to_write(&mut self, key: &[u8]) -> KeySlot {
        let found = self.look_at(key);
        if let Some(slot) = found.live {
            self.keyspace.mark_read(slot);
        }
        found
    }

    /// Finds a key for a reply about it that leaves no trace: it counts as neither read nor missing.
    pub(crate) fn look_at(&mut self, key: &[u8]) -> KeySlot {
        let found = self.peek(key);
        self.reveal(&found);
        let statistics = &mut self.keyspace.statistics;
        let counter = match found.live {
            Some(_) => &mut statistics.hits,
            None => &mut statistics.misses,
        };
        *counter = counter.saturating_add(1);
        found
    }

    fn notify_missing(&mut self, found: &KeySlot, key: &[u8]) {
        if found.live.is_none() {
            self.notify(Class::KeyMiss, "keymiss", key);
        }
    }

    /// Makes the reply depend on everything logged so far, because it reveals all keys.
    pub(crate) fn reveal_all(&mut self) {
        self.effects.depends.raise(Dependency {
            any: self.keyspace.last_position,
            synced: self.keyspace.last_uncovered,
        });
    }

    /// What TIME shows, in microseconds since the epoch: the moment's wall clock, or one microsecond more than any
    /// command or script before has seen. A script sees one value. Absolute deadlines go by the moment itself.
    pub(crate) fn shown_wall_us(&mut self) -> u64 {
        let next_us = &mut self.keyspace.next_wall_us;
        let moment_us = self.now.wall_us;
        *self.effects.shown_wall_us.get_or_insert_with(|| {
            let shown_us = moment_us.max(*next_us);
            *next_us = shown_us.saturating_add(1);
            shown_us
        })
    }

    pub(crate) fn value(&self, slot: Slot) -> ValueRef<'_> {
        self.keyspace.value(slot)
    }

    /// The string a key holds; `None` if there is no such key.
    pub(crate) fn string(&self, found: &KeySlot) -> Result<Option<&[u8]>, ErrorReply> {
        match found.live.map(|slot| self.value(slot)) {
            None => Ok(None),
            Some(ValueRef::String(bytes)) => Ok(Some(bytes)),
            Some(_) => Err(ErrorReply::WRONG_TYPE),
        }
    }

    /// The string a key holds as a reply, charged before it is made.
    pub(crate) fn string_reply(&mut self, found: &KeySlot) -> Result<Reply, ErrorReply> {
        let Some(slot) = found.live else {
            self.effects.charge(0)?;
            return Ok(Reply::Nil);
        };
        let body = &self.keyspace.entry(slot).body;
        let ValueRef::String(bytes) = body.value() else {
            return Err(ErrorReply::WRONG_TYPE);
        };
        self.effects.charge(bytes.len())?;
        Ok(match body.shared() {
            Some(shared) => Reply::Shared(Arc::clone(shared)),
            None => Reply::bulk(bytes),
        })
    }

    /// The deadline of a key, [`Deadline::NEVER`] without a TTL or without a key.
    pub(crate) fn deadline(&self, found: &KeySlot) -> Deadline {
        found
            .live
            .map_or(Deadline::NEVER, |slot| self.keyspace.entry(slot).deadline)
    }

    /// Writes a string, whatever was there before.
    pub(crate) fn put_string(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        value: &[u8],
        deadline: Deadline,
    ) -> Result<(), ErrorReply> {
        self.admit_key(found, key, value.len())?;
        self.admit_value(value.len())?;
        self.admit_deadline(deadline)?;
        let journal = &mut self.effects.journal;
        mutation::encode_replace(
            journal,
            found.database,
            key,
            ValueRef::String(value),
            deadline,
        );
        self.store(found, Body::string(key, value), deadline)
    }

    fn store(&mut self, found: &KeySlot, body: Body, deadline: Deadline) -> Result<(), ErrorReply> {
        self.keyspace.watches.touch(found.hash);
        self.end_intent(found, &body);
        self.keyspace
            .waiters
            .note_written(found.hash, || body.wanted());
        self.note_before(found);
        let is_renewal = self.count_written(found, &body, deadline);
        if found.live.is_none() && self.keyspace.events.contain(Class::New) {
            self.notify_in(found.database, Class::New, "new", body.key());
        }
        match found.stored {
            Some(slot) if is_renewal => self.note_extended(slot, deadline),
            Some(slot) => self.keyspace.end_hold(slot),
            None => {}
        }
        let slot = self
            .keyspace
            .put(found, body, deadline, self.effects.position);
        debug_assert!(slot.is_some(), "admission has found room");
        if let Some(slot) = slot.filter(|_| !is_renewal) {
            let (now, client_id) = (self.now.node, self.caller.client_id);
            self.keyspace.holders.note_taken(slot, now, client_id);
        }
        self.note_deadline(deadline);
        self.note_after(found, deadline);
        Ok(())
    }

    /// Gives a key that exists another deadline, or none with [`Deadline::NEVER`].
    pub(crate) fn set_deadline(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        deadline: Deadline,
    ) -> Result<(), ErrorReply> {
        let Some(slot) = found.live else {
            return Ok(());
        };
        self.admit_bytes(key.len())?;
        self.admit_deadline(deadline)?;
        mutation::encode_set_deadline(&mut self.effects.journal, found.database, key, deadline);
        self.keyspace.watches.touch(found.hash);
        self.note_before(found);
        self.count_moved(slot, key, deadline);
        self.note_extended(slot, deadline);
        self.keyspace
            .set_deadline(slot, deadline, self.effects.position);
        self.note_deadline(deadline);
        self.note_after(found, deadline);
        Ok(())
    }

    /// A key is about to get this deadline, and stays with who took it.
    fn note_extended(&mut self, slot: Slot, deadline: Deadline) {
        if deadline > self.keyspace.entry(slot).deadline {
            self.keyspace.note_extended(slot, self.now.node);
        }
    }

    /// Deletes keys. All of them or, with an error, none. Returns how many there were; the reply
    /// depends on all.
    pub(crate) fn delete_all(&mut self, keys: &[&[u8]]) -> Result<usize, ErrorReply> {
        if keys.len() > 1 {
            let present = keys.iter().filter(|key| self.peek(key).live.is_some());
            let bytes = present.map(|key| mutation::bytes_of(&[key])).sum();
            self.admit_bytes(bytes)?;
        }
        let mut deleted: usize = 0;
        for key in keys {
            let found = self.peek(key);
            self.reveal(&found);
            if self.delete(&found, key)? {
                self.notify(Class::Generic, "del", key);
                deleted = deleted.saturating_add(1);
            }
        }
        Ok(deleted)
    }

    /// Tells those who watch a key of a change that leaves no trace: it was written, and had expired by then.
    pub(crate) fn note_change(&mut self, found: &KeySlot) {
        self.keyspace.watches.touch(found.hash);
    }

    /// Deletes a key. False if it does not exist.
    pub(crate) fn delete(&mut self, found: &KeySlot, key: &[u8]) -> Result<bool, ErrorReply> {
        self.end_key(found, key, LockEndReason::Released)
    }

    /// The same, counted as this where the key is a lock.
    pub(crate) fn end_key(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        how: LockEndReason,
    ) -> Result<bool, ErrorReply> {
        let Some(slot) = found.live else {
            return Ok(false);
        };
        self.admit_bytes(key.len())?;
        mutation::encode_delete(&mut self.effects.journal, found.database, key);
        self.keyspace.watches.touch(found.hash);
        self.note_before(found);
        if self.is_taken_from(slot) {
            // With the last element the key goes.
            self.note_deadline(self.deadline(found));
        }
        self.count_ended(slot, how);
        self.keyspace
            .remove(found.hash, slot, self.effects.position);
        Ok(true)
    }

    /// Deletes all keys of a database, or of all.
    pub(crate) fn flush(&mut self, database: Option<u8>) -> Result<(), ErrorReply> {
        if !self.keyspace.tracking.is_off() {
            self.keyspace.tracking.flush(&mut self.effects.published);
        }
        let mut databases = 0..DATABASES;
        if databases.all(|number| self.keyspace.count(number).keys == 0) {
            return Ok(());
        }
        self.admit_bytes(0)?;
        let (limit, position) = (self.covered_until(), self.effects.position);
        let now = self.now.node;
        // What the same script wrote before does not count, as in `note_before`.
        let is_uncovered = self.keyspace.entries(database).any(|(_, entry)| {
            entry.is_live(now) && entry.position() != position && !is_covered(entry.deadline, limit)
        });
        mutation::encode_flush(&mut self.effects.journal, database);
        self.keyspace.touch_flushed(now, database);
        self.keyspace.count_flushed(database, now);
        self.keyspace.flush(database, position);
        if is_uncovered {
            self.effects.uncovered = true;
            self.keyspace.mark_all_uncovered(position);
        }
        Ok(())
    }

    /// Gives each of two databases the keys of the other one.
    pub(crate) fn swap_databases(&mut self, both: [u8; 2]) -> Result<(), ErrorReply> {
        let is_empty = |database: u8| self.keyspace.count(database).keys == 0;
        if both[0] == both[1] || both.into_iter().all(is_empty) {
            return Ok(());
        }
        self.admit_bytes(0)?;
        let (now, position) = (self.now.node, self.effects.position);
        mutation::encode_swap(&mut self.effects.journal, both);
        self.keyspace.touch_swapped(now, both);
        self.keyspace.swap_databases(both, position);
        self.keyspace.note_swapped(now, both);
        // Among the keys may be some that no restart delay covers. To look at all of them would take longer than to
        // wait for the log.
        self.effects.uncovered = true;
        self.keyspace.mark_all_uncovered(position);
        Ok(())
    }

    /// The last deadline at which a restart delay still covers the loss of a key.
    fn covered_until(&self) -> NodeTime {
        self.now
            .node
            .saturating_add(self.keyspace.rules.restart_delay_max)
    }

    /// A change of a key that was uncovered before this group began makes the group uncovered.
    fn note_before(&mut self, found: &KeySlot) {
        if self.was_uncovered(found) {
            self.note_uncovered(found);
        }
    }

    /// Whether a key was uncovered before this group began.
    fn was_uncovered(&self, found: &KeySlot) -> bool {
        found.live.is_some_and(|slot| {
            let entry = self.keyspace.entry(slot);
            entry.position() != self.effects.position
                && !is_covered(entry.deadline, self.covered_until())
        })
    }

    /// Leaving a key uncovered does so too. Of a script only the outcome counts.
    fn note_after(&mut self, found: &KeySlot, deadline: Deadline) {
        if !self.keyspace.is_recording() && !is_covered(deadline, self.covered_until()) {
            self.note_uncovered(found);
        }
    }

    fn note_uncovered(&mut self, found: &KeySlot) {
        self.effects.uncovered = true;
        self.keyspace
            .mark_uncovered(found.hash, self.effects.position);
    }

    fn note_deadline(&mut self, deadline: Deadline) {
        let end = deadline.unless_never().map(Deadline::node_time);
        self.effects.longest_deadline = self.effects.longest_deadline.max(end);
        if is_covered(deadline, self.covered_until()) {
            self.effects.longest_covered = self.effects.longest_covered.max(end);
        }
    }

    fn admit_key(&mut self, found: &KeySlot, key: &[u8], bytes: usize) -> Result<(), ErrorReply> {
        self.admit_name(key)?;
        if found.stored.is_none() && self.keyspace.is_full(found.database) {
            return Err(TOO_MANY_KEYS);
        }
        self.admit_bytes(key.len().saturating_add(bytes))
    }

    fn admit_name(&self, key: &[u8]) -> Result<(), ErrorReply> {
        let limit = self.keyspace.rules.key_bytes_max;
        within(limit, key.len(), "key is longer")
    }

    pub(crate) fn admit_value(&self, bytes: usize) -> Result<(), ErrorReply> {
        let limit = self.keyspace.rules.value_bytes_max;
        within(limit, bytes, "value is larger")
    }

    pub(crate) fn admit_collection(&self, bytes: usize) -> Result<(), ErrorReply> {
        let limit = self.keyspace.rules.collection_bytes_max;
        within(limit, bytes, "collection is larger")
    }

    /// A group has to fit into one frame of the log.
    pub(crate) fn admit_bytes(&mut self, bytes: usize) -> Result<(), ErrorReply> {
        let limit = self.keyspace.rules.journal_bytes_max;
        let group = self.group_with(bytes);
        if group > limit {
            self.effects.was_too_large = true;
            return Err(ErrorReply::new(format!(
                "ERR this changes more than {limit} bytes at once"
            )));
        }
        if self
            .effects
            .journal_bytes_max()
            .is_some_and(|room| group > room)
        {
            self.effects.ran_out_of_room = true;
            return Err(self.effects.no_room());
        }
        Ok(())
    }

    /// Whether so many bytes more would be refused.
    fn is_beyond_room(&self, bytes: usize) -> bool {
        let limit = self.keyspace.rules.journal_bytes_max;
        let room = self.effects.journal_bytes_max();
        self.group_with(bytes) > room.map_or(limit, |room| room.min(limit))
    }

    fn group_with(&self, bytes: usize) -> usize {
        let added = bytes.saturating_add(MUTATION_OVERHEAD_BYTES);
        self.effects.journal.len().saturating_add(added)
    }

    fn admit_deadline(&self, deadline: Deadline) -> Result<(), ErrorReply> {
        let is_refused = self.keyspace.rules.require_ttl
            && !self.keyspace.is_recording()
            && !is_covered(deadline, self.covered_until());
        if is_refused { Err(REQUIRE_TTL) } else { Ok(()) }
    }
}

fn within(limit: usize, bytes: usize, too_much: &str) -> Result<(), ErrorReply> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(ErrorReply::new(format!(
            "ERR {too_much} than {limit} bytes"
        ))),
    }
}

fn is_covered(deadline: Deadline, limit: NodeTime) -> bool {
    !deadline.is_after(limit)
}

/// What a mutation's frame adds to its bytes at most: marks, lengths, a deadline.
const MUTATION_OVERHEAD_BYTES: usize = 64;

const TOO_MANY_KEYS: ErrorReply = ErrorReply::fixed("OOM there is no room for another key");

const REQUIRE_TTL: ErrorReply = ErrorReply::fixed(
    "ERR this node requires a TTL of at most restart-delay-max on every key (require-ttl yes)",
);
