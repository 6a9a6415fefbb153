//! What a client sees of a node, and what nodes do that fail, stop and start again: whole nodes with
//! sockets, mostly on a disk in memory and a clock that tests move.
//!
//! One program, so that it is linked once and its tests share the cores. A test that changes what a
//! whole process shares has a program of its own beside this one.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod blocking;
mod channels;
mod client;
mod cluster_size;
mod command_statistics;
mod compaction;
mod config_rewrite;
mod connections;
mod databases;
mod diagnostics;
mod disk;
mod embedding;
mod in_process;
mod in_process_ends;
mod in_process_sessions;
mod limits;
mod log_format;
mod machine;
mod metrics;
mod metrics_floods;
mod metrics_moves;
mod metrics_tls;
mod modes;
mod notifications;
mod panics;
mod queued;
mod queued_places;
mod recorded_replies;
mod replies;
mod restart;
mod restart_delay;
mod restart_delay_directory;
mod restart_delay_identity;
mod restart_delay_limits;
mod restart_delay_unlogged;
mod segments;
mod settings;
mod slow_sync;
mod states;
mod stopping;
mod time;
mod tls;
mod tracking;
mod transactions;
mod unix_socket;
mod upstream;
mod users;
mod users_waiting;
mod waitaof;
mod wire_protocol;
mod workers;
