//! One change of one part of a collection: what it says, how it is made, and how it is taken back.
//!
//! Commands, the log and undoing all speak of the same changes, so that a replayed collection is
//! what the running one was. A change that does not fit what it finds changes nothing.

use std::collections::HashSet;
use std::sync::Arc;

use crate::keyspace::collection::Collection;
use crate::keyspace::fields::pair_bytes;
use crate::keyspace::list::{End, List, element_bytes};
use crate::keyspace::shared_holders::{SharedHolder, holder_bytes};
use crate::keyspace::{members, sorted_set};
use crate::time::Deadline;

/// One change of one part of a collection, in absolute values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change<'a> {
    /// The hash's field holds this.
    HashSet {
        /// The field.
        field: &'a [u8],
        /// What it holds.
        value: &'a [u8],
    },
    /// The hash's field is gone.
    HashDelete {
        /// The field.
        field: &'a [u8],
    },
    /// The list has one more element at an end.
    ListPush {
        /// The end.
        end: End,
        /// The element.
        element: &'a [u8],
    },
    /// The list has lost so many elements at an end.
    ListPop {
        /// The end.
        end: End,
        /// How many, all of them at most.
        count: usize,
    },
    /// The list's element at one end has become the one at the other.
    ListRotate {
        /// Where it was taken.
        from: End,
    },
    /// The list's element of this index is this one.
    ListSet {
        /// From the left, beginning with 0.
        index: usize,
        /// The element.
        element: &'a [u8],
    },
    /// The list has one more element, at this index.
    ListInsert {
        /// From the left, beginning with 0.
        index: usize,
        /// The element.
        element: &'a [u8],
    },
    /// The list's element of this index is gone.
    ListRemove {
        /// From the left, beginning with 0.
        index: usize,
    },
    /// The set has this member.
    SetAdd {
        /// The member.
        member: &'a [u8],
    },
    /// The set does not have this member.
    SetRemove {
        /// The member.
        member: &'a [u8],
    },
    /// The sorted set has this member with this score.
    ScoreSet {
        /// The member.
        member: &'a [u8],
        /// Its score, a number.
        score: f64,
    },
    /// The sorted set does not have this member.
    ScoreRemove {
        /// The member.
        member: &'a [u8],
    },
    /// This token holds the lock shared, until then.
    HolderSet {
        /// The token.
        token: &'a [u8],
        /// When it ends.
        end: Deadline,
    },
    /// This token does not hold the lock.
    HolderRemove {
        /// The token.
        token: &'a [u8],
    },
}

/// What takes back a change of the part that it names, if it names one.
#[derive(Debug)]
pub(crate) enum Reversal {
    /// The part was not there.
    Added,
    /// The field held this.
    Field(Arc<[u8]>),
    /// The field was at this offset, and held this.
    FieldRemoved(usize, Arc<[u8]>),
    /// The member was at this offset.
    MemberRemoved(usize),
    /// The member had this score.
    Score(f64),
    /// The member was at this offset, and had this score.
    ScoreRemoved(usize, f64),
    /// The holder had this end.
    HolderEnd(Deadline),
    /// The holder was at this offset. It is larger than what all others have.
    HolderRemoved(usize, Box<SharedHolder>),
    /// The list has one more element at this end.
    Pushed(End),
    /// These were at this end, the outermost first.
    Popped(End, Vec<Arc<[u8]>>),
    /// The element was taken at this end.
    Rotated(End),
    /// This was at this index.
    ElementSet(usize, Arc<[u8]>),
    /// The list has one more element, at this index.
    Inserted(usize),
    /// This was at this index, and is gone.
    ElementRemoved(usize, Arc<[u8]>),
}

impl Change<'_> {
    /// The name of the part that it changes, where parts have names.
    pub(crate) fn part(&self) -> Option<&[u8]> {
        match self {
            Change::HashSet { field, .. } | Change::HashDelete { field } => Some(field),
            Change::SetAdd { member }
            | Change::SetRemove { member }
            | Change::ScoreSet { member, .. }
            | Change::ScoreRemove { member } => Some(member),
            Change::HolderSet { token, .. } | Change::HolderRemove { token } => Some(token),
            _ => None,
        }
    }

    /// Whether a collection may become larger by it.
    pub(crate) fn may_grow(&self) -> bool {
        match self {
            Change::HashSet { .. }
            | Change::ListPush { .. }
            | Change::ListSet { .. }
            | Change::ListInsert { .. }
            | Change::SetAdd { .. }
            | Change::ScoreSet { .. }
            | Change::HolderSet { .. } => true,
            Change::HashDelete { .. }
            | Change::ListPop { .. }
            | Change::ListRotate { .. }
            | Change::ListRemove { .. }
            | Change::SetRemove { .. }
            | Change::ScoreRemove { .. }
            | Change::HolderRemove { .. } => false,
        }
    }
}

impl Collection {
    /// What [`Collection::bytes`] will be when the changes have been made, but for what is removed.
    pub(crate) fn bytes_after(&self, changes: &[Change<'_>]) -> usize {
        let mut written = HashSet::new();
        let (mut added, mut replaced): (usize, usize) = (0, 0);
        // Of several changes of one part the last one stays.
        for change in changes.iter().rev() {
            let written_part = change.part().filter(|_| change.may_grow());
            if written_part.is_none_or(|part| written.insert(part)) {
                let (new, old) = self.bytes_of_part(change);
                added = added.saturating_add(new);
                replaced = replaced.saturating_add(old);
            }
        }
        let bytes = self.bytes().saturating_add(added);
        bytes.saturating_sub(replaced)
    }

    /// The bytes of what a change writes, and of what it replaces.
    fn bytes_of_part(&self, change: &Change<'_>) -> (usize, usize) {
        match (self, *change) {
            (Collection::Hash(fields), Change::HashSet { field, value }) => {
                let old = fields.get(field);
                let old = old.map_or(0, |old| pair_bytes(field, old));
                (pair_bytes(field, value), old)
            }
            (Collection::List(_), Change::ListPush { element, .. })
            | (Collection::List(_), Change::ListInsert { element, .. }) => {
                (element_bytes(element), 0)
            }
            (Collection::List(list), Change::ListSet { index, element }) => {
                let old = list.get(index).map_or(0, |old| element_bytes(old));
                (element_bytes(element), old)
            }
            (Collection::Set(members), Change::SetAdd { member }) if !members.contains(member) => {
                (members::member_bytes(member), 0)
            }
            (Collection::SortedSet(set), Change::ScoreSet { member, .. })
                if set.score(member).is_none() =>
            {
                (sorted_set::member_bytes(member), 0)
            }
            (Collection::SharedLock(holders), Change::HolderSet { token, .. })
                if !holders.contains(token) =>
            {
                (holder_bytes(token), 0)
            }
            _ => (0, 0),
        }
    }

    /// Whether the change would change anything now.
    pub(crate) fn would_change(&self, change: &Change<'_>) -> bool {
        match (self, *change) {
            (Collection::Hash(fields), Change::HashDelete { field }) => fields.get(field).is_some(),
            (Collection::Set(members), Change::SetAdd { member }) => !members.contains(member),
            (Collection::Set(members), Change::SetRemove { member }) => members.contains(member),
            (Collection::SortedSet(set), Change::ScoreRemove { member }) => {
                set.score(member).is_some()
            }
            (Collection::SharedLock(holders), Change::HolderRemove { token }) => {
                holders.contains(token)
            }
            _ => true,
        }
    }

    /// Makes a change and returns what takes it back; nothing where it changed nothing. `seed` is
    /// for the index of a large collection.
    pub(crate) fn apply(&mut self, change: &Change<'_>, seed: u64) -> Option<Reversal> {
        match (self, *change) {
            (Collection::Hash(fields), Change::HashSet { field, value }) => {
                let old = fields.set(field, value, seed);
                Some(old.map_or(Reversal::Added, Reversal::Field))
            }
            (Collection::Hash(fields), Change::HashDelete { field }) => {
                let (offset, value) = fields.take(field)?;
                Some(Reversal::FieldRemoved(offset, value))
            }
            (Collection::Set(members), Change::SetAdd { member }) => {
                members.add(member, seed).then_some(Reversal::Added)
            }
            (Collection::Set(members), Change::SetRemove { member }) => {
                let (offset, _) = members.take(member)?;
                Some(Reversal::MemberRemoved(offset))
            }
            (Collection::SortedSet(set), Change::ScoreSet { member, score }) => {
                let old = set.set(member, score, seed);
                Some(old.map_or(Reversal::Added, Reversal::Score))
            }
            (Collection::SortedSet(set), Change::ScoreRemove { member }) => {
                let (offset, score) = set.take(member)?;
                Some(Reversal::ScoreRemoved(offset, score))
            }
            (Collection::SharedLock(holders), Change::HolderSet { token, end }) => {
                let old = holders.set(token, end, seed);
                Some(old.map_or(Reversal::Added, Reversal::HolderEnd))
            }
            (Collection::SharedLock(holders), Change::HolderRemove { token }) => {
                let (offset, holder) = holders.take(token)?;
                let holder = Box::new(holder);
                Some(Reversal::HolderRemoved(offset, holder))
            }
            (Collection::List(list), change) => apply_to_list(list, change),
            _ => None,
        }
    }

    /// Takes back the last change that was made, of this part.
    pub(crate) fn revert(&mut self, part: &[u8], reversal: Reversal, seed: u64) {
        match (self, reversal) {
            (Collection::Hash(fields), Reversal::Added) => drop(fields.take(part)),
            (Collection::Hash(fields), Reversal::Field(value)) => {
                fields.set(part, value, seed);
            }
            (Collection::Hash(fields), Reversal::FieldRemoved(offset, value)) => {
                fields.put_back(offset, part, value, seed);
            }
            (Collection::Set(members), Reversal::Added) => drop(members.take(part)),
            (Collection::Set(members), Reversal::MemberRemoved(offset)) => {
                members.put_back(offset, part.into(), seed);
            }
            (Collection::SortedSet(set), Reversal::Added) => drop(set.take(part)),
            (Collection::SortedSet(set), Reversal::Score(score)) => {
                set.set(part, score, seed);
            }
            (Collection::SortedSet(set), Reversal::ScoreRemoved(offset, score)) => {
                set.put_back(offset, part, score, seed);
            }
            (Collection::SharedLock(holders), Reversal::Added) => drop(holders.take(part)),
            (Collection::SharedLock(holders), Reversal::HolderEnd(end)) => {
                holders.set(part, end, seed);
            }
            (Collection::SharedLock(holders), Reversal::HolderRemoved(offset, holder)) => {
                holders.put_back(offset, *holder, seed);
            }
            (Collection::List(list), reversal) => revert_list(list, reversal),
            (_, reversal) => debug_assert!(false, "{reversal:?} is of another type"),
        }
    }
}

fn apply_to_list(list: &mut List, change: Change<'_>) -> Option<Reversal> {
    match change {
        Change::ListPush { end, element } => {
            list.push(end, element.into());
            Some(Reversal::Pushed(end))
        }
        Change::ListPop { end, count: 1 } => {
            let element = list.pop(end)?;
            let index = match end {
                End::Left => 0,
                End::Right => list.len(),
            };
            Some(Reversal::ElementRemoved(index, element))
        }
        Change::ListPop { end, count } => {
            let elements: Vec<_> = (0..count.min(list.len()))
                .filter_map(|_| list.pop(end))
                .collect();
            (!elements.is_empty()).then_some(Reversal::Popped(end, elements))
        }
        Change::ListRotate { from } => {
            rotate(list, from);
            (!list.is_empty()).then_some(Reversal::Rotated(from))
        }
        Change::ListSet { index, element } => {
            let element = list.set(index, element.into())?;
            Some(Reversal::ElementSet(index, element))
        }
        Change::ListInsert { index, element } => list
            .insert(index, element.into())
            .then_some(Reversal::Inserted(index)),
        Change::ListRemove { index } => {
            let element = list.remove(index)?;
            Some(Reversal::ElementRemoved(index, element))
        }
        _ => None,
    }
}

fn revert_list(list: &mut List, reversal: Reversal) {
    match reversal {
        Reversal::Pushed(end) => drop(list.pop(end)),
        Reversal::Popped(end, elements) => {
            for element in elements.into_iter().rev() {
                list.push(end, element);
            }
        }
        Reversal::Rotated(from) => rotate(list, from.other()),
        Reversal::ElementSet(index, element) => drop(list.set(index, element)),
        Reversal::Inserted(index) => drop(list.remove(index)),
        Reversal::ElementRemoved(index, element) => drop(list.insert(index, element)),
        other => debug_assert!(false, "{other:?} is of another type"),
    }
}

fn rotate(list: &mut List, from: End) {
    if let Some(element) = list.pop(from) {
        list.push(from.other(), element);
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
