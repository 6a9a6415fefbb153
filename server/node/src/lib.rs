//! What decides in a Quorlock node: how requests are read and executed, when what they have done is durable, what a start
//! makes of the past. The rules of keys, scripts and time are in `quorlock-engine`, the log in `quorlock-persistence`.
//!
//! Invariant: nothing here opens a socket or a file, starts a thread or asks the machine for the time; clocks, disks and
//! streams are handed in. So the same code runs behind sockets and in a simulation.
//!
//! Programs use `quorlock-server`, which carries it out and whose names are stable. Nothing is promised about the names here.

pub(crate) mod acl;
pub mod clock;
mod command_numbers;
pub mod config;
pub mod core;
mod date;
pub mod event_loop;
pub mod past;
pub mod protocol;
pub mod session;
pub mod simulation;
pub mod start;
pub mod sync;

pub use date::Date;
pub use quorlock_clock::{fnv, show_duration};
