//! The fields of a hash, in the order in which they came while it is small.

use std::ops::Deref;
use std::sync::Arc;

use crate::keyspace::table::{Named, Table};

/// Fields and their values.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    pairs: Table<Pair>,
}

/// A field and its value, which replies share. The count of a lock's holds, up to 8 bytes, takes no
/// more memory this way than in a box: both are the allocator's smallest piece.
#[derive(Clone, Debug)]
pub struct Pair {
    field: Box<[u8]>,
    value: Arc<[u8]>,
}

impl Named for Pair {
    /// The pair, two allocations with their counts, and its offset in the index of a large hash.
    const MEMORY: usize = size_of::<Pair>() + 48 - PAIR_OVERHEAD;

    fn name(&self) -> &[u8] {
        &self.field
    }

    fn bytes(&self) -> usize {
        pair_bytes(&self.field, &self.value)
    }
}

impl Deref for Fields {
    type Target = Table<Pair>;

    fn deref(&self) -> &Table<Pair> {
        &self.pairs
    }
}

impl Fields {
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

    /// Sets a field and returns what it held before. `seed` is for the index of a large hash.
    pub(crate) fn set(
        &mut self,
        field: &[u8],
        value: impl Into<Arc<[u8]>>,
        seed: u64,
    ) -> Option<Arc<[u8]>> {
        let value = value.into();
        if let Some(offset) = self.pairs.offset(field) {
            let replace = |pair: &mut Pair| std::mem::replace(&mut pair.value, value);
            return Some(self.pairs.update(offset, replace));
        }
        let field = field.into();
        self.pairs.push(Pair { field, value }, seed);
        None
    }

    /// Removes a field and returns its offset and what it held.
    pub(crate) fn take(&mut self, field: &[u8]) -> Option<(usize, Arc<[u8]>)> {
        let (offset, Pair { value, .. }) = self.pairs.take(field)?;
        Some((offset, value))
    }

    /// Puts a field back where it was taken, so that all fields are where they were before.
    pub(crate) fn put_back(&mut self, offset: usize, field: &[u8], value: Arc<[u8]>, seed: u64) {
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
