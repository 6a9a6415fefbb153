//! The page of metrics as it is put together: each metric is registered with its text.

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use quorlock_node::core::state::NodeState;

/// Names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The page as it is put together.
pub(super) struct MetricsPage<'a> {
    pub(super) registry: Registry,
    pub(super) node: &'a NodeState,
}

impl MetricsPage<'_> {
    pub(super) fn register(&mut self, name: &str, metric: impl Metric) {
        self.registry.register(name, help(name), metric);
    }

    pub(super) fn gauge(&mut self, name: &str, value: f64) {
        self.register(name, ConstGauge::new(value));
    }

    pub(super) fn flag(&mut self, name: &str, is_so: bool) {
        self.gauge(name, f64::from(u8::from(is_so)));
    }

    /// `name` without the suffix `_total`, which the format adds.
    pub(super) fn counter(&mut self, name: &str, value: u64) {
        self.register(name, ConstCounter::new(value));
    }

    /// `name` without the suffix `_info`, which the format adds.
    pub(super) fn info(&mut self, name: &str, labels: Labels) {
        self.register(name, Info::new(labels));
    }
}

/// Exact enough for a graph: a double holds microseconds for centuries.
pub(super) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// The text that explains a metric.
fn help(name: &str) -> &'static str {
    let mut lines = HELP.lines().filter_map(|line| line.split_once(": "));
    let line = lines.find(|(metric, _)| *metric == name);
    line.expect("each metric has its line in the table").1
}

/// A metric and its text in each line, without the suffixes that the format adds to a name.
const HELP: &str = "\
redis_up: The node answers
redis_uptime_in_seconds: Since the start
redis_instance: This node, as Redis describes itself
redis_connected_clients: Connections now
redis_blocked_clients: Clients that wait in BLPOP and its like, in WAIT or WAITAOF, or for the end of CLIENT PAUSE; those of LOCK.WAIT are quorlock_lock_waiters
redis_config_maxclients: Most connections at a time
redis_memory_used_bytes: What keys take with their values; of an agent, its resident memory
redis_memory_used_rss_bytes: Resident memory
redis_memory_max_bytes: The directive maxmemory; 0: no limit
redis_connected_slaves: Always 0: nodes are independent
redis_loading_dump_file: The field `loading` of INFO
redis_connections_received: Connections since the start
redis_rejected_connections: Connections refused
redis_commands_processed: Commands answered
redis_commands: Calls of each command, those of scripts included
redis_commands_duration_seconds: How long calls took, those of scripts as part of the script
redis_errors: Replies that were errors, by their first word
redis_net_input_bytes: Bytes received
redis_net_output_bytes: Bytes sent
quorlock_error_replies: Replies that were errors
redis_expired_keys: Keys whose time was over
redis_evicted_keys: Always 0: nothing is evicted
redis_keyspace_hits: Lookups that found a key
redis_keyspace_misses: Lookups that found none
quorlock_tls_certificate_expiry_timestamp_seconds: When the node's certificate in use ends, in seconds since 1970
quorlock_serving: 1 when the node serves locks; of an agent, when a majority of its nodes can vote
quorlock_restart_delay_remaining_seconds: What is left of the delay
quorlock_ttl_bound_seconds: The longest TTL a crash could forget
quorlock_restart_delay_max_seconds: restart-delay-max
quorlock_log_full: 1 when the log has no room for writes
quorlock_restart_delay_seconds: The whole delay of this start
quorlock_restart_waited_seconds: Waited before it served locks
quorlock_last_stop: How the last run ended
quorlock_node: This node
quorlock_incarnation: Counts the starts of this node
redis_aof_enabled: 1 when keys are logged
redis_aof_current_size_bytes: The log on disk
redis_aof_last_write_status: 0 when the log failed
quorlock_log_frames_written: The position written
quorlock_log_frames_synced: The position synced
redis_cpu_user_seconds: CPU time in user mode
redis_cpu_sys_seconds: CPU time in the kernel
quorlock_locks_held: Keys with a TTL that may be locks by their values, as LOCK.LIST shows them
quorlock_locks_without_ttl: Keys without a TTL that may be locks by their values: no time ends them
quorlock_lock_waiters: Clients that wait with LOCK.WAIT, once for each lock; those that poll are not known
quorlock_lock_oldest_seconds: How long the lock is held that was taken first, of those taken since the start; 4096 keys are looked at in each scrape
quorlock_lock_grants: Locks that were taken, by any command or script
quorlock_lock_refusals: Locks that SET NX, SETNX or LOCK.ACQUIRE refused; refusals by scripts are not known
quorlock_lock_ends: How locks ended: released, forced, or expired, which is without a release
quorlock_lock_hold_seconds: How long locks were held that have ended, of those taken since the start
quorlock_lock_wait_seconds: How long clients waited with LOCK.WAIT that then took the lock
redis_db_keys: Keys that replies may reveal, by database
redis_db_keys_expiring: Keys with a TTL, by database
quorlock_sync_duration_seconds: How long syncs of the log took, each with the write past the page cache before it
quorlock_log_wait_seconds: How long the disk has taken for the sync, or the write past the page cache, that is under way; 0 without one";
