//! The name by which clients wait for a lock.

use std::sync::Arc;

/// A lock's name in its database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueName(Arc<[u8]>);

impl QueueName {
    /// It comes before all others.
    pub(crate) fn first() -> QueueName {
        QueueName(Arc::default())
    }

    pub(crate) fn new(database: u8, key: &[u8]) -> QueueName {
        QueueName([&[database], key].concat().into())
    }

    pub(crate) fn parts(&self) -> (u8, &[u8]) {
        self.0
            .split_first()
            .map_or((0, &[]), |(database, key)| (*database, key))
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
