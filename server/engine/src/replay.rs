//! Replay: mutations from the log become keys again.
//!
//! Post-images only: nothing is computed and no clock is asked, so that a replayed node is what the
//! running one was. What makes no sense is passed over; what cannot be read is an error.

use crate::keyspace::Keyspace;
use crate::keyspace::entry::{Body, ValueRef};
use crate::mutation::{Mutation, Mutations, NewValue, PayloadError, PayloadErrorKind};

pub(crate) fn apply(
    keyspace: &mut Keyspace,
    position: u64,
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
fn apply_one(keyspace: &mut Keyspace, position: u64, mutation: Mutation<'_>) -> bool {
    match mutation {
        Mutation::Replace {
            database,
            key,
            value,
            deadline,
        } => {
            let place = keyspace.locate_stored(database, key);
            let body = match value {
                NewValue::String(string) => Body::string(key, string),
                NewValue::Hash(fields) => Body::hash(key, fields),
            };
            return keyspace.put(&place, body, deadline, position);
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
        Mutation::HashSet {
            database,
            key,
            field,
            value,
        } => {
            if let Some(slot) = keyspace.locate_stored(database, key).stored {
                keyspace.set_field(slot, field, value, position);
            }
        }
        Mutation::HashDelete {
            database,
            key,
            field,
        } => {
            let place = keyspace.locate_stored(database, key);
            if let Some(slot) = place.stored {
                keyspace.remove_field(slot, field, position);
                if matches!(keyspace.value(slot), ValueRef::Hash(fields) if fields.is_empty()) {
                    keyspace.remove(place.hash, slot, position);
                }
            }
        }
        Mutation::Delete { database, key } => {
            let place = keyspace.locate_stored(database, key);
            if let Some(slot) = place.stored {
                keyspace.remove(place.hash, slot, position);
            }
        }
        Mutation::FlushDatabase { database } => keyspace.flush(Some(database), position),
        Mutation::FlushAll => keyspace.flush(None, position),
    }
    true
}
