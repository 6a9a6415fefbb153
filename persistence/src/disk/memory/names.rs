//! The names in the directory: as a process sees them, as they are synced, and every change in between.
//!
//! Invariant: the synced names with all unsynced changes applied in order are the names that are seen.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

#[derive(Clone, Debug, Default)]
pub(super) struct FileNames {
    seen: BTreeMap<String, u64>,
    synced: BTreeMap<String, u64>,
    unsynced: Vec<NameChange>,
}

/// One change of the directory.
#[derive(Clone, Debug)]
enum NameChange {
    Create { name: String, id: u64 },
    Rename { from: String, to: String, id: u64 },
    Remove { name: String },
}

impl FileNames {
    pub(super) fn id_of(&self, name: &str) -> io::Result<u64> {
        let id = self.seen.get(name).copied();
        id.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.seen.contains_key(name)
    }

    pub(super) fn seen(&self) -> impl Iterator<Item = (&String, u64)> {
        self.seen.iter().map(|(name, id)| (name, *id))
    }

    pub(super) fn create(&mut self, name: &str, id: u64, remembers: bool) {
        let name = name.to_owned();
        self.change(NameChange::Create { name, id }, remembers);
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, remembers: bool) -> io::Result<()> {
        let id = self.id_of(from)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        self.change(NameChange::Rename { from, to, id }, remembers);
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str, remembers: bool) -> io::Result<()> {
        self.id_of(name)?;
        let name = name.to_owned();
        self.change(NameChange::Remove { name }, remembers);
        Ok(())
    }

    pub(super) fn sync(&mut self) {
        self.synced.clone_from(&self.seen);
        self.unsynced.clear();
    }

    /// The unsynced changes in words, oldest first.
    pub(super) fn unsynced(&self) -> Vec<String> {
        let word = |change: &NameChange| match change {
            NameChange::Create { name, .. } => format!("create {name}"),
            NameChange::Rename { from, to, .. } => format!("rename {from} to {to}"),
            NameChange::Remove { name } => format!("remove {name}"),
        };
        self.unsynced.iter().map(word).collect()
    }

    /// What a power loss leaves if those changes survive for which `survives` says so.
    pub(super) fn settle(&mut self, survives: impl Fn(usize) -> bool) {
        let mut left = std::mem::take(&mut self.synced);
        for (index, change) in self.unsynced.drain(..).enumerate() {
            if survives(index) {
                change.apply(&mut left);
            }
        }
        self.seen.clone_from(&left);
        self.synced = left;
    }

    /// Every file that is named, or may be after a power loss.
    pub(super) fn ids(&self) -> BTreeSet<u64> {
        let pending = self.unsynced.iter().filter_map(|change| match change {
            NameChange::Create { id, .. } | NameChange::Rename { id, .. } => Some(id),
            NameChange::Remove { .. } => None,
        });
        let named = self.seen.values().chain(self.synced.values());
        named.chain(pending).copied().collect()
    }

    fn change(&mut self, change: NameChange, remembers: bool) {
        change.apply(&mut self.seen);
        if remembers {
            self.unsynced.push(change);
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Create { name, id } => {
                names.insert(name.clone(), *id);
            }
            NameChange::Rename { from, to, id } => {
                // The name may stand for another file by now, if an earlier change did not survive.
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
            NameChange::Remove { name } => {
                names.remove(name);
            }
        }
    }
}
