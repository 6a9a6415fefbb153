//! Mutations as bytes: what a command changed, as absolute values.
//!
//! A payload is a version byte and then mutations one after the other. Lengths are variable-length
//! integers, deadlines are nanoseconds of node time. A payload with a deadline too far away for
//! that, with lists, sets or sorted sets, with a part of a collection, with a swap of databases, or with a lock that is
//! held shared has a version of its own, so that all others can be read by earlier releases. Replaying needs no clock and decides nothing; a payload that cannot be read
//! names the offset at which it stops making sense.

mod change;
mod encode;
mod read;

use crate::keyspace::change::Change;
use crate::keyspace::collection::Collection;
pub(crate) use crate::mutation::change::{bytes_of_change, encode_change};
pub(crate) use crate::mutation::encode::{
    bytes_of, bytes_of_replace, encode_delete, encode_flush, encode_part, encode_replace,
    encode_set_deadline, encode_swap,
};
pub use crate::mutation::read::Mutations;
use crate::time::Deadline;

/// One change. Borrows from the payload it was read from.
#[derive(Debug)]
pub enum Mutation<'a> {
    /// The key now holds exactly this, whatever was there.
    Replace {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: NewValue<'a>,
        /// When it ends.
        deadline: Deadline,
    },
    /// The next part of a collection that a snapshot takes in parts, those of the highest offsets first. It changes
    /// nothing where the key is whole, since then it was written after the snapshot began.
    Part {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// What the part holds: in a list it comes before all that is there.
        part: Collection,
        /// How many elements are still missing, those of the lowest offsets.
        absent: usize,
        /// When the key ends.
        deadline: Deadline,
    },
    /// The key's deadline is now this one.
    SetDeadline {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// When it ends.
        deadline: Deadline,
    },
    /// A part of the key's collection has changed.
    Change {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// What has changed.
        change: Change<'a>,
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
    /// Each of these databases has the keys that the other one had.
    SwapDatabases {
        /// The databases.
        both: [u8; 2],
    },
}

impl<'a> Mutation<'a> {
    /// The database and the key that it changes; none where it changes all keys.
    pub fn target(&self) -> Option<(u8, &'a [u8])> {
        match *self {
            Mutation::Replace { database, key, .. }
            | Mutation::Part { database, key, .. }
            | Mutation::SetDeadline { database, key, .. }
            | Mutation::Change { database, key, .. }
            | Mutation::Delete { database, key } => Some((database, key)),
            Mutation::FlushDatabase { .. }
            | Mutation::FlushAll
            | Mutation::SwapDatabases { .. } => None,
        }
    }
}

/// A whole value that was read from a payload.
#[derive(Debug)]
pub enum NewValue<'a> {
    /// A string.
    String(&'a [u8]),
    /// A value of many parts.
    Collection(Collection),
}

/// A payload that this version cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unreadable mutation at byte {offset} of the payload: {kind}")]
pub struct PayloadError {
    /// Where in the payload the unreadable part begins.
    pub offset: usize,
    /// What is wrong there.
    pub kind: PayloadErrorKind,
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadErrorKind {
    /// Written by a version this one does not know.
    #[error("payload version {0} is not known")]
    Version(u8),
    /// A mutation this version does not know.
    #[error("mutation {0} is not known")]
    Mutation(u8),
    /// A type of value this version does not know.
    #[error("value type {0} is not known")]
    ValueType(u8),
    /// A database beyond the last one.
    #[error("database {0} does not exist")]
    Database(u8),
    /// The payload ends too early.
    #[error("the payload ends here")]
    Truncated,
    /// A number or a deadline that no writer produces.
    #[error("a number out of range")]
    Number,
    /// A part of a collection, or a change of one of which a part is there, that no writer produces.
    #[error("it does not fit the part of the collection that comes before")]
    Part,
    /// There is no room for another key.
    #[error("there are too many keys")]
    Full,
}

/// The version of the encoding, the first byte of every payload.
const VERSION: u8 = 1;
/// The same with deadlines from 2^63 on in milliseconds; only where there is such a deadline.
const VERSION_FAR: u8 = 2;
/// The same with lists, sets or sorted sets, or with a mutation of the same key as the one before it.
const VERSION_COLLECTIONS: u8 = 3;
/// The same with parts of collections.
const VERSION_PARTS: u8 = 4;
/// The same with swaps of databases.
const VERSION_SWAPS: u8 = 5;
/// The same with locks that are held shared.
const VERSION_SHARED: u8 = 6;

const REPLACE: u8 = 1;
const SET_DEADLINE: u8 = 2;
const DELETE: u8 = 5;
const FLUSH_DATABASE: u8 = 6;
const FLUSH_ALL: u8 = 7;
const PART: u8 = 21;
const SWAP_DATABASES: u8 = 22;

/// The last number of a change; those of changes are between that of FLUSH_ALL and this one, or are of hashes.
const CHANGE_LAST: u8 = change::LAST;
/// The last number of all: changes of locks that are held shared come behind swaps.
const SHARED_LAST: u8 = change::SHARED_LAST;
/// Added to a change's number where it is of the same key as the mutation before: then neither
/// database nor key come again.
const SAME_KEY: u8 = 0x80;

const STRING: u8 = 1;
const HASH: u8 = 2;
const LIST: u8 = 3;
const SET: u8 = 4;
const SORTED_SET: u8 = 5;
const SHARED_LOCK: u8 = 6;

#[cfg(test)]
#[path = "mutation_tests.rs"]
mod tests;
