//! The entries, in chunks that never move. Each database has chunks of its own, and is known here by the number in its
//! entries (`databases.rs`).
//!
//! Invariant: every slot below a database's end holds an entry or is in its list of free slots. Growing means
//! one more chunk and no copying. Free slots are reused last in, first out, so that an undone script puts deleted keys
//! back into the same slots. A database whose slots are mostly free gives its last slot away, step by step: an entry
//! only ever moves to a lower offset, which is why scans go from the highest to the lowest. When to do so, and who else
//! knows an entry by its slot, is decided elsewhere.

use crate::capacity::capacity_after;
use crate::keyspace::entry::{Body, DATABASES, Entry, NONE, Slot};
use crate::position::LogPosition;
use crate::time::Deadline;

/// Entries by slot.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Vec<Entry>>,
    /// Numbers of chunks that no database has.
    spare: Vec<u32>,
    /// Elsewhere, as are the keyspace's counts: the whole is moved out and back for each script.
    regions: Box<[Region; DATABASES as usize]>,
    /// What all entries take with what belongs to them.
    memory: usize,
    /// The databases that were sparse when a key left them, one bit each.
    sparse: u16,
}

/// The slots of one database. Offsets count them from 0 on.
#[derive(Debug)]
struct Region {
    chunks: Vec<u32>,
    /// One more than the highest offset.
    end: u32,
    /// How many slots hold an entry.
    used: u32,
    /// The first free slot. The entries of free slots are linked in both directions.
    free: Slot,
}

impl Default for Region {
    fn default() -> Region {
        Region {
            chunks: Vec::new(),
            end: 0,
            used: 0,
            free: NONE,
        }
    }
}

impl Region {
    fn slot_at(&self, offset: u32) -> Slot {
        let chunk = self.chunks[chunk_of(offset)];
        first_slot(chunk) | (offset % CHUNK_ENTRIES)
    }

    /// Whether its chunks have no slot beyond its end.
    fn is_at_end(&self) -> bool {
        self.chunks.len() == chunk_of(self.end)
    }

    /// Nothing or less than half of it is used. After a key has left it takes two steps at most until that is no longer so.
    fn is_sparse(&self) -> bool {
        let is_empty = self.used == 0 && self.end > 0;
        is_empty || (self.end > SLOTS_KEPT && self.used < self.end / 2)
    }
}

impl Slab {
    /// Stores an entry in its database. `None` when there is no slot left.
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<Slot> {
        let database = usize::from(entry.number());
        let memory = entry.memory();
        let slot = match self.regions[database].free {
            NONE => self.append(database, entry)?,
            slot => {
                self.unlink(database, slot);
                *self.get_mut(slot) = entry;
                slot
            }
        };
        let region = &mut self.regions[database];
        region.used = region.used.saturating_add(1);
        self.memory = self.memory.saturating_add(memory);
        Some(slot)
    }

    fn append(&mut self, database: usize, entry: Entry) -> Option<Slot> {
        if self.regions[database].is_at_end() {
            self.add_chunk(database)?;
        }
        let region = &mut self.regions[database];
        let slot = region.slot_at(region.end);
        region.end = region.end.saturating_add(1);
        self.chunks[chunk_of(slot)].push(entry);
        Some(slot)
    }

    fn add_chunk(&mut self, database: usize) -> Option<()> {
        let number = match self.spare.pop() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.chunks.len()).ok();
                let number = number.filter(|&number| number < CHUNKS_MAX)?;
                self.chunks.push(Vec::new());
                number
            }
        };
        let region = &mut self.regions[database];
        // The first chunk is small, so that an idle node stays small.
        if !region.chunks.is_empty() {
            self.chunks[number as usize] = Vec::with_capacity(CHUNK_ENTRIES as usize);
        }
        region.chunks.push(number);
        Some(())
    }

    /// Takes an entry out; its slot may be used again.
    pub(crate) fn remove(&mut self, slot: Slot) -> Entry {
        let database = self.get(slot).number();
        let region = &mut self.regions[usize::from(database)];
        let next = std::mem::replace(&mut region.free, slot);
        region.used = region.used.saturating_sub(1);
        if region.is_sparse() {
            self.sparse |= 1 << database;
        }
        if next != NONE {
            self.get_mut(next).previous = slot;
        }
        let mut vacant = Entry::new(database, Body::Vacant, Deadline::NEVER, LogPosition::ZERO);
        vacant.next = next;
        let entry = std::mem::replace(self.get_mut(slot), vacant);
        self.memory = self.memory.saturating_sub(entry.memory());
        entry
    }

    /// Changes what an entry holds, by any means.
    pub(crate) fn change<T>(&mut self, slot: Slot, change: impl FnOnce(&mut Body) -> T) -> T {
        let entry = self.get_mut(slot);
        let before = entry.memory();
        let changed = change(&mut entry.body);
        let after = entry.memory();
        self.memory = self.memory.saturating_sub(before).saturating_add(after);
        changed
    }

    /// What all entries take with what belongs to them, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Takes a slot out of the list of free ones.
    fn unlink(&mut self, database: usize, slot: Slot) {
        let vacant = self.get(slot);
        let (previous, next) = (vacant.previous, vacant.next);
        if next != NONE {
            self.get_mut(next).previous = previous;
        }
        match previous {
            NONE => self.regions[database].free = next,
            previous => self.get_mut(previous).next = next,
        }
    }

    /// The entry of a slot that may have been given away.
    pub(crate) fn find(&self, slot: Slot) -> Option<&Entry> {
        self.chunks.get(chunk_of(slot))?.get(offset_of(slot))
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Entry {
        &self.chunks[chunk_of(slot)][offset_of(slot)]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.chunks[chunk_of(slot)][offset_of(slot)]
    }

    /// Whether there is no slot left for another key of this database.
    pub(crate) fn is_full(&self, database: u8) -> bool {
        let region = &self.regions[usize::from(database)];
        region.free == NONE && region.is_at_end() && !self.has_unused(1)
    }

    /// Whether so many slots are in chunks that no database has; those that are free in others are not counted.
    pub(crate) fn has_unused(&self, count: usize) -> bool {
        let taken = self.chunks.len().saturating_sub(self.spare.len());
        let unused = (CHUNKS_MAX as usize).saturating_sub(taken);
        unused.saturating_mul(CHUNK_ENTRIES as usize) >= count
    }

    /// One more than the highest offset of a database.
    pub(crate) fn end(&self, database: u8) -> u32 {
        self.regions[usize::from(database)].end
    }

    /// The slot at an offset of a database, which is below its end.
    pub(crate) fn slot_at(&self, database: u8, offset: u32) -> Slot {
        self.regions[usize::from(database)].slot_at(offset)
    }

    /// The entries of a database that are in use, with their slots.
    pub(crate) fn iter(&self, database: u8) -> impl Iterator<Item = (Slot, &Entry)> {
        (0..self.end(database))
            .map(move |offset| self.slot_at(database, offset))
            .map(|slot| (slot, self.get(slot)))
            .filter(|(_, entry)| !entry.is_vacant())
    }

    /// Whether a database may be sparse: asked for after every command.
    #[inline]
    pub(crate) fn may_be_sparse(&self) -> bool {
        self.sparse != 0
    }

    /// A database with more free slots than used ones.
    pub(crate) fn sparse(&mut self) -> Option<u8> {
        while self.sparse != 0 {
            let database = self.sparse.trailing_zeros();
            if self.regions[database as usize].is_sparse() {
                return u8::try_from(database).ok();
            }
            self.sparse &= !(1 << database);
        }
        None
    }

    /// Takes the last slot of a sparse database away. Says from where to where an entry has moved for that.
    pub(crate) fn shorten(&mut self, database: u8) -> Option<(Slot, Slot)> {
        let region = &mut self.regions[usize::from(database)];
        let last = region.slot_at(region.end.saturating_sub(1));
        region.end = region.end.saturating_sub(1);
        let is_vacant = self.get(last).is_vacant();
        // It is another one than the last, where that is in use.
        let to = match is_vacant {
            true => last,
            false => self.regions[usize::from(database)].free,
        };
        debug_assert_ne!(to, NONE, "most slots are free");
        self.unlink(usize::from(database), to);
        let number = chunk_of(last);
        let entry = self.chunks[number].pop()?;
        if !is_vacant {
            *self.get_mut(to) = entry;
        }
        self.shrink_chunk(database, number);
        (!is_vacant).then_some((last, to))
    }

    /// Gives back what the last chunk of a database has too much.
    fn shrink_chunk(&mut self, database: u8, number: usize) {
        let region = &mut self.regions[usize::from(database)];
        let chunk = &mut self.chunks[number];
        if chunk.is_empty() {
            *chunk = Vec::new();
            self.spare.extend(region.chunks.pop());
        } else if region.chunks.len() == 1
            && let Some(capacity) = capacity_after(chunk.len(), chunk.capacity())
        {
            chunk.shrink_to(capacity);
        }
    }

    /// Takes all slots of a database without keys, so that it is as new; `None` if it has any key.
    pub(crate) fn take_empty(&mut self, database: u8) -> Option<Vec<Vec<Entry>>> {
        let region = &mut self.regions[usize::from(database)];
        if region.used > 0 {
            return None;
        }
        let chunks = &mut self.chunks;
        if region.end <= SLOTS_KEPT {
            let kept = region.chunks.iter();
            kept.for_each(|&number| chunks[number as usize].clear());
            (region.end, region.free) = (0, NONE);
            return Some(Vec::new());
        }
        let numbers = std::mem::take(region).chunks;
        let taken = numbers.iter().rev();
        let taken = taken.map(|&number| std::mem::take(&mut chunks[number as usize]));
        let taken = taken.collect();
        self.spare.extend(numbers);
        Some(taken)
    }
}

/// Of a slot, or of an offset in a database.
fn chunk_of(slot: Slot) -> usize {
    (slot / CHUNK_ENTRIES) as usize
}

fn offset_of(slot: Slot) -> usize {
    (slot % CHUNK_ENTRIES) as usize
}

fn first_slot(chunk: u32) -> Slot {
    chunk.saturating_mul(CHUNK_ENTRIES)
}

/// 256 KiB per chunk.
const CHUNK_ENTRIES: u32 = 4096;

/// The wheel uses the numbers above for its own marks.
const CHUNKS_MAX: u32 = (1 << 31) / CHUNK_ENTRIES;

/// Slots for which memory is kept. SCAN looks at as many at once.
const SLOTS_KEPT: u32 = 128;
