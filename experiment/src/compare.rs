//! The same lock workload on several lock services of this machine: what they cost, and what survives which fault.
//!
//! Services take turns, round by round, each started anew in a directory of its own and ended before the next, so that
//! nothing runs beside what is measured but the callers, and what drifts over minutes meets all of them. What a service
//! cannot be asked or is not installed for is named and counted, never left out.

mod caller;
mod etcd;
mod faults;
mod finished;
mod http;
mod load;
mod plan;
mod postgresql;
mod running;
mod service;
pub(crate) mod summary;
mod system;

use std::path::PathBuf;

use tokio::runtime::Runtime;

pub use self::etcd::Etcd;
pub use self::faults::{BlowOutcome, Survival};
pub use self::finished::{ComparisonSetup, FinishedSteps};
pub use self::load::Load;
pub use self::plan::{Blow, ComparisonPlan, ComparisonPlanError, SkippedService};
pub use self::postgresql::{Postgresql, PostgresqlError};
pub use self::service::{Kind, Service};
pub use self::summary::{Comparison, DEBUG_BUILD, FORMAT, KIND, LoadFigures, ServiceSummary};
pub use self::system::{ListedSystem, SystemError, SystemKind};
use crate::engine::real::ServerProgram;
use crate::engine::{Cancel, EngineError, threads};

use serde::{Deserialize, Serialize};

/// What is on this machine; of what is not, why not and how it comes here.
pub struct InstalledServices {
    /// Our own nodes.
    pub quorlock: ServerProgram,
    /// redis-server.
    pub redis: Result<ServerProgram, String>,
    /// valkey-server.
    pub valkey: Result<ServerProgram, String>,
    /// etcd.
    pub etcd: Result<Etcd, String>,
    /// A database server that runs already.
    pub postgresql: Result<Postgresql, String>,
    /// Systems that run already, on which our own client takes locks; one of each kind.
    pub systems: Vec<ListedSystem>,
}

impl InstalledServices {
    /// The nodes of a product.
    fn server(&self, kind: Kind) -> Result<&ServerProgram, EngineError> {
        match kind {
            Kind::RedisServer => there(&self.redis),
            Kind::ValkeyServer => there(&self.valkey),
            _ => Ok(&self.quorlock),
        }
    }

    /// The version of a service, or why it cannot be tried.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn version(&self, service: Service) -> Result<String, String> {
        let own = |server: &ServerProgram| server.name().split(' ').nth(1).map(str::to_owned);
        match service {
            Service::Client(kind) => return self.system(kind)?.version.clone(),
            Service::Nodes(Kind::RedisServer, _) => {
                self.redis.as_ref().map(|it| own(it).unwrap_or_default())
            }
            Service::Nodes(Kind::ValkeyServer, _) => {
                self.valkey.as_ref().map(|it| own(it).unwrap_or_default())
            }
            Service::Nodes(..) => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            Service::Etcd(_) => self.etcd.as_ref().map(|etcd| etcd.version.clone()),
            Service::Postgresql => self.postgresql.as_ref().map(|it| it.version().to_owned()),
        }
        .map_err(Clone::clone)
    }

    /// The system of this kind, or why there is none.
    fn system(&self, kind: SystemKind) -> Result<&ListedSystem, String> {
        let mut systems = self.systems.iter();
        let found = systems.find(|system| system.kind() == kind);
        found.ok_or_else(|| kind.not_named())
    }
}

fn there<T>(found: &Result<T, String>) -> Result<&T, EngineError> {
    found
        .as_ref()
        .map_err(|reason| EngineError::Missing(reason.clone()))
}

/// One round of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRound {
    /// Which service.
    pub service: Service,
    /// From 1 on.
    pub number: u32,
    /// Callers with a lock of their own each.
    pub apart: Load,
    /// Callers that want the same lock.
    pub together: Load,
}

/// Whatever came of one step.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ComparisonEvent {
    /// A step begins; so many of all are done.
    Begins {
        /// Of which service.
        service: Service,
        /// What is done with it.
        what: String,
        /// Steps that are done.
        done: u32,
        /// All of them.
        total: u32,
    },
    /// A round is over.
    Round {
        /// What it came to.
        round: ComparisonRound,
    },
    /// A fault was tried.
    Fault {
        /// What it came to.
        fault: Survival,
    },
    /// A step could not be carried out.
    Failed {
        /// Of which service.
        service: Service,
        /// Why.
        #[serde(rename = "reason")]
        why: String,
    },
}

/// What a comparison came to.
#[derive(Clone, Debug, Default)]
pub struct ComparisonOutcome {
    /// All rounds.
    pub rounds: Vec<ComparisonRound>,
    /// All faults.
    pub faults: Vec<Survival>,
    /// Steps that could not be carried out.
    pub failures: Vec<(Service, String)>,
    /// Whether the user has ended it.
    pub is_cancelled: bool,
}

impl ComparisonOutcome {
    /// Takes in what came of a step.
    pub fn add(&mut self, event: &ComparisonEvent) {
        match event {
            ComparisonEvent::Round { round } => self.rounds.push(round.clone()),
            ComparisonEvent::Fault { fault } => self.faults.push(fault.clone()),
            ComparisonEvent::Failed { service, why } => self.failures.push((*service, why.clone())),
            ComparisonEvent::Begins { .. } => {}
        }
    }
}

/// Carries comparisons out. It must be used by the thread that made it: the kernel ends children with the thread that
/// started them.
pub struct Comparing {
    found: InstalledServices,
    scratch: PathBuf,
    runtime: Runtime,
}

impl Comparing {
    /// Services keep their data below `scratch`, on the disk that is to be tried.
    ///
    /// # Errors
    /// If no threads can be had.
    pub fn new(found: InstalledServices, scratch: PathBuf) -> Result<Comparing, EngineError> {
        Ok(Comparing {
            found,
            scratch,
            runtime: threads()?,
        })
    }

    /// Carries out what is left of a plan, given what is there, and reports every step as it is over.
    pub fn run(
        &mut self,
        plan: &ComparisonPlan,
        before: ComparisonOutcome,
        cancel: &Cancel,
        tell: &mut dyn FnMut(&ComparisonEvent),
    ) -> ComparisonOutcome {
        let steps = plan.steps();
        let total = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let mut outcome = before;
        let left: Vec<plan::ComparisonStep> =
            steps.into_iter().filter(|it| !outcome.has(*it)).collect();
        let there = total.saturating_sub(u32::try_from(left.len()).unwrap_or(u32::MAX));
        for (done, step) in (there..).zip(left) {
            if cancel.is_cancelled() {
                outcome.is_cancelled = true;
                break;
            }
            let service = step.service();
            // What failed once fails again; the rest of its steps would only take time.
            if outcome.failures.iter().any(|(of, _)| *of == service) {
                continue;
            }
            let what = step.to_string();
            tell(&ComparisonEvent::Begins {
                service,
                what,
                done,
                total,
            });
            let event = match self.step(plan, step, cancel) {
                Ok(event) => event,
                Err(EngineError::Cancelled) => {
                    outcome.is_cancelled = true;
                    break;
                }
                Err(error) => ComparisonEvent::Failed {
                    service,
                    why: error.to_string(),
                },
            };
            outcome.add(&event);
            tell(&event);
        }
        outcome
    }

    fn step(
        &mut self,
        plan: &ComparisonPlan,
        step: plan::ComparisonStep,
        cancel: &Cancel,
    ) -> Result<ComparisonEvent, EngineError> {
        let directory = self.scratch.join("service");
        // Of a step before, or of a run that was interrupted.
        let _was_none = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).map_err(|error| {
            EngineError::failed(format_args!("{}: {error}", directory.display()))
        })?;
        let found = &self.found;
        let event = match step {
            plan::ComparisonStep::Round { service, number } => {
                let round = load::round(service, number, plan, found, &directory);
                let round = self.runtime.block_on(cancel.or(round));
                round.map(|round| ComparisonEvent::Round { round })
            }
            plan::ComparisonStep::Fault { service, blow } => {
                let fault = match faults::worst_case(service, blow) {
                    Some(cell) => {
                        faults::in_schedule(service, blow, cell, plan, found, &directory, cancel)
                    }
                    None => {
                        let fault = faults::at_large(service, blow, plan, found, &directory);
                        self.runtime.block_on(cancel.or(fault))
                    }
                };
                fault.map(|fault| ComparisonEvent::Fault { fault })
            }
        };
        if event.is_ok() || matches!(event, Err(EngineError::Cancelled)) {
            let _stays = std::fs::remove_dir_all(&directory);
        } else {
            // Its logs say why.
            let name = step.service().to_string().replace('/', "-");
            let _stays = std::fs::rename(&directory, self.scratch.join(format!("failed-{name}")));
        }
        event
    }
}
