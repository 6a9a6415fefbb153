//! How long a caller waits for a lock.

use std::time::Duration;

/// How long to try when the lock is held by somebody else or too few nodes answer.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_client::Wait;
///
/// let patient = Wait::For(Duration::from_secs(30));
/// assert_ne!(patient, Wait::Forever);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// One attempt.
    None,
    /// Attempts until this time has passed.
    For(Duration),
    /// Attempts until the lock is acquired or the future is dropped.
    Forever,
}
