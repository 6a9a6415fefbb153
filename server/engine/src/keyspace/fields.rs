//! The fields of a hash, in the order in which they came while it is small.

use std::sync::Arc;

use crate::keyspace::table::{Named, Table};

/// Fields and their values.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    pairs: Table<Pair>,
    bytes: usize,
}

/// A field and its value, which replies share. The count of a lock's holds, up to 8 bytes, takes no
/// more memory this way than in a box: both are the allocator's smallest piece.
#[derive(Clone, Debug)]
struct Pair {
    field: Box<[u8]>,
    value: Arc<[u8]>,
}

impl Named for Pair {
    fn name(&self) -> &[u8] {
        &self.field
    }
}

impl Fields {
    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        self.pairs.find(field).map(|pair| &pair.value)
    }

    /// The fields and what they hold.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Arc<[u8]>)> {
        self.pairs.iter().map(|pair| (&*pair.field, &pair.value))
    }

    /// The field at an offset, and what it holds. A field keeps its offset unless one is removed; then
    /// the last one takes its offset, or in a small hash all after it move up.
    pub(crate) fn at(&self, offset: usize) -> Option<(&[u8], &Arc<[u8]>)> {
        let pair = self.pairs.at(offset)?;
        Some((&pair.field, &pair.value))
    }

    /// Whether it is searched from front to back.
    pub(crate) fn is_small(&self) -> bool {
        self.pairs.is_small()
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
        let offset = self.pairs.offset(field);
        if let Some(pair) = offset.and_then(|offset| self.pairs.at_mut(offset)) {
            let old = std::mem::replace(&mut pair.value, value);
            self.bytes = self.bytes.saturating_sub(pair_bytes(field, &old));
            return Some(old);
        }
        let field = field.into();
        self.pairs.push(Pair { field, value }, seed);
        None
    }

    /// Removes a field and returns its offset and what it held.
    pub(crate) fn take(&mut self, field: &[u8]) -> Option<(usize, Arc<[u8]>)> {
        let (offset, Pair { value, .. }) = self.pairs.take(field)?;
        self.bytes = self.bytes.saturating_sub(pair_bytes(field, &value));
        Some((offset, value))
    }

    /// Puts a field back where it was taken, so that all fields are where they were before.
    pub(crate) fn put_back(&mut self, offset: usize, field: &[u8], value: Arc<[u8]>, seed: u64) {
        self.bytes = self.bytes.saturating_add(pair_bytes(field, &value));
        let field = field.into();
        self.pairs.put_back(offset, Pair { field, value }, seed);
    }
}

pub(super) fn pair_bytes(field: &[u8], value: &[u8]) -> usize {
    field
        .len()
        .saturating_add(value.len())
        .saturating_add(PAIR_OVERHEAD)
}

/// Two length prefixes in the journal.
const PAIR_OVERHEAD: usize = 10;

/// The pair, two allocations with their counts, and its offset in the index of a large hash.
const PAIR_MEMORY: usize = size_of::<Pair>() + 48;
