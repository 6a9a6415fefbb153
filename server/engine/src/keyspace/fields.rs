//! The fields of a hash, in the order in which they came while it is small.
//!
//! A small hash is searched from front to back; a large one gets an index. Independent of keys,
//! deadlines and the log.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashTable;

/// Fields and their values.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    pairs: Vec<Pair>,
    index: Option<Box<FieldIndex>>,
    bytes: usize,
}

/// A field and its value, which replies share. The count of a lock's holds, up to 8 bytes, takes no
/// more memory this way than in a box: both are the allocator's smallest piece.
#[derive(Clone, Debug)]
struct Pair {
    field: Box<[u8]>,
    value: Arc<[u8]>,
}

#[derive(Clone, Debug)]
struct FieldIndex {
    offsets: HashTable<u32>,
    hasher: FixedState,
}

impl Fields {
    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The bytes of all fields and values, with what their encoding adds at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// About how many bytes of memory they take.
    pub(crate) fn memory(&self) -> usize {
        let beside = PAIR_MEMORY.saturating_sub(PAIR_OVERHEAD);
        let pairs = self.pairs.len().saturating_mul(beside);
        pairs
            .saturating_add(self.bytes)
            .saturating_add(size_of::<Fields>())
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Arc<[u8]>> {
        self.offset(field).map(|offset| &self.pairs[offset].value)
    }

    /// The fields and what they hold.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Arc<[u8]>)> {
        self.pairs.iter().map(|pair| (&*pair.field, &pair.value))
    }

    /// The field at an offset, and what it holds. A field keeps its offset unless one is removed; then
    /// the last one takes its offset, or in a small hash all after it move up.
    pub(crate) fn at(&self, offset: usize) -> Option<(&[u8], &Arc<[u8]>)> {
        let pair = self.pairs.get(offset)?;
        Some((&pair.field, &pair.value))
    }

    /// Whether it is searched from front to back.
    pub(crate) fn is_small(&self) -> bool {
        self.index.is_none()
    }

    /// Sets a field and returns what it held before. `seed` is for the index of a large hash.
    pub(crate) fn set(
        &mut self,
        field: &[u8],
        value: impl Into<Arc<[u8]>>,
        seed: u64,
    ) -> Option<Arc<[u8]>> {
        let value = value.into();
        self.bytes = self.bytes.saturating_add(pair_bytes(field, &value));
        if let Some(offset) = self.offset(field) {
            let old = std::mem::replace(&mut self.pairs[offset].value, value);
            self.bytes = self.bytes.saturating_sub(pair_bytes(field, &old));
            return Some(old);
        }
        let offset = offset_number(self.pairs.len());
        self.pairs.push(Pair {
            field: field.into(),
            value,
        });
        if let Some(index) = &mut self.index {
            index.insert(&self.pairs, offset);
        } else if self.pairs.len() > LINEAR_FIELDS_MAX {
            self.index = Some(Box::new(FieldIndex::of(&self.pairs, seed)));
        }
        None
    }

    /// What [`Fields::bytes`] will be at most when these fields have been set: fields and
    /// values alternate, and the same field may come twice. Beyond `limit` it is exact.
    pub(crate) fn bytes_after(&self, pairs: &[&[u8]], limit: usize, seed: u64) -> usize {
        let added = pairs
            .chunks_exact(2)
            .map(|pair| pair_bytes(pair[0], pair[1]));
        let most = added.fold(self.bytes, usize::saturating_add);
        if most <= limit {
            return most;
        }
        let replaced = |field: &[u8]| self.get(field).map_or(0, |old| pair_bytes(field, old));
        let mut set = Fields::default();
        for pair in pairs.chunks_exact(2) {
            set.set(pair[0], pair[1], seed);
        }
        let replaced = set.iter().map(|(field, _)| replaced(field)).sum();
        self.bytes
            .saturating_add(set.bytes)
            .saturating_sub(replaced)
    }

    /// Removes a field and returns what it held.
    pub(crate) fn remove(&mut self, field: &[u8]) -> Option<Arc<[u8]>> {
        self.take(field).map(|(_, value)| value)
    }

    /// Removes a field and returns its offset and what it held.
    pub(crate) fn take(&mut self, field: &[u8]) -> Option<(usize, Arc<[u8]>)> {
        let offset = self.offset(field)?;
        let Pair { field, value } = match &mut self.index {
            None => self.pairs.remove(offset),
            Some(index) => {
                index.remove(&self.pairs, offset);
                self.pairs.swap_remove(offset)
            }
        };
        self.bytes = self.bytes.saturating_sub(pair_bytes(&field, &value));
        Some((offset, value))
    }

    /// Puts a field back where it was taken, so that all fields are where they were before.
    pub(crate) fn put_back(&mut self, offset: usize, field: &[u8], value: Arc<[u8]>) {
        self.bytes = self.bytes.saturating_add(pair_bytes(field, &value));
        let field = field.into();
        let (last, offset) = (self.pairs.len(), offset.min(self.pairs.len()));
        let Some(index) = &mut self.index else {
            self.pairs.insert(offset, Pair { field, value });
            return;
        };
        if offset < last {
            index.renumber(&self.pairs, offset, last);
        }
        self.pairs.push(Pair { field, value });
        self.pairs.swap(offset, last);
        index.insert(&self.pairs, offset_number(offset));
    }

    fn offset(&self, field: &[u8]) -> Option<usize> {
        match &self.index {
            None => self.pairs.iter().position(|pair| *pair.field == *field),
            Some(index) => index.find(&self.pairs, field),
        }
    }
}

impl FieldIndex {
    fn of(pairs: &[Pair], seed: u64) -> FieldIndex {
        let offsets = HashTable::with_capacity(pairs.len());
        let mut index = FieldIndex {
            offsets,
            hasher: FixedState::with_seed(seed),
        };
        for offset in 0..pairs.len() {
            index.insert(pairs, offset_number(offset));
        }
        index
    }

    fn hash(&self, field: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(field);
        hasher.finish()
    }

    fn find(&self, pairs: &[Pair], field: &[u8]) -> Option<usize> {
        let matches = |&offset: &u32| *pairs[offset as usize].field == *field;
        self.offsets
            .find(self.hash(field), matches)
            .map(|&offset| offset as usize)
    }

    fn insert(&mut self, pairs: &[Pair], offset: u32) {
        let hash = self.hash(&pairs[offset as usize].field);
        let hasher = &self.hasher;
        self.offsets.insert_unique(hash, offset, |&other| {
            let mut state = hasher.build_hasher();
            state.write(&pairs[other as usize].field);
            state.finish()
        });
    }

    /// Forgets the field at `offset`, into which the last field is about to move.
    fn remove(&mut self, pairs: &[Pair], offset: usize) {
        let last = pairs.len().saturating_sub(1);
        let (hash, number) = (self.hash(&pairs[offset].field), offset_number(offset));
        if let Ok(occupied) = self.offsets.find_entry(hash, |&other| other == number) {
            occupied.remove();
        }
        if last != offset {
            self.renumber(pairs, last, offset);
        }
    }

    /// The field at one offset is about to move to another.
    fn renumber(&mut self, pairs: &[Pair], from: usize, to: usize) {
        let (hash, number) = (self.hash(&pairs[from].field), offset_number(from));
        if let Some(moved) = self.offsets.find_mut(hash, |&other| other == number) {
            *moved = offset_number(to);
        }
    }
}

fn offset_number(offset: usize) -> u32 {
    u32::try_from(offset).expect("the bytes of a hash are bounded far below 4 GiB")
}

fn pair_bytes(field: &[u8], value: &[u8]) -> usize {
    field
        .len()
        .saturating_add(value.len())
        .saturating_add(PAIR_OVERHEAD)
}

/// Up to this many fields are searched without an index.
const LINEAR_FIELDS_MAX: usize = 64;

/// Two length prefixes in the journal.
const PAIR_OVERHEAD: usize = 10;

/// The pair, two allocations with their counts, and its offset in the index of a large hash.
const PAIR_MEMORY: usize = size_of::<Pair>() + 48;
