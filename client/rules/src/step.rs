//! What happens to an operation, and what becomes of it.

use crate::link::LinkReply;

/// What happens to an operation.
#[derive(Debug)]
pub(super) enum Input {
    /// The time asked for has come (or any other time).
    Timer,
    Reply(LinkReply),
}

/// What becomes of an operation with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    GoesOn,
    Ended,
}
