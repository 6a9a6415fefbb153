//! Sockets: who connects, and which worker serves them.

pub(crate) mod clients;
pub(crate) mod connection;
mod farewell;
pub(crate) mod inbox;
pub(crate) mod listener;
mod lull;
mod sweep;
mod turn;
#[cfg(test)]
mod turn_tests;
pub(crate) mod worker;
