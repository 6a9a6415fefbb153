//! The engine from outside: commands, time and the log.
//!
//! Each file holds the engine to one promise. Nothing here sleeps; time is an argument.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod dependency;
mod expiry;
#[path = "../harness/mod.rs"]
mod harness;
mod lock_counts;
mod lock_info;
mod locks;
mod memory;
mod model;
mod modes;
mod parts;
mod pieces;
mod properties;
mod replay;
mod replies;
mod reply_types;
mod scanning;
mod shared_locks;
mod shrinking;
mod snapshots;
mod sorted_sets;
mod time;
mod traces;
mod walk_limits;
mod watching;
