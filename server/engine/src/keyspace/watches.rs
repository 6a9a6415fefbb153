//! Keys that clients watch: whether they have changed since.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::{Deadline, NodeTime};

/// A key at the moment from which a client watches it. It is to be given back to
/// [`Engine::unwatch`](crate::Engine::unwatch).
#[derive(Debug)]
#[must_use = "the table keeps its key until it is given back"]
pub struct WatchedKey {
    pub(crate) database: u8,
    pub(crate) key: Arc<[u8]>,
    /// If it existed: then it has changed when it has expired. Whatever gives it another deadline is a change.
    deadline: Deadline,
    changes: Arc<AtomicU64>,
    changes_before: u64,
}

/// The keys that are watched, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    keys: BTreeMap<u64, Watched>,
}

/// Two keys of one hash share it: a transaction is then refused that need not have been.
#[derive(Debug)]
struct Watched {
    database: u8,
    key: Arc<[u8]>,
    is_shared: bool,
    changes: Arc<AtomicU64>,
}

impl Watched {
    fn touch(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl WatchedKey {
    /// Whether it was written, deleted or flushed, or has expired, since it was watched.
    pub fn has_changed(&self, now: NodeTime) -> bool {
        let is_touched = self.changes.load(Ordering::Relaxed) != self.changes_before;
        is_touched || !self.deadline.is_after(now)
    }
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn watch(
        &mut self,
        hash: u64,
        database: u8,
        key: &[u8],
        deadline: Deadline,
    ) -> WatchedKey {
        let watched = self.keys.entry(hash).or_insert_with(|| Watched {
            database,
            key: key.into(),
            is_shared: false,
            changes: Arc::default(),
        });
        watched.is_shared |= watched.database != database;
        let key = if *watched.key == *key {
            Arc::clone(&watched.key)
        } else {
            watched.is_shared = true;
            key.into()
        };
        WatchedKey {
            database,
            key,
            deadline,
            changes: Arc::clone(&watched.changes),
            changes_before: watched.changes.load(Ordering::Relaxed),
        }
    }

    /// Ends the watching of a key, which has this hash now.
    pub(crate) fn unwatch(&mut self, hash: u64, watched: WatchedKey) {
        drop(watched);
        let has_watchers = |watched: &Watched| Arc::strong_count(&watched.changes) > 1;
        if !self.keys.get(&hash).is_some_and(has_watchers) {
            self.keys.remove(&hash);
        }
    }

    /// Notes a change of a key.
    #[inline]
    pub(crate) fn touch(&mut self, hash: u64) {
        if let Some(watched) = self.keys.get(&hash) {
            watched.touch();
        }
    }

    /// Notes a change of all watched keys for which this is so.
    pub(crate) fn touch_all(&self, is_changed: impl Fn(u8, &[u8]) -> bool) {
        for watched in self.keys.values() {
            if is_changed(watched.database, &watched.key) {
                watched.touch();
            }
        }
    }

    /// The keys of two databases have other hashes from now on.
    pub(crate) fn rehash(&mut self, both: [u8; 2], hash: impl Fn(u8, &[u8]) -> u64) {
        let is_of_them = |_: &u64, watched: &mut Watched| both.contains(&watched.database);
        let moved: Vec<_> = self.keys.extract_if(.., is_of_them).collect();
        for (_, watched) in moved {
            let hash = hash(watched.database, &watched.key);
            // Where two keys share a hash one of them would be lost sight of.
            if watched.is_shared {
                watched.touch();
            }
            if let Some(lost) = self.keys.insert(hash, watched) {
                lost.touch();
            }
        }
    }

    /// How many keys are watched.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leaves_the_table_with_the_last_who_watches_it() {
        let (mut watches, now) = (Watches::default(), NodeTime::ZERO);
        let one = watches.watch(1, 0, b"one", Deadline::NEVER);
        let again = watches.watch(1, 0, b"one", Deadline::NEVER);
        let other = watches.watch(2, 0, b"other", Deadline::NEVER);
        watches.touch(1);
        watches.touch(3);
        assert!(one.has_changed(now) && again.has_changed(now) && !other.has_changed(now));
        let since = watches.watch(1, 0, b"one", Deadline::NEVER);
        assert!(!since.has_changed(now));
        for watched in [one, again, since] {
            assert_eq!(watches.len(), 2);
            watches.unwatch(1, watched);
        }
        assert_eq!(watches.len(), 1);
        watches.unwatch(2, other);
        assert!(watches.is_empty());
    }
}
