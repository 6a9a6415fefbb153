//! Collections: read by their type, written whole, and changed part by part.

use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::collection::{Collection, Kind};
use crate::keyspace::entry::{Body, Slot, ValueRef};
use crate::lock_counts::LockEndReason;
use crate::mutation;
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::Deadline;

impl CommandContext<'_> {
    /// The collection a key holds; `None` if there is no such key.
    pub(crate) fn collection<K: Kind>(&self, found: &KeySlot) -> Result<Option<&K>, ErrorReply> {
        match found.live.map(|slot| self.value(slot)) {
            None => Ok(None),
            Some(value) => of_kind(value).map(Some),
        }
    }

    /// The same beside the effects, for a reply that is charged while the collection is read.
    pub(crate) fn collection_and_effects<K: Kind>(
        &mut self,
        found: &KeySlot,
    ) -> Result<Option<(&K, &mut Effects)>, ErrorReply> {
        match found.live.map(|slot| self.keyspace.value(slot)) {
            None => Ok(None),
            Some(value) => Ok(Some((of_kind(value)?, self.effects))),
        }
    }

    /// The collections of several keys beside the effects.
    pub(crate) fn collections_and_effects<K: Kind>(
        &mut self,
        found: &[KeySlot],
    ) -> Result<(Vec<Option<&K>>, &mut Effects), ErrorReply> {
        let values = found.iter().map(|found| {
            let value = found.live.map(|slot| self.keyspace.value(slot));
            value.map(of_kind).transpose()
        });
        Ok((values.collect::<Result<_, _>>()?, self.effects))
    }

    /// Writes a collection, whatever was there before.
    pub(crate) fn put_collection(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        collection: impl Into<Collection>,
        deadline: Deadline,
    ) -> Result<(), ErrorReply> {
        let collection = collection.into();
        debug_assert!(!collection.is_empty(), "a key without anything in it");
        self.admit_key(found, key, collection.bytes())?;
        self.admit_collection(collection.bytes())?;
        self.admit_deadline(deadline)?;
        let journal = &mut self.effects.journal;
        let value = ValueRef::Collection(&collection);
        mutation::encode_replace(journal, found.database, key, value, deadline);
        self.store(found, Body::collection(key, collection), deadline)
    }

    /// Makes a collection the value of a key, whatever was there before, and reports this event; without an element the key is
    /// deleted. Replies with the number of elements.
    pub(crate) fn store_result(
        &mut self,
        key: &[u8],
        result: impl Into<Collection>,
        (class, event): (Class, &'static str),
    ) -> Result<Reply, ErrorReply> {
        let result = result.into();
        let count = result.len();
        if count > 0 {
            let found = self.peek(key);
            self.put_collection(&found, key, result, Deadline::NEVER)?;
            self.notify(class, event, key);
        } else {
            self.delete_all(&[key])?;
        }
        Ok(Reply::count(count))
    }

    /// Makes changes to the collection of a key that exists, in their order, and deletes the key
    /// when nothing is left: what would come after that is not made. All of them or, with an error,
    /// none. Returns how many changed something.
    pub(crate) fn change<'c>(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        changes: impl Iterator<Item = Change<'c>> + Clone,
    ) -> Result<usize, ErrorReply> {
        let Some(slot) = found.live else { return Ok(0) };
        let may_grow = self.admit_changes(found, key, changes.clone())?;
        let was_uncovered = self.was_uncovered(found);
        let mut count: usize = 0;
        for change in changes {
            if self.keyspace.change(slot, &change, self.effects.position) {
                let journal = &mut self.effects.journal;
                mutation::encode_change(journal, found.database, key, &change, count == 0);
                count = count.saturating_add(1);
                if self.is_emptied(slot) {
                    // Replay deletes the key here, and finds none for what follows.
                    break;
                }
            }
        }
        if count > 0 {
            self.end_changes(found, key, was_uncovered, may_grow);
        }
        Ok(count)
    }

    /// Whether there is room for changes, which then cannot fail. Says whether one of them may make
    /// the collection larger.
    pub(crate) fn admit_changes<'c>(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        changes: impl Iterator<Item = Change<'c>> + Clone,
    ) -> Result<bool, ErrorReply> {
        let (value, deadline) = match found.live.map(|slot| self.keyspace.entry(slot)) {
            None => return Ok(false),
            Some(entry) => (entry.value(), entry.deadline),
        };
        let ValueRef::Collection(collection) = value else {
            return Err(ErrorReply::WRONG_TYPE);
        };
        let rules = &self.keyspace.rules;
        let room = rules
            .collection_bytes_max
            .saturating_sub(collection.bytes());
        let is_partial = found
            .live
            .is_some_and(|slot| self.keyspace.is_partial(slot));
        // Where it is emptied, that is logged as well: see `end_changes`.
        let names = if is_partial { 2 } else { 1 };
        let names = key.len().saturating_mul(names);
        let (mut bytes, mut may_grow) = (names, false);
        for change in changes.clone() {
            bytes = bytes.saturating_add(mutation::bytes_of_change(key, &change));
            may_grow |= change.may_grow();
        }
        // What the log takes of them is more than what they add, so that a look at each part is
        // only needed near a limit.
        let is_near_limit = bytes > room || self.is_beyond_room(bytes);
        if is_near_limit {
            let changes: Vec<_> = changes
                .filter(|change| collection.would_change(change))
                .collect();
            let bytes_of = |change| mutation::bytes_of_change(key, change);
            bytes = changes
                .iter()
                .map(bytes_of)
                .fold(names, usize::saturating_add);
            if may_grow {
                self.admit_collection(collection.bytes_after(&changes))?;
            }
        }
        if may_grow {
            self.admit_deadline(deadline)?;
        }
        self.admit_bytes(bytes)?;
        Ok(may_grow)
    }

    /// Whether what leaves the value may be somebody's from then on: a permit that is popped from a
    /// list is granted by that, and would be granted again if that were forgotten. A field that leaves
    /// a hash, or a holder that leaves a shared lock, is a release.
    pub(super) fn is_taken_from(&self, slot: Slot) -> bool {
        match self.value(slot) {
            ValueRef::String(_)
            | ValueRef::Collection(Collection::Hash(_) | Collection::SharedLock(_)) => false,
            ValueRef::Collection(_) => true,
        }
    }

    fn is_emptied(&self, slot: Slot) -> bool {
        matches!(self.value(slot), ValueRef::Collection(left) if left.is_empty())
    }

    /// What follows from changes that have been made.
    fn end_changes(&mut self, found: &KeySlot, key: &[u8], was_uncovered: bool, may_grow: bool) {
        let Some(slot) = found.live else { return };
        self.keyspace.watches.touch(found.hash);
        if was_uncovered {
            self.note_uncovered(found);
        }
        let deadline = self.deadline(found);
        if may_grow || self.is_taken_from(slot) {
            // A re-entered lock is granted anew for the time it has left.
            self.note_deadline(deadline);
        }
        if self.is_emptied(slot) {
            // Replay deletes it as well, but where it has a part only and cannot see that nothing is left.
            if self.keyspace.is_partial(slot) {
                mutation::encode_delete(&mut self.effects.journal, found.database, key);
            }
            self.count_ended(slot, LockEndReason::Released);
            self.keyspace
                .remove(found.hash, slot, self.effects.position);
            return;
        }
        if may_grow {
            self.keyspace.note_waited(found.hash, slot);
        }
        self.note_after(found, deadline);
    }
}

fn of_kind<K: Kind>(value: ValueRef<'_>) -> Result<&K, ErrorReply> {
    match value {
        ValueRef::Collection(collection) => K::of(collection).ok_or(ErrorReply::WRONG_TYPE),
        ValueRef::String(_) => Err(ErrorReply::WRONG_TYPE),
    }
}

#[cfg(test)]
#[path = "collections_tests.rs"]
mod tests;
