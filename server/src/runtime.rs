//! Threads and sockets: who connects, and the threads that serve. Nothing is decided here.

pub(crate) mod alarm;
pub(crate) mod half_closed;
pub(crate) mod inbox;
pub(crate) mod listener;
pub(crate) mod log_thread;
pub(crate) mod maintenance_task;
mod socket;
pub(crate) mod unix_socket;
pub(crate) mod worker;
