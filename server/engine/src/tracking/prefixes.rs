//! Prefixes of keys of which clients hear every change, and the keys that have changed since they were last told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::channels::ClientId;

/// Keys that have changed, each with the client that changed it last.
pub(crate) type Changed = BTreeMap<Arc<[u8]>, Option<ClientId>>;

/// Who listens to which prefix.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    listeners: BTreeMap<Arc<[u8]>, BTreeSet<ClientId>>,
    /// How many prefixes there are of each length: a key is looked up once for each.
    lengths: BTreeMap<usize, usize>,
    changed: BTreeMap<Arc<[u8]>, Changed>,
    changed_bytes: usize,
}

impl Prefixes {
    pub(crate) fn len(&self) -> usize {
        self.listeners.len()
    }

    pub(crate) fn add(&mut self, prefix: &Arc<[u8]>, client: ClientId) {
        if !self.listeners.contains_key(prefix) {
            let count = self.lengths.entry(prefix.len()).or_default();
            *count = count.saturating_add(1);
        }
        let prefix = Arc::clone(prefix);
        self.listeners.entry(prefix).or_default().insert(client);
    }

    pub(crate) fn remove(&mut self, prefix: &Arc<[u8]>, client: ClientId) {
        let Some(listeners) = self.listeners.get_mut(prefix) else {
            return;
        };
        listeners.remove(&client);
        if !listeners.is_empty() {
            return;
        }
        self.listeners.remove(prefix);
        self.changed.remove(prefix);
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// Notes that a key has changed. Says whether those who listen had better be told soon.
    pub(crate) fn note(&mut self, key: &[u8], by: Option<ClientId>) -> bool {
        let mut shared: Option<Arc<[u8]>> = None;
        for (&length, _) in self.lengths.range(..=key.len()) {
            let Some((prefix, _)) = self.listeners.get_key_value(&key[..length]) else {
                continue;
            };
            let key = shared.get_or_insert_with(|| key.into());
            let changed = self.changed.entry(Arc::clone(prefix)).or_default();
            if changed.insert(Arc::clone(key), by).is_none() {
                let bytes = key.len().saturating_add(KEY_BYTES);
                self.changed_bytes = self.changed_bytes.saturating_add(bytes);
            }
        }
        self.changed_bytes > CHANGED_BYTES_MAX
    }

    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes what has changed, for those who listen.
    pub(crate) fn take_changed(&mut self) -> Vec<(Changed, Vec<ClientId>)> {
        self.changed_bytes = 0;
        let changed = std::mem::take(&mut self.changed).into_iter();
        let with_listeners = changed.map(|(prefix, changed)| {
            let listeners = self.listeners.get(&prefix);
            let listeners = listeners.into_iter().flatten().copied().collect();
            (changed, listeners)
        });
        with_listeners.collect()
    }
}

/// Beyond this clients are told before the engine is released.
const CHANGED_BYTES_MAX: usize = 1 << 20;
const KEY_BYTES: usize = 64;
