//! Lengths of time as counts of 64 bits.

use std::time::Duration;

/// The length of a duration in nanoseconds. One of more than 584 years is longer than a node or a client lives: it becomes the
/// longest that 64 bits can count, which stands for "without end".
#[must_use]
pub fn saturated_nanos(duration: Duration) -> u64 {
    saturated(duration.as_nanos())
}

/// A length or a count that is compared with others or shown to people: the largest number of 64 bits stands for anything
/// above it.
#[must_use]
pub fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
