//! Locks as their holders know them: a key, or each of those who hold it shared.

use quorlock_engine::StoredValue;

use super::model::{Item, Name, share_name};

/// A lock as its holder knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) value: StoredValue,
    /// Until when it is held, as far as a restart delay can cover it, in true time.
    pub(crate) until: u64,
    /// When its TTL was granted, in true time.
    pub(crate) granted: u64,
    /// The node's start in whose run it was granted or last changed.
    pub(crate) run: u64,
}

impl Item {
    /// The lock that this is to its holder, or to each of them, if a restart delay can cover any of it.
    pub(crate) fn held(&self, name: &Name) -> Vec<(Name, Held)> {
        let shares = self.shares.iter().map(|(token, share)| {
            let held = Held {
                value: self.value.clone(),
                until: share.covered_until,
                granted: share.granted,
                run: share.run,
            };
            (share_name(name, token), held)
        });
        let until = self.covered_until.filter(|_| self.shares.is_empty());
        let held = until.map(|until| Held {
            value: self.value.clone(),
            until,
            granted: self.granted,
            run: self.run,
        });
        let whole = held.map(|held| (name.clone(), held));
        whole.into_iter().chain(shares).collect()
    }
}
