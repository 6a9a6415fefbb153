//! INFO: what the node says about itself, in Redis's sections and field names, and its own.
//!
//! Only facts: a field that Redis has and that means nothing here is either its truthful constant
//! (`role:master`, `connected_slaves:0`) or left out.
//!
//! It waits for no write and no sync. What only the engine knows is taken at one moment; the text,
//! and what the kernel says, come after the engine was released.

use std::fmt::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_engine::control::Ceiling;
use quorlock_engine::{ErrorReply, Reply};
use sha2::{Digest, Sha256};

use crate::config::Supervised;
use crate::core::executor::Phase;
use crate::core::process::CpuSeconds;
use crate::core::state::NodeState;
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::command_statistics;
use crate::session::info_constants;
use crate::session::info_facts::EngineFacts;
use crate::session::members;

pub(crate) fn info(_: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let node = batch.node;
    let wanted: Vec<String> = arguments[1..]
        .iter()
        .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
        .collect();
    if wanted.len() > SECTIONS.len() + 3 {
        return Err(ErrorReply::SYNTAX.into());
    }
    // A section that Redis does not have is shown where it is asked for, so that no tool that
    // reads the default sections is surprised; long ones as in Redis.
    let is_wanted = |name: &str| {
        let is_own = NOT_BY_DEFAULT.contains(&name);
        let has_word = |words: &[&str]| wanted.iter().any(|word| words.contains(&word.as_str()));
        has_word(&[name, "all", "everything"])
            || (!is_own && (wanted.is_empty() || has_word(&["default"])))
    };
    let mut page = InfoText {
        text: String::new(),
        node,
        engine: EngineFacts::read(batch)?,
    };
    for (name, write) in SECTIONS {
        if is_wanted(name) {
            if !page.text.is_empty() {
                page.text.push_str("\r\n");
            }
            write(&mut page);
        }
    }
    let reported = node.upstream.as_ref().map(|upstream| upstream.report());
    for section in reported.into_iter().flat_map(|report| report.sections) {
        if is_wanted(&section.title.to_ascii_lowercase()) {
            if !page.text.is_empty() {
                page.text.push_str("\r\n");
            }
            page.title(section.title);
            for (name, value) in section.fields {
                page.field(&name, value);
            }
        }
    }
    let text = page.text.into_bytes();
    Ok(Answer::Reply(Reply::Verbatim(*b"txt", text)))
}

type Section = fn(&mut InfoText<'_>);

const SECTIONS: &[(&str, Section)] = &[
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("cpu", cpu),
    ("modules", |page| page.title("Modules")),
    ("commandstats", |page| {
        page.title("Commandstats");
        let lines = command_statistics::of_commands(page.node, &page.engine.script_counts);
        page.text.push_str(&lines);
    }),
    ("errorstats", |page| {
        page.title("Errorstats");
        page.text
            .push_str(&command_statistics::of_errors(page.node));
    }),
    ("latencystats", |page| {
        page.title("Latencystats");
        page.text
            .push_str(&command_statistics::of_latencies(page.node));
    }),
    ("cluster", |page| {
        page.title("Cluster");
        page.field("cluster_enabled", 0);
    }),
    ("keyspace", keyspace),
    (RESTART, restart),
];

const RESTART: &str = "restart";
const NOT_BY_DEFAULT: &[&str] = &[RESTART, "commandstats", "latencystats"];

struct InfoText<'a> {
    text: String,
    node: &'a NodeState,
    engine: EngineFacts,
}

impl InfoText<'_> {
    fn title(&mut self, name: &str) {
        // Writing to a String cannot fail, here and below.
        let _ = write!(self.text, "# {name}\r\n");
    }

    fn field(&mut self, name: &str, value: impl fmt::Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    fn constants(&mut self, fields: &[(&str, &str)]) {
        for (name, value) in fields {
            self.field(name, value);
        }
    }

    fn flag(&mut self, name: &str, is_so: bool) {
        self.field(name, u8::from(is_so));
    }

    fn count(&mut self, name: &str, counter: &AtomicU64) {
        self.field(name, counter.load(Ordering::Relaxed));
    }
}

/// Who the node is, for clients that count its vote: one with an upstream has none.
fn identity(page: &mut InfoText<'_>) {
    let node = page.node;
    page.field("quorlock_node_id", node.facts.identity.id);
    let name = node.config.node_name.as_deref();
    page.field("quorlock_node_name", name.unwrap_or(""));
    page.field("quorlock_incarnation", node.facts.start.incarnation);
    // Here, so that a client that asks who the node is learns in the same answer whether it has gone back.
    page.field("quorlock_log_recovered", node.facts.report.recovered);
    page.field("quorlock_log_synced", node.commit.synced());
    page.field(
        "quorlock_cluster_id",
        node.facts.identity.cluster_id.as_deref().unwrap_or(""),
    );
    let size = node.configured(|it| it.cluster_size.clone());
    page.field("quorlock_cluster_size", size.nodes());
    page.field("quorlock_cluster_size_next", size.next().unwrap_or(0));
    page.field("quorlock_cluster_size_about", size.about().unwrap_or(""));
    let wait = members::wait(node, page.engine.raw);
    page.field("quorlock_cluster_size_wait_ms", wait.as_millis());
    page.field(
        "run_id",
        node.facts.identity.run_id(node.facts.start.incarnation),
    );
}

fn server(page: &mut InfoText<'_>) {
    let node = page.node;
    let (now, phase) = (page.engine.now, page.engine.phase.clone());
    let uptime_ns = node.uptime_ns(page.engine.raw);
    page.title("Server");
    page.field("redis_version", quorlock_engine::REDIS_VERSION);
    page.constants(info_constants::SERVER);
    page.field("server_name", "quorlock");
    page.field("quorlock_version", env!("CARGO_PKG_VERSION"));
    match node.upstream {
        None => identity(page),
        Some(_) => page.field("quorlock_agent", 1),
    }
    page.field("redis_mode", "standalone");
    page.field("os", std::env::consts::OS);
    page.field("arch_bits", usize::BITS);
    page.field("process_id", node.process.id);
    // Only the process knows whether there is a socket of systemd (`auto`).
    let supervised = match node.config.reports.supervised {
        Supervised::No => "no",
        Supervised::Systemd => "systemd",
        Supervised::Auto => "unknown",
    };
    page.field("process_supervised", supervised);
    let hz = node.settings.config().value_of("hz").unwrap_or_default();
    page.field("hz", &hz);
    page.field("configured_hz", &hz);
    page.field("executable", (node.process.executable)());
    machine(page);
    let file = node.config.file.as_deref().unwrap_or(Path::new(""));
    page.field("config_file", file.display());
    page.constants(info_constants::THREADS);
    page.field("tcp_port", node.facts.port);
    let listeners = node.config.listeners(node.facts.port);
    for (number, listener) in listeners.iter().enumerate() {
        page.field(&format!("listener{number}"), listener);
    }
    page.field("server_time_usec", now.wall_us);
    page.field("uptime_in_seconds", uptime_ns / 1_000_000_000);
    page.field("uptime_in_days", uptime_ns / 86_400_000_000_000);
    page.field("workers", node.facts.workers);
    let left_ns = match &phase {
        Phase::Waiting(until, _) => until.as_nanos().saturating_sub(now.node.as_nanos()),
        _ => 0,
    };
    page.flag("restart_delay", matches!(phase, Phase::Waiting(..)));
    page.field("restart_delay_remaining_ms", left_ns.div_ceil(1_000_000));
    page.field(
        "last_stop",
        node.facts.verdict.stop.reason().replace(',', ";"),
    );
}

/// Which nodes fail together: those of one machine, and of one file system there.
fn machine(page: &mut InfoText<'_>) {
    let node = page.node;
    let machine = &node.machine;
    // Equal for equal machines, and of no other use to whoever may see INFO.
    let id = Sha256::digest(machine.boot_id.as_bytes());
    let digits = id.iter().take(8).map(|byte| format!("{byte:02x}"));
    let digits = digits.filter(|_| !machine.boot_id.is_empty());
    page.field("quorlock_machine", digits.collect::<String>());
    page.field("quorlock_file_system", &machine.file_system);
    page.field("quorlock_clock_source", &machine.clock_source);
}

/// How this start was judged, and what follows from it: everything the log line says.
fn restart(page: &mut InfoText<'_>) {
    let node = page.node;
    let report = &node.facts.report;
    let EngineFacts {
        now,
        ttl_bound_ns,
        cap_ns,
        ceiling,
        ..
    } = page.engine;
    let left_ns = match page.engine.phase {
        Phase::Waiting(..) => report.left_ns(now.node),
        _ => 0,
    };
    let estimate = (left_ns > 0)
        .then(|| report.end_estimate(now.node, now.wall_us))
        .flatten();
    let ms = |ns: u64| ns.div_ceil(1_000_000);
    page.title("Restart");
    page.field("restart_incarnation", report.incarnation);
    page.field("restart_last_stop", report.stop.word());
    page.field("restart_last_stop_clean", report.cleanness());
    page.field("restart_last_stop_words", report.stop.reason());
    page.field("restart_delay_setting", &report.setting);
    page.field("restart_delay_cause", report.cause());
    page.field("restart_delay_reason", report.reason());
    page.field("restart_delay_length_ms", ms(report.length_ns()));
    page.field("restart_delay_at_start_ms", ms(report.at_start_ns()));
    page.field("restart_delay_left_ms", ms(left_ns));
    // For people: nothing rests on the wall clock, and somebody may set it.
    page.field(
        "restart_delay_end_estimate_utc",
        estimate.map_or_else(String::new, |date| date.to_string()),
    );
    page.field(
        "restart_waited_ms",
        report
            .waited_ns()
            .map_or_else(String::new, |ns| (ns / 1_000_000).to_string()),
    );
    page.field("restart_weakest_mode", report.weakest_word());
    page.field("restart_ttl_bound_ms", ms(report.ttl_bound_ns));
    page.flag("restart_same_boot", report.is_same_boot);
    page.flag("restart_same_directory", report.is_same_directory);
    page.flag("restart_log_whole", report.is_whole);
    page.flag("restart_trust_fsync", report.trusts_fsync);
    page.field("restart_cap_ms", ms(cap_ns));
    page.field("ttl_bound_ms", ms(ttl_bound_ns));
    page.flag("fences_certain", matches!(ceiling, Ceiling::Known(_)));
    page.field("fence_ceiling", ceiling.value());
}

fn clients(page: &mut InfoText<'_>) {
    page.title("Clients");
    page.field("connected_clients", page.node.clients.count());
    let maxclients = page.node.configured(|it| it.maxclients);
    page.field("maxclients", maxclients);
    let started = &page.node.config;
    let wanted = match maxclients == started.maxclients {
        true => started.maxclients_wanted.max(maxclients),
        false => maxclients,
    };
    page.field("quorlock_maxclients_wanted", wanted);
    let unauthenticated = page.node.clients.unauthenticated_count();
    page.field("quorlock_unauthenticated_clients", unauthenticated);
    let blocked = page.node.statistics.blocked.load(Ordering::Relaxed);
    page.field("blocked_clients", blocked);
    page.field("quorlock_lock_waiters", page.engine.lock_waiters);
    page.field("quorlock_locks_without_ttl", page.engine.locks_without_ttl);
    page.field("tracking_clients", page.engine.tracked[0]);
    page.field("pubsub_clients", page.engine.listening);
    let [watching, watched] = page.engine.watching;
    page.field("watching_clients", watching);
    page.field("total_watched_keys", watched);
    page.field("total_blocking_keys", page.engine.waited_for);
    page.constants(info_constants::CLIENTS);
}

fn memory(page: &mut InfoText<'_>) {
    page.title("Memory");
    // As in Redis it is what maxmemory is compared with.
    let resident = (page.node.process.resident_bytes)();
    let used = match page.node.upstream {
        None => page.engine.memory as u64,
        Some(_) => resident,
    };
    page.field("used_memory", used);
    page.field("used_memory_human", Human(used));
    if page.node.upstream.is_none() {
        let peak = page.engine.memory_peak as u64;
        page.field("used_memory_peak", peak);
        page.field("used_memory_peak_human", Human(peak));
        let percent = used as f64 / peak.max(1) as f64 * 100.0;
        page.field("used_memory_peak_perc", format!("{percent:.2}%"));
    }
    page.field("used_memory_rss", resident);
    page.field("used_memory_rss_human", Human(resident));
    let machine = (page.node.process.machine_bytes)();
    page.field("total_system_memory", machine);
    page.field("total_system_memory_human", Human(machine));
    page.field("used_memory_lua", page.engine.script_memory);
    page.field("used_memory_vm_eval", page.engine.script_memory);
    let ratio = resident as f64 / used.max(1) as f64;
    page.field("mem_fragmentation_ratio", format!("{ratio:.2}"));
    page.field("mem_fragmentation_bytes", resident.saturating_sub(used));
    let maxmemory = page.node.configured(|it| it.maxmemory);
    page.field("maxmemory", maxmemory);
    page.field("maxmemory_human", Human(maxmemory));
    page.field("mem_clients_normal", page.node.clients.memory());
    page.field("mem_clients_slaves", 0);
    page.field("used_memory_scripts", page.engine.script_memory);
    page.field("number_of_cached_scripts", page.engine.script_count);
    page.field("maxmemory_policy", "noeviction");
    page.constants(info_constants::MEMORY);
}

fn persistence(page: &mut InfoText<'_>) {
    let node = page.node;
    let is_full = page.engine.is_full;
    let bytes = node.commit.size().total_bytes;
    let status = if node.commit.failure().is_some() || is_full {
        "err"
    } else {
        "ok"
    };
    page.title("Persistence");
    page.flag("loading", node.is_loading());
    page.flag("aof_enabled", node.is_logged());
    compaction(page);
    page.field("aof_last_write_status", status);
    page.field("aof_current_size", bytes);
    page.field("rdb_bgsave_in_progress", 0);
    page.constants(info_constants::PERSISTENCE);
    page.field("quorlock_appendfsync", node.durability().name());
    page.field("quorlock_log_position", node.commit.written());
    page.field("quorlock_sync_usec", node.commit.sync_ns() / 1_000);
}

fn compaction(page: &mut InfoText<'_>) {
    let node = page.node;
    let rewrites = &node.rewrites;
    // In this order: one that begins now is running before it is no longer asked for.
    let is_asked = rewrites.is_asked.load(Ordering::Acquire);
    let is_running = rewrites.is_running.load(Ordering::Acquire);
    let is_scheduled = is_asked && !is_running;
    let completed = rewrites.completed.load(Ordering::Relaxed);
    // As in Redis, -1 before the first.
    let seconds = match completed {
        0 => -1,
        _ => i64::try_from(rewrites.last_ns.load(Ordering::Relaxed) / 1_000_000_000)
            .expect("nanoseconds of 64 bits are 584 years"),
    };
    let status = if rewrites.has_failed.load(Ordering::Relaxed) {
        "err"
    } else {
        "ok"
    };
    let longest_ns = rewrites.longest_part_ns.load(Ordering::Relaxed);
    page.flag("aof_rewrite_in_progress", is_running);
    page.flag("aof_rewrite_scheduled", is_scheduled);
    page.field("aof_rewrites", completed);
    page.field("aof_last_rewrite_time_sec", seconds);
    page.field("aof_last_bgrewrite_status", status);
    page.field("aof_base_size", rewrites.base_bytes.load(Ordering::Relaxed));
    page.field("quorlock_compaction_part_usec_max", longest_ns / 1_000);
}

fn stats(page: &mut InfoText<'_>) {
    let statistics = &page.node.statistics;
    page.title("Stats");
    page.field(
        "total_connections_received",
        page.node.connections_received(),
    );
    page.count("total_commands_processed", &statistics.commands);
    let rate = statistics.per_second(page.engine.raw);
    page.field("instantaneous_ops_per_sec", rate.commands);
    let kib = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    page.field("instantaneous_input_kbps", kib(rate.bytes_in));
    page.field("instantaneous_output_kbps", kib(rate.bytes_out));
    page.count("total_net_input_bytes", &statistics.bytes_in);
    page.count("total_net_output_bytes", &statistics.bytes_out);
    page.count("rejected_connections", &statistics.rejected);
    page.count("total_error_replies", &statistics.errors);
    let closed = &statistics.closed;
    page.count("evicted_clients", &closed.evicted);
    page.count(
        "client_query_buffer_limit_disconnections",
        &closed.query_limit,
    );
    page.count(
        "client_output_buffer_limit_disconnections",
        &closed.output_limit,
    );
    page.count("quorlock_timed_out_clients", &closed.timed_out);
    page.count(
        "quorlock_closed_unauthenticated_clients",
        &closed.unauthenticated,
    );
    let keys = page.engine.statistics;
    page.field("expired_keys", keys.expired);
    page.field("evicted_keys", 0);
    page.field("keyspace_hits", keys.hits);
    page.field("keyspace_misses", keys.misses);
    let [channels, patterns, shards] = page.engine.listened;
    page.field("pubsub_channels", channels);
    page.field("pubsub_patterns", patterns);
    page.field("pubsubshard_channels", shards);
    let [_, tracked_keys, tracked_items, tracked_prefixes] = page.engine.tracked;
    page.field("tracking_total_keys", tracked_keys);
    page.field("tracking_total_items", tracked_items);
    page.field("tracking_total_prefixes", tracked_prefixes);
    for (reason, count) in page.node.access.denied_counts() {
        page.field(&format!("acl_access_denied_{reason}"), count);
    }
    page.constants(info_constants::STATS);
}

fn replication(page: &mut InfoText<'_>) {
    page.title("Replication");
    page.field("role", "master");
    page.field("connected_slaves", 0);
    page.field("master_replid", page.node.facts.identity.id);
    page.field("master_repl_offset", 0);
    page.constants(info_constants::REPLICATION);
}

fn cpu(page: &mut InfoText<'_>) {
    let CpuSeconds { user, system } = (page.node.process.cpu_seconds)();
    page.title("CPU");
    page.field("used_cpu_sys", format_args!("{system:.2}"));
    page.field("used_cpu_user", format_args!("{user:.2}"));
    page.constants(info_constants::CPU);
}

fn keyspace(page: &mut InfoText<'_>) {
    page.title("Keyspace");
    for (database, counts) in page.engine.counts.into_iter().enumerate() {
        // As in Redis, an empty database has no line: tools divide by its count.
        if counts.keys > 0 {
            page.field(
                &format!("db{database}"),
                format_args!("keys={},expires={},avg_ttl=0", counts.keys, counts.with_ttl),
            );
        }
    }
}

/// Bytes as Redis shows them to people.
pub(super) struct Human(pub(super) u64);

impl fmt::Display for Human {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
        let unit = units.into_iter().find(|(bits, _)| self.0 >> bits > 0);
        match unit {
            Some((bits, letter)) => {
                let value = self.0 as f64 / (1_u64 << bits) as f64;
                write!(formatter, "{value:.2}{letter}")
            }
            None => write!(formatter, "{}B", self.0),
        }
    }
}
