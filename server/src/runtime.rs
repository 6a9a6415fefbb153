//! Threads and sockets: who connects, and the threads that serve. Nothing is decided here.
//!
//! Each worker is a thread that polls its own connections; the listener hands them out in turn. A command runs in the
//! thread that read it, so that no request is handed from thread to thread. With nothing to do a worker waits for its
//! sockets, or first sleeps for 50 us where many connections ask at a quick pace (`event_loop/coalescing.rs`, ADR 6).
//! Messages to a worker go into its inbox, which wakes it. What an event loop wants of others, a sync on the log thread
//! or a segment, it leaves as tasks, and the worker carries them out.
//!
//! The log thread does what must not hold up a worker: the sync of every second, long syncs and the writes before them,
//! new segments. One more thread with a runtime does what is rare: it accepts connections and carries out the maintenance,
//! which waits out the restart delay, ticks, reclaims and compacts. With `metrics-port` another thread serves the endpoint
//! for monitoring. Clients in the node's own process have a worker that runs on their threads. One engine stands behind one mutex, for all of them.

pub(crate) mod alarm;
mod client_stream;
pub(crate) mod descriptors;
pub(crate) mod half_closed;
pub(crate) mod heartbeat;
pub(crate) mod in_process;
pub(crate) mod inbox;
pub(crate) mod listener;
pub(crate) mod log_thread;
pub(crate) mod maintenance_task;
pub(crate) mod process;
mod socket;
pub(crate) mod unix_socket;
pub(crate) mod worker;
