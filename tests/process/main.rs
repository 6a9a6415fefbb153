//! The command as a process: what it prints, how it ends, and what happens to its children.
//!
//! Every test has a directory and ports of its own. Nothing here tests what a lock is: that is
//! for the engine's and the client's own tests.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod agent;
mod agent_bad_input;
mod agent_check;
mod agent_clusters;
mod agent_users;
mod append_only;
mod arguments;
mod callers;
mod cluster;
mod cluster_in_memory;
mod cluster_load;
mod cluster_ownership;
mod cluster_requests;
mod cluster_tls;
mod deploy;
mod doctor;
mod elect;
mod endless_lists;
mod examples;
mod experiment;
mod experiment_compare;
mod fences;
mod first_start;
mod forking;
mod locks;
mod log;
mod log_bad_input;
mod log_check;
mod log_displaced;
mod log_dump;
mod log_export;
mod log_file;
mod log_import;
mod log_repair;
mod many_locks;
mod many_starts;
mod members;
mod mixed_lists;
mod nodes_file;
mod page;
mod passwords;
mod prefix;
mod redis_conf;
mod refusals;
mod relay;
mod relocation;
mod restart;
mod run;
mod run_beyond;
mod run_end;
mod run_far;
mod run_kept;
mod run_permits;
mod run_reentrant;
mod run_several;
mod run_shared;
mod run_textfile;
mod run_wait;
mod scripts;
mod server;
mod sharding;
mod shell;
mod status;
mod systemd;
mod table;
mod table_faults;
mod terminal;
mod tls;
mod tls_probes;
mod wait_ends;
