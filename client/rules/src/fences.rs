//! The fences that names have, as far as this client knows: the next one is asked for together with the lock.
//!
//! Invariant: this saves a round trip and decides nothing. A number that the nodes do not take costs one more round.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

#[derive(Debug, Default)]
pub(super) struct KnownFences {
    by_name: HashMap<Bytes, u64>,
    /// The names above, the first one first noted.
    order: VecDeque<Bytes>,
}

impl KnownFences {
    /// What nobody has taken yet, if nothing has happened since.
    pub(super) fn guess(&self, name: &Bytes) -> Option<u64> {
        let known = self.by_name.get(name)?;
        let next = known.checked_add(1)?;
        i64::try_from(next).is_ok().then_some(next)
    }

    /// The name has this fence on some node.
    pub(super) fn note(&mut self, name: &Bytes, fence: u64) {
        if self.by_name.insert(name.clone(), fence).is_none() {
            self.order.push_back(name.clone());
        }
        while self.order.len() > NAMES_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.by_name.remove(&oldest));
        }
    }

    /// Nothing is known of the name any more.
    pub(super) fn forget(&mut self, name: &Bytes) {
        if self.by_name.remove(name).is_some() {
            self.order.retain(|other| other != name);
        }
    }

    /// How many names it remembers.
    pub(super) fn size(&self) -> usize {
        self.order.len()
    }
}

/// More names are not remembered.
const NAMES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_is_guessed_for_as_many_names_as_are_remembered() {
        let mut fences = KnownFences::default();
        let name = |number: usize| Bytes::from(format!("name {number}"));
        assert_eq!(fences.guess(&name(0)), None);
        for number in 0..=NAMES_MAX {
            fences.note(&name(number), 41);
            fences.note(&name(number), 42);
        }
        assert_eq!(fences.guess(&name(0)), None);
        assert_eq!(fences.guess(&name(1)), Some(43));
        assert_eq!(fences.size(), NAMES_MAX);
        fences.note(&name(1), i64::MAX.unsigned_abs());
        assert_eq!(fences.guess(&name(1)), None);
        fences.forget(&name(2));
        assert_eq!(
            (fences.guess(&name(2)), fences.size()),
            (None, NAMES_MAX - 1)
        );
    }
}
