//! How long a caller waits for a lock.

use std::time::Duration;

/// How long to try when the lock is held by somebody else or too few nodes answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// One attempt.
    None,
    /// Attempts until this time has passed.
    For(Duration),
    /// Attempts until the lock is acquired or the future is dropped.
    Forever,
}
