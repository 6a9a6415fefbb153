//! The whole state as mutations, part by part, for the compaction of the log.
//!
//! Parts are taken between requests while keys change. That is sound because every part holds
//! whole keys: a change that is logged after a part is replayed on top of it, and a change of a key
//! that no part has held yet is contained in the later part.

use crate::keyspace::Keyspace;
use crate::mutation;

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
    let places = (bytes / BYTES_PER_PLACE).clamp(1, u32::MAX as usize);
    let places = u32::try_from(places).expect("just cut");
    let last = cursor.0.saturating_add(places).min(end);
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

/// A part looks at one place for so many of its bytes, so that free places do not make it long.
const BYTES_PER_PLACE: usize = 16;
