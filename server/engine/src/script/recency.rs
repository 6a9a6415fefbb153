//! The order in which slots were used last: a list whose links lie in one vector.
//!
//! Adding, removing and moving to the front are a few stores each and never search. The cache
//! decides which scripts are evicted, and when.

/// The number of a slot.
pub(crate) type Slot = u32;

/// Some slots, the one used last at the front.
#[derive(Debug)]
pub(crate) struct Recency {
    links: Vec<Neighbours>,
    newest: Slot,
    oldest: Slot,
    len: usize,
}

/// The neighbours of a slot.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    newer: Slot,
    older: Slot,
    is_listed: bool,
}

impl Recency {
    pub(crate) const fn new() -> Recency {
        Recency {
            links: Vec::new(),
            newest: NONE,
            oldest: NONE,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot that was not used for the longest time.
    pub(crate) fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Puts a slot at the front, whether it was in the list or not.
    pub(crate) fn touch(&mut self, slot: Slot) {
        if slot == self.newest {
            return;
        }
        self.remove(slot);
        if self.links.len() <= slot as usize {
            self.links.resize((slot as usize).saturating_add(1), FREE);
        }
        self.links[slot as usize] = Neighbours {
            newer: NONE,
            older: self.newest,
            is_listed: true,
        };
        match self.newest {
            NONE => self.oldest = slot,
            next => self.links[next as usize].newer = slot,
        }
        self.newest = slot;
        self.len = self.len.saturating_add(1);
    }

    /// Takes a slot out; false if it was not in the list.
    pub(crate) fn remove(&mut self, slot: Slot) -> bool {
        let Some(&link) = self.links.get(slot as usize).filter(|link| link.is_listed) else {
            return false;
        };
        self.links[slot as usize] = FREE;
        match link.newer {
            NONE => self.newest = link.older,
            newer => self.links[newer as usize].older = link.older,
        }
        match link.older {
            NONE => self.oldest = link.newer,
            older => self.links[older as usize].newer = link.newer,
        }
        self.len = self.len.saturating_sub(1);
        true
    }
}

const NONE: Slot = Slot::MAX;

const FREE: Neighbours = Neighbours {
    newer: NONE,
    older: NONE,
    is_listed: false,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_list_is_a_plain_list_that_is_searched(
            steps in prop::collection::vec((any::<bool>(), 0..12_u32), 0..200)
        ) {
            let mut recency = Recency::new();
            let mut plain: Vec<Slot> = Vec::new();
            for (is_touch, slot) in steps {
                let was_listed = plain.contains(&slot);
                plain.retain(|&other| other != slot);
                if is_touch {
                    plain.push(slot);
                    recency.touch(slot);
                } else {
                    prop_assert_eq!(recency.remove(slot), was_listed);
                }
                prop_assert_eq!(recency.len(), plain.len());
                prop_assert_eq!(recency.oldest(), plain.first().copied());
            }
            for slot in plain {
                prop_assert_eq!(recency.oldest(), Some(slot));
                recency.remove(slot);
            }
            prop_assert_eq!((recency.oldest(), recency.len()), (None, 0));
        }
    }
}
