//! The metrics as OpenMetrics text.
//!
//! Names are those of redis_exporter where it has one, so that existing dashboards work, and begin
//! with `quorlock_` where it has none. A metric that this node cannot fill is left out rather than
//! given a made-up number.

use std::fmt::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use quorlock_engine::control::Durability;

use crate::metrics::locks::{self, Times, TimesByPattern};
use crate::metrics::page::{Labels, MetricsPage, seconds};
use crate::metrics::state;
use quorlock_node::clock::WallReading;
use quorlock_node::core::durable_counts::Counts;
use quorlock_node::core::process::CpuSeconds;
use quorlock_node::core::state::NodeState;
use quorlock_node::core::statistics::{SYNC_BOUNDS_NS, SyncCounts};
use quorlock_node::core::upstream::UpstreamReport;
use quorlock_node::core::wait::DurabilityWait;

/// What `/metrics` answers.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything there is to say now.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub(super) fn text(node: &NodeState) -> Result<String, Error> {
    let mut page = MetricsPage {
        registry: Registry::default(),
        node,
    };
    page.of_redis();
    page.of_the_traffic();
    page.of_the_commands();
    page.of_the_certificate();
    match &node.upstream {
        None => {
            page.of_the_engine();
            page.of_the_start();
            page.of_the_log();
        }
        // It keeps no keys and has no past: figures about them would be taken for those of its locks.
        Some(upstream) => page.of_the_upstream(&upstream.report()),
    }
    let mut text = String::new();
    encode(&mut text, &page.registry)?;
    Ok(text)
}

impl MetricsPage<'_> {
    /// What redis_exporter shows of Redis, as far as a node has it.
    fn of_redis(&mut self) {
        let node = self.node;
        let uptime_ns = node.uptime_ns(node.clock.raw());
        self.gauge("redis_up", 1.0);
        self.gauge("redis_uptime_in_seconds", seconds(uptime_ns));
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
            ("process_id", node.process.id.to_string()),
        ];
        self.info("redis_instance", labels);
        self.gauge("redis_connected_clients", node.clients.count() as f64);
        let blocked = node.statistics.blocked.load(Ordering::Relaxed) as f64;
        self.gauge("redis_blocked_clients", blocked);
        let clients_max = node.configured(|it| it.maxclients);
        self.gauge("redis_config_maxclients", clients_max as f64);
        let resident = (node.process.resident_bytes)() as f64;
        self.gauge("redis_memory_used_rss_bytes", resident);
        if node.upstream.is_some() {
            self.gauge("redis_memory_used_bytes", resident);
        } else {
            let memory_max = node.configured(|it| it.maxmemory);
            self.gauge("redis_memory_max_bytes", memory_max as f64);
            self.gauge("redis_connected_slaves", 0.0);
            self.flag("redis_loading_dump_file", node.is_loading());
        }
    }

    /// The counters that redis_exporter has, and the one it lacks.
    fn of_the_traffic(&mut self) {
        let node = self.node;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let statistics = &node.statistics;
        self.counter("redis_connections_received", node.connections_received());
        self.counter("redis_rejected_connections", count(&statistics.rejected));
        self.counter("redis_commands_processed", count(&statistics.commands));
        self.counter("redis_net_input_bytes", count(&statistics.bytes_in));
        self.counter("redis_net_output_bytes", count(&statistics.bytes_out));
        self.counter("quorlock_error_replies", count(&statistics.errors));
        let CpuSeconds { user, system } = (node.process.cpu_seconds)();
        self.register("redis_cpu_user_seconds", ConstCounter::new(user));
        self.register("redis_cpu_sys_seconds", ConstCounter::new(system));
    }

    /// Calls of each command and the time they took, those of scripts among the calls: their time is the script's.
    fn of_the_commands(&mut self) {
        let node = self.node;
        let Ok(executor) = node.executor.lock() else {
            return;
        };
        let scripts = executor.script_counts().clone();
        drop(executor);
        let calls = Family::<Labels, Counter>::default();
        let durations = Family::<Labels, Counter<f64, AtomicU64>>::default();
        for (number, name) in node.calls.names() {
            let count = node.calls.count(number);
            let sum = count.calls + scripts.count(number).calls;
            if sum == 0 {
                continue;
            }
            let labels = vec![("cmd", name.to_owned())];
            calls.get_or_create(&labels).inc_by(sum);
            durations
                .get_or_create(&labels)
                .inc_by(seconds(count.nanos));
        }
        self.register("redis_commands", calls);
        self.register("redis_commands_duration_seconds", durations);
        let errors = Family::<Labels, Counter>::default();
        for (code, count) in node.statistics.error_codes.public() {
            let labels = vec![("err", code.to_owned())];
            errors.get_or_create(&labels).inc_by(count);
        }
        self.register("redis_errors", errors);
    }

    /// When the certificate ends that clients are shown.
    fn of_the_certificate(&mut self) {
        let certificates = self.node.certificates.as_ref();
        if let Some(end) = certificates.and_then(|certificates| certificates.end()) {
            self.gauge(
                "quorlock_tls_certificate_expiry_timestamp_seconds",
                end as f64,
            );
        }
    }

    /// What only the engine knows: one short hold of its lock.
    fn of_the_engine(&mut self) {
        let node = self.node;
        let state = state::of(node);
        // A lock that a panic poisoned: the process is about to end, and /healthz says so.
        let Ok(mut executor) = node.executor.lock() else {
            return;
        };
        let read_wall = || WallReading::now(&*node.clock);
        let now = executor.time.now(node.clock.raw(), read_wall).node;
        let lock_report = executor.lock_report(now);
        let statistics = executor.statistics();
        let counts = node
            .commit
            .counts_shown(&executor, DurabilityWait::default());
        let (ttl_bound_ns, cap_ns) = (executor.ttl_bound.on_record_ns, executor.mode.cap_ns());
        let is_full = executor.appender.is_full();
        let memory = executor.memory();
        drop(executor);
        self.sizes(counts);
        self.gauge("redis_memory_used_bytes", memory as f64);
        locks::register(self, &lock_report);
        self.counter("redis_expired_keys", statistics.expired);
        self.counter("redis_evicted_keys", 0);
        self.counter("redis_keyspace_hits", statistics.hits);
        self.counter("redis_keyspace_misses", statistics.misses);
        self.flag("quorlock_serving", state.is_serving());
        let left = state.left_ms() as f64 / 1_000.0;
        self.gauge("quorlock_restart_delay_remaining_seconds", left);
        self.gauge("quorlock_ttl_bound_seconds", seconds(ttl_bound_ns));
        self.gauge("quorlock_restart_delay_max_seconds", seconds(cap_ns));
        self.flag("quorlock_log_full", is_full);
    }

    /// What executes commands in place of the engine.
    fn of_the_upstream(&mut self, report: &UpstreamReport) {
        self.flag("quorlock_serving", state::of(self.node).is_serving());
        for metric in &report.metrics {
            let (name, help) = (metric.name, metric.help);
            if let [(labels, value)] = &metric.samples[..]
                && labels.is_empty()
            {
                match metric.is_counter {
                    true => (self.registry).register(name, help, ConstCounter::new(*value)),
                    false => self.registry.register(name, help, ConstGauge::new(*value)),
                }
            } else if metric.is_counter {
                let family = Family::<Labels, Counter<f64, AtomicU64>>::default();
                for (labels, value) in &metric.samples {
                    family.get_or_create(labels).inc_by(*value);
                }
                self.registry.register(name, help, family);
            } else {
                let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
                for (labels, value) in &metric.samples {
                    family.get_or_create(labels).set(*value);
                }
                self.registry.register(name, help, family);
            }
        }
        for histogram in &report.histograms {
            let samples = histogram.samples.iter();
            let times = samples.map(|(labels, counts)| (labels.clone(), Times::of(counts)));
            let times = TimesByPattern(times.collect());
            (self.registry).register(histogram.name, histogram.help, times);
        }
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
        self.register("redis_db_keys", keys);
        self.register("redis_db_keys_expiring", expiring);
    }

    /// How the last run ended and what that costs.
    fn of_the_start(&mut self) {
        let node = self.node;
        let report = &node.facts.report;
        self.gauge(
            "quorlock_restart_delay_seconds",
            seconds(report.length_ns()),
        );
        self.gauge(
            "quorlock_restart_waited_seconds",
            seconds(report.waited_ns().unwrap_or(0)),
        );
        let labels = vec![
            ("stop", report.stop.word().to_owned()),
            ("clean", report.cleanness().to_owned()),
            ("delay_cause", report.cause().to_owned()),
        ];
        self.info("quorlock_last_stop", labels);
        let labels = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("node_id", node.facts.identity.id.to_string()),
            ("name", node.config.node_name.clone().unwrap_or_default()),
            ("appendfsync", node.durability().name().to_owned()),
        ];
        self.info("quorlock_node", labels);
        self.gauge("quorlock_incarnation", report.incarnation as f64);
    }

    fn of_the_log(&mut self) {
        let node = self.node;
        self.flag(
            "redis_aof_enabled",
            node.durability() != Durability::Volatile,
        );
        self.gauge(
            "redis_aof_current_size_bytes",
            node.commit.size().total_bytes as f64,
        );
        self.flag(
            "redis_aof_last_write_status",
            node.commit.failure().is_none(),
        );
        self.counter("quorlock_log_frames_written", node.commit.written().get());
        self.counter("quorlock_log_frames_synced", node.commit.synced().get());
        self.register("quorlock_sync_duration_seconds", sync_times(node));
        let wait_ns = node.commit.device_wait_ns(node.clock.raw());
        self.gauge("quorlock_log_wait_seconds", seconds(wait_ns));
    }
}

/// The durations of syncs as they were at one moment.
fn sync_times(node: &NodeState) -> Times {
    let SyncCounts { sum_ns, buckets } = node.commit.syncs.read();
    let bounds = SYNC_BOUNDS_NS.iter().map(|bound| seconds(*bound));
    Times {
        sum_seconds: seconds(sum_ns),
        buckets: bounds.chain([f64::INFINITY]).zip(buckets).collect(),
    }
}
