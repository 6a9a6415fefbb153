//! Fields of INFO whose value is the same on every node, because it has none of what they tell of, and which tools read.

/// Behind `redis_version`. There is no commit or build of Redis to name; `quorlock_version` says which release this is.
pub(super) const SERVER: &[(&str, &str)] = &[
    ("redis_git_sha1", "00000000"),
    ("redis_git_dirty", "0"),
    ("redis_build_id", "0"),
];

/// Redis's I/O threads: a node has workers instead.
pub(super) const THREADS: &[(&str, &str)] = &[("io_threads_active", "0")];

pub(super) const CLIENTS: &[(&str, &str)] = &[("cluster_connections", "0")];

pub(super) const MEMORY: &[(&str, &str)] = &[
    ("mem_replication_backlog", "0"),
    ("mem_total_replication_buffers", "0"),
    ("mem_cluster_links", "0"),
    ("number_of_functions", "0"),
    ("number_of_libraries", "0"),
    ("used_memory_functions", "0"),
    ("active_defrag_running", "0"),
];

/// There are no snapshots, and no child processes.
pub(super) const PERSISTENCE: &[(&str, &str)] = &[
    ("async_loading", "0"),
    ("current_cow_size", "0"),
    ("rdb_saves", "0"),
    ("rdb_last_bgsave_time_sec", "-1"),
    ("rdb_current_bgsave_time_sec", "-1"),
    ("rdb_last_cow_size", "0"),
    ("aof_last_cow_size", "0"),
    ("module_fork_in_progress", "0"),
    ("module_fork_last_cow_size", "0"),
];

pub(super) const STATS: &[(&str, &str)] = &[
    ("total_net_repl_input_bytes", "0"),
    ("total_net_repl_output_bytes", "0"),
    ("sync_full", "0"),
    ("sync_partial_ok", "0"),
    ("sync_partial_err", "0"),
    ("total_eviction_exceeded_time", "0"),
    ("current_eviction_exceeded_time", "0"),
    ("latest_fork_usec", "0"),
    ("total_forks", "0"),
    ("migrate_cached_sockets", "0"),
    ("slave_expires_tracked_keys", "0"),
    ("active_defrag_hits", "0"),
    ("active_defrag_misses", "0"),
    ("active_defrag_key_hits", "0"),
    ("active_defrag_key_misses", "0"),
    ("total_active_defrag_time", "0"),
    ("current_active_defrag_time", "0"),
    ("io_threaded_reads_processed", "0"),
    ("io_threaded_writes_processed", "0"),
];

pub(super) const REPLICATION: &[(&str, &str)] = &[
    ("master_failover_state", "no-failover"),
    ("master_replid2", "0000000000000000000000000000000000000000"),
    ("second_repl_offset", "-1"),
    ("repl_backlog_active", "0"),
    ("repl_backlog_size", "0"),
    ("repl_backlog_first_byte_offset", "0"),
    ("repl_backlog_histlen", "0"),
];

pub(super) const CPU: &[(&str, &str)] = &[
    ("used_cpu_sys_children", "0.00"),
    ("used_cpu_user_children", "0.00"),
];
