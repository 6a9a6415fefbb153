//! Keys become mutations for a checkpoint, in parts that are taken between requests.
//!
//! Slots are taken from the last to the first, since a key that moves gets one nearer to the first: it is not missed. What is
//! taken twice is harmless.
//!
//! That is sound because a part holds whole keys: a change that is logged after a part is replayed on top of it, and a
//! change of a key that no part has held yet is contained in the later part. Of a collection that is larger than a
//! part several parts hold a piece each; `keyspace/partial.rs` says why that is sound as well.

use crate::keyspace::Keyspace;
use crate::keyspace::entry::{DATABASES, Slot, ValueRef};
use crate::keyspace::partial::Partial;
use crate::mutation;

/// Where the next part begins. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCursor {
    /// The number in the database's entries: databases may be swapped between two parts.
    number: u8,
    /// How many of the database's slots are left, which are taken from the last to the first; `None` for all.
    left: Option<u32>,
    /// The part before this one took a piece of a collection, and not the last.
    is_within: bool,
}

pub(crate) fn snapshot(
    keyspace: &mut Keyspace,
    cursor: SnapshotCursor,
    bytes: usize,
    out: &mut Vec<u8>,
) -> Option<SnapshotCursor> {
    out.clear();
    // Wherever the collection is now; it is gone if another value was written since.
    if let Some(partial) = keyspace.partial.filter(|_| cursor.is_within)
        && take(keyspace, partial.slot, true, bytes, out) == SlotShare::APiece
    {
        return Some(cursor);
    }
    let mut looked_at = 0;
    for number in cursor.number..DATABASES {
        let slots = keyspace.slots(number);
        let left = cursor.left.filter(|_| number == cursor.number);
        let mut left = left.unwrap_or(slots).min(slots);
        while left > 0 {
            let next = |left, is_within| SnapshotCursor {
                number,
                left: Some(left),
                is_within,
            };
            // A step at least, so that every part goes on.
            if looked_at > 0 && (looked_at >= bytes / BYTES_PER_SLOT || out.len() >= bytes) {
                return Some(next(left, false));
            }
            looked_at = looked_at.saturating_add(1);
            left = left.saturating_sub(1);
            let slot = keyspace.slot_at(number, left);
            if take(keyspace, slot, false, bytes, out) == SlotShare::APiece {
                return Some(next(left, true));
            }
        }
    }
    None
}

/// How much of a slot is in a snapshot now.
#[derive(PartialEq)]
enum SlotShare {
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
) -> SlotShare {
    let entry = keyspace.entry(slot);
    let (database, deadline) = (keyspace.database_of(entry), entry.deadline);
    let collection = match entry.value() {
        _ if entry.is_vacant() => return SlotShare::All,
        ValueRef::Collection(collection) if collection.bytes() > bytes || is_within => collection,
        value => {
            mutation::encode_replace(out, database, entry.key(), value, deadline);
            return SlotShare::All;
        }
    };
    let untaken = match keyspace.partial.filter(|partial| partial.slot == slot) {
        Some(partial) if is_within => partial.absent.min(collection.len()),
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
        0 => SlotShare::All,
        _ => SlotShare::APiece,
    }
}

/// A part looks at one slot for so many of its bytes, so that free slots do not make it long.
const BYTES_PER_SLOT: usize = 16;
