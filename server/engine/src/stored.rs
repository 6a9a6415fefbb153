//! Every key as plain data: for comparing whole states, in tests and in tools.
//!
//! A key whose deadline has come is listed until it leaves memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::ValueRef;
use crate::time::Deadline;

/// One key with everything the log has to keep of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stored {
    /// The database it is in.
    pub database: u8,
    /// The key.
    pub key: Vec<u8>,
    /// What it holds.
    pub value: StoredValue,
    /// When it ends; `None` where it has no TTL.
    pub deadline: Option<Deadline>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoredValue {
    /// A string.
    String(Vec<u8>),
    /// A hash: fields and their values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A list: its elements from left to right.
    List(Vec<Vec<u8>>),
    /// A set: its members.
    Set(BTreeSet<Vec<u8>>),
    /// A sorted set: its members in their order, each with the bits of its score.
    SortedSet(Vec<(u64, Vec<u8>)>),
    /// Those who hold a lock shared: their tokens, and when each ends.
    SharedLock(BTreeMap<Vec<u8>, Deadline>),
}

impl StoredValue {
    pub(crate) fn of(collection: &Collection) -> StoredValue {
        match collection {
            Collection::Hash(fields) => {
                let pairs = fields.iter();
                let pairs = pairs.map(|(field, value)| (field.to_vec(), value.to_vec()));
                StoredValue::Hash(pairs.collect())
            }
            Collection::List(list) => {
                StoredValue::List(list.iter().map(|element| element.to_vec()).collect())
            }
            Collection::Set(members) => {
                StoredValue::Set(members.iter().map(|member| member.to_vec()).collect())
            }
            Collection::SortedSet(set) => {
                let members = set.iter();
                let members = members.map(|(member, score)| (score.to_bits(), member.to_vec()));
                StoredValue::SortedSet(members.collect())
            }
            Collection::SharedLock(holders) => {
                let holders = holders.iter();
                StoredValue::SharedLock(holders.map(|(token, end)| (token.to_vec(), end)).collect())
            }
        }
    }
}

impl Engine {
    /// Copies of all keys in memory, in no particular order.
    pub fn stored(&self) -> impl Iterator<Item = Stored> {
        self.keyspace.entries(None).map(|(_, entry)| Stored {
            database: self.keyspace.database_of(entry),
            key: entry.key().to_vec(),
            value: match entry.value() {
                ValueRef::String(bytes) => StoredValue::String(bytes.to_vec()),
                ValueRef::Collection(collection) => StoredValue::of(collection),
            },
            deadline: entry.deadline.unless_never(),
        })
    }
}
