//! Elements that are found by their names, in the order in which they came while there are few.
//!
//! A small table is searched from front to back; a large one gets an index. Independent of keys,
//! deadlines and the log.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

/// What a table finds by its name.
pub(crate) trait Named {
    fn name(&self) -> &[u8];
}

/// Elements, no two of the same name.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    elements: Vec<T>,
    index: Option<Box<Index>>,
}

#[derive(Clone, Debug)]
struct Index {
    offsets: HashTable<u32>,
    hasher: FixedState,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            elements: Vec::new(),
            index: None,
        }
    }
}

impl<T: Named> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.elements.iter()
    }

    /// The element at an offset. An element keeps its offset unless one is taken out; then the last
    /// one takes its offset, or in a small table all after it move up.
    pub(crate) fn at(&self, offset: usize) -> Option<&T> {
        self.elements.get(offset)
    }

    pub(crate) fn at_mut(&mut self, offset: usize) -> Option<&mut T> {
        self.elements.get_mut(offset)
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&T> {
        self.offset(name).map(|offset| &self.elements[offset])
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
            self.index = Some(Box::new(Index::of(&self.elements, seed)));
        }
    }

    /// Takes the element of this name out, and says at which offset it was.
    pub(crate) fn take(&mut self, name: &[u8]) -> Option<(usize, T)> {
        let offset = self.offset(name)?;
        let element = match &mut self.index {
            None => self.elements.remove(offset),
            Some(index) => {
                index.remove(&self.elements, offset);
                self.elements.swap_remove(offset)
            }
        };
        if self.elements.len() <= LINEAR_ELEMENTS_MAX {
            self.index = None;
        }
        if let Some(capacity) = capacity_after(self.elements.len(), self.elements.capacity()) {
            self.elements.shrink_to(capacity);
            if let Some(index) = &mut self.index {
                index.shrink_to(&self.elements, capacity);
            }
        }
        Some((offset, element))
    }

    /// Puts an element back where it was taken out, so that all are where they were before. `seed` is
    /// as for [`Table::push`].
    pub(crate) fn put_back(&mut self, offset: usize, element: T, seed: u64) {
        let (last, offset) = (self.elements.len(), offset.min(self.elements.len()));
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

impl Index {
    fn of<T: Named>(elements: &[T], seed: u64) -> Index {
        let offsets = HashTable::with_capacity(elements.len());
        let mut index = Index {
            offsets,
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

    fn find<T: Named>(&self, elements: &[T], name: &[u8]) -> Option<usize> {
        let matches = |&offset: &u32| *elements[offset as usize].name() == *name;
        self.offsets
            .find(self.hash(name), matches)
            .map(|&offset| offset as usize)
    }

    fn insert<T: Named>(&mut self, elements: &[T], offset: u32) {
        let hash = self.hash(elements[offset as usize].name());
        let hasher = &self.hasher;
        let hash_of = |&other: &u32| hash_with(hasher, elements[other as usize].name());
        self.offsets.insert_unique(hash, offset, hash_of);
    }

    fn shrink_to<T: Named>(&mut self, elements: &[T], capacity: usize) {
        let hasher = &self.hasher;
        let hash_of = |&other: &u32| hash_with(hasher, elements[other as usize].name());
        self.offsets.shrink_to(capacity, hash_of);
    }

    /// Forgets the element at `offset`, into which the last one is about to move.
    fn remove<T: Named>(&mut self, elements: &[T], offset: usize) {
        let last = elements.len().saturating_sub(1);
        let (hash, number) = (self.hash(elements[offset].name()), offset_number(offset));
        if let Ok(occupied) = self.offsets.find_entry(hash, |&other| other == number) {
            occupied.remove();
        }
        if last != offset {
            self.renumber(elements, last, offset);
        }
    }

    /// The element at one offset is about to move to another.
    fn renumber<T: Named>(&mut self, elements: &[T], from: usize, to: usize) {
        let (hash, number) = (self.hash(elements[from].name()), offset_number(from));
        if let Some(moved) = self.offsets.find_mut(hash, |&other| other == number) {
            *moved = offset_number(to);
        }
    }
}

fn hash_with(hasher: &FixedState, name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(name);
    state.finish()
}

/// The capacity to go down to where a removal has left so few elements that most of the memory is
/// free; `None` where it stays. Half of it is free again then, so that not every removal copies all.
pub(crate) fn capacity_after(length: usize, capacity: usize) -> Option<usize> {
    let is_sparse = capacity > CAPACITY_KEPT && length < capacity / 4;
    is_sparse.then_some(length.saturating_mul(2).max(CAPACITY_KEPT))
}

fn offset_number(offset: usize) -> u32 {
    u32::try_from(offset).expect("the bytes of a value are bounded far below 4 GiB")
}

/// Up to this many elements are searched without an index.
const LINEAR_ELEMENTS_MAX: usize = 64;

/// Elements for which memory is kept.
const CAPACITY_KEPT: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for u64 {
        fn name(&self) -> &[u8] {
            &NAMES[*self as usize]
        }
    }

    static NAMES: [[u8; 2]; 10_000] = {
        let (mut names, mut number) = ([[0; 2]; 10_000], 0_usize);
        while number < names.len() {
            names[number] = (number as u16).to_le_bytes();
            number += 1;
        }
        names
    };

    #[test]
    fn a_table_that_was_large_once_gives_its_memory_back_and_finds_what_is_left() {
        let mut table = Table::default();
        (0..10_000_u64).for_each(|number| table.push(number, 5));
        (100..10_000_u64).for_each(|number| drop(table.take(number.name())));
        assert!(table.elements.capacity() < 500);
        let capacity = table.index.as_ref().map(|index| index.offsets.capacity());
        assert!(
            capacity.is_some_and(|capacity| capacity < 900),
            "{capacity:?}"
        );
        assert!((0..100_u64).all(|number| table.find(number.name()) == Some(&number)));
        assert!((100..200_u64).all(|number| table.find(number.name()).is_none()));
    }
}
