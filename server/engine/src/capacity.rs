//! When what has lost most of its elements gives memory back, and how much.

/// The capacity to go down to where a removal has left so few elements that most of the memory is
/// free; `None` where it stays. Half of it is free again then, so that not every removal copies all.
pub(crate) fn capacity_after(length: usize, capacity: usize) -> Option<usize> {
    let is_sparse = capacity > CAPACITY_KEPT && length < capacity / 4;
    is_sparse.then_some(length.saturating_mul(2).max(CAPACITY_KEPT))
}

/// Elements for which memory is kept.
const CAPACITY_KEPT: usize = 128;
