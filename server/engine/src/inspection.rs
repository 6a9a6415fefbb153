//! What a group of mutations says, for people and tools that read a log.
//!
//! Nothing is decided or applied here, and what replay would refuse is an error here as well.

use crate::mutation::{Mutation, Mutations, NewValue, PayloadError};
use crate::time::Deadline;

/// One change, as it is on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key now holds exactly this, whatever was there.
    Replace {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: Value<'a>,
        /// When it ends; `None`: never.
        deadline: Option<Deadline>,
    },
    /// The key's deadline is now this one.
    SetDeadline {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// When it ends; `None`: never.
        deadline: Option<Deadline>,
    },
    /// The hash's field now holds this.
    HashSet {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// What it holds.
        value: &'a [u8],
    },
    /// The hash's field is gone.
    HashDelete {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
    },
    /// The key is gone.
    Delete {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
    },
    /// The database is empty.
    FlushDatabase {
        /// The database.
        database: u8,
    },
    /// All databases are empty.
    FlushAll,
}

/// A whole value on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A string.
    String(&'a [u8]),
    /// A hash: its fields and what they hold.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
}

/// The changes of a group or of a part of a checkpoint, in order. After an error there are no more.
/// `hash_seed` keeps fields that were chosen to collide from making a large hash slow to read.
///
/// # Errors
/// If the payload was written by a version with another layout; each item, if it cannot be read.
pub fn changes(
    payload: &[u8],
    hash_seed: u64,
) -> Result<impl Iterator<Item = Result<Change<'_>, PayloadError>>, PayloadError> {
    let mutations = Mutations::of(payload, hash_seed)?;
    Ok(mutations.map(|mutation| mutation.map(Change::of)))
}

impl<'a> Change<'a> {
    fn of(mutation: Mutation<'a>) -> Change<'a> {
        match mutation {
            Mutation::Replace {
                database,
                key,
                value,
                deadline,
            } => Change::Replace {
                database,
                key,
                value: Value::of(value),
                deadline: deadline.unless_never(),
            },
            Mutation::SetDeadline {
                database,
                key,
                deadline,
            } => Change::SetDeadline {
                database,
                key,
                deadline: deadline.unless_never(),
            },
            Mutation::HashSet {
                database,
                key,
                field,
                value,
            } => Change::HashSet {
                database,
                key,
                field,
                value,
            },
            Mutation::HashDelete {
                database,
                key,
                field,
            } => Change::HashDelete {
                database,
                key,
                field,
            },
            Mutation::Delete { database, key } => Change::Delete { database, key },
            Mutation::FlushDatabase { database } => Change::FlushDatabase { database },
            Mutation::FlushAll => Change::FlushAll,
        }
    }
}

impl<'a> Value<'a> {
    fn of(value: NewValue<'a>) -> Value<'a> {
        match value {
            NewValue::String(string) => Value::String(string),
            NewValue::Hash(fields) => {
                let pairs = fields.iter();
                Value::Hash(
                    pairs
                        .map(|(field, value)| (field.to_vec(), value.to_vec()))
                        .collect(),
                )
            }
        }
    }
}
