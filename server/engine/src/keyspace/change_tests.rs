//! Changes of collections against plain vectors and maps: made, taken back, logged and read again.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::keyspace::members::Members;
use crate::keyspace::shared_holders::SharedHolders;
use crate::keyspace::sorted_set::SortedSet;
use crate::mutation::{Mutation, Mutations, encode_change};
use crate::stored::StoredValue;

/// A change with its own names, which a [`Change`] borrows.
#[derive(Clone, Debug)]
enum Owned {
    HashSet(Vec<u8>, Vec<u8>),
    HashDelete(Vec<u8>),
    Push(End, Vec<u8>),
    Pop(End, usize),
    Rotate(End),
    Set(usize, Vec<u8>),
    Insert(usize, Vec<u8>),
    Remove(usize),
    Add(Vec<u8>),
    Forget(Vec<u8>),
    Score(Vec<u8>, f64),
    Unscore(Vec<u8>),
    Hold(Vec<u8>, u8),
    Leave(Vec<u8>),
}

impl Owned {
    fn change(&self) -> Change<'_> {
        match self {
            Owned::HashSet(field, value) => Change::HashSet { field, value },
            Owned::HashDelete(field) => Change::HashDelete { field },
            Owned::Push(end, element) => Change::ListPush { end: *end, element },
            Owned::Pop(end, count) => Change::ListPop {
                end: *end,
                count: *count,
            },
            Owned::Rotate(from) => Change::ListRotate { from: *from },
            Owned::Set(index, element) => Change::ListSet {
                index: *index,
                element,
            },
            Owned::Insert(index, element) => Change::ListInsert {
                index: *index,
                element,
            },
            Owned::Remove(index) => Change::ListRemove { index: *index },
            Owned::Add(member) => Change::SetAdd { member },
            Owned::Forget(member) => Change::SetRemove { member },
            Owned::Score(member, score) => Change::ScoreSet {
                member,
                score: *score,
            },
            Owned::Unscore(member) => Change::ScoreRemove { member },
            Owned::Hold(token, end) => Change::HolderSet {
                token,
                end: Deadline::at_nanos(u128::from(*end)),
            },
            Owned::Leave(token) => Change::HolderRemove { token },
        }
    }
}

/// What a change makes of plain data.
fn change_model(value: &mut StoredValue, change: &Owned) {
    match (value, change.clone()) {
        (StoredValue::Hash(fields), Owned::HashSet(field, value)) => {
            fields.insert(field, value);
        }
        (StoredValue::Hash(fields), Owned::HashDelete(field)) => drop(fields.remove(&field)),
        (StoredValue::List(list), change) => change_list(list, change),
        (StoredValue::Set(members), Owned::Add(member)) => drop(members.insert(member)),
        (StoredValue::Set(members), Owned::Forget(member)) => drop(members.remove(&member)),
        (StoredValue::SortedSet(members), Owned::Score(member, score)) => {
            members.retain(|one| one.1 != member);
            members.push((score.to_bits(), member));
            let score_of = |bits: u64| f64::from_bits(bits);
            members.sort_by(|one, other| {
                let by_score = score_of(one.0).partial_cmp(&score_of(other.0));
                by_score.expect("numbers").then_with(|| one.1.cmp(&other.1))
            });
        }
        (StoredValue::SortedSet(members), Owned::Unscore(member)) => {
            members.retain(|one| one.1 != member);
        }
        (StoredValue::SharedLock(holders), Owned::Hold(token, end)) => {
            holders.insert(token, Deadline::at_nanos(u128::from(end)));
        }
        (StoredValue::SharedLock(holders), Owned::Leave(token)) => drop(holders.remove(&token)),
        // Of another type: nothing.
        _ => {}
    }
}

fn change_list(list: &mut Vec<Vec<u8>>, change: Owned) {
    match change {
        Owned::Push(End::Left, element) => list.insert(0, element),
        Owned::Push(End::Right, element) => list.push(element),
        Owned::Pop(End::Left, count) => drop(list.drain(..count.min(list.len()))),
        Owned::Pop(End::Right, count) => list.truncate(list.len().saturating_sub(count)),
        Owned::Rotate(End::Left) if !list.is_empty() => list.rotate_left(1),
        Owned::Rotate(End::Right) if !list.is_empty() => list.rotate_right(1),
        Owned::Set(index, element) if index < list.len() => list[index] = element,
        Owned::Insert(index, element) if index <= list.len() => list.insert(index, element),
        Owned::Remove(index) if index < list.len() => drop(list.remove(index)),
        _ => {}
    }
}

/// Names of a small collection, or of one with an index and several pieces.
fn name(is_large: bool) -> impl Strategy<Value = Vec<u8>> {
    let bound = if is_large { 400_u16 } else { 5 };
    (0..bound).prop_map(|number| number.to_string().into_bytes())
}

fn owned(kind: u8, is_large: bool) -> BoxedStrategy<Owned> {
    let end = || prop_oneof![Just(End::Left), Just(End::Right)];
    let index = || prop_oneof![0..4_usize, 0..300_usize, Just(usize::from(u16::MAX))];
    let name = || name(is_large);
    match kind {
        0 => prop_oneof![
            3 => (name(), name()).prop_map(|(field, value)| Owned::HashSet(field, value)),
            1 => name().prop_map(Owned::HashDelete),
        ]
        .boxed(),
        1 => prop_oneof![
            6 => (end(), name()).prop_map(|(end, element)| Owned::Push(end, element)),
            1 => (end(), 0..5_usize).prop_map(|(end, count)| Owned::Pop(end, count)),
            1 => end().prop_map(|end| Owned::Pop(end, 1)),
            1 => end().prop_map(Owned::Rotate),
            1 => (index(), name()).prop_map(|(index, element)| Owned::Set(index, element)),
            2 => (index(), name()).prop_map(|(index, element)| Owned::Insert(index, element)),
            1 => index().prop_map(Owned::Remove),
            1 => name().prop_map(Owned::Add),
        ]
        .boxed(),
        2 => prop_oneof![
            3 => name().prop_map(Owned::Add),
            2 => name().prop_map(Owned::Forget),
            1 => (name(), 0..9_u8).prop_map(|(member, score)| Owned::Score(member, score.into())),
        ]
        .boxed(),
        4 => prop_oneof![
            4 => (name(), 0..9_u8).prop_map(|(token, end)| Owned::Hold(token, end)),
            2 => name().prop_map(Owned::Leave),
        ]
        .boxed(),
        _ => prop_oneof![
            4 => (name(), -3..9_i8).prop_map(|(member, score)| Owned::Score(member, score.into())),
            1 => name().prop_map(|member| Owned::Score(member, f64::NEG_INFINITY)),
            1 => name().prop_map(|member| Owned::Score(member, -0.0)),
            2 => name().prop_map(Owned::Unscore),
        ]
        .boxed(),
    }
}

type Case = (u8, Vec<Owned>, Vec<Owned>);

fn case() -> impl Strategy<Value = Case> {
    (0..5_u8, any::<bool>()).prop_flat_map(|(kind, is_large)| {
        let most = if is_large { 500 } else { 20 };
        let before = prop::collection::vec(owned(kind, is_large), 0..most);
        let changes = prop::collection::vec(owned(kind, is_large), 0..most);
        (Just(kind), before, changes)
    })
}

fn empty(kind: u8) -> (Collection, StoredValue) {
    match kind {
        0 => (
            crate::keyspace::fields::Fields::default().into(),
            StoredValue::Hash(BTreeMap::new()),
        ),
        1 => (List::default().into(), StoredValue::List(Vec::new())),
        2 => (Members::default().into(), StoredValue::Set(BTreeSet::new())),
        4 => (
            SharedHolders::default().into(),
            StoredValue::SharedLock(BTreeMap::new()),
        ),
        _ => (
            SortedSet::default().into(),
            StoredValue::SortedSet(Vec::new()),
        ),
    }
}

/// The bytes of a collection, added up anew.
fn bytes_of(value: &StoredValue) -> usize {
    match value {
        StoredValue::String(_) => 0,
        StoredValue::Hash(fields) => fields
            .iter()
            .map(|(field, value)| pair_bytes(field, value))
            .sum(),
        StoredValue::List(list) => list.iter().map(|one| element_bytes(one)).sum(),
        StoredValue::Set(all) => all.iter().map(|one| members::member_bytes(one)).sum(),
        StoredValue::SortedSet(all) => all
            .iter()
            .map(|(_, one)| sorted_set::member_bytes(one))
            .sum(),
        StoredValue::SharedLock(all) => all.keys().map(|one| holder_bytes(one)).sum(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_change_is_made_logged_and_taken_back_as_plain_data_has_it((kind, before, changes) in case()) {
        let (mut collection, mut model) = empty(kind);
        for change in &before {
            collection.apply(&change.change(), 7);
            change_model(&mut model, change);
        }
        prop_assert_eq!(StoredValue::of(&collection), model.clone());
        let (mut replayed, mut journal, mut reversals) = (collection.clone(), Vec::new(), Vec::new());
        for change in &changes {
            let change_of = change.change();
            let bytes_after = collection.bytes_after(&[change_of]);
            let would_change = collection.would_change(&change_of);
            change_model(&mut model, change);
            if let Some(reversal) = collection.apply(&change_of, 7) {
                prop_assert!(would_change, "{:?}", change);
                encode_change(&mut journal, 0, b"key", &change_of, reversals.is_empty());
                reversals.push((change_of.part().unwrap_or_default().to_vec(), reversal));
            }
            prop_assert!(collection.bytes() <= bytes_after, "{:?}", change);
            prop_assert_eq!(collection.bytes(), bytes_of(&model), "{:?}", change);
        }
        prop_assert_eq!(StoredValue::of(&collection), model.clone());
        for mutation in Mutations::of(&journal, 0).expect("a version that is written") {
            let Ok(Mutation::Change { database: 0, key: b"key", change }) = mutation else {
                panic!("{mutation:?}");
            };
            prop_assert!(replayed.apply(&change, 9).is_some());
        }
        prop_assert_eq!(StoredValue::of(&replayed), model);

        for (part, reversal) in reversals.into_iter().rev() {
            collection.revert(&part, reversal, 7);
        }
        let (mut again, mut model) = empty(kind);
        for change in &before {
            again.apply(&change.change(), 7);
            change_model(&mut model, change);
        }
        prop_assert_eq!(StoredValue::of(&collection), model);
        prop_assert_eq!(collection.bytes(), again.bytes());
        // All of it goes on to be found.
        for change in &changes {
            again.apply(&change.change(), 7);
            collection.apply(&change.change(), 7);
        }
        prop_assert_eq!(StoredValue::of(&collection), StoredValue::of(&again));
        prop_assert_eq!(collection.bytes(), again.bytes());
    }
}
