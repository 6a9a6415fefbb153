//! Which sets of names calls of this client wait for, by each name: the release of a name concerns all of them.
//!
//! Invariant: a set is here as long as a call waits for it. Calls for the same set wait in one queue, and no call waits in
//! the queue of another set: it would be kept from names that are free by one that waits for names that are not.

use std::collections::HashMap;

use bytes::Bytes;

use crate::name::LockName;
use crate::waiters::Wanted;

#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// Sets of several names.
    sets: HashMap<Bytes, Vec<LockName>>,
}

impl Overlaps {
    /// The first call waits for this.
    pub(super) fn add(&mut self, wanted: &Wanted) {
        for part in parts(wanted) {
            let sets = self.sets.entry(part.clone()).or_default();
            sets.extend(name_of(wanted).cloned());
        }
    }

    /// No call waits for it any more.
    pub(super) fn remove(&mut self, wanted: &Wanted) {
        for part in parts(wanted) {
            let Some(sets) = self.sets.get_mut(part) else {
                continue;
            };
            sets.retain(|set| Some(set) != name_of(wanted));
            if sets.is_empty() {
                self.sets.remove(part);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// What calls may wait for that has to do with these names, some of it more than once.
    pub(super) fn wanted(&self, released: &LockName) -> Vec<Wanted> {
        let sets = released
            .parts()
            .iter()
            .filter_map(|part| self.sets.get(part));
        let single = released.parts().iter().cloned().map(LockName::from);
        single
            .chain(sets.flatten().cloned())
            .map(Wanted::Lock)
            .collect()
    }

    /// How many names there are of sets.
    pub(super) fn size(&self) -> usize {
        self.sets.values().map(Vec::len).sum()
    }
}

/// The names of a set of several.
fn parts(wanted: &Wanted) -> &[Bytes] {
    match name_of(wanted) {
        Some(name) if name.single().is_none() => name.parts(),
        _ => &[],
    }
}

fn name_of(wanted: &Wanted) -> Option<&LockName> {
    match wanted {
        Wanted::Lock(name) => Some(name),
        Wanted::PermitOf(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_concerns_the_names_and_every_set_with_one_of_them() {
        let mut overlaps = Overlaps::default();
        let set = |names: &[&'static str]| {
            Wanted::Lock(LockName::of_all(names.iter().copied().map(Bytes::from)))
        };
        overlaps.add(&set(&["a"]));
        overlaps.add(&Wanted::PermitOf(Bytes::from("a")));
        assert!(overlaps.is_empty(), "one name has its own queue");
        for names in [&["a", "b"], &["b", "c"]] {
            overlaps.add(&set(names));
        }
        let concerned = |overlaps: &Overlaps, names: &[&'static str]| match set(names) {
            Wanted::Lock(released) => overlaps.wanted(&released),
            Wanted::PermitOf(_) => Vec::new(),
        };
        assert_eq!(
            concerned(&overlaps, &["a"]),
            [set(&["a"]), set(&["a", "b"])]
        );
        let all = concerned(&overlaps, &["b", "d"]);
        assert_eq!(
            all,
            [set(&["b"]), set(&["d"]), set(&["a", "b"]), set(&["b", "c"])]
        );
        overlaps.remove(&set(&["a", "b"]));
        assert_eq!(concerned(&overlaps, &["a"]), [set(&["a"])]);
        assert_eq!(overlaps.size(), 2);
        overlaps.remove(&set(&["b", "c"]));
        assert_eq!((overlaps.is_empty(), overlaps.size()), (true, 0));
    }
}
