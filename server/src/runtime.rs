//! Threads and sockets: who connects, and the threads that serve. Nothing is decided here.

pub(crate) mod inbox;
pub(crate) mod listener;
mod socket;
pub(crate) mod worker;
