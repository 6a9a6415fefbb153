//! The elements of a list, in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::capacity::capacity_after;

/// One of a list's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end of LPUSH and LPOP, where the element of index 0 is.
    Left,
    /// The end of RPUSH and RPOP.
    Right,
}

impl End {
    /// The end across from this one.
    pub fn other(self) -> End {
        match self {
            End::Left => End::Right,
            End::Right => End::Left,
        }
    }
}

/// Elements in their order, which replies share.
#[derive(Clone, Debug, Default)]
pub struct List {
    elements: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl List {
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

    /// The bytes of the element of an index below the length.
    pub(crate) fn bytes_at(&self, index: usize) -> usize {
        self.get(index).map_or(0, |element| element_bytes(element))
    }

    /// About how many bytes of memory they take.
    pub(crate) fn memory(&self) -> usize {
        let beside = ELEMENT_MEMORY.saturating_sub(ELEMENT_OVERHEAD);
        let elements = self.len().saturating_mul(beside);
        elements.saturating_add(self.bytes)
    }

    /// Whether Redis would keep it in one piece: only OBJECT ENCODING asks.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes <= SMALL_BYTES_MAX
    }

    /// All elements, from left to right.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<[u8]>> + ExactSizeIterator {
        self.elements.iter()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Arc<[u8]>> {
        self.elements.get(index)
    }

    /// The elements of these indexes, which there are.
    pub(crate) fn range(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Arc<[u8]>> {
        self.elements.range(range)
    }

    pub(crate) fn at_end(&self, end: End) -> Option<&Arc<[u8]>> {
        match end {
            End::Left => self.elements.front(),
            End::Right => self.elements.back(),
        }
    }

    pub(crate) fn push(&mut self, end: End, element: Arc<[u8]>) {
        self.bytes = self.bytes.saturating_add(element_bytes(&element));
        match end {
            End::Left => self.elements.push_front(element),
            End::Right => self.elements.push_back(element),
        }
    }

    pub(crate) fn pop(&mut self, end: End) -> Option<Arc<[u8]>> {
        let element = match end {
            End::Left => self.elements.pop_front(),
            End::Right => self.elements.pop_back(),
        }?;
        self.bytes = self.bytes.saturating_sub(element_bytes(&element));
        self.give_memory_back();
        Some(element)
    }

    /// Writes another element at an index and returns the one that was there.
    pub(crate) fn set(&mut self, index: usize, element: Arc<[u8]>) -> Option<Arc<[u8]>> {
        let added = element_bytes(&element);
        let old = std::mem::replace(self.elements.get_mut(index)?, element);
        self.bytes = self.bytes.saturating_add(added);
        self.bytes = self.bytes.saturating_sub(element_bytes(&old));
        Some(old)
    }

    /// Puts an element before the one of this index, or behind the last; false beyond that.
    pub(crate) fn insert(&mut self, index: usize, element: Arc<[u8]>) -> bool {
        if index > self.len() {
            return false;
        }
        self.bytes = self.bytes.saturating_add(element_bytes(&element));
        self.elements.insert(index, element);
        true
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<Arc<[u8]>> {
        let element = self.elements.remove(index)?;
        self.bytes = self.bytes.saturating_sub(element_bytes(&element));
        self.give_memory_back();
        Some(element)
    }

    /// A queue that was long once does not keep the memory.
    fn give_memory_back(&mut self) {
        if let Some(capacity) = capacity_after(self.len(), self.elements.capacity()) {
            self.elements.shrink_to(capacity);
        }
    }
}

/// The bytes of an element, with what its encoding adds at most.
pub(super) fn element_bytes(element: &[u8]) -> usize {
    element.len().saturating_add(ELEMENT_OVERHEAD)
}

/// A length prefix in the journal.
const ELEMENT_OVERHEAD: usize = 5;

/// The element's place, and its allocation with its counts.
const ELEMENT_MEMORY: usize = size_of::<Arc<[u8]>>() + 32;

/// Where Redis begins a second node (`list-max-listpack-size -2`).
const SMALL_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_long_once_gives_its_memory_back() {
        for end in [End::Left, End::Right] {
            let mut list = List::default();
            for _ in 0..100_000 {
                list.push(End::Right, b"x"[..].into());
            }
            while list.len() > 10 {
                list.pop(end);
            }
            assert!(list.elements.capacity() < 200, "{end:?}");
        }
    }
}
