//! A node without threads and sockets: what it decides beyond the engine's commands.
//!
//! Commands are executed and put on record ([`executor`]), committed in groups ([`commit`],
//! [`commit_queue`], [`next_commit`]), and kept up beside ([`maintenance`], [`compaction`], [`log_duties`]). These take the
//! time and what has happened, and return what is to be done. [`log_writer`] writes and syncs through the
//! seam of the disk. [`log_schedule`] decides what the log thread does next, and [`log_work`] does it. Threads (`runtime/`) and the simulation carry the rest out.

pub mod access;
pub(crate) mod address;
pub(crate) mod back_off;
pub(crate) mod calls;
pub mod certificates;
pub mod clients;
pub mod commit;
pub mod commit_queue;
#[cfg(test)]
mod commit_tests;
pub mod compaction;
pub(crate) mod deliveries;
pub(crate) mod departed;
pub mod durable_counts;
pub(crate) mod error_codes;
pub mod executor;
#[cfg(test)]
mod executor_tests;
#[cfg(test)]
mod fences_tests;
pub(crate) mod latency;
pub(crate) mod line_rate;
pub(crate) mod linger;
#[cfg(test)]
mod lock_bench_tests;
#[cfg(test)]
mod lock_command_tests;
#[cfg(test)]
mod lock_info_tests;
#[cfg(test)]
mod lock_wait_tests;
pub(crate) mod log_duties;
pub mod log_queue;
pub mod log_schedule;
pub mod log_work;
pub(crate) mod log_writer;
pub mod maintenance;
#[cfg(test)]
mod maintenance_tests;
pub(crate) mod maintenance_work;
pub mod metrics_endpoint;
pub(crate) mod monitors;
pub mod next_commit;
pub(crate) mod outbox;
pub(crate) mod pause;
pub mod process;
pub(crate) mod report;
pub(crate) mod rewrites;
pub(crate) mod settings;
#[cfg(test)]
mod shared_lock_tests;
pub(crate) mod shared_message;
pub(crate) mod slow_log;
pub mod state;
pub mod statistics;
pub(crate) mod time;
pub mod upstream;
pub mod wait;
