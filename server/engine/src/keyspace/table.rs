//! Elements that are found by their names, in the order in which they came while there are few.
//!
//! A small table is searched from front to back; a large one gets an index, and that of a very large one is many
//! small hash tables, so that growing one of them is short. Independent of keys, deadlines and the log.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::capacity::capacity_after;
use crate::links::shrink_if_sparse;

/// What a table finds by its name.
pub trait Named {
    /// What an element takes of memory beside its bytes.
    const MEMORY: usize;

    /// The name.
    fn name(&self) -> &[u8];

    /// Its bytes, with what their encoding adds at most.
    fn bytes(&self) -> usize;
}

/// Elements, no two of the same name.
#[derive(Clone, Debug)]
pub struct Table<T> {
    elements: Vec<T>,
    bytes: usize,
    index: Option<Box<TableIndex>>,
}

#[derive(Clone, Debug)]
struct TableIndex {
    /// One, or [`SHARDS`] of them.
    shards: Box<[HashTable<u32>]>,
    hasher: FixedState,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            elements: Vec::new(),
            bytes: 0,
            index: None,
        }
    }
}

impl<T: Named> Table<T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The bytes of all elements, with what their encoding adds at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of the element at an offset below the length.
    pub(crate) fn bytes_at(&self, offset: usize) -> usize {
        self.at(offset).map_or(0, T::bytes)
    }

    /// About how many bytes of memory the elements take.
    pub(crate) fn memory(&self) -> usize {
        let beside = self.len().saturating_mul(T::MEMORY);
        beside.saturating_add(self.bytes)
    }

    /// All elements.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.elements.iter()
    }

    /// The element at an offset. An element keeps its offset unless one is taken out; then the last
    /// one takes its offset, or in a small table all after it move up.
    pub(crate) fn at(&self, offset: usize) -> Option<&T> {
        self.elements.get(offset)
    }

    /// Changes the element at an offset below the length, but not its name.
    pub(crate) fn update<R>(&mut self, offset: usize, update: impl FnOnce(&mut T) -> R) -> R {
        let element = &mut self.elements[offset];
        let others = self.bytes.saturating_sub(element.bytes());
        let updated = update(element);
        self.bytes = others.saturating_add(element.bytes());
        updated
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&T> {
        self.offset(name).map(|offset| &self.elements[offset])
    }

    /// Whether an element of this name is there.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.offset(name).is_some()
    }

    /// Whether it is searched from front to back.
    pub(crate) fn is_small(&self) -> bool {
        self.index.is_none()
    }

    pub(crate) fn offset(&self, name: &[u8]) -> Option<usize> {
        match &self.index {
            None => self.elements.iter().position(|one| *one.name() == *name),
            Some(index) => index.find(&self.elements, name),
        }
    }

    /// Adds an element whose name is not there yet. `seed` is for the index of a large table.
    pub(crate) fn push(&mut self, element: T, seed: u64) {
        debug_assert!(self.offset(element.name()).is_none(), "a name comes once");
        let offset = offset_number(self.elements.len());
        self.bytes = self.bytes.saturating_add(element.bytes());
        self.elements.push(element);
        if let Some(index) = &mut self.index {
            index.insert(&self.elements, offset);
        } else {
            self.index_if_large(seed);
        }
    }

    /// Whether there is an index depends on nothing but the number of elements, and so does where an
    /// element goes when another is taken out: what is undone is where it was.
    fn index_if_large(&mut self, seed: u64) {
        if self.elements.len() > LINEAR_ELEMENTS_MAX {
            self.index = Some(Box::new(TableIndex::of(&self.elements, seed)));
        }
    }

    /// Takes the element of this name out, and says at which offset it was.
    pub(crate) fn take(&mut self, name: &[u8]) -> Option<(usize, T)> {
        let offset = self.offset(name)?;
        let element = match &mut self.index {
            None => self.elements.remove(offset),
            Some(index) => {
                let hash = index.remove(&self.elements, offset);
                let element = self.elements.swap_remove(offset);
                index.shrink(&self.elements, hash);
                element
            }
        };
        self.bytes = self.bytes.saturating_sub(element.bytes());
        if self.elements.len() <= LINEAR_ELEMENTS_MAX {
            self.index = None;
        }
        if let Some(capacity) = capacity_after(self.elements.len(), self.elements.capacity()) {
            self.elements.shrink_to(capacity);
        }
        Some((offset, element))
    }

    /// Puts an element back where it was taken out, so that all are where they were before. `seed` is
    /// as for [`Table::push`].
    pub(crate) fn put_back(&mut self, offset: usize, element: T, seed: u64) {
        let (last, offset) = (self.elements.len(), offset.min(self.elements.len()));
        self.bytes = self.bytes.saturating_add(element.bytes());
        if last < LINEAR_ELEMENTS_MAX {
            self.elements.insert(offset, element);
            return;
        }
        if let Some(index) = self.index.as_mut().filter(|_| offset < last) {
            index.renumber(&self.elements, offset, last);
        }
        self.elements.push(element);
        self.elements.swap(offset, last);
        match &mut self.index {
            Some(index) => index.insert(&self.elements, offset_number(offset)),
            None => self.index_if_large(seed),
        }
    }
}

impl TableIndex {
    fn of<T: Named>(elements: &[T], seed: u64) -> TableIndex {
        let mut index = TableIndex {
            shards: Box::new([HashTable::with_capacity(elements.len())]),
            hasher: FixedState::with_seed(seed),
        };
        for offset in 0..elements.len() {
            index.insert(elements, offset_number(offset));
        }
        index
    }

    fn hash(&self, name: &[u8]) -> u64 {
        hash_with(&self.hasher, name)
    }

    fn shard(&self, hash: u64) -> &HashTable<u32> {
        &self.shards[shard_of(hash, self.shards.len())]
    }

    fn shard_mut(&mut self, hash: u64) -> &mut HashTable<u32> {
        let number = shard_of(hash, self.shards.len());
        &mut self.shards[number]
    }

    fn find<T: Named>(&self, elements: &[T], name: &[u8]) -> Option<usize> {
        let matches = |&offset: &u32| *elements[offset as usize].name() == *name;
        let hash = self.hash(name);
        let found = self.shard(hash).find(hash, matches);
        found.map(|&offset| offset as usize)
    }

    fn insert<T: Named>(&mut self, elements: &[T], offset: u32) {
        if self.shards.len() == 1 && elements.len() > UNSHARDED_ELEMENTS_MAX {
            self.rehash(elements, SHARDS);
        }
        self.put(elements, offset);
    }

    fn put<T: Named>(&mut self, elements: &[T], offset: u32) {
        let hash = self.hash(elements[offset as usize].name());
        let number = shard_of(hash, self.shards.len());
        let hasher = &self.hasher;
        let hash_of = |&other: &u32| hash_with(hasher, elements[other as usize].name());
        self.shards[number].insert_unique(hash, offset, hash_of);
    }

    /// Makes so many tables of all.
    fn rehash<T: Named>(&mut self, elements: &[T], shards: usize) {
        let empty = (0..shards).map(|_| HashTable::new()).collect();
        let before = std::mem::replace(&mut self.shards, empty);
        for offset in before.into_iter().flatten() {
            self.put(elements, offset);
        }
    }

    /// Gives memory back after an element of this hash has left: of its table only, so that no removal takes long.
    fn shrink<T: Named>(&mut self, elements: &[T], hash: u64) {
        if self.shards.len() > 1 && elements.len() <= UNSHARDED_ELEMENTS_MAX / 4 {
            self.rehash(elements, 1);
        }
        let number = shard_of(hash, self.shards.len());
        let hasher = &self.hasher;
        let hash_of = |&other: &u32| hash_with(hasher, elements[other as usize].name());
        shrink_if_sparse(&mut self.shards[number], hash_of);
    }

    /// Forgets the element at `offset`, into which the last one is about to move, and returns its hash.
    fn remove<T: Named>(&mut self, elements: &[T], offset: usize) -> u64 {
        let last = elements.len().saturating_sub(1);
        let (hash, number) = (self.hash(elements[offset].name()), offset_number(offset));
        let shard = self.shard_mut(hash);
        if let Ok(occupied) = shard.find_entry(hash, |&other| other == number) {
            occupied.remove();
        }
        if last != offset {
            self.renumber(elements, last, offset);
        }
        hash
    }

    /// The element at one offset is about to move to another.
    fn renumber<T: Named>(&mut self, elements: &[T], from: usize, to: usize) {
        let (hash, number) = (self.hash(elements[from].name()), offset_number(from));
        let shard = self.shard_mut(hash);
        if let Some(moved) = shard.find_mut(hash, |&other| other == number) {
            *moved = offset_number(to);
        }
    }
}

/// A hash table uses the lowest and the highest bits; the shard is chosen by others.
fn shard_of(hash: u64, shards: usize) -> usize {
    // A power of two of them.
    let mask = shards.wrapping_sub(1) as u64;
    (hash >> 40 & mask) as usize
}

fn hash_with(hasher: &FixedState, name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(name);
    state.finish()
}

fn offset_number(offset: usize) -> u32 {
    u32::try_from(offset).expect("the bytes of a value are bounded far below 4 GiB")
}

/// Up to this many elements are searched without an index.
const LINEAR_ELEMENTS_MAX: usize = 64;

/// Up to this many the index is one hash table, which takes a fraction of a millisecond to make anew.
const UNSHARDED_ELEMENTS_MAX: usize = 8192;

/// Hash tables of a larger index: with a million elements, one of them takes about as long to grow.
const SHARDS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for Box<[u8]> {
        const MEMORY: usize = 0;

        fn name(&self) -> &[u8] {
            self
        }

        fn bytes(&self) -> usize {
            self.len()
        }
    }

    fn name(number: usize) -> Box<[u8]> {
        number.to_string().into_bytes().into()
    }

    #[test]
    fn a_table_that_was_large_once_gives_its_memory_back_and_finds_what_is_left() {
        let mut table = Table::default();
        (0..10_000).for_each(|number| table.push(name(number), 5));
        (100..10_000).for_each(|number| drop(table.take(&name(number))));
        assert!(table.elements.capacity() < 500);
        let shards = table.index.iter().flat_map(|index| &index.shards);
        let capacity: usize = shards.map(HashTable::capacity).sum();
        assert!(capacity < 900, "{capacity}");
        assert!((0..100).all(|number| table.find(&name(number)) == Some(&name(number))));
        assert!((100..200).all(|number| table.find(&name(number)).is_none()));
    }

    /// Around the sizes at which the index changes its form.
    #[test]
    fn elements_are_found_in_an_index_of_any_size_and_after_every_way_back() {
        for count in [
            LINEAR_ELEMENTS_MAX,
            UNSHARDED_ELEMENTS_MAX - 1,
            UNSHARDED_ELEMENTS_MAX,
            3 * UNSHARDED_ELEMENTS_MAX,
        ] {
            let mut table = Table::default();
            (0..count + 2).for_each(|number| table.push(name(number), 5));
            let before: Vec<_> = table.iter().cloned().collect();
            let is_as_before = |table: &Table<Box<[u8]>>| {
                let mut offsets = (0..count + 2).map(|offset| table.offset(&before[offset]));
                let is_found = (0..count + 2).all(|offset| offsets.next() == Some(Some(offset)));
                is_found && table.iter().eq(&before)
            };
            assert!(is_as_before(&table), "{count}");
            let taken: Vec<_> = (0..count)
                .step_by(3)
                .map(|number| table.take(&name(number)).unwrap())
                .collect();
            assert!(
                (0..count).all(|number| {
                    table.find(&name(number)).is_some() != number.is_multiple_of(3)
                })
            );
            for (offset, element) in taken.into_iter().rev() {
                table.put_back(offset, element, 5);
            }
            assert!(is_as_before(&table), "{count}");
        }
    }
}
