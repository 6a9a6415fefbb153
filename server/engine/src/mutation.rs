//! Mutations as bytes: what a command changed, as absolute values.
//!
//! A payload is a version byte and then mutations one after the other. Lengths are variable-length
//! integers, deadlines are nanoseconds of node time. A payload with a deadline too far away for
//! that has a version of its own, so that all others can be read by earlier releases. Replaying needs no clock and decides nothing;
//! a payload that cannot be read names the offset at which it stops making sense.

use crate::keyspace::DATABASES;
use crate::keyspace::entry::ValueRef;
use crate::keyspace::fields::Fields;
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
    /// The key's deadline is now this one.
    SetDeadline {
        /// The database.
        database: u8,
        /// The key.
        key: &'a [u8],
        /// When it ends.
        deadline: Deadline,
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

impl<'a> Mutation<'a> {
    /// The key that it changes; none where it changes all.
    pub fn key(&self) -> Option<&'a [u8]> {
        match self {
            Mutation::Replace { key, .. }
            | Mutation::SetDeadline { key, .. }
            | Mutation::HashSet { key, .. }
            | Mutation::HashDelete { key, .. }
            | Mutation::Delete { key, .. } => Some(key),
            Mutation::FlushDatabase { .. } | Mutation::FlushAll => None,
        }
    }
}

/// A whole value that was read from a payload.
#[derive(Debug)]
pub enum NewValue<'a> {
    /// A string.
    String(&'a [u8]),
    /// A hash.
    Hash(Fields),
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
    /// There is no room for another key.
    #[error("there are too many keys")]
    Full,
}

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
        ValueRef::Hash(fields) => {
            out.push(HASH);
            encode_number(out, fields.len());
            for (field, value) in fields.iter() {
                encode_bytes(out, field);
                encode_bytes(out, value);
            }
        }
    }
}

pub(crate) fn encode_set_deadline(out: &mut Vec<u8>, database: u8, key: &[u8], deadline: Deadline) {
    start(out, SET_DEADLINE, database, key);
    encode_deadline(out, deadline);
}

pub(crate) fn encode_hash_set(
    out: &mut Vec<u8>,
    database: u8,
    key: &[u8],
    field: &[u8],
    value: &[u8],
) {
    start(out, HASH_SET, database, key);
    encode_bytes(out, field);
    encode_bytes(out, value);
}

pub(crate) fn encode_hash_delete(out: &mut Vec<u8>, database: u8, key: &[u8], field: &[u8]) {
    start(out, HASH_DELETE, database, key);
    encode_bytes(out, field);
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

fn number_bytes(number: usize) -> usize {
    let groups_before = number.checked_ilog2().unwrap_or(0) / 7;
    groups_before.saturating_add(1) as usize
}

fn start_payload(out: &mut Vec<u8>) {
    if out.is_empty() {
        out.push(VERSION);
    }
}

fn start(out: &mut Vec<u8>, mutation: u8, database: u8, key: &[u8]) {
    start_payload(out);
    out.push(mutation);
    out.push(database);
    encode_bytes(out, key);
}

fn encode_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    encode_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn encode_number(out: &mut Vec<u8>, number: usize) {
    let mut left = number as u64;
    while left > 0x7f {
        out.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
}

fn encode_deadline(out: &mut Vec<u8>, deadline: Deadline) {
    if deadline.is_far() {
        out[0] = VERSION_FAR;
    }
    out.extend_from_slice(&deadline.to_bits().to_le_bytes());
}

/// Reads the mutations of a payload, front to back. After an error it ends.
#[derive(Debug)]
pub struct Mutations<'a> {
    payload: &'a [u8],
    offset: usize,
    hash_seed: u64,
    /// Deadlines are nanoseconds throughout, also where they are far away.
    has_nanos_only: bool,
}

impl<'a> Mutations<'a> {
    /// `hash_seed` is for the index of large hashes: fields that were chosen to collide must not make
    /// one slow to read.
    ///
    /// # Errors
    /// If the payload was written by a version with another layout.
    pub fn of(payload: &'a [u8], hash_seed: u64) -> Result<Mutations<'a>, PayloadError> {
        let version = payload.first().copied().unwrap_or(VERSION);
        if version != VERSION && version != VERSION_FAR {
            return Err(PayloadError {
                offset: 0,
                kind: PayloadErrorKind::Version(version),
            });
        }
        Ok(Mutations {
            payload,
            offset: usize::from(!payload.is_empty()),
            hash_seed,
            has_nanos_only: version == VERSION,
        })
    }

    /// The mutations from this offset on, where one begins. The payload is one that this version has written.
    pub(crate) fn of_rest(payload: &'a [u8], offset: usize, hash_seed: u64) -> Mutations<'a> {
        Mutations {
            payload,
            offset: offset.max(usize::from(!payload.is_empty())),
            hash_seed,
            has_nanos_only: payload.first() == Some(&VERSION),
        }
    }

    /// The offset of the next mutation.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    fn mutation(&mut self) -> Result<Mutation<'a>, PayloadError> {
        let offset = self.offset;
        let mutation = self.byte()?;
        if mutation == FLUSH_ALL {
            return Ok(Mutation::FlushAll);
        }
        if !(REPLACE..=FLUSH_DATABASE).contains(&mutation) {
            return Err(PayloadError {
                offset,
                kind: PayloadErrorKind::Mutation(mutation),
            });
        }
        let database = self.database()?;
        if mutation == FLUSH_DATABASE {
            return Ok(Mutation::FlushDatabase { database });
        }
        let key = self.bytes()?;
        Ok(match mutation {
            REPLACE => {
                let deadline = self.deadline()?;
                Mutation::Replace {
                    database,
                    key,
                    value: self.value()?,
                    deadline,
                }
            }
            SET_DEADLINE => Mutation::SetDeadline {
                database,
                key,
                deadline: self.deadline()?,
            },
            HASH_SET => Mutation::HashSet {
                database,
                key,
                field: self.bytes()?,
                value: self.bytes()?,
            },
            HASH_DELETE => Mutation::HashDelete {
                database,
                key,
                field: self.bytes()?,
            },
            _ => Mutation::Delete { database, key },
        })
    }

    fn value(&mut self) -> Result<NewValue<'a>, PayloadError> {
        let offset = self.offset;
        match self.byte()? {
            STRING => Ok(NewValue::String(self.bytes()?)),
            HASH => {
                let count = self.number()?;
                let mut fields = Fields::default();
                for _ in 0..count {
                    let (field, value) = (self.bytes()?, self.bytes()?);
                    fields.set(field, value, self.hash_seed);
                }
                if fields.is_empty() {
                    return Err(PayloadError {
                        offset,
                        kind: PayloadErrorKind::Number,
                    });
                }
                Ok(NewValue::Hash(fields))
            }
            other => Err(PayloadError {
                offset,
                kind: PayloadErrorKind::ValueType(other),
            }),
        }
    }

    fn database(&mut self) -> Result<u8, PayloadError> {
        let offset = self.offset;
        let database = self.byte()?;
        if database < DATABASES {
            return Ok(database);
        }
        Err(PayloadError {
            offset,
            kind: PayloadErrorKind::Database(database),
        })
    }

    fn deadline(&mut self) -> Result<Deadline, PayloadError> {
        let bytes = self.take(size_of::<u64>())?;
        let bits = bytes
            .iter()
            .rev()
            .fold(0, |sum: u64, &byte| (sum << 8) | u64::from(byte));
        let deadline = Deadline::from_bits(bits);
        // Earlier releases counted in nanoseconds to the end.
        if self.has_nanos_only && deadline.is_far() {
            return Ok(Deadline::at_nanos(u128::from(bits)));
        }
        Ok(deadline)
    }

    fn bytes(&mut self) -> Result<&'a [u8], PayloadError> {
        let length = self.number()?;
        self.take(length)
    }

    fn number(&mut self) -> Result<usize, PayloadError> {
        let offset = self.offset;
        let mut number: u64 = 0;
        for shift in (0..NUMBER_BITS_MAX).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let too_large = PayloadError {
                    offset,
                    kind: PayloadErrorKind::Number,
                };
                return usize::try_from(number).map_err(|_| too_large);
            }
        }
        Err(PayloadError {
            offset,
            kind: PayloadErrorKind::Number,
        })
    }

    fn byte(&mut self) -> Result<u8, PayloadError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], PayloadError> {
        let rest = self.payload.get(self.offset..).unwrap_or_default();
        let Some(bytes) = rest.get(..length) else {
            let kind = PayloadErrorKind::Truncated;
            return Err(PayloadError {
                offset: self.offset,
                kind,
            });
        };
        self.offset = self.offset.saturating_add(length);
        Ok(bytes)
    }
}

impl<'a> Iterator for Mutations<'a> {
    type Item = Result<Mutation<'a>, PayloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.payload.len() {
            return None;
        }
        let mutation = self.mutation();
        if mutation.is_err() {
            self.offset = self.payload.len();
        }
        Some(mutation)
    }
}

/// The version of the encoding, the first byte of every payload.
const VERSION: u8 = 1;
/// The same with deadlines from 2^63 on in milliseconds; only where there is such a deadline.
const VERSION_FAR: u8 = 2;

const REPLACE: u8 = 1;
const SET_DEADLINE: u8 = 2;
const HASH_SET: u8 = 3;
const HASH_DELETE: u8 = 4;
const DELETE: u8 = 5;
const FLUSH_DATABASE: u8 = 6;
const FLUSH_ALL: u8 = 7;

/// Which type of value.
const TYPE_BYTES: usize = 1;

/// Which mutation, and the database.
const MARK_BYTES: usize = 2;

const STRING: u8 = 1;
const HASH: u8 = 2;

/// Five groups of seven bits: no length comes near.
const NUMBER_BITS_MAX: u32 = 35;

#[cfg(test)]
#[path = "mutation_tests.rs"]
mod tests;
