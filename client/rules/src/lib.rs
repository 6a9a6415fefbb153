//! The rules of the Redlock client, for Quorlock, Redis and Valkey: what it decides, what it says to nodes, what it makes of
//! their answers and of the time. State machines that take the time and an event and return actions.
//!
//! Invariant: nothing here does I/O, starts a thread or reads a clock, and the only random numbers that are not handed in
//! are those of [`Token::fresh`](token::Token::fresh). So the same code runs on the client's thread, in a simulation and in
//! a model.
//!
//! Programs use `quorlock-client`, which carries the actions out and whose names are stable. Nothing is promised about the
//! names here.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod acquiring;
pub mod acquisition;
pub mod action;
pub mod address;
mod answer;
pub mod call;
pub mod channels;
pub mod client;
pub mod clock;
mod connecting;
mod context;
mod counting;
mod extending;
mod fences;
#[cfg(fuzzing)]
pub mod fuzzing;
mod held;
pub mod holding;
pub mod inspection;
pub mod leader;
mod lines;
mod link;
mod listing;
pub mod log_line;
pub mod name;
mod named_clusters;
mod observation;
mod observing;
mod operation;
pub mod outcome;
mod overlaps;
pub mod owner_text;
mod owners;
pub mod permits;
mod place;
pub mod probe;
mod probing;
mod protocol;
mod publishing;
mod reading;
mod recent_releases;
mod refusals;
mod register;
mod releasing;
mod round;
pub mod settings;
pub mod shards;
pub mod statistics;
mod step;
mod syncing_fences;
pub mod token;
pub mod unasked;
pub mod votes;
pub mod wait;
mod waiters;

pub use answer::{Answer, ExtendAnswer, FenceAnswer, NodeFence};
pub use link::ConnectionId;
pub use protocol::request::{
    ACQUIRE_ALL_SCRIPT, EXTEND_ALL_SCRIPT, EXTEND_SCRIPT, RELEASE_ALL_SCRIPT, RELEASE_SCRIPT,
    SET_END_ALL_SCRIPT, SET_END_AND_TOKEN_SCRIPT, SET_END_SCRIPT,
};
pub use protocol::sentinel::MasterQuestion;

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
    #[must_use]
    pub fn undone(self) -> Self {
        Self(self.0 & !UNDOING)
    }
}

/// Calls are counted from zero and never become so many.
const UNDOING: u64 = 1 << 63;
