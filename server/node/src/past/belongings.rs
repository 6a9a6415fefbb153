//! What makes a directory a running node's own, beside its log: the directory at its path, the lock, `node.id`, and the
//! marker of its start. Where one of them is replaced, another node may serve the same locks, or the next start
//! may take the log for a copy.
//!
//! Invariant: it looks, and changes nothing. What cannot be looked at counts as unchanged: a node may have given up the right
//! to see its own path.

use std::sync::Arc;

use quorlock_persistence::{Disk, FileId, LOCK_FILE};

use crate::past::{fingerprint, identity};

/// The files of a start, as it has found and made them.
#[derive(Debug)]
pub struct Belongings {
    disk: Arc<dyn Disk>,
    /// By name; the empty one is the directory itself.
    found: Vec<(String, FileId)>,
}

/// What is no longer the one that the node has started with.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} was removed, renamed or replaced while the node was using it: another node may be started beside this one, or the \
     next start may take its log for a copy, so nothing more is acknowledged. Find out who changes the data directory. Start \
     the node again once it is back: the start says what it finds, and waits where locks could be granted twice"
)]
pub(crate) struct Displaced {
    what: String,
}

impl Belongings {
    /// Those of this start. A disk in memory has none that can be lost.
    pub(crate) fn of(disk: Arc<dyn Disk>, incarnation: u64) -> Self {
        let names = [
            String::new(),
            LOCK_FILE.to_owned(),
            identity::FILE.to_owned(),
            fingerprint::marker(incarnation),
        ];
        let find = |name: String| match disk.id_of(&name) {
            Ok(Some(id)) => Some((name, id)),
            _ => None,
        };
        let found = names.into_iter().filter_map(find).collect();
        Self { disk, found }
    }

    /// Whether all of them are still there.
    ///
    /// # Errors
    /// Names the first one that is not.
    pub(crate) fn check(&self) -> Result<(), Displaced> {
        let is_other = |(name, id): &&(String, FileId)| {
            let now = self.disk.id_of(name);
            now.is_ok_and(|now| now != Some(*id))
        };
        match self.found.iter().find(is_other) {
            Some((name, _)) => Err(Displaced {
                what: self.disk.describe(name),
            }),
            None => Ok(()),
        }
    }
}
