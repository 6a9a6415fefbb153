//! What operators ask over a socket: INFO's fields, LATENCY, on a machine whose clock a test moves and on this one, MEMORY and
//! DEBUG OBJECT.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_server::Node;

use crate::machine::gate::GatedNode;
use crate::machine::{run, wire, with_node};

/// A sync, and a direct write, are noted with what they took, and what is short is not.
#[test]
fn a_long_sync_or_direct_write_is_an_event_of_its_mode() {
    run(async {
        for (mode, is_direct, event) in [
            ("always", false, "aof-fsync-always"),
            ("always", true, "aof-write"),
        ] {
            let directives = [("appendfsync", mode), ("latency-monitor-threshold", "100")];
            let slow = match is_direct {
                true => GatedNode::start_direct(&directives).await,
                false => GatedNode::start(&directives).await,
            };
            let mut client = wire(&slow.node);
            assert_eq!(client.ask("SET a token PX 30000"), "+OK");
            assert_eq!(client.ask("LATENCY LATEST"), "[]");
            slow.hold(&mut client, "SET b token PX 30000", "quorlock-");
            slow.machine.clock.advance(Duration::from_millis(250));
            slow.let_go(&mut client);
            let latest = client.ask("LATENCY LATEST");
            assert!(latest.contains(event), "{event} in {latest}");
            assert!(latest.ends_with(":250, :250]]"), "{latest}");
            assert!(client.ask("LATENCY DOCTOR").contains("wait for the disk"));
        }
    });
}

#[test]
fn a_long_script_is_an_event_where_the_monitor_is_on() {
    run(async {
        let limit = &["5000"];
        let node = Node::builder()
            .ephemeral()
            .directive("script-time-limit", limit);
        let node = node.start().await.unwrap();
        let mut client = wire(&node);
        let script = "local n = 0 for i = 1, 100000 do n = n + i % 7 end return 1";
        let long = ["EVAL", script, "0"];
        assert_eq!(client.ask_words(&long), ":1");
        assert!(client.ask("LATENCY DOCTOR").contains("is disabled"));
        let set = "CONFIG SET latency-monitor-threshold 1";
        assert_eq!(client.ask(set), "+OK");
        assert_eq!(client.ask_words(&long), ":1");
        let history = client.ask("LATENCY HISTORY command");
        assert!(history.starts_with("[[:"), "{history}");
        let graph = client.ask("LATENCY GRAPH command");
        assert!(graph.starts_with("command - high "), "{graph}");
        assert!(client.ask("LATENCY HISTOGRAM eval").contains("eval"));
        assert_eq!(client.ask("LATENCY RESET"), ":1");
        assert_eq!(client.ask("LATENCY HISTORY command"), "[]");
    });
}

/// With RESP3 a client gets maps, numbers and texts, as from Redis.
#[test]
fn memory_and_debug_object_tell_of_the_keys_of_a_node() {
    with_node(&[("enable-debug-command", &["local"])], |node, _| {
        let mut client = wire(node);
        let resp2 = client.ask("MEMORY STATS");
        assert!(resp2.contains("keys.count, :0,"), "{resp2}");
        client.ask("HELLO 3");
        assert_eq!(client.ask("SET a token PX 30000"), "+OK");
        let stats = client.ask("MEMORY STATS");
        assert!(stats.contains("keys.count"), "{stats}");
        assert!(stats.contains("keys.bytes-per-key"), "{stats}");
        assert!(client.ask("MEMORY DOCTOR").contains("1 keys take "));
        let object = client.ask("DEBUG OBJECT a");
        assert!(object.starts_with("+Value at:0x"), "{object}");
        assert_eq!(client.ask("DEBUG OBJECT b"), "-ERR no such key");
    });
    with_node(&[], |node, _| {
        let refused = wire(node).ask("DEBUG OBJECT a");
        assert!(refused.starts_with("-ERR DEBUG command not allowed"));
    });
}

/// The fields of INFO of Redis 7.0 on a node.
const FIELDS: &str = "\
redis_version redis_git_sha1 redis_git_dirty redis_build_id redis_mode os arch_bits process_id \
    process_supervised run_id tcp_port server_time_usec uptime_in_seconds uptime_in_days hz configured_hz \
    executable config_file io_threads_active connected_clients cluster_connections maxclients blocked_clients \
    tracking_clients used_memory used_memory_human used_memory_rss used_memory_rss_human used_memory_peak \
    used_memory_peak_human used_memory_peak_perc total_system_memory total_system_memory_human used_memory_lua \
    used_memory_vm_eval number_of_cached_scripts number_of_functions number_of_libraries used_memory_functions \
    used_memory_scripts maxmemory maxmemory_human maxmemory_policy mem_fragmentation_ratio mem_fragmentation_bytes \
    mem_replication_backlog mem_total_replication_buffers mem_clients_slaves mem_clients_normal mem_cluster_links \
    active_defrag_running loading async_loading current_cow_size rdb_bgsave_in_progress rdb_last_bgsave_time_sec \
    rdb_current_bgsave_time_sec rdb_saves rdb_last_cow_size aof_enabled aof_rewrite_in_progress \
    aof_rewrite_scheduled aof_last_rewrite_time_sec aof_last_bgrewrite_status aof_rewrites aof_last_write_status \
    aof_last_cow_size module_fork_in_progress module_fork_last_cow_size aof_current_size aof_base_size \
    total_connections_received total_commands_processed instantaneous_ops_per_sec \
    instantaneous_input_kbps instantaneous_output_kbps total_net_input_bytes \
    total_net_output_bytes total_net_repl_input_bytes total_net_repl_output_bytes rejected_connections sync_full \
    sync_partial_ok sync_partial_err expired_keys evicted_keys evicted_clients total_eviction_exceeded_time \
    current_eviction_exceeded_time keyspace_hits keyspace_misses pubsub_channels pubsub_patterns \
    pubsubshard_channels latest_fork_usec total_forks migrate_cached_sockets slave_expires_tracked_keys \
    active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses \
    total_active_defrag_time current_active_defrag_time tracking_total_keys tracking_total_items \
    tracking_total_prefixes total_error_replies io_threaded_reads_processed io_threaded_writes_processed role \
    connected_slaves master_failover_state master_replid master_replid2 master_repl_offset second_repl_offset \
    repl_backlog_active repl_backlog_size repl_backlog_first_byte_offset repl_backlog_histlen used_cpu_sys \
    used_cpu_user used_cpu_sys_children used_cpu_user_children cluster_enabled";

/// Those that a node has not, because it has nothing that they tell of or nobody measures it.
const OTHER_FIELDS: &str = "\
monotonic_clock multiplexing_api atomicvar_api gcc_version lru_clock client_recent_max_input_buffer \
    client_recent_max_output_buffer clients_in_timeout_table used_memory_overhead used_memory_startup \
    used_memory_dataset used_memory_dataset_perc allocator_allocated allocator_active allocator_resident \
    used_memory_lua_human used_memory_scripts_eval used_memory_vm_functions used_memory_vm_total \
    used_memory_vm_total_human used_memory_scripts_human allocator_frag_ratio allocator_frag_bytes \
    allocator_rss_ratio allocator_rss_bytes rss_overhead_ratio rss_overhead_bytes mem_not_counted_for_evict \
    mem_aof_buffer mem_allocator lazyfree_pending_objects lazyfreed_objects current_cow_peak current_cow_size_age \
    current_fork_perc current_save_keys_processed current_save_keys_total rdb_changes_since_last_save \
    rdb_last_save_time rdb_last_bgsave_status rdb_last_load_keys_expired rdb_last_load_keys_loaded \
    aof_current_rewrite_time_sec aof_rewrites_consecutive_failures aof_pending_rewrite aof_buffer_length \
    aof_pending_bio_fsync aof_delayed_fsync \
    instantaneous_input_repl_kbps instantaneous_output_repl_kbps expired_stale_perc expired_time_cap_reached_count \
    expire_cycle_cpu_milliseconds unexpected_error_replies dump_payload_sanitizations total_reads_processed \
    total_writes_processed reply_buffer_shrinks reply_buffer_expands used_cpu_sys_main_thread \
    used_cpu_user_main_thread";

#[test]
fn info_has_the_fields_of_redis_each_once() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        assert_eq!(client.ask("CONFIG SET maxmemory 100mb"), "+OK");
        let text = client.ask("INFO everything");
        let mut fields = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, value)) = line.split_once(':') {
                let other = fields.insert(name, value);
                assert_eq!(other, None, "{name} is there twice: {value}");
            }
        }
        let is_there = |name: &&str| fields.contains_key(name);
        let lacking: Vec<&str> = FIELDS.split(' ').filter(|it| !is_there(it)).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
        let more: Vec<&str> = OTHER_FIELDS.split(' ').filter(is_there).collect();
        assert!(more.is_empty(), "these belong to the list above: {more:?}");
        for (name, value) in [
            ("redis_git_sha1", "00000000"),
            ("process_supervised", "no"),
            ("hz", "10"),
            ("config_file", ""),
            ("io_threads_active", "0"),
            ("maxmemory", "104857600"),
            ("maxmemory_human", "100.00M"),
        ] {
            assert_eq!(fields[name], value, "{name}");
        }
    });
}
