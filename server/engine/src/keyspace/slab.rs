//! The entries, in chunks that never move.
//!
//! Growing means one more chunk and no copying. Free slots are reused last in, first out, so that an
//! undone script puts deleted keys back into the same slots.

use crate::keyspace::entry::{Body, Entry, NONE, Slot};
use crate::position::LogPosition;
use crate::time::Deadline;

/// Entries by slot.
#[derive(Debug)]
pub(crate) struct Slab {
    chunks: Vec<Vec<Entry>>,
    free: Slot,
    end: Slot,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab {
            chunks: Vec::new(),
            free: NONE,
            end: 0,
        }
    }
}

impl Slab {
    /// Stores an entry. `None` when there is no slot left.
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<Slot> {
        if self.free != NONE {
            let slot = self.free;
            self.free = self.get(slot).next;
            *self.get_mut(slot) = entry;
            return Some(slot);
        }
        if self.is_full() {
            return None;
        }
        let slot = self.end;
        if offset_of(slot) == 0 {
            // The first chunk is small, so that an idle node stays small.
            let capacity = if slot == 0 { 0 } else { CHUNK_ENTRIES };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        self.chunks[chunk_of(slot)].push(entry);
        self.end = slot.saturating_add(1);
        Some(slot)
    }

    /// Takes an entry out; its slot may be used again.
    pub(crate) fn remove(&mut self, slot: Slot) -> Entry {
        let mut vacant = Entry::new(0, Body::Vacant, Deadline::NEVER, LogPosition::ZERO);
        vacant.next = self.free;
        self.free = slot;
        std::mem::replace(self.get_mut(slot), vacant)
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Entry {
        &self.chunks[chunk_of(slot)][offset_of(slot)]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.chunks[chunk_of(slot)][offset_of(slot)]
    }

    /// Whether there is no slot left.
    pub(crate) fn is_full(&self) -> bool {
        self.free == NONE && self.end == SLOTS_MAX
    }

    /// Whether so many slots were never used; those that are free again are not counted.
    pub(crate) fn has_unused(&self, count: usize) -> bool {
        SLOTS_MAX.saturating_sub(self.end) as usize >= count
    }

    /// One more than the highest slot ever used.
    pub(crate) fn end(&self) -> Slot {
        self.end
    }

    /// The entries that are in use, with their slots, from `start` on.
    pub(crate) fn iter_from(&self, start: Slot) -> impl Iterator<Item = (Slot, &Entry)> {
        (start..self.end)
            .map(|slot| (slot, self.get(slot)))
            .filter(|(_, entry)| !entry.is_vacant())
    }

    /// Whether to give its memory back takes long.
    pub(crate) fn is_large(&self) -> bool {
        self.chunks.len() > 1
    }
}

fn chunk_of(slot: Slot) -> usize {
    slot as usize / CHUNK_ENTRIES
}

fn offset_of(slot: Slot) -> usize {
    slot as usize % CHUNK_ENTRIES
}

/// 256 KiB per chunk.
const CHUNK_ENTRIES: usize = 4096;

/// The wheel uses the numbers above for its own marks.
const SLOTS_MAX: Slot = 1 << 31;
