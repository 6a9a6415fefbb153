//! How a node starts behind its sockets: read the log, judge the past, put START on record.
//!
//! START is synced before the node answers, SERVING before it grants. Whoever calls has bound the port before, so that
//! a second process fails without a trace.

mod assembly;
mod creation;
mod error;
#[cfg(test)]
pub(crate) mod for_tests;
mod open_log;
mod relocation;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use quorlock_engine::control::{Ceiling, Start};
use quorlock_engine::restart::{self, Policy, RestartVerdict};
use quorlock_engine::{Engine, EngineOptions};
use quorlock_persistence::{Disk, LogOptions, Preparer, Recovery};

use crate::clock::{Clock, Reading, saturated_nanos};
use crate::config::{AppendFsync, Config, Files, FirstStart};
use crate::core::certificates::CertificateSource;
use crate::core::log_queue::LogEvents;
use crate::core::maintenance::Maintenance;
use crate::core::metrics_endpoint::MetricsEndpoint;
use crate::core::process::{LogFilter, Process};
use crate::core::report::StartReport;
use crate::core::settings::durability;
use crate::core::state::NodeState;
use crate::core::time;
use crate::core::upstream::Upstream;
use crate::core::wait::to_engine;
use crate::past::{self, Belongings, Directory, Log, NodeIdentity, Past, fingerprint};
use crate::session;
use crate::start::assembly::{Assembled, Judged, assemble};
use crate::start::open_log::{open_log, tell_of_log};

pub use creation::create;
pub use error::StartError;
pub use relocation::{
    ReleasedNode, RelocationError, RelocationScene, adopt, release, require_not_released,
};

/// What a node starts from.
pub struct StartPlan {
    /// What is configured.
    pub config: Config,
    /// The clocks that the node goes by.
    pub clock: Arc<dyn Clock>,
    /// What can be asked of its process.
    pub process: Process,
    /// Its directory.
    pub disk: Arc<dyn Disk>,
    /// The sizes of the log.
    pub sizes: LogOptions,
    /// Bytes of one part of a checkpoint at most.
    pub part_bytes: usize,
    /// Fills with bytes that nobody can guess.
    pub random: Random,
    /// Where the files of users and of the configuration are read and written, if anywhere.
    pub files: Option<Arc<dyn Files + Send + Sync>>,
    /// How many cores the machine has.
    pub cores: usize,
    /// What executes commands on keys in place of the node's engine.
    pub upstream: Option<Arc<dyn Upstream>>,
    /// The files of TLS, where TLS is spoken.
    pub certificates: Option<Arc<dyn CertificateSource>>,
    /// Where the metrics are read, where the node has sockets.
    pub metrics: Option<Arc<dyn MetricsEndpoint>>,
    /// What `loglevel` is set by, where the node may.
    pub log_filter: Option<LogFilter>,
}

/// Where random bytes come from.
pub(crate) type Random = Arc<dyn Fn(&mut [u8]) -> Result<(), StartError> + Send + Sync>;

/// Where clients reach the node.
#[derive(Clone, Copy, Debug)]
pub struct ListenInfo {
    /// The first port it listens on; 0 where there is none.
    pub port: u16,
}

impl ListenInfo {
    /// Of a node without sockets.
    pub(crate) const NOWHERE: Self = Self { port: 0 };
}

/// A node whose START is on record: what its threads, or a simulation, go on with.
pub struct Begun {
    /// What its threads share.
    pub node: Arc<NodeState>,
    /// The steps that keep it going.
    pub maintenance: Maintenance,
    /// To be left once SHUTDOWN is synced.
    pub stop_mark: StopMark,
    /// Makes segments, on the log thread.
    pub preparer: Preparer,
    /// What the log thread is asked for.
    pub log_events: LogEvents,
}

/// Where an orderly stop marks the directory, so that a copy of it can be told from it.
pub struct StopMark {
    disk: Arc<dyn Disk>,
    incarnation: u64,
}

impl StopMark {
    /// To be called once SHUTDOWN is synced.
    pub fn leave(&self) {
        fingerprint::mark_stopped(&*self.disk, self.incarnation);
    }
}

/// The start behind the sockets: reads the log, judges the past, puts START on record. Needs neither a
/// network nor a thread.
pub fn begin(mut plan: StartPlan, reach: ListenInfo) -> Result<Begun, StartError> {
    let known = NodeIdentity::read(&*plan.disk)?;
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
    engine.begin_fences(start.ceiling);
    let report = StartReport::new(&past, start.incarnation, recovery.summary(), &plan.config);
    tell_of_log(&recovery);
    let id = identity.shown(plan.config.node_name.as_deref());
    let wall_us = plan.clock.wall_us();
    let advice = advice(&past.verdict);
    let why = why_it_waits(&plan.config, advice);
    report.announce(&id, wall_us, &format!("{advice}{why}"));
    tell_of_choices(&identity, &id, &policy, &plan.config);
    tell_of_fences(&id, start.ceiling);

    let log_identity = quorlock_persistence::LogIdentity {
        node_id: identity.id.bytes(),
        boot_id: start.boot.0,
        incarnation: start.incarnation,
    };
    let log = open_log(recovery, &plan.disk, &options, log_identity)?;
    (plan.config.cluster_size).default_to(identity.cluster_size);
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
fn settle(plan: &StartPlan, node: &NodeState, incarnation: u64) -> Result<(), StartError> {
    let settled = fingerprint::remove_older(&*plan.disk, incarnation);
    settled.map_err(StartError::Disk)?;
    let belongings = Belongings::of(Arc::clone(&plan.disk), incarnation);
    node.log_writer.watch(Some(belongings));
    Ok(())
}

fn new_engine(plan: &StartPlan) -> Result<Engine, StartError> {
    let config = &plan.config;
    if !config.script_native && !quorlock_engine::HAS_INTERPRETER {
        return Err(StartError::Config(NO_INTERPRETER.to_owned()));
    }
    let mut seed = [0; 8];
    (plan.random)(&mut seed)?;
    let mut engine = Engine::new(EngineOptions {
        restart_delay_max: config.restart_delay_max,
        require_ttl: config.require_ttl,
        databases: config.databases,
        reply_bytes_max: config.proto_max_reply_len,
        hash_seed: u64::from_le_bytes(seed),
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
fn of_cluster(identity: NodeIdentity, plan: &StartPlan) -> Result<NodeIdentity, StartError> {
    match (&plan.config.cluster_id, &identity.cluster_id) {
        (Some(asked), Some(made_for)) if asked != made_for => {
            let directory = plan.disk.describe("");
            Err(StartError::Config(format!(
                "cluster-id is {asked}, but the node in {directory} was made for the cluster {made_for}. Nothing was \
                 started and no lock is affected; name that cluster, or give this one a directory of its own with the directive dir"
            )))
        }
        (asked, made_for) => Ok(NodeIdentity {
            cluster_id: asked.clone().or_else(|| made_for.clone()),
            cluster_size: match plan.config.cluster_size.nodes() {
                0 => identity.cluster_size,
                asked => asked,
            },
            ..identity
        }),
    }
}

/// A first start makes an identity. A log without one keeps the id its segments carry.
fn create_identity(plan: &StartPlan, recovery: &Recovery) -> Result<NodeIdentity, StartError> {
    let mut bytes = [0; 20];
    match recovery.summary().node_id {
        Some(carried) => bytes = carried,
        None => (plan.random)(&mut bytes)?,
    }
    let identity = NodeIdentity::known(bytes, &plan.config);
    identity.write(&*plan.disk).map_err(StartError::Disk)?;
    Ok(identity)
}

/// One incarnation more than any that was ever used here.
fn next_start(plan: &StartPlan, past: &Past) -> Result<Start, StartError> {
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
        ceiling: past.ceiling,
    })
}

/// What an operator can do about this delay, for the error that clients see.
fn advice(verdict: &RestartVerdict) -> &'static str {
    match verdict.delay.map(|delay| delay.cause) {
        Some(restart::Stop::Unknown) => {
            "; a new node needs no delay: create it once with `quorlock node init DIR`, or start \
             it with first-start serve if nothing ever ran here"
        }
        _ => "",
    }
}

/// Says that a node takes no fences, for those who want them.
fn tell_of_fences(id: &str, ceiling: Ceiling) {
    if let Ceiling::Uncertain(_) = ceiling {
        tracing::info!(
            "node {id} may have lost fences that it took, so it takes none: run `quorlock node sync` with the list of all nodes \
             when its restart delay is over, if locks are to have fences. Locks without a fence are not concerned"
        );
    }
}

/// Says what it costs that a node keeps no log, or does not know how many nodes its cluster has. A node on its own
/// needs no size, so only the one that belongs to a cluster is warned.
fn tell_of_choices(identity: &NodeIdentity, id: &str, policy: &Policy, config: &Config) {
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
    if advice.is_empty() || config.first_start != FirstStart::Auto {
        return String::new();
    }
    // It compares all values with their defaults, which simulated nodes would do at each of many starts.
    config
        .beyond_first_try()
        .map(|what| format!(" (first-start auto waits, because {what} is configured)"))
        .unwrap_or_default()
}

const NO_INTERPRETER: &str = "script-native is no, but this program was built without scripts, so that no script could run at all. \
     Nothing was started and no lock is affected; leave the directive out, or build quorlock-server with the feature scripts";
