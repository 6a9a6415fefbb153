//! Sockets: who connects, and which worker serves them.

pub(crate) mod clients;
mod closing;
pub(crate) mod connection;
mod farewell;
mod guard;
pub(crate) mod inbox;
mod limits;
pub(crate) mod listener;
mod lull;
pub(crate) mod memory;
mod sweep;
mod turn;
#[cfg(test)]
mod turn_tests;
pub(crate) mod worker;
