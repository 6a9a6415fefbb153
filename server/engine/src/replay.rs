//! Between the log and the keys: mutations become keys again.
//!
//! Replay takes absolute values only: nothing is computed and no clock is read, so that a replayed node
//! is what the running one was. A mutation of a key that is not there changes nothing; a payload that
//! cannot be read is an error.

use crate::keyspace::Keyspace;
use crate::keyspace::change::Change;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::{Body, ValueRef};
use crate::keyspace::partial::Partial;
use crate::mutation::{Mutation, Mutations, NewValue, PayloadError, PayloadErrorKind};
use crate::position::LogPosition;
use crate::time::Deadline;

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
        apply_one(keyspace, position, mutation?).map_err(|kind| PayloadError { offset, kind })?;
    }
}

fn apply_one(
    keyspace: &mut Keyspace,
    position: LogPosition,
    mutation: Mutation<'_>,
) -> Result<(), PayloadErrorKind> {
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
            let slot = keyspace.put(&found, body, deadline, position);
            let slot = slot.ok_or(PayloadErrorKind::Full)?;
            keyspace.holders.forget(slot);
            return Ok(());
        }
        Mutation::Part {
            database,
            key,
            part,
            absent,
            deadline,
        } => {
            return put_part(keyspace, position, (database, key), part, absent, deadline);
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
            return make_change(keyspace, position, (database, key), &change);
        }
        Mutation::Delete { database, key } => {
            let found = keyspace.locate_stored(database, key);
            if let Some(slot) = found.stored {
                keyspace.remove(found.hash, slot, position);
            }
        }
        Mutation::FlushDatabase { database } => keyspace.flush(Some(database), position),
        Mutation::FlushAll => keyspace.flush(None, position),
        Mutation::SwapDatabases { both } => keyspace.swap_databases(both, position),
    }
    Ok(())
}

/// Of a collection that is not there the first part makes one, and the others complete it.
fn put_part(
    keyspace: &mut Keyspace,
    position: LogPosition,
    (database, key): (u8, &[u8]),
    part: Collection,
    absent: usize,
    deadline: Deadline,
) -> Result<(), PayloadErrorKind> {
    let found = keyspace.locate_stored(database, key);
    if let Some(slot) = found.stored {
        let fits = keyspace.replay_part(slot, part, absent, position);
        return fits.then_some(()).ok_or(PayloadErrorKind::Part);
    }
    let slot = keyspace.put(&found, Body::collection(key, part), deadline, position);
    let slot = slot.ok_or(PayloadErrorKind::Full)?;
    keyspace.holders.forget(slot);
    keyspace.partial = (absent > 0).then_some(Partial { slot, absent });
    Ok(())
}

fn make_change(
    keyspace: &mut Keyspace,
    position: LogPosition,
    (database, key): (u8, &[u8]),
    change: &Change<'_>,
) -> Result<(), PayloadErrorKind> {
    let found = keyspace.locate_stored(database, key);
    let Some(slot) = found.stored else {
        return Ok(());
    };
    if !keyspace.replay_change(slot, change, position) {
        return Err(PayloadErrorKind::Part);
    }
    // Of a part nobody can say here whether anything is left.
    let is_whole = !keyspace.is_partial(slot);
    let is_empty = |value| matches!(value, ValueRef::Collection(left) if left.is_empty());
    if is_whole && is_empty(keyspace.value(slot)) {
        keyspace.remove(found.hash, slot, position);
    }
    Ok(())
}
