//! Between the log and the keys: mutations become keys again, and keys become mutations for a
//! checkpoint.
//!
//! Replay takes absolute values only: nothing is computed and no clock is read, so that a replayed node
//! is what the running one was. A mutation of a key that is not there changes nothing; a payload that
//! cannot be read is an error.
//!
//! The parts of a snapshot are taken between requests while keys change. That is sound because every
//! part holds whole keys: a change that is logged after a part is replayed on top of it, and a change
//! of a key that no part has held yet is contained in the later part.

use crate::keyspace::Keyspace;
use crate::keyspace::entry::{Body, ValueRef};
use crate::mutation::{self, Mutation, Mutations, NewValue, PayloadError, PayloadErrorKind};
use crate::position::LogPosition;

pub(crate) fn apply(
    keyspace: &mut Keyspace,
    position: LogPosition,
    payload: &[u8],
) -> Result<(), PayloadError> {
    let mut mutations = Mutations::of(payload, keyspace.seed())?;
    loop {
        let offset = mutations.offset();
        let Some(mutation) = mutations.next() else {
            return Ok(());
        };
        if !apply_one(keyspace, position, mutation?) {
            return Err(PayloadError {
                offset,
                kind: PayloadErrorKind::Full,
            });
        }
    }
}

/// False if there is no room for the key.
fn apply_one(keyspace: &mut Keyspace, position: LogPosition, mutation: Mutation<'_>) -> bool {
    match mutation {
        Mutation::Replace {
            database,
            key,
            value,
            deadline,
        } => {
            let found = keyspace.locate_stored(database, key);
            let body = match value {
                NewValue::String(string) => Body::string(key, string),
                NewValue::Collection(collection) => Body::collection(key, collection),
            };
            return keyspace.put(&found, body, deadline, position);
        }
        Mutation::SetDeadline {
            database,
            key,
            deadline,
        } => {
            if let Some(slot) = keyspace.locate_stored(database, key).stored {
                keyspace.set_deadline(slot, deadline, position);
            }
        }
        Mutation::Change {
            database,
            key,
            change,
        } => {
            let found = keyspace.locate_stored(database, key);
            if let Some(slot) = found.stored {
                keyspace.change(slot, &change, position);
                if matches!(keyspace.value(slot), ValueRef::Collection(left) if left.is_empty()) {
                    keyspace.remove(found.hash, slot, position);
                }
            }
        }
        Mutation::Delete { database, key } => {
            let found = keyspace.locate_stored(database, key);
            if let Some(slot) = found.stored {
                keyspace.remove(found.hash, slot, position);
            }
        }
        Mutation::FlushDatabase { database } => keyspace.flush(Some(database), position),
        Mutation::FlushAll => keyspace.flush(None, position),
    }
    true
}

/// Where the next part begins. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCursor(u32);

pub(crate) fn snapshot(
    keyspace: &Keyspace,
    cursor: SnapshotCursor,
    bytes: usize,
    out: &mut Vec<u8>,
) -> Option<SnapshotCursor> {
    out.clear();
    let end = keyspace.slots_end();
    let slots = (bytes / BYTES_PER_SLOT).clamp(1, u32::MAX as usize);
    let slots = u32::try_from(slots).expect("just cut");
    let last = cursor.0.saturating_add(slots).min(end);
    for slot in cursor.0..last {
        if out.len() >= bytes {
            return Some(SnapshotCursor(slot));
        }
        let entry = keyspace.entry(slot);
        if !entry.is_vacant() {
            let (database, deadline) = (entry.database(), entry.deadline);
            mutation::encode_replace(out, database, entry.key(), entry.value(), deadline);
        }
    }
    (last < end).then_some(SnapshotCursor(last))
}

/// A part looks at one slot for so many of its bytes, so that free slots do not make it long.
const BYTES_PER_SLOT: usize = 16;
