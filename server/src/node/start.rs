//! How a node starts: bind, read the log, judge the past, put START on record.
//!
//! The order matters. The port is bound before anything is written, so that a second process
//! fails without a trace. START is synced before the node answers, SERVING before it grants.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use quorlock_engine::control::Start;
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::restart::{self, Policy, Verdict};
use quorlock_engine::{Engine, EngineOptions, NodeTime, ScriptLimits};
use quorlock_persistence::{Disk, LogOptions, Preparer, Recovery};

use crate::clock::{Clock, Reading, saturated_nanos};
use crate::config::{AppendFsync, Config, FirstStart, NoTtlDurability, RestartDelayReply};
use crate::core::calls::Calls;
use crate::core::clients::Clients;
use crate::core::deliveries::Deliveries;
use crate::core::executor::{Executor, Phase, Rules};
use crate::core::log_queue::{LogEvents, LogQueue};
use crate::core::log_writer::LogWriter;
use crate::core::maintenance::Maintenance;
use crate::core::pause::Pause;
use crate::core::process::Process;
use crate::core::report::StartReport;
use crate::core::rewrites::Rewrites;
use crate::core::settings::{Settings, durability};
use crate::core::state::{NodeState, Signals, StartFacts};
use crate::core::statistics::Statistics;
use crate::core::time::{self, Timekeeper};
use crate::core::wait::to_engine;
use crate::metrics;
use crate::node::error::StartError;
use crate::node::open_log::{open_log, tell_of_log};
use crate::node::password;
use crate::past::{self, Belongings, Directory, Identity, Log, Past, fingerprint};
use crate::runtime::descriptors::{self, Fit};
use crate::runtime::listener::{self, BindError};
use crate::runtime::unix_socket::{UnixSocket, is_replaceable_in};
use crate::session;
use crate::session::command_names;
use crate::sync::Mutex;

/// What a node starts from.
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) process: Process,
    pub(crate) disk: Arc<dyn Disk>,
    /// Tells machine and directory from others.
    /// The sizes of the log.
    pub(crate) sizes: LogOptions,
    /// Bytes of one part of a checkpoint at most.
    pub(crate) part_bytes: usize,
    /// Fills with bytes that nobody can guess.
    pub(crate) random: Random,
}

/// Where random bytes come from.
pub(crate) type Random = Arc<dyn Fn(&mut [u8]) -> Result<(), StartError> + Send + Sync>;

/// Random bytes of the system.
pub(crate) fn system_random(bytes: &mut [u8]) -> Result<(), StartError> {
    getrandom::fill(bytes).map_err(|_| StartError::Randomness)
}

/// Where clients reach the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// The first port it listens on; 0 where there is none.
    pub(crate) port: u16,
    /// Where the metrics are, if anywhere.
    pub(crate) metrics: Option<SocketAddr>,
}

/// A node that has started; its threads have not.
pub(crate) struct Started {
    pub(crate) begun: Begun,
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) socket: Option<UnixSocket>,
    pub(crate) metrics: Vec<TcpListener>,
}

/// A node whose START is on record: what its threads, or a simulation, go on with.
pub(crate) struct Begun {
    pub(crate) node: Arc<NodeState>,
    pub(crate) maintenance: Maintenance,
    pub(crate) stop_mark: StopMark,
    pub(crate) preparer: Preparer,
    pub(crate) log_events: LogEvents,
}

/// Where an orderly stop marks the directory, so that a copy of it can be told from it.
pub(crate) struct StopMark {
    disk: Arc<dyn Disk>,
    incarnation: u64,
}

impl StopMark {
    /// To be called once SHUTDOWN is synced.
    pub(crate) fn leave(&self) {
        fingerprint::mark_stopped(&*self.disk, self.incarnation);
    }
}

/// Starts a node up to the point where it can answer. Blocks on the disk.
pub(crate) fn start(mut plan: Plan) -> Result<Started, StartError> {
    let wanted = plan.config.maxclients;
    let fit = descriptors::fit(wanted);
    if fit.clients == 0 {
        return Err(StartError::Descriptors {
            available: fit.available.unwrap_or(u64::MAX),
            needed: fit.needed,
        });
    }
    plan.config.maxclients = fit.clients;
    let listeners = bind(&plan.config)?;
    let socket = bind_local(&plan.config)?;
    let metrics = metrics::bind(&plan.config)
        .map_err(|BindError { address, source }| StartError::BindMetrics { address, source })?;
    let begun = begin(plan, reach(&listeners, &metrics))?;
    tell_of_fewer_clients(&begun.node, wanted, fit);
    Ok(Started {
        begun,
        listeners,
        socket,
        metrics,
    })
}

/// Says that the process may not open as many files as the clients that are allowed need.
fn tell_of_fewer_clients(node: &NodeState, wanted: usize, fit: Fit) {
    if let Some(available) = fit.available.filter(|_| fit.clients < wanted) {
        tracing::warn!(
            "node {}: maxclients is {} instead of {wanted}: the process may open {available} files, which its nodes share; \
             raise the limit (ulimit -n) for more clients",
            node.shown_id(),
            fit.clients
        );
    }
}

/// The start behind the sockets: reads the log, judges the past, puts START on record. Needs neither a
/// network nor a thread.
pub(crate) fn begin(mut plan: Plan, reach: Reach) -> Result<Begun, StartError> {
    password::read(&mut plan.config)?;
    let known = Identity::read(&*plan.disk)?;
    let syncs_each = plan.config.appendonly && plan.config.appendfsync == AppendFsync::Always;
    let options = LogOptions {
        allows_direct: plan.config.log_direct_io,
        writes_direct: syncs_each && plan.config.log_direct_io,
        expected_node: known.as_ref().map(|identity| identity.id.bytes()),
        // One that cannot be measured shows in the next call.
        ..plan.sizes.on(plan.disk.volume().unwrap_or(None))
    };
    let recovery = Recovery::read(Arc::clone(&plan.disk), &options).map_err(StartError::Log)?;
    let mut engine = new_engine(&plan)?;
    let directory = Directory {
        disk: &*plan.disk,
        identity: known.as_ref(),
        log: Log::Recovered(&recovery),
    };
    let policy = past::policy(&plan.config);
    let replay = |position, payload: &[u8]| engine.apply(to_engine(position), payload);
    let history = directory.log.history(replay)?;
    let past = Past::judge(&directory, history, &Reading::now(&*plan.clock), &policy)?;
    let identity = match known {
        Some(identity) => of_cluster(identity, &plan)?,
        None => create_identity(&plan, &recovery)?,
    };
    let start = next_start(&plan, &past)?;
    let report = StartReport::new(&past, start.incarnation, recovery.summary(), &plan.config);
    tell_of_log(&recovery);
    let id = identity.shown(plan.config.node_name.as_deref());
    let wall_us = plan.clock.wall_us();
    let advice = advice(&past.verdict);
    let why = why_it_waits(&plan.config, advice);
    report.announce(&id, wall_us, &format!("{advice}{why}"));
    tell_of_choices(&identity, &id, &policy, &plan.config);

    let log_identity = quorlock_persistence::LogIdentity {
        node_id: identity.id.bytes(),
        boot_id: start.boot.0,
        incarnation: start.incarnation,
    };
    let log = open_log(recovery, &plan.disk, &options, log_identity)?;
    let part_bytes = plan.part_bytes;
    let judged = Judged {
        start,
        past: &past,
        report,
    };
    let Assembled {
        node,
        preparer,
        log_events,
    } = assemble(&plan, identity, engine, log, judged, reach);
    let mut maintenance = Maintenance::new(start, part_bytes);
    node.begin(&mut maintenance, node.facts.started_raw)?;
    settle(&plan, &node, start.incarnation)?;
    Ok(Begun {
        node,
        stop_mark: StopMark {
            disk: plan.disk,
            incarnation: start.incarnation,
        },
        maintenance,
        preparer,
        log_events,
    })
}

/// From here on the directory is this start's.
fn settle(plan: &Plan, node: &NodeState, incarnation: u64) -> Result<(), StartError> {
    let settled = fingerprint::remove_older(&*plan.disk, incarnation);
    settled.map_err(StartError::Disk)?;
    let belongings = Belongings::of(Arc::clone(&plan.disk), incarnation);
    node.log_writer.watch(Some(belongings));
    Ok(())
}

fn reach(listeners: &[TcpListener], metrics: &[TcpListener]) -> Reach {
    let address = |listeners: &[TcpListener]| listeners.first()?.local_addr().ok();
    Reach {
        port: address(listeners).map_or(0, |address| address.port()),
        metrics: address(metrics),
    }
}

/// The Unix socket, where one is wanted.
fn bind_local(config: &Config) -> Result<Option<UnixSocket>, StartError> {
    let Some(path) = &config.unixsocket else {
        return Ok(None);
    };
    let path = config.dir.join(path);
    if let Some(directory) = path.parent().filter(|parent| is_replaceable_in(parent)) {
        tracing::warn!(
            "every user of this machine may replace the unix socket, and what is put there can take locks and passwords meant for \
             this node: take away their permission with: chmod o-w {}",
            directory.display()
        );
    }
    let bound = UnixSocket::bind(&path, config.unixsocketperm, config.tcp_backlog);
    bound
        .map(Some)
        .map_err(|source| StartError::BindUnix { path, source })
}

fn bind(config: &Config) -> Result<Vec<TcpListener>, StartError> {
    if config.port == 0 && config.unixsocket.is_some() {
        return Ok(Vec::new());
    }
    let listeners = listener::bind_all(&config.bind, config.port, config.tcp_backlog)
        .map_err(|BindError { address, source }| StartError::Bind { address, source })?;
    if listeners.is_empty() {
        Err(StartError::NoAddress)
    } else {
        Ok(listeners)
    }
}

fn new_engine(plan: &Plan) -> Result<Engine, StartError> {
    let config = &plan.config;
    let mut seed = [0; 8];
    (plan.random)(&mut seed)?;
    let mut engine = Engine::new(EngineOptions {
        restart_delay_max: config.restart_delay_max,
        require_ttl: config.require_ttl,
        databases: config.databases,
        reply_bytes_max: config.proto_max_reply_len,
        hash_seed: u64::from_le_bytes(seed),
        script_limits: ScriptLimits {
            time: config.script_time_limit,
            body_bytes: config.script_size_limit,
            loaded_bytes: config.script_load_limit,
            ..ScriptLimits::default()
        },
        runs_scripts_natively: config.script_native,
        ..EngineOptions::default()
    });
    let clock = Arc::clone(&plan.clock);
    session::follow(&mut engine, config);
    engine.set_script_clock(Box::new(move || clock.raw()));
    let random = Arc::clone(&plan.random);
    engine.set_script_seeds(Box::new(move || {
        let mut seed = [0; 8];
        random(&mut seed).ok().map(|()| u64::from_le_bytes(seed))
    }));
    Ok(engine)
}

/// A directory that was made for one cluster serves no other; one that was made for none serves any. The size is
/// the configured one: a cluster may grow.
fn of_cluster(identity: Identity, plan: &Plan) -> Result<Identity, StartError> {
    match (&plan.config.cluster_id, &identity.cluster_id) {
        (Some(asked), Some(made_for)) if asked != made_for => {
            let directory = plan.disk.describe("");
            Err(StartError::Config(format!(
                "cluster-id is {asked}, but the node in {directory} was made for the cluster {made_for}. Nothing was \
                 started and no lock is affected; name that cluster, or give this one a directory of its own with the directive dir"
            )))
        }
        (asked, made_for) => Ok(Identity {
            cluster_id: asked.clone().or_else(|| made_for.clone()),
            cluster_size: match plan.config.cluster_size {
                0 => identity.cluster_size,
                asked => asked,
            },
            ..identity
        }),
    }
}

/// A first start makes an identity. A log without one keeps the id its segments carry.
fn create_identity(plan: &Plan, recovery: &Recovery) -> Result<Identity, StartError> {
    let mut bytes = [0; 20];
    match recovery.summary().node_id {
        Some(carried) => bytes = carried,
        None => (plan.random)(&mut bytes)?,
    }
    let identity = Identity::known(bytes, &plan.config);
    identity.write(&*plan.disk).map_err(StartError::Disk)?;
    Ok(identity)
}

/// One incarnation more than any that was ever used here.
fn next_start(plan: &Plan, past: &Past) -> Result<Start, StartError> {
    let incarnation = past.newest_incarnation.saturating_add(1);
    let anchor = time::anchor(
        past.history
            .start
            .as_ref()
            .filter(|_| past.seen.is_same_boot),
        plan.clock.wall_us(),
        plan.clock.boottime(),
    );
    let fingerprint = fingerprint::mark(&*plan.disk, incarnation);
    Ok(Start {
        incarnation,
        boot: plan.clock.boot(),
        fingerprint: fingerprint.map_err(StartError::Disk)?,
        durability: durability(&plan.config),
        base: past.base,
        raw: past.raw,
        wall_us: anchor.wall_us,
        boottime: anchor.boottime,
        pending: past.verdict.delay,
        cap_ns: saturated_nanos(plan.config.restart_delay_max),
    })
}

/// What a start has found, and how it goes on.
struct Judged<'a> {
    start: Start,
    past: &'a Past,
    report: StartReport,
}

/// A node that runs nothing yet, and what its threads take over from it.
struct Assembled {
    node: Arc<NodeState>,
    /// Makes segments, on the log thread.
    preparer: Preparer,
    /// What the log thread is asked for.
    log_events: LogEvents,
}

fn assemble(
    plan: &Plan,
    identity: Identity,
    engine: Engine,
    log: quorlock_persistence::Log,
    judged: Judged<'_>,
    reach: Reach,
) -> Assembled {
    let Judged {
        start,
        past,
        report,
    } = judged;
    let mut time = Timekeeper::new(&start, u64::from(plan.config.clock_drift_millionths));
    time.not_before(past.history.newest);
    let verdict = past.verdict;
    let reason = verdict
        .delay
        .map_or(verdict.stop, |delay| delay.cause)
        .delay_reason();
    let phase = match verdict.delay {
        Some(pending) => Phase::Waiting(pending.until, reason),
        // Until SERVING is on record; nobody is connected before that.
        None => Phase::Waiting(NodeTime::from_nanos(0), reason),
    };
    let rules = Rules {
        writes_direct: plan.config.log_direct_io,
        no_ttl_is_synced: plan.config.no_ttl_durability == NoTtlDurability::Sync,
        answers_loading: plan.config.restart_delay_reply == RestartDelayReply::Loading,
        node_id: identity.id.to_string(),
        advice: advice(&verdict),
    };
    let (log_queue, log_events) = LogQueue::new();
    let facts = StartFacts {
        identity,
        start,
        verdict,
        report,
        port: reach.port,
        metrics_address: reach.metrics,
        workers: workers(plan.config.workers, cores()),
        started_raw: plan.clock.raw(),
    };
    let (log_writer, commit) = LogWriter::new(log.writer, plan.clock.clone(), facts.started_raw);
    let mode = LiveMode::new(&start);
    let executor = Executor::new(engine, log.appender, time, phase, mode, rules);
    let node = NodeState {
        executor: Mutex::new(executor),
        commit,
        log_writer,
        log_queue,
        clock: Arc::clone(&plan.clock),
        process: plan.process,
        deliveries: Deliveries::new(facts.workers + IN_PROCESS),
        pause: Pause::default(),
        settings: Settings::new(&plan.config),
        config: plan.config.clone(),
        clients: Clients::default(),
        statistics: Statistics::default(),
        calls: Calls::new(facts.workers + IN_PROCESS, command_names()),
        facts,
        rewrites: Rewrites::default(),
        signals: Signals::default(),
    };
    Assembled {
        node: Arc::new(node),
        preparer: log.preparer,
        log_events,
    }
}

/// The worker of clients in this process.
const IN_PROCESS: usize = 1;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// 1 up to 3 cores, then about half the cores: locks are contended, and syscalls dominate.
fn workers(configured: usize, cores: usize) -> usize {
    match configured {
        0 if cores <= 3 => 1,
        0 => cores / 2,
        given => given,
    }
}

/// What an operator can do about this delay, for the error that clients see.
fn advice(verdict: &Verdict) -> &'static str {
    match verdict.delay.map(|delay| delay.cause) {
        Some(restart::Stop::Unknown) => {
            "; a new node needs no delay: create it once with `quorlock node init DIR`, or start \
             it with first-start serve if nothing ever ran here"
        }
        _ => "",
    }
}

/// Says what it costs that a node keeps no log, or does not know how many nodes its cluster has. A node on its own
/// needs no size, so only the one that belongs to a cluster is warned.
fn tell_of_choices(identity: &Identity, id: &str, policy: &Policy, config: &Config) {
    StartReport::tell_of_volatile(id, policy.stretch(policy.cap_ns), config);
    if identity.cluster_size > 0 {
        return;
    }
    let line = format!(
        "node {id} has no cluster-size. Alone it needs none. As one of several nodes that keep Redlock locks it does: \
         without it, clients that list other nodes than each other can hold the same lock. Set cluster-size and \
         cluster-id on each of them, or cluster-size 1 if this node is alone"
    );
    if identity.cluster_id.is_some() {
        tracing::warn!("{line}");
    } else {
        tracing::info!("{line}");
    }
}

/// Why an empty directory with that advice is waited out, where nobody has said so in as many words.
fn why_it_waits(config: &Config, advice: &str) -> String {
    match config.beyond_first_try() {
        Some(what) if !advice.is_empty() && config.first_start == FirstStart::Auto => {
            format!(" (first-start auto waits, because {what} is configured)")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
