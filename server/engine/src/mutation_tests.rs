//! The bytes of mutations: each comes back as it went, and what nobody writes is refused.

use super::*;
use crate::keyspace::entry::ValueRef;
use crate::keyspace::fields::Fields;
use crate::keyspace::list::{End, List};
use crate::keyspace::members::Members;
use crate::keyspace::shared_holders::SharedHolders;
use crate::keyspace::sorted_set::SortedSet;

#[test]
fn the_length_of_a_mutation_is_known_before_it_is_made() {
    let long = vec![b'x'; 1 << 21];
    for length in [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21] {
        let (mut set, mut removed, mut deleted) = (vec![VERSION], vec![VERSION], vec![VERSION]);
        let part = &long[..length];
        let change = Change::HashSet {
            field: part,
            value: b"value",
        };
        encode_change(&mut set, 0, b"key", &change, true);
        let at_most = bytes_of_change(b"key", &change);
        assert!(
            set.len() < 1 + at_most && set.len() > at_most - 24,
            "{length}"
        );
        let change = Change::HashDelete { field: b"field" };
        encode_change(&mut removed, 0, part, &change, true);
        assert!(
            removed.len() < 1 + bytes_of_change(part, &change),
            "{length}"
        );
        encode_delete(&mut deleted, 0, part);
        assert_eq!(deleted.len(), 1 + bytes_of(&[part]), "{length}");
        let mut replaced = vec![VERSION];
        let deadline = Deadline::NEVER;
        encode_replace(&mut replaced, 0, b"key", ValueRef::String(part), deadline);
        assert_eq!(
            replaced.len(),
            1 + bytes_of_replace(b"key", length),
            "{length}"
        );
    }
}

/// One of each mutation, in one payload.
fn payload(deadline: Deadline) -> Vec<u8> {
    let (mut out, long) = (Vec::new(), vec![b'v'; 300]);
    let mut fields = Fields::default();
    fields.set(b"field", b"1".as_slice(), 0);
    fields.set(b"other", &long[..], 0);
    let hash = Collection::from(fields);
    encode_replace(&mut out, 3, b"key", ValueRef::String(&long), deadline);
    let never = Deadline::NEVER;
    encode_replace(&mut out, 15, b"", ValueRef::Collection(&hash), never);
    encode_set_deadline(&mut out, 0, &long, deadline);
    let (field, value) = (&b"field"[..], &b""[..]);
    encode_change(&mut out, 1, b"key", &Change::HashSet { field, value }, true);
    encode_change(&mut out, 2, b"key", &Change::HashDelete { field }, true);
    encode_delete(&mut out, 4, &long[..128]);
    encode_flush(&mut out, Some(5));
    encode_flush(&mut out, None);
    out
}

/// Who keeps a key is told of a change by the key that the mutation names.
#[test]
fn a_mutation_names_the_key_that_it_changes() {
    let payload = payload(Deadline::NEVER);
    let long = vec![b'v'; 300];
    let mutations = Mutations::of(&payload, 1).unwrap();
    let targets = mutations.map(|mutation| mutation.unwrap().target());
    let keys: Vec<Option<&[u8]>> = targets.map(|target| Some(target?.1)).collect();
    let (key, none) = (Some(&b"key"[..]), Some(&b""[..]));
    let expected = [
        key,
        none,
        Some(&long),
        key,
        key,
        Some(&long[..128]),
        None,
        None,
    ];
    assert_eq!(keys, expected);
}

/// One of each change of lists, sets and sorted sets, and one of each of these.
fn payload_of_collections() -> Vec<u8> {
    let mut out = Vec::new();
    let (mut list, mut members, mut set) =
        (List::default(), Members::default(), SortedSet::default());
    for name in [&b"one"[..], b"two", b""] {
        list.push(End::Left, name.into());
        members.add(name, 0);
        set.set(name, f64::NEG_INFINITY, 0);
    }
    for value in [list.into(), members.into(), Collection::from(set)] {
        let value = ValueRef::Collection(&value);
        encode_replace(&mut out, 7, b"key", value, Deadline::NEVER);
    }
    let (element, member, long) = (&b"element"[..], &b"member"[..], [b'x'; 200]);
    let (left, right) = (End::Left, End::Right);
    let changes = [
        Change::ListPush { end: left, element },
        Change::ListPush {
            end: right,
            element: &long,
        },
        Change::ListPop {
            end: left,
            count: 300,
        },
        Change::ListPop {
            end: right,
            count: 1,
        },
        Change::ListRotate { from: left },
        Change::ListRotate { from: right },
        Change::ListSet { index: 0, element },
        Change::ListInsert {
            index: 128,
            element,
        },
        Change::ListRemove { index: 5 },
        Change::SetAdd { member },
        Change::SetRemove { member },
        Change::ScoreSet {
            member,
            score: -1.5,
        },
        Change::ScoreRemove { member },
    ];
    for (number, change) in changes.iter().enumerate() {
        let before = out.len();
        encode_change(&mut out, 9, b"key", change, number == 0);
        let bytes = out.len() - before;
        assert!(bytes <= bytes_of_change(b"", change), "{change:?}");
    }
    out
}

/// A lock that is held shared, and changes of its holders.
fn payload_of_shared_locks() -> Vec<u8> {
    let mut out = Vec::new();
    let mut holders = SharedHolders::default();
    let (near, far) = (Deadline::at_nanos(5), Deadline::at_nanos(1 << 70));
    for (token, end) in [(b"one", near), (b"two", far)] {
        holders.set(token, end, 0);
    }
    let lock = Collection::from(holders);
    encode_replace(&mut out, 1, b"job", ValueRef::Collection(&lock), far);
    let token = &b"three"[..];
    let set = Change::HolderSet { token, end: far };
    let remove = Change::HolderRemove { token };
    for (change, is_first) in [(set, true), (remove, false), (set, false)] {
        let before = out.len();
        encode_change(&mut out, 1, b"job", &change, is_first);
        assert!(out.len() - before <= bytes_of_change(b"job", &change));
    }
    encode_set_deadline(&mut out, 1, b"job", near);
    out
}

/// Two swaps, between mutations of keys.
fn payload_of_swaps() -> Vec<u8> {
    let mut out = Vec::new();
    encode_delete(&mut out, 4, b"key");
    encode_swap(&mut out, [4, 15]);
    encode_delete(&mut out, 4, b"key");
    encode_swap(&mut out, [0, 0]);
    out
}

/// `before`: the key of the change before.
fn encode<'a>(out: &mut Vec<u8>, mutation: Mutation<'a>, before: &mut Option<&'a [u8]>) {
    match mutation {
        Mutation::Replace {
            database,
            key,
            value,
            deadline,
        } => {
            let value = match &value {
                NewValue::String(value) => ValueRef::String(value),
                NewValue::Collection(value) => ValueRef::Collection(value),
            };
            encode_replace(out, database, key, value, deadline);
        }
        // Its elements are written in the order of their offsets in the whole collection, which is not there.
        Mutation::Part { .. } => panic!("a part is read by a test of its own"),
        Mutation::SetDeadline {
            database,
            key,
            deadline,
        } => encode_set_deadline(out, database, key, deadline),
        Mutation::Change {
            database,
            key,
            change,
        } => {
            // The same bytes of the payload, not only equal ones.
            let is_first = before.is_none_or(|one| !std::ptr::eq(one, key));
            encode_change(out, database, key, &change, is_first);
            *before = Some(key);
        }
        Mutation::Delete { database, key } => encode_delete(out, database, key),
        Mutation::FlushDatabase { database } => encode_flush(out, Some(database)),
        Mutation::FlushAll => encode_flush(out, None),
        Mutation::SwapDatabases { both } => encode_swap(out, both),
    }
}

fn first_error(payload: &[u8]) -> (usize, PayloadErrorKind) {
    let error = match Mutations::of(payload, 0) {
        Ok(mut mutations) => mutations.find_map(Result::err).expect("an error"),
        Err(error) => error,
    };
    (error.offset, error.kind)
}

#[test]
fn every_mutation_comes_back_as_it_was_written() {
    let near = Deadline::at_nanos(0x0102_0304_0506_0708);
    let far = Deadline::at_nanos(1 << 70);
    let mut all = payload(far);
    all.extend_from_slice(&payload_of_collections()[1..]);
    all[0] = VERSION_COLLECTIONS;
    for (written, version, expected) in [
        (payload(near), VERSION, 8),
        (payload(far), VERSION_FAR, 8),
        (payload_of_collections(), VERSION_COLLECTIONS, 16),
        (all, VERSION_COLLECTIONS, 24),
        (payload_of_swaps(), VERSION_SWAPS, 4),
        (payload_of_shared_locks(), VERSION_SHARED, 5),
    ] {
        assert_eq!(written[0], version);
        let (mut again, mut count, mut before) = (Vec::new(), 0, None);
        let mut mutations = Mutations::of(&written, 0).expect("a known version");
        while let Some(mutation) = mutations.next() {
            let mutation = mutation.expect("as it was written");
            encode(&mut again, mutation, &mut before);
            assert_eq!(mutations.offset(), again.len());
            count += 1;
        }
        assert_eq!((count, again), (expected, written));
    }
    assert_eq!(Mutations::of(&[], 0).into_iter().flatten().count(), 0);
}

/// The names of a whole collection's elements, in the order of their offsets.
fn names() -> Vec<String> {
    (0..100).map(|number| format!("name{number}")).collect()
}

/// One collection of each type, with these elements.
fn collections() -> [Collection; 5] {
    let (mut list, mut set) = (List::default(), SortedSet::default());
    let (mut members, mut fields) = (Members::default(), Fields::default());
    let mut holders = SharedHolders::default();
    for (name, score) in names().iter().map(String::as_bytes).zip((0_u8..100).rev()) {
        list.push(End::Right, name.into());
        members.add(name, 0);
        set.set(name, f64::from(score), 0);
        fields.set(name, name, 0);
        holders.set(name, Deadline::at_nanos(u128::from(score)), 0);
    }
    [
        list.into(),
        members.into(),
        set.into(),
        fields.into(),
        holders.into(),
    ]
}

fn check_elements(part: &Collection, names: &[String]) {
    let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    assert_eq!(part.len(), names.len());
    match part {
        Collection::List(list) => assert!(list.iter().map(|one| &**one).eq(names)),
        Collection::Set(set) => assert!(names.iter().all(|name| set.contains(name))),
        Collection::SortedSet(set) => {
            assert!(names.iter().all(|name| set.score(name).is_some()));
        }
        Collection::Hash(fields) => assert!(names.iter().all(|name| fields.get(name).is_some())),
        Collection::SharedLock(holders) => {
            assert!(names.iter().all(|name| holders.contains(name)));
        }
    }
}

#[test]
fn a_part_comes_back_as_it_was_written() {
    for whole in collections() {
        for offsets in [0..100, 70..100, 99..100, 30..70, 0..1] {
            let mut payload = Vec::new();
            let end = Deadline::at_nanos(5);
            encode_part(&mut payload, 3, b"key", (&whole, offsets.clone()), end);
            let is_shared = matches!(whole, Collection::SharedLock(_));
            let own_version = if is_shared {
                VERSION_SHARED
            } else {
                VERSION_PARTS
            };
            assert_eq!(payload[0], own_version);
            let mut mutations = Mutations::of(&payload, 0).unwrap();
            let Some(Ok(Mutation::Part {
                database: 3,
                key: b"key",
                part,
                absent,
                deadline,
            })) = mutations.next()
            else {
                panic!("a part");
            };
            assert!(mutations.next().is_none());
            assert_eq!((deadline, absent), (end, offsets.start));
            check_elements(&part, &names()[offsets]);
            // No earlier release reads it, and no byte of it can be missing.
            for version in [VERSION, VERSION_FAR, VERSION_COLLECTIONS] {
                payload[0] = version;
                assert_eq!(first_error(&payload), (1, PayloadErrorKind::Mutation(PART)));
            }
            payload[0] = own_version;
            for length in 2..payload.len() {
                let (_, kind) = first_error(&payload[..length]);
                assert_eq!(kind, PayloadErrorKind::Truncated);
            }
        }
    }
    let of_string = [&[VERSION_PARTS, PART][..], &[0; 10], &[9, STRING, 0]].concat();
    assert_eq!(first_error(&of_string), (13, PayloadErrorKind::Part));
    let of_nothing = [&[VERSION_PARTS, PART][..], &[0; 10], &[9, LIST, 0]].concat();
    assert_eq!(first_error(&of_nothing), (13, PayloadErrorKind::Number));
}

#[test]
fn the_bytes_of_mutations_never_change() {
    let mut out = Vec::new();
    let (field, value) = (&[b'f'; 130][..], &b"v"[..]);
    encode_change(&mut out, 2, b"k", &Change::HashSet { field, value }, true);
    let fields = [&[1, 3, 2, 1, b'k', 130, 1][..], &[b'f'; 130], &[1, b'v']];
    assert_eq!(out, fields.concat());
    let mut out = Vec::new();
    let deadline = Deadline::at_nanos(0x0102_0304_0506_0708);
    encode_set_deadline(&mut out, 0, b"k", deadline);
    assert_eq!(out, [1, 2, 0, 1, b'k', 8, 7, 6, 5, 4, 3, 2, 1]);
    let mut out = Vec::new();
    let member = &b"m"[..];
    let score = f64::from_bits(0x0102_0304_0506_0708);
    encode_change(&mut out, 0, b"k", &Change::SetAdd { member }, true);
    encode_change(
        &mut out,
        0,
        b"k",
        &Change::ScoreSet { member, score },
        false,
    );
    let count = 129;
    let end = End::Right;
    encode_change(&mut out, 0, b"k", &Change::ListPop { end, count }, false);
    let expected = [
        &[3, 17, 0, 1, b'k', 1, b'm'][..],
        &[0x80 | 19, 8, 7, 6, 5, 4, 3, 2, 1, 1, b'm'],
        &[0x80 | 11, 0x81, 1],
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn the_bytes_of_shared_holders_never_change() {
    let mut out = Vec::new();
    let (token, end) = (&b"t"[..], Deadline::at_nanos(0x0102_0304_0506_0708));
    let set = Change::HolderSet { token, end };
    encode_change(&mut out, 0, b"k", &set, true);
    encode_change(&mut out, 0, b"k", &Change::HolderRemove { token }, false);
    let expected = [
        &[6, 23, 0, 1, b'k', 8, 7, 6, 5, 4, 3, 2, 1, 1, b't'][..],
        &[0x80 | 24, 1, b't'],
    ];
    assert_eq!(out, expected.concat());
}

/// Earlier releases counted in nanoseconds to the end.
#[test]
fn a_deadline_of_version_1_is_nanoseconds_also_where_it_is_far_away() {
    let nanos = (1_u64 << 63) + 5_000_000;
    let mut payload = vec![VERSION, SET_DEADLINE, 0, 1, b'k'];
    payload.extend_from_slice(&nanos.to_le_bytes());
    let first = Mutations::of(&payload, 0).map(|mut mutations| mutations.next());
    let Ok(Some(Ok(Mutation::SetDeadline { deadline, .. }))) = first else {
        panic!("{first:?}");
    };
    assert_eq!(deadline, Deadline::at_nanos(u128::from(nanos)));
}

#[test]
fn what_no_writer_writes_is_refused_where_it_begins() {
    use PayloadErrorKind::{Database, Mutation, Number, Truncated, ValueType, Version};
    for (payload, offset, kind) in [
        (&[7][..], 0, Version(7)),
        (&[0], 0, Version(0)),
        (&[1, FLUSH_ALL, 0], 2, Mutation(0)),
        (&[1, 21], 1, Mutation(21)),
        (&[3, 21], 1, Mutation(21)),
        (&[4, 22], 1, Mutation(22)),
        (&[4, DELETE, 0, 0, 0x80 | PART], 4, Mutation(0x80 | PART)),
        (&[3, 0x80 | 17, 1, b'm'], 1, Mutation(0x80 | 17)),
        // Changes of hashes never leave out the key.
        (&[3, DELETE, 0, 0, 0x80 | 4, 1, b'f'], 4, Mutation(0x80 | 4)),
        // What only the newest version has.
        (&[1, 8, 0, 0, 0], 1, Mutation(8)),
        (&[2, 20, 0, 0, 0], 1, Mutation(20)),
        (&[2, DELETE, 0, 0, 0x80 | 17, 0], 4, Mutation(0x80 | 17)),
        (
            &[2, REPLACE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, SET, 1, 0],
            12,
            ValueType(SET),
        ),
        (
            &[3, DELETE, 0, 0, 0x80 | DELETE],
            4,
            Mutation(0x80 | DELETE),
        ),
        (&[3, DELETE, 0, 0, 0x80], 4, Mutation(0x80)),
        (&[5, 23], 1, Mutation(23)),
        (&[6, 25], 1, Mutation(25)),
        (&[5, DELETE, 0, 0, 0x80 | 24], 4, Mutation(0x80 | 24)),
        (&[6, DELETE, 0, 0, 0x80 | 22], 4, Mutation(0x80 | 22)),
        (
            &[5, REPLACE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, SHARED_LOCK, 1, 0],
            12,
            ValueType(SHARED_LOCK),
        ),
        (
            &[3, 19, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, 1, b'm'],
            4,
            Number,
        ),
        (&[1, FLUSH_DATABASE, 16], 2, Database(16)),
        (&[1, FLUSH_DATABASE, 17], 2, Database(17)),
        (&[1, DELETE, 0, 5, b'k'], 4, Truncated),
        (&[1, DELETE, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0], 3, Number),
        (
            &[1, REPLACE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            12,
            ValueType(9),
        ),
        (
            &[1, REPLACE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, HASH, 0],
            12,
            Number,
        ),
    ] {
        assert_eq!(first_error(payload), (offset, kind), "{payload:?}");
    }
}
