//! What is said to a node and what it says, as bytes.
//!
//! Invariant: no state of a node or a lock is kept here, and nothing is decided.

pub(crate) mod agent;
pub(crate) mod holder;
pub(crate) mod line;
pub(crate) mod listing;
pub(crate) mod looking;
pub(crate) mod meaning;
pub mod node_reply;
pub(crate) mod push;
pub(crate) mod reply;
mod reply_error;
pub(crate) mod request;
mod resp3;
pub(crate) mod sentinel;
pub(crate) mod several;
pub(crate) mod shared;
