//! What survives which fault: a lock is held, the fault strikes, and another caller wants the lock.
//!
//! A fault at large strikes a service whose lock stands as it was granted. The worst case of Redlock, a bare majority with
//! the struck node in it, is that of the crash-recovery experiment: the same schedules, records and checks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::InstalledServices;
use super::caller::ServiceCaller;
use super::plan::{Blow, ComparisonPlan};
use super::running::{NOT_OURS, RunningService};
use super::service::{Kind, Service};
use crate::cell::{Cell, Delay, Fault, FenceCheck};
use crate::checks::judge;
use crate::engine::real::RealEngine;
use crate::engine::{Cancel, EngineError, TrialEngine as _};
use crate::history::TrialHistory;
use crate::preset::Preset;

/// What a fault came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Survival {
    /// Of which service.
    pub service: Service,
    /// Which fault.
    pub blow: Blow,
    /// How it ended.
    pub outcome: BlowOutcome,
    /// How often it was tried.
    pub trials: u32,
    /// In how many of them two callers held the lock at once, and for how long at most.
    pub violated: u32,
    /// See `violated`.
    pub overlap_ms: f64,
    /// From the fault until the other caller had the lock, at most.
    pub waited_ms: Option<f64>,
    /// From the fault until any lock was to be had, at most.
    pub no_locks_ms: Option<f64>,
    /// Why it was not tried.
    pub reason: Option<String>,
}

/// How the trials of a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlowOutcome {
    /// The lock had one holder at a time.
    OneHolder,
    /// It had two.
    TwoHolders,
    /// It was not tried.
    NotTried,
}

impl Survival {
    fn none(service: Service, blow: Blow) -> Survival {
        Survival {
            service,
            blow,
            outcome: BlowOutcome::NotTried,
            trials: 0,
            violated: 0,
            overlap_ms: 0.0,
            waited_ms: None,
            no_locks_ms: None,
            reason: None,
        }
    }

    fn not_tried(service: Service, blow: Blow, reason: &str) -> Survival {
        Survival {
            reason: Some(reason.to_owned()),
            ..Survival::none(service, blow)
        }
    }

    fn add(&mut self, trial: &FaultMeasurement) {
        self.trials += 1;
        self.violated += u32::from(trial.overlap_ms > 0.0);
        self.overlap_ms = self.overlap_ms.max(trial.overlap_ms);
        let longest = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        self.waited_ms = longest(self.waited_ms, trial.waited_ms);
        self.no_locks_ms = longest(self.no_locks_ms, trial.no_locks_ms);
        self.outcome = match self.violated {
            0 => BlowOutcome::OneHolder,
            _ => BlowOutcome::TwoHolders,
        };
    }
}

/// One trial.
struct FaultMeasurement {
    overlap_ms: f64,
    waited_ms: Option<f64>,
    no_locks_ms: Option<f64>,
}

/// The cell of the crash-recovery experiment that is a fault's worst case; nothing where there is none, or the fault
/// strikes at large.
pub(super) fn worst_case(service: Service, blow: Blow) -> Option<Cell> {
    let Service::Nodes(kind, fsync) = service else {
        return None;
    };
    let fault = match blow {
        Blow::KillWorst => Fault::ProcessKill,
        Blow::PowerWorst => Fault::PowerLossOne,
        Blow::Kill | Blow::HolderGone => return None,
    };
    let delay = match kind {
        Kind::Quorlock => Delay::Auto,
        // They have none.
        _ => Delay::Off,
    };
    Some(Cell {
        fsync,
        delay,
        fault,
        nodes: 5,
        fences: FenceCheck::Off,
    })
}

/// Tries the worst case in the schedule of the crash-recovery experiment.
pub(super) fn in_schedule(
    service: Service,
    blow: Blow,
    cell: Cell,
    plan: &ComparisonPlan,
    found: &InstalledServices,
    directory: &Path,
    cancel: &Cancel,
) -> Result<Survival, EngineError> {
    let server = found.server(service.kind())?.clone();
    let mut engine = RealEngine::new(server, directory.to_owned())?;
    let mut trials = Preset::Quick.plan(1);
    trials.load_time = Duration::from_millis(50);
    trials.load_clients = 1;
    let mut survival = Survival::none(service, blow);
    for number in 1..=plan.fault_trials {
        let history = Arc::new(TrialHistory::default());
        let seed = trials.seed_of(&cell, number);
        let measured = match engine.run(&cell, &trials, seed, &history, cancel) {
            Ok(measured) => measured,
            Err(EngineError::Missing(reason)) => {
                return Ok(Survival::not_tried(service, blow, &reason));
            }
            Err(error) => return Err(error),
        };
        let verdict = judge(&history.records());
        let longest_ns = verdict.violations.iter().map(|found| found.length_ns).max();
        let longest = Duration::from_nanos(longest_ns.unwrap_or(0));
        survival.add(&FaultMeasurement {
            overlap_ms: ms(longest),
            waited_ms: measured.waited_ms,
            no_locks_ms: None,
        });
    }
    Ok(survival)
}

/// Tries a fault on a service whose lock stands as it was granted.
pub(super) async fn at_large(
    service: Service,
    blow: Blow,
    plan: &ComparisonPlan,
    found: &InstalledServices,
    directory: &Path,
) -> Result<Survival, EngineError> {
    let reason = match (blow, service) {
        (Blow::KillWorst, Service::Etcd(_)) => Some(NO_WORST_CASE),
        (Blow::PowerWorst, Service::Etcd(_)) => Some(NO_POWER_LOSS),
        (
            Blow::Kill | Blow::KillWorst | Blow::PowerWorst,
            Service::Postgresql | Service::Client(_),
        ) => Some(NOT_OURS),
        _ => None,
    };
    if let Some(reason) = reason {
        return Ok(Survival::not_tried(service, blow, reason));
    }
    let mut survival = Survival::none(service, blow);
    for number in 1..=plan.fault_trials {
        let directory = directory.join(format!("trial-{number}"));
        std::fs::create_dir(&directory)?;
        let mut running = RunningService::start(service, found, TTL, &directory).await?;
        // Of a server that runs on, a lock of the trial before may still be held.
        let name = format!("held-{number}");
        survival.add(&trial(&mut running, blow, &name).await?);
    }
    Ok(survival)
}

async fn trial(
    running: &mut RunningService,
    blow: Blow,
    name: &str,
) -> Result<FaultMeasurement, EngineError> {
    let mut a = running.caller(0).await?;
    let mut b = running.caller(1).await?;
    let mut probe = running.caller(2).await?;
    let granted = a.acquire(name, TTL, PATIENCE).await?;
    let never = || EngineError::failed("the lock was not to be had before the fault");
    let granted = granted.ok_or_else(never)?;
    let struck = Instant::now();
    let no_locks_ms = match blow {
        Blow::HolderGone => {
            // Its connections end with it, and nothing is given back.
            drop(a);
            None
        }
        _ => {
            running.strike().await?;
            let struck = Instant::now();
            // An attempt that came to nothing may still be in a service's queue: the next asks for another lock.
            let other = |number: u32| format!("probe-{number}");
            let probing = take(&mut probe, other, PATIENCE_OF_PROBE, struck + GIVE_UP);
            Some(probing.await.map(|at| ms(at - struck)))
        }
    };
    if no_locks_ms == Some(None) {
        return Err(EngineError::failed("no lock was to be had again"));
    }
    let had = take(&mut b, |_| name.to_owned(), PATIENCE, struck + GIVE_UP).await;
    let had = had.ok_or_else(|| EngineError::failed("the lock was never free again"))?;
    // A holder that is gone believes nothing any more.
    let valid_until = granted.valid_until.filter(|_| blow != Blow::HolderGone);
    let overlap = valid_until.map(|until| until.saturating_duration_since(had));
    Ok(FaultMeasurement {
        overlap_ms: ms(overlap.unwrap_or_default()),
        waited_ms: Some(ms(had - struck)),
        no_locks_ms: no_locks_ms.flatten(),
    })
}

/// Asks for a lock again and again until it is granted; when that was. `name` is given the number of the attempt.
async fn take(
    caller: &mut ServiceCaller,
    name: impl Fn(u32) -> String,
    patience: Duration,
    give_up: Instant,
) -> Option<Instant> {
    for number in 0.. {
        if Instant::now() > give_up {
            break;
        }
        match caller.acquire(&name(number), TTL, patience).await {
            Ok(Some(_)) => return Some(Instant::now()),
            Ok(None) => {}
            Err(_) => sleep(LOOK_AGAIN).await,
        }
    }
    None
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How long the lock of the holder lasts. A lease of etcd lasts whole seconds, and two at least.
const TTL: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_OF_PROBE: Duration = Duration::from_millis(200);
const GIVE_UP: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const NO_WORST_CASE: &str =
    "a lock of a raft group is on a majority of its members, or it is not granted";
const NO_POWER_LOSS: &str =
    "nothing here takes from etcd what it has not synced; it says that it syncs before it answers";
