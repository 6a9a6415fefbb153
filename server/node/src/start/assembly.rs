//! Puts a node together from what its start has found.

use std::sync::Arc;

use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::restart::RestartVerdict;
use quorlock_engine::{Engine, NodeTime};
use quorlock_persistence::Preparer;

use crate::command_numbers;
use crate::config::{Config, NoTtlDurability, RestartDelayReply};
use crate::core::access::{Access, UserFile};
use crate::core::calls::CommandStatistics;
use crate::core::clients::Clients;
use crate::core::deliveries::Deliveries;
use crate::core::executor::{Executor, Phase, Rules};
use crate::core::latency::LatencyMonitor;
use crate::core::log_queue::{LogEvents, LogQueue};
use crate::core::log_writer::LogWriter;
use crate::core::monitors::Monitors;
use crate::core::pause::Pause;
use crate::core::report::StartReport;
use crate::core::rewrites::Rewrites;
use crate::core::settings::NodeSettings;
use crate::core::state::{NodeState, Signals, StartFacts};
use crate::core::statistics::ServerStatistics;
use crate::core::time::Timekeeper;
use crate::core::upstream::Publish;
use crate::past::{NodeIdentity, Past};
use crate::start::{ListenInfo, StartPlan, advice};
use crate::sync::Mutex;
use quorlock_engine::control::Start;

/// What a start has found, and how it goes on.
pub(super) struct Judged<'a> {
    pub(super) start: Start,
    pub(super) past: &'a Past,
    pub(super) report: StartReport,
}

/// A node that runs nothing yet, and what its threads take over from it.
pub(super) struct Assembled {
    pub(super) node: Arc<NodeState>,
    /// Makes segments, on the log thread.
    pub(super) preparer: Preparer,
    /// What the log thread is asked for.
    pub(super) log_events: LogEvents,
}

pub(super) fn assemble(
    plan: &StartPlan,
    identity: NodeIdentity,
    engine: Engine,
    log: quorlock_persistence::Log,
    judged: Judged<'_>,
    reach: ListenInfo,
) -> Assembled {
    #[rustfmt::skip]
    let Judged { start, past, report } = judged;
    let mut time = Timekeeper::new(&start, u64::from(plan.config.clock_drift_millionths));
    time.not_before(past.history.newest);
    let verdict = past.verdict;
    let phase = first_phase(verdict);
    let rules = rules(&plan.config, &identity, &verdict);
    let (log_queue, log_events) = LogQueue::new();
    let facts = StartFacts {
        identity,
        start,
        verdict,
        report,
        port: reach.port,
        workers: workers(plan.config.workers, plan.cores),
        started_raw: plan.clock.raw(),
    };
    let settings = Arc::new(NodeSettings::new(&plan.config));
    let latency = Arc::new(LatencyMonitor::new(Arc::clone(&settings)));
    let clock = (plan.clock.clone(), facts.started_raw);
    let (log_writer, commit) = LogWriter::new(log.writer, clock, Arc::clone(&latency));
    let mode = LiveMode::new(&start);
    let mut executor = Executor::new(engine, log.appender, time, phase, mode, rules);
    let patterns = &plan.config.metrics_lock_patterns;
    executor.engine.set_lock_patterns(patterns);
    let node = NodeState {
        clients: clients_known_to(&mut executor),
        executor: Mutex::new(executor),
        upstream: plan.upstream.clone(),
        certificates: plan.certificates.clone(),
        metrics: plan.metrics.clone(),
        files: plan.files.clone(),
        log_filter: plan.log_filter.clone(),
        commit,
        log_writer,
        log_queue,
        clock: Arc::clone(&plan.clock),
        process: plan.process,
        machine: (plan.process.machine)(&plan.config.dir),
        deliveries: Deliveries::new(facts.workers + IN_PROCESS),
        pause: Pause::default(),
        access: Arc::new(access(plan)),
        settings,
        slow_log: Mutex::default(),
        latency,
        monitors: Monitors::default(),
        config: plan.config.clone(),
        statistics: ServerStatistics::default(),
        calls: CommandStatistics::new(facts.workers + IN_PROCESS, command_numbers::counted()),
        facts,
        rewrites: Rewrites::default(),
        signals: Signals::default(),
    };
    let node = Arc::new(node);
    begin_upstream(&node);
    Assembled {
        node,
        preparer: log.preparer,
        log_events,
    }
}

/// Tells the upstream, if there is one, what to count, and how to send messages.
fn begin_upstream(node: &Arc<NodeState>) {
    if let Some(upstream) = &node.upstream {
        upstream.count_locks_by(&node.config.metrics_lock_patterns);
        let running = Arc::downgrade(node);
        upstream.begin(Publish::new(move |channel, payload| {
            if let Some(node) = running.upgrade() {
                node.publish_here(channel, payload);
            }
        }));
    }
}

/// What the executor goes by beside the engine's own rules.
fn rules(config: &Config, identity: &NodeIdentity, verdict: &RestartVerdict) -> Rules {
    Rules {
        writes_direct: config.log_direct_io,
        no_ttl_is_synced: config.no_ttl_durability == NoTtlDurability::Sync,
        answers_loading: config.restart_delay_reply == RestartDelayReply::Loading,
        node_id: identity.id.to_string(),
        advice: advice(verdict),
    }
}

/// The users that are configured.
fn access(plan: &StartPlan) -> Access {
    let random = Arc::clone(&plan.random);
    let file = plan.config.users_file().zip(plan.files.clone());
    let file = file.map(|(path, files)| UserFile::new(path, files));
    Access::new(plan.config.initial_users(), file, move |bytes| {
        random(bytes).is_ok()
    })
}

/// What a node waits for that has just started.
fn first_phase(verdict: RestartVerdict) -> Phase {
    let reason = verdict
        .delay
        .map_or(verdict.stop, |delay| delay.cause)
        .delay_reason();
    // Without a delay until SERVING is on record; nobody is connected before that.
    let until = verdict
        .delay
        .map_or(NodeTime::from_nanos(0), |pending| pending.until);
    Phase::Waiting(until, reason)
}

/// No clients yet. LOCK.INFO asks for them.
fn clients_known_to(executor: &mut Executor) -> Arc<Clients> {
    let clients = Arc::new(Clients::default());
    let directory = Arc::clone(&clients);
    let describe = move |id| directory.describe(id);
    executor.engine.set_client_directory(Box::new(describe));
    clients
}

/// The worker of clients in this process.
const IN_PROCESS: usize = 1;

/// 1 up to 3 cores, then about half the cores: locks are contended, and syscalls dominate.
pub(super) fn workers(configured: usize, cores: usize) -> usize {
    match configured {
        0 if cores <= 3 => 1,
        0 => cores / 2,
        given => given,
    }
}
