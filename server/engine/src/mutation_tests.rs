//! The bytes of mutations: each comes back as it went, and what nobody writes is refused.

use super::*;

#[test]
fn the_length_of_a_mutation_is_known_before_it_is_made() {
    let long = vec![b'x'; 1 << 21];
    for length in [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21] {
        let (mut set, mut removed, mut deleted) = (vec![VERSION], vec![VERSION], vec![VERSION]);
        let part = &long[..length];
        encode_hash_set(&mut set, 0, b"key", part, b"value");
        assert_eq!(
            set.len(),
            1 + bytes_of(&[b"key", part, b"value"]),
            "{length}"
        );
        encode_hash_delete(&mut removed, 0, part, b"field");
        assert_eq!(removed.len(), 1 + bytes_of(&[part, b"field"]), "{length}");
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
    encode_replace(&mut out, 3, b"key", ValueRef::String(&long), deadline);
    encode_replace(&mut out, 15, b"", ValueRef::Hash(&fields), Deadline::NEVER);
    encode_set_deadline(&mut out, 0, &long, deadline);
    encode_hash_set(&mut out, 1, b"key", b"field", b"");
    encode_hash_delete(&mut out, 2, b"key", b"field");
    encode_delete(&mut out, 4, &long[..128]);
    encode_flush(&mut out, Some(5));
    encode_flush(&mut out, None);
    out
}

fn encode(out: &mut Vec<u8>, mutation: Mutation<'_>) {
    match mutation {
        Mutation::Replace {
            database,
            key,
            value: NewValue::String(value),
            deadline,
        } => encode_replace(out, database, key, ValueRef::String(value), deadline),
        Mutation::Replace {
            database,
            key,
            value: NewValue::Hash(fields),
            deadline,
        } => encode_replace(out, database, key, ValueRef::Hash(&fields), deadline),
        Mutation::SetDeadline {
            database,
            key,
            deadline,
        } => encode_set_deadline(out, database, key, deadline),
        Mutation::HashSet {
            database,
            key,
            field,
            value,
        } => encode_hash_set(out, database, key, field, value),
        Mutation::HashDelete {
            database,
            key,
            field,
        } => encode_hash_delete(out, database, key, field),
        Mutation::Delete { database, key } => encode_delete(out, database, key),
        Mutation::FlushDatabase { database } => encode_flush(out, Some(database)),
        Mutation::FlushAll => encode_flush(out, None),
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
    for (deadline, version) in [(near, VERSION), (far, VERSION_FAR)] {
        let written = payload(deadline);
        assert_eq!(written[0], version);
        let (mut again, mut count) = (Vec::new(), 0);
        let mut mutations = Mutations::of(&written, 0).expect("a known version");
        while let Some(mutation) = mutations.next() {
            encode(&mut again, mutation.expect("as it was written"));
            assert_eq!(mutations.offset(), again.len());
            count += 1;
        }
        assert_eq!((count, again), (8, written));
    }
    assert_eq!(Mutations::of(&[], 0).into_iter().flatten().count(), 0);
}

#[test]
fn the_bytes_of_mutations_never_change() {
    let mut out = Vec::new();
    encode_hash_set(&mut out, 2, b"k", &[b'f'; 130], b"v");
    let fields = [&[1, 3, 2, 1, b'k', 130, 1][..], &[b'f'; 130], &[1, b'v']];
    assert_eq!(out, fields.concat());
    let mut out = Vec::new();
    let deadline = Deadline::at_nanos(0x0102_0304_0506_0708);
    encode_set_deadline(&mut out, 0, b"k", deadline);
    assert_eq!(out, [1, 2, 0, 1, b'k', 8, 7, 6, 5, 4, 3, 2, 1]);
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
        (&[3][..], 0, Version(3)),
        (&[0], 0, Version(0)),
        (&[1, FLUSH_ALL, 0], 2, Mutation(0)),
        (&[1, 8], 1, Mutation(8)),
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
