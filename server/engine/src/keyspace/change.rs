//! One change of one part of a collection: what it says, how it is made, and how it is taken back.
//!
//! Commands, the log and undoing all speak of the same changes, so that a replayed collection is
//! what the running one was. A change that does not fit what it finds changes nothing.

use std::borrow::Cow;
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

/// What takes back a change. Names are those of the change until it is to be kept.
#[derive(Debug)]
pub(crate) enum Reversal<'a> {
    /// The field held this.
    Field {
        field: Cow<'a, [u8]>,
        value: Option<Arc<[u8]>>,
    },
    /// The field was at this offset, and held this.
    FieldRemoved {
        field: Cow<'a, [u8]>,
        value: Arc<[u8]>,
        offset: usize,
    },
    Pushed {
        end: End,
    },
    /// These were at this end, the outermost first.
    Popped {
        end: End,
        elements: Vec<Arc<[u8]>>,
    },
    Rotated {
        from: End,
    },
    /// This was at this index.
    ElementSet {
        index: usize,
        element: Arc<[u8]>,
    },
    Inserted {
        index: usize,
    },
    ElementRemoved {
        index: usize,
        element: Arc<[u8]>,
    },
    MemberAdded {
        member: Cow<'a, [u8]>,
    },
    /// The member was at this offset.
    MemberRemoved {
        member: Arc<[u8]>,
        offset: usize,
    },
    /// The member had this score.
    Score {
        member: Cow<'a, [u8]>,
        score: Option<f64>,
    },
    /// The member was at this offset, and had this score.
    ScoreRemoved {
        member: Cow<'a, [u8]>,
        score: f64,
        offset: usize,
    },
    /// The holder had this end.
    Holder {
        token: Cow<'a, [u8]>,
        end: Option<Deadline>,
    },
    /// The holder was at this offset.
    HolderRemoved {
        holder: SharedHolder,
        offset: usize,
    },
}

impl Reversal<'_> {
    /// The same with its own copies of names, to be kept until the script or transaction ends.
    pub(crate) fn into_kept(self) -> Reversal<'static> {
        let keep = |name: Cow<'_, [u8]>| Cow::Owned(name.into_owned());
        match self {
            Reversal::Field { field, value } => Reversal::Field {
                field: keep(field),
                value,
            },
            Reversal::FieldRemoved {
                field,
                value,
                offset,
            } => Reversal::FieldRemoved {
                field: keep(field),
                value,
                offset,
            },
            Reversal::Pushed { end } => Reversal::Pushed { end },
            Reversal::Popped { end, elements } => Reversal::Popped { end, elements },
            Reversal::Rotated { from } => Reversal::Rotated { from },
            Reversal::ElementSet { index, element } => Reversal::ElementSet { index, element },
            Reversal::Inserted { index } => Reversal::Inserted { index },
            Reversal::ElementRemoved { index, element } => {
                Reversal::ElementRemoved { index, element }
            }
            Reversal::MemberAdded { member } => Reversal::MemberAdded {
                member: keep(member),
            },
            Reversal::MemberRemoved { member, offset } => {
                Reversal::MemberRemoved { member, offset }
            }
            Reversal::Score { member, score } => Reversal::Score {
                member: keep(member),
                score,
            },
            Reversal::ScoreRemoved {
                member,
                score,
                offset,
            } => Reversal::ScoreRemoved {
                member: keep(member),
                score,
                offset,
            },
            Reversal::Holder { token, end } => Reversal::Holder {
                token: keep(token),
                end,
            },
            Reversal::HolderRemoved { holder, offset } => {
                Reversal::HolderRemoved { holder, offset }
            }
        }
    }
}

impl Change<'_> {
    /// The name of the part that it writes, where parts have names.
    fn part(&self) -> Option<&[u8]> {
        match self {
            Change::HashSet { field, .. } => Some(field),
            Change::SetAdd { member } | Change::ScoreSet { member, .. } => Some(member),
            Change::HolderSet { token, .. } => Some(token),
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
            if change.part().is_none_or(|part| written.insert(part)) {
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
    pub(crate) fn apply<'a>(&mut self, change: &Change<'a>, seed: u64) -> Option<Reversal<'a>> {
        match (self, *change) {
            (Collection::Hash(fields), Change::HashSet { field, value }) => Some(Reversal::Field {
                field: field.into(),
                value: fields.set(field, value, seed),
            }),
            (Collection::Hash(fields), Change::HashDelete { field }) => {
                let (offset, value) = fields.take(field)?;
                Some(Reversal::FieldRemoved {
                    field: field.into(),
                    value,
                    offset,
                })
            }
            (Collection::Set(members), Change::SetAdd { member }) => {
                let is_new = members.add(member, seed);
                is_new.then(|| Reversal::MemberAdded {
                    member: member.into(),
                })
            }
            (Collection::Set(members), Change::SetRemove { member }) => {
                let (offset, member) = members.take(member)?;
                Some(Reversal::MemberRemoved { member, offset })
            }
            (Collection::SortedSet(set), Change::ScoreSet { member, score }) => {
                Some(Reversal::Score {
                    member: member.into(),
                    score: set.set(member, score, seed),
                })
            }
            (Collection::SortedSet(set), Change::ScoreRemove { member }) => {
                let (offset, score) = set.take(member)?;
                Some(Reversal::ScoreRemoved {
                    member: member.into(),
                    score,
                    offset,
                })
            }
            (Collection::SharedLock(holders), Change::HolderSet { token, end }) => {
                Some(Reversal::Holder {
                    token: token.into(),
                    end: holders.set(token, end, seed),
                })
            }
            (Collection::SharedLock(holders), Change::HolderRemove { token }) => {
                let (offset, holder) = holders.take(token)?;
                Some(Reversal::HolderRemoved { holder, offset })
            }
            (Collection::List(list), change) => apply_to_list(list, change),
            _ => None,
        }
    }

    /// Takes back the last change that was made.
    pub(crate) fn revert(&mut self, reversal: Reversal<'_>, seed: u64) {
        match (self, reversal) {
            (Collection::Hash(fields), Reversal::Field { field, value }) => match value {
                Some(value) => drop(fields.set(&field, value, seed)),
                None => drop(fields.take(&field)),
            },
            (
                Collection::Hash(fields),
                Reversal::FieldRemoved {
                    field,
                    value,
                    offset,
                },
            ) => fields.put_back(offset, &field, value, seed),
            (Collection::Set(members), Reversal::MemberAdded { member }) => {
                drop(members.take(&member));
            }
            (Collection::Set(members), Reversal::MemberRemoved { member, offset }) => {
                members.put_back(offset, member, seed);
            }
            (Collection::SortedSet(set), Reversal::Score { member, score }) => match score {
                Some(score) => drop(set.set(&member, score, seed)),
                None => drop(set.take(&member)),
            },
            (
                Collection::SortedSet(set),
                Reversal::ScoreRemoved {
                    member,
                    score,
                    offset,
                },
            ) => set.put_back(offset, &member, score, seed),
            (Collection::SharedLock(holders), Reversal::Holder { token, end }) => match end {
                Some(end) => drop(holders.set(&token, end, seed)),
                None => drop(holders.take(&token)),
            },
            (Collection::SharedLock(holders), Reversal::HolderRemoved { holder, offset }) => {
                holders.put_back(offset, holder, seed);
            }
            (Collection::List(list), reversal) => revert_list(list, reversal),
            (_, reversal) => debug_assert!(false, "{reversal:?} is of another type"),
        }
    }
}

fn apply_to_list<'a>(list: &mut List, change: Change<'a>) -> Option<Reversal<'a>> {
    match change {
        Change::ListPush { end, element } => {
            list.push(end, element.into());
            Some(Reversal::Pushed { end })
        }
        Change::ListPop { end, count: 1 } => {
            let element = list.pop(end)?;
            let index = match end {
                End::Left => 0,
                End::Right => list.len(),
            };
            Some(Reversal::ElementRemoved { index, element })
        }
        Change::ListPop { end, count } => {
            let elements: Vec<_> = (0..count.min(list.len()))
                .filter_map(|_| list.pop(end))
                .collect();
            (!elements.is_empty()).then_some(Reversal::Popped { end, elements })
        }
        Change::ListRotate { from } => {
            rotate(list, from);
            (!list.is_empty()).then_some(Reversal::Rotated { from })
        }
        Change::ListSet { index, element } => {
            let element = list.set(index, element.into())?;
            Some(Reversal::ElementSet { index, element })
        }
        Change::ListInsert { index, element } => list
            .insert(index, element.into())
            .then_some(Reversal::Inserted { index }),
        Change::ListRemove { index } => {
            let element = list.remove(index)?;
            Some(Reversal::ElementRemoved { index, element })
        }
        _ => None,
    }
}

fn revert_list(list: &mut List, reversal: Reversal<'_>) {
    match reversal {
        Reversal::Pushed { end } => drop(list.pop(end)),
        Reversal::Popped { end, elements } => {
            for element in elements.into_iter().rev() {
                list.push(end, element);
            }
        }
        Reversal::Rotated { from } => rotate(list, from.other()),
        Reversal::ElementSet { index, element } => drop(list.set(index, element)),
        Reversal::Inserted { index } => drop(list.remove(index)),
        Reversal::ElementRemoved { index, element } => drop(list.insert(index, element)),
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
