//! The calls of one client that wait for the same lock: first in, first out.
//!
//! Invariant: only the first of a name asks the nodes; the others wait for their turn or for the
//! end of their own time. Calls that do not wait are not here.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::OperationId;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    queues: HashMap<Bytes, VecDeque<OperationId>>,
}

impl Waiters {
    /// Takes a place in the queue. Says how many came first.
    pub(super) fn join(&mut self, name: &Bytes, operation: OperationId) -> usize {
        let queue = self.queues.entry(name.clone()).or_default();
        queue.push_back(operation);
        queue.len() - 1
    }

    /// Gives a place up. Names the call whose turn it now is, if that has changed.
    pub(super) fn leave(&mut self, name: &Bytes, operation: OperationId) -> Option<OperationId> {
        let queue = self.queues.get_mut(name)?;
        let was_first = queue.front() == Some(&operation);
        queue.retain(|other| *other != operation);
        if queue.is_empty() {
            self.queues.remove(name);
            return None;
        }
        queue.front().filter(|_| was_first).copied()
    }

    /// The call whose turn it is.
    pub(super) fn first(&self, name: &Bytes) -> Option<OperationId> {
        self.queues.get(name).and_then(VecDeque::front).copied()
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
        assert_eq!(waiters.join(&name, first), 0);
        assert_eq!(waiters.join(&name, second), 1);
        assert_eq!(waiters.join(&name, third), 2);
        assert_eq!(waiters.join(&Bytes::from_static(b"b"), third), 0);
        assert_eq!(waiters.leave(&name, second), None);
        assert_eq!(waiters.leave(&name, first), Some(third));
        assert_eq!(waiters.first(&name), Some(third));
        assert_eq!(waiters.leave(&name, third), None);
        assert_eq!(waiters.queues.len(), 1);
        assert_eq!(waiters.leave(&name, first), None);
    }
}
