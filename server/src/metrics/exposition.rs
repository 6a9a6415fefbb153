//! The metrics as OpenMetrics text.
//!
//! Names are those of redis_exporter where it has one, so that existing dashboards work, and begin
//! with `quorlock_` where it has none. A metric that this node cannot fill is left out rather than
//! given a made-up number.

use std::fmt::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use quorlock_engine::control::Durability;

use crate::core::durable_counts::Counts;
use crate::core::state::NodeState;
use crate::core::statistics::SYNC_BOUNDS_NS;
use crate::core::wait::Wait;
use crate::metrics::state;
use crate::session::info::{cpu_seconds, resident_bytes};

/// What `/metrics` answers.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything there is to say now.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub(super) fn text(node: &NodeState) -> Result<String, Error> {
    let mut page = Page {
        registry: Registry::default(),
        node,
    };
    page.of_redis();
    page.of_the_traffic();
    page.of_the_engine();
    page.of_the_start();
    page.of_the_log();
    let mut text = String::new();
    encode(&mut text, &page.registry)?;
    Ok(text)
}

type Labels = Vec<(&'static str, String)>;

struct Page<'a> {
    registry: Registry,
    node: &'a NodeState,
}

impl Page<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.registry.register(name, help, ConstGauge::new(value));
    }

    /// `name` without the suffix `_total`, which the format adds.
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.registry.register(name, help, ConstCounter::new(value));
    }

    /// `name` without the suffix `_info`, which the format adds.
    fn info(&mut self, name: &str, help: &str, labels: Labels) {
        self.registry.register(name, help, Info::new(labels));
    }

    /// What redis_exporter shows of Redis, as far as a node has it.
    fn of_redis(&mut self) {
        let node = self.node;
        let uptime_ns = node
            .clock
            .raw_ns()
            .saturating_sub(node.facts.started_raw_ns);
        self.gauge("redis_up", "The node answers", 1.0);
        self.gauge(
            "redis_uptime_in_seconds",
            "Since the start",
            seconds(uptime_ns),
        );
        let labels = vec![
            ("role", "master".to_owned()),
            ("redis_version", crate::REDIS_VERSION.to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("os", std::env::consts::OS.to_owned()),
            ("maxmemory_policy", "noeviction".to_owned()),
            ("tcp_port", node.facts.port.to_string()),
            (
                "run_id",
                node.facts.identity.run_id(node.facts.start.incarnation),
            ),
            ("process_id", std::process::id().to_string()),
        ];
        self.info(
            "redis_instance",
            "This node, as Redis describes itself",
            labels,
        );
        let clients = node.clients.count() as f64;
        self.gauge("redis_connected_clients", "Connections now", clients);
        let blocked = node.statistics.blocked.load(Ordering::Relaxed) as f64;
        self.gauge(
            "redis_blocked_clients",
            "Clients that wait for a sync",
            blocked,
        );
        let clients_max = node.config.maxclients as f64;
        self.gauge(
            "redis_config_maxclients",
            "Most connections at a time",
            clients_max,
        );
        let resident = resident_bytes() as f64;
        self.gauge(
            "redis_memory_used_bytes",
            "As resident: allocations are not counted",
            resident,
        );
        self.gauge("redis_memory_used_rss_bytes", "Resident memory", resident);
        self.gauge("redis_memory_max_bytes", "0: no limit", 0.0);
        self.gauge(
            "redis_connected_slaves",
            "Always 0: nodes are independent",
            0.0,
        );
        let loading = f64::from(u8::from(node.is_loading()));
        self.gauge(
            "redis_loading_dump_file",
            "The field `loading` of INFO",
            loading,
        );
    }

    /// The counters that redis_exporter has, and the one it lacks.
    fn of_the_traffic(&mut self) {
        let node = self.node;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let statistics = &node.statistics;
        let total = node.clients.total();
        self.counter(
            "redis_connections_received",
            "Connections since the start",
            total,
        );
        let rejected = count(&statistics.rejected);
        self.counter(
            "redis_rejected_connections",
            "Connections refused",
            rejected,
        );
        let commands = count(&statistics.commands);
        self.counter("redis_commands_processed", "Commands answered", commands);
        let bytes_in = count(&statistics.bytes_in);
        self.counter("redis_net_input_bytes", "Bytes received", bytes_in);
        let bytes_out = count(&node.statistics.bytes_out);
        self.counter("redis_net_output_bytes", "Bytes sent", bytes_out);
        let errors = count(&statistics.errors);
        self.counter("quorlock_error_replies", "Replies that were errors", errors);
        let (user, system) = cpu_seconds();
        let cpu = |value| ConstCounter::new(value);
        let registry = &mut self.registry;
        registry.register("redis_cpu_user_seconds", "CPU time in user mode", cpu(user));
        registry.register(
            "redis_cpu_sys_seconds",
            "CPU time in the kernel",
            cpu(system),
        );
    }

    /// What only the engine knows: one short hold of its lock.
    fn of_the_engine(&mut self) {
        let node = self.node;
        let state = state::of(node);
        // A lock that a panic poisoned: the process is about to end, and /healthz says so.
        let Ok(executor) = node.executor.lock() else {
            return;
        };
        let statistics = executor.engine.statistics();
        let counts = node.commit.counts_shown(&executor, Wait::default());
        let (ttl_bound_ns, cap_ns) = (executor.ttl_bound.on_record_ns, executor.mode.cap_ns());
        let is_full = executor.appender.is_full();
        drop(executor);
        self.sizes(counts);
        self.counter(
            "redis_expired_keys",
            "Keys whose time was over",
            statistics.expired,
        );
        self.counter("redis_evicted_keys", "Always 0: nothing is evicted", 0);
        self.counter(
            "redis_keyspace_hits",
            "Lookups that found a key",
            statistics.hits,
        );
        self.counter(
            "redis_keyspace_misses",
            "Lookups that found none",
            statistics.misses,
        );
        let is_serving = f64::from(u8::from(state.is_serving()));
        self.gauge(
            "quorlock_serving",
            "1 when the node serves locks",
            is_serving,
        );
        let left = state.left_ms() as f64 / 1_000.0;
        self.gauge(
            "quorlock_restart_delay_remaining_seconds",
            "What is left of the delay",
            left,
        );
        let ttl_bound = seconds(ttl_bound_ns);
        self.gauge(
            "quorlock_ttl_bound_seconds",
            "The longest TTL a crash could forget",
            ttl_bound,
        );
        let cap = seconds(cap_ns);
        self.gauge(
            "quorlock_restart_delay_max_seconds",
            "restart-delay-max",
            cap,
        );
        let is_full = f64::from(u8::from(is_full));
        self.gauge(
            "quorlock_log_full",
            "1 when the log has no room for writes",
            is_full,
        );
    }

    /// How many keys each database holds.
    fn sizes(&mut self, counts: Counts) {
        let keys = Family::<Labels, Gauge>::default();
        let expiring = Family::<Labels, Gauge>::default();
        for (database, count) in counts.into_iter().enumerate() {
            let labels = vec![("db", format!("db{database}"))];
            let number = |count| i64::try_from(count).expect("slots have 32 bits");
            keys.get_or_create(&labels).set(number(count.keys));
            expiring.get_or_create(&labels).set(number(count.with_ttl));
        }
        let registry = &mut self.registry;
        registry.register(
            "redis_db_keys",
            "Keys that replies may reveal, by database",
            keys,
        );
        registry.register(
            "redis_db_keys_expiring",
            "Keys with a TTL, by database",
            expiring,
        );
    }

    /// How the last run ended and what that costs.
    fn of_the_start(&mut self) {
        let node = self.node;
        let report = &node.facts.report;
        let length = seconds(report.length_ns());
        self.gauge(
            "quorlock_restart_delay_seconds",
            "The whole delay of this start",
            length,
        );
        let waited = seconds(report.waited_ns().unwrap_or(0));
        self.gauge(
            "quorlock_restart_waited_seconds",
            "Waited before it served locks",
            waited,
        );
        let labels = vec![
            ("stop", report.stop.word().to_owned()),
            ("clean", report.cleanness().to_owned()),
            ("delay_cause", report.cause().to_owned()),
        ];
        self.info("quorlock_last_stop", "How the last run ended", labels);
        let labels = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("node_id", node.facts.identity.id.to_string()),
            ("name", node.config.node_name.clone().unwrap_or_default()),
            ("appendfsync", node.durability().name().to_owned()),
        ];
        self.info("quorlock_node", "This node", labels);
        let incarnation = report.incarnation as f64;
        self.gauge(
            "quorlock_incarnation",
            "Counts the starts of this node",
            incarnation,
        );
    }

    fn of_the_log(&mut self) {
        let node = self.node;
        let is_logged = f64::from(u8::from(node.durability() != Durability::Volatile));
        self.gauge("redis_aof_enabled", "1 when keys are logged", is_logged);
        let bytes = node.commit.size().total_bytes as f64;
        self.gauge("redis_aof_current_size_bytes", "The log on disk", bytes);
        let is_well = f64::from(u8::from(node.commit.failure().is_none()));
        self.gauge(
            "redis_aof_last_write_status",
            "0 when the log failed",
            is_well,
        );
        let position = node.commit.written().get();
        self.counter(
            "quorlock_log_frames_written",
            "The position written",
            position,
        );
        let position = node.commit.synced().get();
        self.counter(
            "quorlock_log_frames_synced",
            "The position synced",
            position,
        );
        let syncs = SyncTimes::read(node);
        let help = "How long syncs of the log took";
        self.registry
            .register("quorlock_sync_duration_seconds", help, syncs);
    }
}

/// The durations of syncs as they were at one moment.
#[derive(Debug)]
struct SyncTimes {
    sum_seconds: f64,
    count: u64,
    /// Upper bound in seconds, and how many fell between it and the one before.
    buckets: Vec<(f64, u64)>,
}

impl SyncTimes {
    fn read(node: &NodeState) -> Self {
        let (sum_ns, counts) = node.commit.syncs.read();
        let bounds = SYNC_BOUNDS_NS.iter().map(|bound| seconds(*bound));
        Self {
            sum_seconds: seconds(sum_ns),
            count: counts.iter().sum(),
            buckets: bounds.chain([f64::INFINITY]).zip(counts).collect(),
        }
    }
}

impl EncodeMetric for SyncTimes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        encoder.encode_histogram::<NoLabelSet>(self.sum_seconds, self.count, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Exact enough for a graph: a double holds microseconds for centuries.
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
