//! What the client decides: state machines that take the time and an event and return actions.
//!
//! Invariant: nothing here reads a clock, draws random numbers of its own, or does I/O. So the same code runs
//! on the client's thread and in a simulation. Public for the models and simulations of this workspace, hidden from the
//! documentation and without any promise.

mod acquiring;
pub mod acquisition;
pub mod action;
pub mod call;
pub mod client;
mod connecting;
mod context;
mod counting;
mod extending;
mod held;
pub mod holding;
pub(crate) mod link;
pub mod log_line;
mod operation;
mod place;
mod probing;
mod refusals;
mod releasing;
mod round;
mod step;
mod waiters;

pub use crate::answer::{Answer, ExtendAnswer};
pub use link::ConnectionId;

/// One call of a handle; a lock that is held keeps the number of the call that acquired it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u64);

impl OperationId {
    /// The operation that undoes what this call has begun.
    #[must_use]
    pub fn undoing(self) -> Self {
        Self(self.0 | UNDOING)
    }

    /// The call that is undone by this operation.
    pub(crate) fn undone(self) -> Self {
        Self(self.0 & !UNDOING)
    }
}

/// Calls are counted from zero and never become so many.
const UNDOING: u64 = 1 << 63;
