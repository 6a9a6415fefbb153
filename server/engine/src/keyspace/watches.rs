//! Keys that clients watch: whether they have changed since.
//!
//! Nobody says when a client that watched has gone: what it held is dropped with it, and its key leaves
//! the table with the next change of that key, or when the table has doubled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A key at the moment from which a client watches it. Dropping it ends that.
#[derive(Debug)]
pub struct WatchedKey {
    pub(crate) database: u8,
    pub(crate) key: Arc<[u8]>,
    /// It existed: so it has changed when it has expired.
    pub(crate) was_live: bool,
    changes: Arc<AtomicU64>,
    changes_before: u64,
}

/// The keys that are watched, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    keys: BTreeMap<u64, Watched>,
    /// So many had a watcher when the table was last looked through.
    kept: usize,
}

/// Two keys of one hash share it: a transaction is then refused that need not have been.
#[derive(Debug)]
struct Watched {
    database: u8,
    key: Arc<[u8]>,
    changes: Arc<AtomicU64>,
}

impl WatchedKey {
    /// Whether it was written, deleted or flushed since.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes.load(Ordering::Relaxed) != self.changes_before
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
        was_live: bool,
    ) -> WatchedKey {
        if self.keys.len() >= self.kept.saturating_mul(2).max(KEPT_MIN) {
            self.keys.retain(|_, watched| watched.has_watchers());
            self.kept = self.keys.len();
        }
        let watched = self.keys.entry(hash).or_insert_with(|| Watched {
            database,
            key: key.into(),
            changes: Arc::default(),
        });
        let key = if *watched.key == *key {
            Arc::clone(&watched.key)
        } else {
            key.into()
        };
        WatchedKey {
            database,
            key,
            was_live,
            changes: Arc::clone(&watched.changes),
            changes_before: watched.changes.load(Ordering::Relaxed),
        }
    }

    /// Notes a change of a key.
    #[inline]
    pub(crate) fn touch(&mut self, hash: u64) {
        if !self.keys.is_empty() {
            self.note(hash);
        }
    }

    #[cold]
    fn note(&mut self, hash: u64) {
        let Some(watched) = self.keys.get(&hash) else {
            return;
        };
        if watched.has_watchers() {
            watched.changes.fetch_add(1, Ordering::Relaxed);
        } else {
            self.keys.remove(&hash);
        }
    }

    /// Notes a change of all watched keys for which this is so.
    pub(crate) fn touch_all(&self, is_changed: impl Fn(u8, &[u8]) -> bool) {
        for watched in self.keys.values() {
            if is_changed(watched.database, &watched.key) {
                watched.changes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.keys.len()
    }
}

impl Watched {
    fn has_watchers(&self) -> bool {
        Arc::strong_count(&self.changes) > 1
    }
}

/// A smaller table is not looked through.
const KEPT_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_clients_that_have_gone_leave_the_table() {
        let mut watches = Watches::default();
        let mut held: Vec<WatchedKey> = (0..10_000)
            .map(|hash| watches.watch(hash, 0, b"key", true))
            .collect();
        assert_eq!(watches.len(), 10_000);
        held.truncate(10);
        watches.touch(9_999);
        assert_eq!(watches.len(), 9_999, "with its next change");
        let another: Vec<WatchedKey> = (10_000..20_000)
            .map(|hash| watches.watch(hash, 0, b"key", true))
            .collect();
        drop(another);
        held.truncate(5);
        for hash in 20_000..30_000 {
            drop(watches.watch(hash, 0, b"key", true));
        }
        assert!(watches.len() <= 10_000, "{}", watches.len());
        assert!(held.iter().all(|watched| !watched.has_changed()));
        watches.touch(3);
        assert!(held[3].has_changed() && !held[4].has_changed());
    }
}
