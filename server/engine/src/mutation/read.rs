//! Bytes become mutations again, whatever the bytes are.

use crate::keyspace::DATABASES;
use crate::keyspace::collection::Collection;
use crate::keyspace::fields::Fields;
use crate::keyspace::list::{End, List};
use crate::keyspace::members::Members;
use crate::keyspace::shared_holders::SharedHolders;
use crate::keyspace::sorted_set::SortedSet;
use crate::mutation::{
    CHANGE_LAST, DELETE, FLUSH_ALL, FLUSH_DATABASE, HASH, LIST, Mutation, NewValue, PART,
    PayloadError, PayloadErrorKind, REPLACE, SAME_KEY, SET, SET_DEADLINE, SHARED_LAST, SHARED_LOCK,
    SORTED_SET, STRING, SWAP_DATABASES, VERSION, VERSION_COLLECTIONS, VERSION_PARTS,
    VERSION_SHARED, VERSION_SWAPS,
};
use crate::time::Deadline;

/// Reads the mutations of a payload, front to back. After an error it ends. What the payload's
/// version does not have is refused.
#[derive(Debug)]
pub struct Mutations<'a> {
    payload: &'a [u8],
    offset: usize,
    hash_seed: u64,
    /// The database and key of the mutation before.
    before: Option<(u8, &'a [u8])>,
    version: u8,
}

impl<'a> Mutations<'a> {
    /// `hash_seed` is for the index of large hashes: fields that were chosen to collide must not make
    /// one slow to read.
    ///
    /// # Errors
    /// If the payload was written by a version with another layout.
    pub fn of(payload: &'a [u8], hash_seed: u64) -> Result<Mutations<'a>, PayloadError> {
        let version = payload.first().copied().unwrap_or(VERSION);
        if !(VERSION..=VERSION_SHARED).contains(&version) {
            return Err(PayloadError {
                offset: 0,
                kind: PayloadErrorKind::Version(version),
            });
        }
        Ok(Mutations {
            payload,
            offset: usize::from(!payload.is_empty()),
            hash_seed,
            before: None,
            version,
        })
    }

    /// The mutations from this offset on, where one begins. The payload is one that this version has written.
    pub(crate) fn of_rest(payload: &'a [u8], offset: usize, hash_seed: u64) -> Mutations<'a> {
        Mutations {
            payload,
            offset: offset.max(usize::from(!payload.is_empty())),
            hash_seed,
            before: None,
            version: payload.first().copied().unwrap_or(VERSION),
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
        let unknown = PayloadError {
            offset,
            kind: PayloadErrorKind::Mutation(mutation),
        };
        if let Some(change) = mutation.checked_sub(SAME_KEY) {
            let is_known = change > FLUSH_ALL && change <= self.mutation_last();
            let is_there = self.has_collections() && is_known;
            let before = self.before.filter(|_| is_there);
            let (database, key) = before.ok_or(unknown)?;
            let change = self.change(change)?.ok_or(unknown)?;
            return Ok(Mutation::Change {
                database,
                key,
                change,
            });
        }
        if mutation == 0 || mutation > self.mutation_last() {
            return Err(unknown);
        }
        let database = self.database()?;
        if mutation == FLUSH_DATABASE {
            return Ok(Mutation::FlushDatabase { database });
        }
        if mutation == SWAP_DATABASES {
            let both = [database, self.database()?];
            return Ok(Mutation::SwapDatabases { both });
        }
        let key = self.bytes()?;
        self.before = Some((database, key));
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
            DELETE => Mutation::Delete { database, key },
            PART => self.part(database, key)?,
            change => Mutation::Change {
                database,
                key,
                change: self.change(change)?.ok_or(unknown)?,
            },
        })
    }

    fn part(&mut self, database: u8, key: &'a [u8]) -> Result<Mutation<'a>, PayloadError> {
        let deadline = self.deadline()?;
        let (absent, offset) = (self.number()?, self.offset);
        let NewValue::Collection(part) = self.value()? else {
            let kind = PayloadErrorKind::Part;
            return Err(PayloadError { offset, kind });
        };
        Ok(Mutation::Part {
            database,
            key,
            part,
            absent,
            deadline,
        })
    }

    /// The last number of a mutation that this version has.
    fn mutation_last(&self) -> u8 {
        match self.version {
            VERSION_SHARED => SHARED_LAST,
            VERSION_SWAPS => SWAP_DATABASES,
            VERSION_PARTS => PART,
            VERSION_COLLECTIONS => CHANGE_LAST,
            _ => FLUSH_ALL,
        }
    }

    fn has_collections(&self) -> bool {
        self.version >= VERSION_COLLECTIONS
    }

    fn value(&mut self) -> Result<NewValue<'a>, PayloadError> {
        let offset = self.offset;
        match self.byte()? {
            STRING => Ok(NewValue::String(self.bytes()?)),
            HASH => self.collection(offset),
            LIST | SET | SORTED_SET if self.has_collections() => self.collection(offset),
            SHARED_LOCK if self.version >= VERSION_SHARED => self.collection(offset),
            other => Err(PayloadError {
                offset,
                kind: PayloadErrorKind::ValueType(other),
            }),
        }
    }

    /// A collection whose type was at `offset`.
    fn collection(&mut self, offset: usize) -> Result<NewValue<'a>, PayloadError> {
        let value_type = self.payload[offset];
        let count = self.number()?;
        let collection = match value_type {
            HASH => {
                let mut fields = Fields::default();
                for _ in 0..count {
                    let (field, value) = (self.bytes()?, self.bytes()?);
                    fields.set(field, value, self.hash_seed);
                }
                Collection::from(fields)
            }
            LIST => {
                let mut list = List::default();
                for _ in 0..count {
                    list.push(End::Right, self.bytes()?.into());
                }
                Collection::from(list)
            }
            SET => {
                let mut members = Members::default();
                for _ in 0..count {
                    members.add(self.bytes()?, self.hash_seed);
                }
                Collection::from(members)
            }
            SHARED_LOCK => {
                let mut holders = SharedHolders::default();
                for _ in 0..count {
                    let end = self.deadline()?;
                    holders.set(self.bytes()?, end, self.hash_seed);
                }
                Collection::from(holders)
            }
            _ => {
                let mut set = SortedSet::default();
                for _ in 0..count {
                    let score = self.score()?;
                    set.set(self.bytes()?, score, self.hash_seed);
                }
                Collection::from(set)
            }
        };
        if collection.is_empty() {
            return Err(PayloadError {
                offset,
                kind: PayloadErrorKind::Number,
            });
        }
        Ok(NewValue::Collection(collection))
    }

    /// A score, which is a number.
    pub(super) fn score(&mut self) -> Result<f64, PayloadError> {
        let offset = self.offset;
        let score = f64::from_bits(self.eight_bytes()?);
        if score.is_nan() {
            return Err(PayloadError {
                offset,
                kind: PayloadErrorKind::Number,
            });
        }
        Ok(score)
    }

    fn eight_bytes(&mut self) -> Result<u64, PayloadError> {
        let bytes = self.take(size_of::<u64>())?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |sum: u64, &byte| (sum << 8) | u64::from(byte)))
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

    pub(super) fn deadline(&mut self) -> Result<Deadline, PayloadError> {
        let bits = self.eight_bytes()?;
        let deadline = Deadline::from_bits(bits);
        // Earlier releases counted in nanoseconds to the end.
        if self.version == VERSION && deadline.is_far() {
            return Ok(Deadline::at_nanos(u128::from(bits)));
        }
        Ok(deadline)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], PayloadError> {
        let length = self.number()?;
        self.take(length)
    }

    pub(super) fn number(&mut self) -> Result<usize, PayloadError> {
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

/// Five groups of seven bits: no length comes near.
const NUMBER_BITS_MAX: u32 = 35;
