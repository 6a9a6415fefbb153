//! Large collections that no key holds any more, and chunks without a key, until somebody frees them with the
//! engine released.
//!
//! To free millions of elements takes as long as to free each of them, and the system takes milliseconds to take
//! 64 MiB back; nobody's request waits for that.

use crate::keyspace::Keyspace;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::{Body, Entry};
use crate::keyspace::holders::Holder;
use crate::keyspace::undo::UndoRecord;
use crate::tracking::DiscardedKeys;

/// What is to be freed: dropping it takes long, so nobody drops it while others wait for the engine.
#[derive(Debug, Default)]
pub struct Discarded {
    collections: Vec<Collection>,
    chunks: Vec<Vec<Entry>>,
    holders: Vec<Vec<Holder>>,
    tracked: Vec<DiscardedKeys>,
}

impl Discarded {
    /// Whether there is anything to free.
    pub fn is_empty(&self) -> bool {
        let is_empty = self.collections.is_empty() && self.chunks.is_empty();
        is_empty && self.holders.is_empty() && self.tracked.is_empty()
    }

    /// What the key held that is gone, or holds something else.
    pub(super) fn add(&mut self, body: Body) {
        if let Body::Composite { value, .. } = body
            && value.len() >= ELEMENTS_MIN
        {
            self.collections.push(value);
        }
    }

    /// What was known of who took keys, where none is left.
    pub(super) fn add_holders(&mut self, chunks: Vec<Vec<Holder>>) {
        self.holders.extend(chunks);
    }

    /// What the last key of a database has left behind.
    pub(super) fn add_chunks(&mut self, chunks: Vec<Vec<Entry>>) {
        // One is freed at once.
        if chunks.len() > 1 {
            self.chunks.extend(chunks);
        }
    }
}

impl Keyspace {
    /// What is to be freed since the last call.
    pub(crate) fn take_discarded(&mut self) -> Discarded {
        self.discarded.tracked = self.tracking.take_discarded();
        std::mem::take(&mut self.discarded)
    }

    pub(crate) fn has_discarded(&self) -> bool {
        !self.discarded.is_empty() || self.tracking.has_discarded()
    }

    /// What a script or a transaction has overwritten is not needed any more.
    pub(super) fn discard_records(&mut self, records: impl Iterator<Item = UndoRecord>) {
        for record in records {
            match record {
                UndoRecord::Removed { entry, .. } => self.discarded.add(entry.body),
                UndoRecord::Replaced { body, .. } => self.discarded.add(body),
                UndoRecord::Created { .. }
                | UndoRecord::Deadline { .. }
                | UndoRecord::Changed { .. }
                | UndoRecord::Held { .. }
                | UndoRecord::Taken { .. }
                | UndoRecord::Owned { .. }
                | UndoRecord::Counted(_)
                | UndoRecord::Swapped { .. } => {}
            }
        }
    }
}

/// With fewer elements it is freed at once: that takes some tens of microseconds.
const ELEMENTS_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::KeyspaceRules;
    use crate::keyspace::list::{End, List};
    use crate::position::LogPosition;
    use crate::time::{Deadline, NodeTime};

    const POSITION: LogPosition = LogPosition::from_raw(1);

    fn rules() -> KeyspaceRules {
        KeyspaceRules {
            collection_bytes_max: 1 << 20,
            ..KeyspaceRules::FOR_TESTS
        }
    }

    fn put(keyspace: &mut Keyspace, elements: usize, deadline: Deadline) {
        let mut list = List::default();
        for _ in 0..elements {
            list.push(End::Left, b"x"[..].into());
        }
        let found = keyspace.locate_stored(0, b"key");
        let body = Body::collection(b"key", list);
        assert!(keyspace.put(&found, body, deadline, POSITION).is_some());
    }

    fn remove(keyspace: &mut Keyspace) {
        let found = keyspace.locate_stored(0, b"key");
        keyspace.remove(found.hash, found.stored.unwrap(), POSITION);
    }

    /// Whatever takes a large collection's key away, its elements are left to be freed later.
    #[test]
    fn large_collections_are_never_freed_on_the_way() {
        let ways: [fn(&mut Keyspace); 8] = [
            remove,
            |keyspace| put(keyspace, 1, Deadline::NEVER),
            |keyspace| keyspace.flush(None, POSITION),
            |keyspace| {
                let due = NodeTime::from_nanos(1_000_000_000_000);
                assert_eq!(keyspace.reclaim(due, 1000).freed, 1);
            },
            |keyspace| {
                keyspace.begin_undo();
                remove(keyspace);
                keyspace.commit_undo(POSITION, true);
            },
            |keyspace| {
                keyspace.begin_undo();
                put(keyspace, 1, Deadline::NEVER);
                keyspace.commit_undo(POSITION, true);
            },
            |keyspace| {
                remove(keyspace);
                keyspace.discarded = Discarded::default();
                let before = keyspace.begin_undo();
                put(keyspace, ELEMENTS_MIN, Deadline::NEVER);
                keyspace.rollback(before, POSITION);
            },
            |keyspace| {
                put(keyspace, 1, Deadline::NEVER);
                keyspace.discarded = Discarded::default();
                let before = keyspace.begin_undo();
                put(keyspace, ELEMENTS_MIN, Deadline::NEVER);
                keyspace.rollback(before, POSITION);
            },
        ];
        let rules = rules();
        for (number, take_away) in ways.into_iter().enumerate() {
            let mut keyspace = Keyspace::new(3, rules);
            put(&mut keyspace, ELEMENTS_MIN, Deadline::at_nanos(5_000_000));
            assert!(!keyspace.has_discarded());
            take_away(&mut keyspace);
            assert!(keyspace.has_discarded(), "way {number}");
            let discarded = keyspace.take_discarded();
            assert_eq!(discarded.collections[0].len(), ELEMENTS_MIN);
            assert!(!keyspace.has_discarded());
        }
        let mut keyspace = Keyspace::new(3, rules);
        put(&mut keyspace, ELEMENTS_MIN - 1, Deadline::NEVER);
        remove(&mut keyspace);
        assert!(!keyspace.has_discarded(), "a small one is freed at once");
    }

    /// The last of many keys leaves chunks behind, which are freed later; that of few keys is freed at once.
    #[test]
    fn chunks_of_many_keys_are_never_freed_on_the_way() {
        let rules = rules();
        for (keys, are_kept) in [(5_000, true), (500, false)] {
            let mut keyspace = Keyspace::new(3, rules);
            for number in 0..keys {
                let key = format!("key{number}");
                let found = keyspace.locate_stored(0, key.as_bytes());
                let body = Body::string(key.as_bytes(), b"token");
                let slot = keyspace.put(&found, body, Deadline::NEVER, POSITION);
                assert!(slot.is_some());
            }
            keyspace.flush(None, POSITION);
            keyspace.shrink(1);
            assert_eq!(keyspace.has_discarded(), are_kept, "{keys} keys");
            assert_eq!(keyspace.slab.end(0), 0, "the memory is given back");
            put(&mut keyspace, 1, Deadline::NEVER);
            assert!(keyspace.locate_stored(0, b"key").stored.is_some());
        }
    }
}
