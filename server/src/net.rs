//! Sockets: who connects, and which worker serves them.

pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod outlet;
pub(crate) mod worker;
