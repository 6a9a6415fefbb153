//! The one collection of which a snapshot holds a part: in a node that runs, what was not taken of it yet;
//! in replay, what is not there yet.
//!
//! A collection that is larger than a part of a snapshot is taken from its highest offset down while it
//! changes. In hashes, sets and sorted sets a removal moves others down only, and what is new comes behind
//! all: what is at the offsets that are not taken yet is taken later, and all else has been taken or was
//! logged. Their changes name what they change, so that to take one twice does no harm.
//!
//! In a list the offset is all that a change names. So the node and replay count with every change, by the one
//! rule in [`Partial::of_part`], how many elements at the left are not in the part; and an element that goes from there
//! to the other end is named in the log.

use crate::keyspace::Keyspace;
use crate::keyspace::change::Change;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::{Slot, ValueRef};
use crate::keyspace::list::End;
use crate::position::LogPosition;

/// A key's collection, and how many of its elements are not in the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    pub(crate) slot: Slot,
    /// Those of the lowest offsets.
    pub(crate) absent: usize,
}

/// What a change of a whole list is for a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OfPart<'a> {
    /// How many elements are not in the part afterwards.
    pub(crate) absent: usize,
    /// What changes in the part.
    pub(crate) change: Option<Change<'a>>,
}

impl Partial {
    /// What a change of the whole list is for the part, which has `length` elements. `None` for one that takes an
    /// element that is not there into the part, which no writer logs: it names the element.
    pub(crate) fn of_part<'a>(self, length: usize, change: &Change<'a>) -> Option<OfPart<'a>> {
        let absent = self.absent;
        let beside = |absent| OfPart {
            absent,
            change: None,
        };
        let inside = |change| OfPart {
            absent,
            change: Some(change),
        };
        Some(match *change {
            _ if absent == 0 => inside(*change),
            Change::ListPush { end: End::Left, .. } => beside(absent.saturating_add(1)),
            Change::ListPop {
                end: End::Left,
                count,
            } => OfPart {
                absent: absent.saturating_sub(count),
                change: pop(End::Left, count.saturating_sub(absent)),
            },
            Change::ListPop {
                end: End::Right,
                count,
            } => OfPart {
                absent: absent.saturating_sub(count.saturating_sub(length)),
                change: pop(End::Right, count.min(length)),
            },
            Change::ListRotate { from: End::Left } => return None,
            Change::ListRotate { from: End::Right } if length == 0 => beside(absent),
            Change::ListRotate { from: End::Right } => OfPart {
                absent: absent.saturating_add(1),
                change: pop(End::Right, 1),
            },
            Change::ListSet { index, element } => match index.checked_sub(absent) {
                None => beside(absent),
                Some(index) => inside(Change::ListSet { index, element }),
            },
            Change::ListInsert { index, element } => match index.checked_sub(absent) {
                None => beside(absent.saturating_add(1)),
                Some(index) => inside(Change::ListInsert { index, element }),
            },
            Change::ListRemove { index } => match index.checked_sub(absent) {
                None => beside(absent.saturating_sub(1)),
                Some(index) => inside(Change::ListRemove { index }),
            },
            // Nothing moves in the part, or the change names what it changes.
            change => inside(change),
        })
    }
}

fn pop<'a>(end: End, count: usize) -> Option<Change<'a>> {
    (count > 0).then_some(Change::ListPop { end, count })
}

impl Keyspace {
    /// Whether the snapshot, or replay, holds a part of this key's collection only.
    pub(crate) fn is_partial(&self, slot: Slot) -> bool {
        self.partial.is_some_and(|partial| partial.slot == slot)
    }

    /// The entry of this slot is another one from now on.
    pub(super) fn end_partial(&mut self, slot: Slot) {
        if self.is_partial(slot) {
            self.partial = None;
        }
    }

    /// Counts what a change that is about to be made does to what the snapshot has not taken.
    pub(super) fn count_untaken(&mut self, slot: Slot, change: &Change<'_>) {
        let Some(partial) = self.partial.filter(|partial| partial.slot == slot) else {
            return;
        };
        if let ValueRef::Collection(Collection::List(list)) = self.value(slot) {
            let taken = list.len().saturating_sub(partial.absent);
            let of_part = partial.of_part(taken, change);
            debug_assert!(of_part.is_some(), "{change:?} is logged in other words");
            if let Some(OfPart { absent, .. }) = of_part {
                self.partial = Some(Partial { slot, absent });
            }
        }
    }

    /// Replays a change of a stored key, of which only a part may be there. False if it does not fit the part.
    #[must_use]
    pub(crate) fn replay_change(
        &mut self,
        slot: Slot,
        change: &Change<'_>,
        position: LogPosition,
    ) -> bool {
        let length = match (self.partial, self.value(slot)) {
            (Some(partial), ValueRef::Collection(Collection::List(list)))
                if partial.slot == slot =>
            {
                list.len()
            }
            _ => {
                self.change(slot, change, position);
                return true;
            }
        };
        let partial = self.partial.take();
        let Some(of_part) = partial.and_then(|partial| partial.of_part(length, change)) else {
            return false;
        };
        if let Some(change) = of_part.change {
            self.change(slot, &change, position);
        }
        let absent = of_part.absent;
        self.partial = (absent > 0).then_some(Partial { slot, absent });
        true
    }

    /// Puts the next part of a collection before the one that is there; then `absent` elements are still missing. A
    /// collection that is whole stays as it is: it was written, and changed, since the snapshot began. False if
    /// the parts do not fit together.
    #[must_use]
    pub(crate) fn replay_part(
        &mut self,
        slot: Slot,
        part: Collection,
        absent: usize,
        position: LogPosition,
    ) -> bool {
        let Some(partial) = self.partial.filter(|partial| partial.slot == slot) else {
            return true;
        };
        let is_list = matches!(part, Collection::List(_));
        if is_list && absent.checked_add(part.len()) != Some(partial.absent) {
            return false;
        }
        let seed = self.seed;
        self.slab.get_mut(slot).set_position(position);
        let is_joined = self.slab.change(slot, |body| match body.collection_mut() {
            Some(collection) => collection.put_before(part, seed),
            None => false,
        });
        self.last_position = self.last_position.max(position);
        self.partial = (absent > 0).then_some(Partial { slot, absent });
        is_joined
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::keyspace::list::List;

    fn list_of(elements: impl IntoIterator<Item = u32>) -> Collection {
        let mut list = List::default();
        for element in elements {
            list.push(End::Right, element.to_be_bytes()[..].into());
        }
        list.into()
    }

    fn numbers(collection: &Collection) -> Vec<u32> {
        let Collection::List(list) = collection else {
            panic!("a list");
        };
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        list.iter().map(|element| number(element)).collect()
    }

    fn change(kind: u8, index: usize, element: &[u8]) -> Option<Change<'_>> {
        Some(match kind {
            0 => Change::ListPush {
                end: End::Left,
                element,
            },
            1 => Change::ListPush {
                end: End::Right,
                element,
            },
            2 => Change::ListPop {
                end: End::Left,
                count: index % 7,
            },
            3 => Change::ListPop {
                end: End::Right,
                count: index % 7,
            },
            4 => Change::ListRotate { from: End::Right },
            5 => Change::ListSet { index, element },
            6 => Change::ListInsert { index, element },
            7 => Change::ListRemove { index },
            _ => return None,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The part is at any moment the end of the list, without the elements that are counted as absent.
        #[test]
        fn a_part_is_the_end_of_the_list_whatever_changes(
            length in 0..20_u32,
            absent in 0..20_usize,
            changes in prop::collection::vec((0..8_u8, 0..24_usize), 0..60),
        ) {
            let mut absent = absent.min(length as usize);
            let mut whole = list_of(0..length);
            let mut part = list_of(u32::try_from(absent).unwrap()..length);
            for (number, (kind, index)) in changes.into_iter().enumerate() {
                let element = (1000 + u32::try_from(number).unwrap()).to_be_bytes();
                let Some(change) = change(kind, index, &element) else { continue };
                // What changes nothing is not logged.
                if index > whole.len() || matches!(kind, 5 | 7) && index == whole.len() {
                    continue;
                }
                let partial = Partial { slot: 0, absent };
                let of_part = partial.of_part(part.len(), &change).unwrap();
                whole.apply(&change, 1);
                if let Some(change) = of_part.change {
                    part.apply(&change, 1);
                }
                absent = of_part.absent;
                let (whole, part) = (numbers(&whole), numbers(&part));
                prop_assert!(absent <= whole.len(), "{change:?}");
                prop_assert_eq!(&whole[absent..], &part[..], "{:?}", change);
            }
        }
    }

    #[test]
    fn an_element_that_is_not_there_cannot_be_moved_into_the_part() {
        let change = Change::ListRotate { from: End::Left };
        let partial = |absent| Partial { slot: 0, absent };
        assert_eq!(partial(1).of_part(5, &change), None);
        assert!(partial(0).of_part(5, &change).is_some());
    }
}
