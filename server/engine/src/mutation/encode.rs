//! Mutations become bytes, and their lengths are known before.

use std::ops::Range;

use crate::keyspace::collection::Collection;
use crate::keyspace::entry::ValueRef;
use crate::mutation::{
    DELETE, FLUSH_ALL, FLUSH_DATABASE, HASH, LIST, PART, REPLACE, SET, SET_DEADLINE, SHARED_LOCK,
    SORTED_SET, STRING, SWAP_DATABASES, VERSION, VERSION_COLLECTIONS, VERSION_FAR, VERSION_PARTS,
    VERSION_SHARED, VERSION_SWAPS,
};
use crate::time::Deadline;

pub(crate) fn encode_replace(
    out: &mut Vec<u8>,
    database: u8,
    key: &[u8],
    value: ValueRef<'_>,
    deadline: Deadline,
) {
    start(out, REPLACE, database, key);
    encode_deadline(out, deadline);
    match value {
        ValueRef::String(string) => {
            out.push(STRING);
            encode_bytes(out, string);
        }
        ValueRef::Collection(collection) => encode_collection(out, collection),
    }
}

/// Adds the elements of these offsets, of which there is one at least, as a part of a collection.
pub(crate) fn encode_part(
    out: &mut Vec<u8>,
    database: u8,
    key: &[u8],
    (collection, offsets): (&Collection, Range<usize>),
    deadline: Deadline,
) {
    start(out, PART, database, key);
    raise_version(out, VERSION_PARTS);
    encode_deadline(out, deadline);
    encode_number(out, offsets.start);
    out.push(value_type(collection));
    encode_number(out, offsets.len());
    match collection {
        Collection::Hash(fields) => {
            let pairs = offsets.filter_map(|offset| fields.at(offset));
            pairs.for_each(|(field, value)| encode_pair(out, field, value));
        }
        Collection::List(list) => {
            let elements = list.range(offsets);
            elements.for_each(|element| encode_bytes(out, element));
        }
        Collection::Set(members) => {
            let members = offsets.filter_map(|offset| members.at(offset));
            members.for_each(|member| encode_bytes(out, member));
        }
        Collection::SortedSet(set) => {
            let members = offsets.filter_map(|offset| set.at(offset));
            members.for_each(|(member, score)| encode_scored(out, member, score));
        }
        Collection::SharedLock(holders) => {
            raise_version(out, VERSION_SHARED);
            let holders = offsets.filter_map(|offset| holders.at(offset));
            holders.for_each(|(token, end)| encode_holder(out, token, end));
        }
    }
}

fn encode_collection(out: &mut Vec<u8>, collection: &Collection) {
    let value_type = value_type(collection);
    match value_type {
        HASH => {}
        SHARED_LOCK => raise_version(out, VERSION_SHARED),
        _ => raise_version(out, VERSION_COLLECTIONS),
    }
    out.push(value_type);
    encode_number(out, collection.len());
    match collection {
        Collection::Hash(fields) => {
            let pairs = fields.iter();
            pairs.for_each(|(field, value)| encode_pair(out, field, value));
        }
        Collection::List(list) => list.iter().for_each(|element| encode_bytes(out, element)),
        Collection::Set(members) => members.iter().for_each(|member| encode_bytes(out, member)),
        Collection::SortedSet(set) => {
            let members = set.iter();
            members.for_each(|(member, score)| encode_scored(out, member, score));
        }
        Collection::SharedLock(holders) => {
            let holders = holders.iter();
            holders.for_each(|(token, end)| encode_holder(out, token, end));
        }
    }
}

fn value_type(collection: &Collection) -> u8 {
    match collection {
        Collection::Hash(_) => HASH,
        Collection::List(_) => LIST,
        Collection::Set(_) => SET,
        Collection::SortedSet(_) => SORTED_SET,
        Collection::SharedLock(_) => SHARED_LOCK,
    }
}

fn encode_pair(out: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    encode_bytes(out, field);
    encode_bytes(out, value);
}

fn encode_holder(out: &mut Vec<u8>, token: &[u8], end: Deadline) {
    encode_deadline(out, end);
    encode_bytes(out, token);
}

fn encode_scored(out: &mut Vec<u8>, member: &[u8], score: f64) {
    encode_score(out, score);
    encode_bytes(out, member);
}

pub(super) fn encode_score(out: &mut Vec<u8>, score: f64) {
    out.extend_from_slice(&score.to_bits().to_le_bytes());
}

pub(crate) fn encode_set_deadline(out: &mut Vec<u8>, database: u8, key: &[u8], deadline: Deadline) {
    start(out, SET_DEADLINE, database, key);
    encode_deadline(out, deadline);
}

pub(crate) fn encode_delete(out: &mut Vec<u8>, database: u8, key: &[u8]) {
    start(out, DELETE, database, key);
}

pub(crate) fn encode_flush(out: &mut Vec<u8>, database: Option<u8>) {
    start_payload(out);
    match database {
        Some(database) => out.extend_from_slice(&[FLUSH_DATABASE, database]),
        None => out.push(FLUSH_ALL),
    }
}

pub(crate) fn encode_swap(out: &mut Vec<u8>, both: [u8; 2]) {
    start_payload(out);
    raise_version(out, VERSION_SWAPS);
    out.push(SWAP_DATABASES);
    out.extend_from_slice(&both);
}

/// The length of a mutation of a key with these parts, the key first, and no deadline.
pub(crate) fn bytes_of(parts: &[&[u8]]) -> usize {
    let bytes = |part: &&[u8]| number_bytes(part.len()).saturating_add(part.len());
    parts
        .iter()
        .map(bytes)
        .fold(MARK_BYTES, usize::saturating_add)
}

/// The length of a mutation that writes a key with a value of so many bytes.
pub(crate) fn bytes_of_replace(key: &[u8], value_bytes: usize) -> usize {
    bytes_of(&[key])
        .saturating_add(size_of::<u64>())
        .saturating_add(TYPE_BYTES)
        .saturating_add(number_bytes(value_bytes))
        .saturating_add(value_bytes)
}

pub(super) fn number_bytes(number: usize) -> usize {
    let groups_before = number.checked_ilog2().unwrap_or(0) / 7;
    groups_before.saturating_add(1) as usize
}

fn start_payload(out: &mut Vec<u8>) {
    if out.is_empty() {
        out.push(VERSION);
    }
}

/// The payload has something that versions before this one do not have.
pub(super) fn raise_version(out: &mut [u8], version: u8) {
    out[0] = out[0].max(version);
}

pub(super) fn start(out: &mut Vec<u8>, mutation: u8, database: u8, key: &[u8]) {
    start_payload(out);
    out.push(mutation);
    out.push(database);
    encode_bytes(out, key);
}

pub(super) fn encode_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    encode_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(super) fn encode_number(out: &mut Vec<u8>, number: usize) {
    let mut left = number as u64;
    while left > 0x7f {
        out.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
}

pub(super) fn encode_deadline(out: &mut Vec<u8>, deadline: Deadline) {
    if deadline.is_far() {
        raise_version(out, VERSION_FAR);
    }
    out.extend_from_slice(&deadline.to_bits().to_le_bytes());
}

/// Which type of value.
const TYPE_BYTES: usize = 1;

/// Which mutation, and the database.
const MARK_BYTES: usize = 2;
