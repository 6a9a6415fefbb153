//! Changes of parts of collections as bytes.

use crate::keyspace::change::Change;
use crate::keyspace::list::End;
use crate::mutation::encode::{
    encode_bytes, encode_deadline, encode_number, encode_score, raise_version, start,
};
use crate::mutation::{Mutations, PayloadError, SAME_KEY, VERSION_COLLECTIONS, VERSION_SHARED};

/// Adds a change of a key. `is_first`: the mutation before is not of the same key.
pub(crate) fn encode_change(
    out: &mut Vec<u8>,
    database: u8,
    key: &[u8],
    change: &Change<'_>,
    is_first: bool,
) {
    let number = number_of(change);
    let is_of_hash = matches!(number, HASH_SET | HASH_DELETE);
    // Changes of hashes stay as earlier releases read them.
    if is_first || is_of_hash {
        start(out, number, database, key);
    } else {
        out.push(number | SAME_KEY);
    }
    match number {
        HASH_SET | HASH_DELETE => {}
        HOLDER_SET | HOLDER_REMOVE => raise_version(out, VERSION_SHARED),
        _ => raise_version(out, VERSION_COLLECTIONS),
    }
    match *change {
        Change::HashSet { field, value } => {
            encode_bytes(out, field);
            encode_bytes(out, value);
        }
        Change::HashDelete { field: name }
        | Change::ListPush { element: name, .. }
        | Change::SetAdd { member: name }
        | Change::SetRemove { member: name }
        | Change::ScoreRemove { member: name }
        | Change::HolderRemove { token: name } => encode_bytes(out, name),
        Change::ListPop { count, .. } => encode_number(out, count),
        Change::ListRotate { .. } => {}
        Change::ListSet { index, element } | Change::ListInsert { index, element } => {
            encode_number(out, index);
            encode_bytes(out, element);
        }
        Change::ListRemove { index } => encode_number(out, index),
        Change::ScoreSet { member, score } => {
            encode_score(out, score);
            encode_bytes(out, member);
        }
        Change::HolderSet { token, end } => {
            encode_deadline(out, end);
            encode_bytes(out, token);
        }
    }
}

/// At most how many bytes a change takes beside the key, and at most how much larger it makes a
/// collection.
pub(crate) fn bytes_of_change(key: &[u8], change: &Change<'_>) -> usize {
    let bytes = match *change {
        Change::HashSet { field, value } => {
            let bytes = field.len().saturating_add(value.len());
            bytes.saturating_add(key.len())
        }
        Change::HashDelete { field } => field.len().saturating_add(key.len()),
        Change::ListPush { element, .. }
        | Change::ListSet { element, .. }
        | Change::ListInsert { element, .. } => element.len(),
        Change::SetAdd { member }
        | Change::SetRemove { member }
        | Change::ScoreSet { member, .. }
        | Change::ScoreRemove { member } => member.len(),
        Change::HolderSet { token, .. } | Change::HolderRemove { token } => token.len(),
        Change::ListPop { .. } | Change::ListRotate { .. } | Change::ListRemove { .. } => 0,
    };
    bytes.saturating_add(CHANGE_BYTES_MAX)
}

fn number_of(change: &Change<'_>) -> u8 {
    match change {
        Change::HashSet { .. } => HASH_SET,
        Change::HashDelete { .. } => HASH_DELETE,
        Change::ListPush { end: End::Left, .. } => LIST_PUSH_LEFT,
        Change::ListPush { .. } => LIST_PUSH_RIGHT,
        Change::ListPop { end: End::Left, .. } => LIST_POP_LEFT,
        Change::ListPop { .. } => LIST_POP_RIGHT,
        Change::ListRotate { from: End::Left } => LIST_ROTATE_LEFT,
        Change::ListRotate { .. } => LIST_ROTATE_RIGHT,
        Change::ListSet { .. } => LIST_SET,
        Change::ListInsert { .. } => LIST_INSERT,
        Change::ListRemove { .. } => LIST_REMOVE,
        Change::SetAdd { .. } => SET_ADD,
        Change::SetRemove { .. } => SET_REMOVE,
        Change::ScoreSet { .. } => SCORE_SET,
        Change::ScoreRemove { .. } => SCORE_REMOVE,
        Change::HolderSet { .. } => HOLDER_SET,
        Change::HolderRemove { .. } => HOLDER_REMOVE,
    }
}

impl<'a> Mutations<'a> {
    /// What comes after a change's number; `None` for a number that is not a change's.
    pub(super) fn change(&mut self, number: u8) -> Result<Option<Change<'a>>, PayloadError> {
        Ok(Some(match number {
            HASH_SET => Change::HashSet {
                field: self.bytes()?,
                value: self.bytes()?,
            },
            HASH_DELETE => Change::HashDelete {
                field: self.bytes()?,
            },
            LIST_PUSH_LEFT | LIST_PUSH_RIGHT => Change::ListPush {
                end: end_of(number == LIST_PUSH_LEFT),
                element: self.bytes()?,
            },
            LIST_POP_LEFT | LIST_POP_RIGHT => Change::ListPop {
                end: end_of(number == LIST_POP_LEFT),
                count: self.number()?,
            },
            LIST_ROTATE_LEFT | LIST_ROTATE_RIGHT => Change::ListRotate {
                from: end_of(number == LIST_ROTATE_LEFT),
            },
            LIST_SET => Change::ListSet {
                index: self.number()?,
                element: self.bytes()?,
            },
            LIST_INSERT => Change::ListInsert {
                index: self.number()?,
                element: self.bytes()?,
            },
            LIST_REMOVE => Change::ListRemove {
                index: self.number()?,
            },
            SET_ADD => Change::SetAdd {
                member: self.bytes()?,
            },
            SET_REMOVE => Change::SetRemove {
                member: self.bytes()?,
            },
            SCORE_SET => {
                let score = self.score()?;
                Change::ScoreSet {
                    member: self.bytes()?,
                    score,
                }
            }
            SCORE_REMOVE => Change::ScoreRemove {
                member: self.bytes()?,
            },
            HOLDER_SET => {
                let end = self.deadline()?;
                Change::HolderSet {
                    token: self.bytes()?,
                    end,
                }
            }
            HOLDER_REMOVE => Change::HolderRemove {
                token: self.bytes()?,
            },
            _ => return Ok(None),
        }))
    }
}

fn end_of(is_left: bool) -> End {
    if is_left { End::Left } else { End::Right }
}

const HASH_SET: u8 = 3;
const HASH_DELETE: u8 = 4;
const LIST_PUSH_LEFT: u8 = 8;
const LIST_PUSH_RIGHT: u8 = 9;
const LIST_POP_LEFT: u8 = 10;
const LIST_POP_RIGHT: u8 = 11;
const LIST_ROTATE_LEFT: u8 = 12;
const LIST_ROTATE_RIGHT: u8 = 13;
const LIST_SET: u8 = 14;
const LIST_INSERT: u8 = 15;
const LIST_REMOVE: u8 = 16;
const SET_ADD: u8 = 17;
const SET_REMOVE: u8 = 18;
const SCORE_SET: u8 = 19;
const SCORE_REMOVE: u8 = 20;
pub(super) const LAST: u8 = SCORE_REMOVE;
const HOLDER_SET: u8 = 23;
const HOLDER_REMOVE: u8 = 24;
pub(super) const SHARED_LAST: u8 = HOLDER_REMOVE;

/// The number, the database, lengths, an index and a score; or two lengths in memory.
const CHANGE_BYTES_MAX: usize = 24;
