//! Keys become mutations for a checkpoint, in parts that are taken between requests.
//!
//! That is sound because a part holds whole keys: a change that is logged after a part is replayed on top of it, and a
//! change of a key that no part has held yet is contained in the later part. Of a collection that is larger than a
//! part several parts hold a piece each; `keyspace/partial.rs` says why that is sound as well.

use crate::keyspace::Keyspace;
use crate::keyspace::entry::{Slot, ValueRef};
use crate::keyspace::partial::Partial;
use crate::mutation;

/// Where the next part begins. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCursor {
    slot: Slot,
    /// The part before this one took a piece of this slot's collection, and not the last.
    is_within: bool,
}

pub(crate) fn snapshot(
    keyspace: &mut Keyspace,
    cursor: SnapshotCursor,
    bytes: usize,
    out: &mut Vec<u8>,
) -> Option<SnapshotCursor> {
    out.clear();
    let end = keyspace.slots_end();
    let slots = (bytes / BYTES_PER_SLOT).clamp(1, u32::MAX as usize);
    let slots = u32::try_from(slots).expect("just cut");
    let last = cursor.slot.saturating_add(slots).min(end);
    for slot in cursor.slot..last {
        if out.len() >= bytes {
            return Some(SnapshotCursor {
                slot,
                is_within: false,
            });
        }
        let is_within = cursor.is_within && slot == cursor.slot;
        if take(keyspace, slot, is_within, bytes, out) == Taken::APiece {
            return Some(SnapshotCursor {
                slot,
                is_within: true,
            });
        }
    }
    (last < end).then_some(SnapshotCursor {
        slot: last,
        is_within: false,
    })
}

/// How much of a slot is in a snapshot now.
#[derive(PartialEq)]
enum Taken {
    All,
    APiece,
}

/// Adds what a slot holds, or the next piece of a collection larger than a part.
fn take(
    keyspace: &mut Keyspace,
    slot: Slot,
    is_within: bool,
    bytes: usize,
    out: &mut Vec<u8>,
) -> Taken {
    let entry = keyspace.entry(slot);
    let (database, deadline) = (keyspace.database_of(entry), entry.deadline);
    let collection = match entry.value() {
        _ if entry.is_vacant() => return Taken::All,
        ValueRef::Collection(collection) if collection.bytes() > bytes || is_within => collection,
        value => {
            mutation::encode_replace(out, database, entry.key(), value, deadline);
            return Taken::All;
        }
    };
    let untaken = match keyspace.partial.filter(|partial| partial.slot == slot) {
        Some(partial) if is_within => partial.absent.min(collection.len()),
        // Another key came into the slot: it was written since the snapshot began.
        None if is_within => return Taken::All,
        _ => collection.len(),
    };
    let mut first = untaken;
    let mut room = bytes.saturating_sub(out.len());
    while let Some(offset) = first.checked_sub(1)
        && (first == untaken || room > 0)
    {
        room = room.saturating_sub(collection.bytes_at(offset));
        first = offset;
    }
    if first < untaken {
        let piece = (collection, first..untaken);
        mutation::encode_part(out, database, entry.key(), piece, deadline);
    }
    keyspace.partial = (first > 0).then_some(Partial {
        slot,
        absent: first,
    });
    match first {
        0 => Taken::All,
        _ => Taken::APiece,
    }
}

/// A part looks at one slot for so many of its bytes, so that free slots do not make it long.
const BYTES_PER_SLOT: usize = 16;
