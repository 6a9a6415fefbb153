//! The calls of one client that wait for the same lock: first in, first out.
//!
//! Invariant: only the first of a name asks the nodes; the others wait for their turn or for the
//! end of their own time. Calls that do not wait are not here.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::OperationId;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    queues: HashMap<Bytes, VecDeque<Waiter>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    operation: OperationId,
    /// Somebody wants to know its place.
    tells: bool,
}

impl Waiters {
    /// Takes a place in the queue. Says how many came first.
    pub(super) fn join(&mut self, name: &Bytes, operation: OperationId, tells: bool) -> usize {
        let queue = self.queues.entry(name.clone()).or_default();
        queue.push_back(Waiter { operation, tells });
        queue.len() - 1
    }

    /// The calls behind the first that somebody wants to know the place of, with how many came before each.
    pub(super) fn places(&self, name: &Bytes) -> Vec<(usize, OperationId)> {
        let queue = self
            .queues
            .get(name)
            .into_iter()
            .flatten()
            .enumerate()
            .skip(1);
        let told = queue.filter(|(_, waiter)| waiter.tells);
        told.map(|(ahead, waiter)| (ahead, waiter.operation))
            .collect()
    }

    /// Gives a place up. Names the call whose turn it now is, if that has changed.
    pub(super) fn leave(&mut self, name: &Bytes, operation: OperationId) -> Option<OperationId> {
        let queue = self.queues.get_mut(name)?;
        let was_first = queue.front().is_some_and(|one| one.operation == operation);
        queue.retain(|other| other.operation != operation);
        if queue.is_empty() {
            self.queues.remove(name);
            return None;
        }
        let first = queue.front().filter(|_| was_first);
        first.map(|waiter| waiter.operation)
    }

    /// The call whose turn it is.
    pub(super) fn first(&self, name: &Bytes) -> Option<OperationId> {
        let first = self.queues.get(name).and_then(VecDeque::front);
        first.map(|waiter| waiter.operation)
    }

    /// How many calls are in all queues; a queue without calls is not kept.
    #[cfg(feature = "simulation")]
    pub(super) fn size(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_passed_on_in_order_whoever_leaves() {
        let mut waiters = Waiters::default();
        let name = Bytes::from_static(b"a");
        let [first, second, third] = [1, 2, 3].map(OperationId);
        assert_eq!(waiters.join(&name, first, false), 0);
        assert_eq!(waiters.join(&name, second, true), 1);
        assert_eq!(waiters.join(&name, third, true), 2);
        assert_eq!(waiters.join(&Bytes::from_static(b"b"), third, true), 0);
        assert_eq!(waiters.places(&name), [(1, second), (2, third)]);
        assert_eq!(waiters.leave(&name, second), None);
        assert_eq!(waiters.leave(&name, first), Some(third));
        assert_eq!(waiters.first(&name), Some(third));
        assert_eq!(waiters.places(&name), []);
        assert_eq!(waiters.leave(&name, third), None);
        assert_eq!(waiters.queues.len(), 1);
        assert_eq!(waiters.leave(&name, first), None);
    }
}
