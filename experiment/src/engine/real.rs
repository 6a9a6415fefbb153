//! Trials with real processes: nodes that are killed, clients of our own library, the disk of this machine.
//!
//! `kill -9` never loses what a process has written, since the page cache survives it. Where power is lost nodes run on
//! the storage backend for experiments instead, which keeps everything that was not synced in the process's memory, and
//! start again in another boot. All times in the record are read from one clock that nobody under test sets.

mod ask;
mod client;
#[cfg(feature = "sqlite")]
mod database;
mod directed;
mod fake_clock;
mod load;
#[cfg(not(feature = "sqlite"))]
mod map;
mod node;
mod nodes;
pub(crate) mod ports;
mod register;
mod register_row;
mod replica;
mod server;
mod stage;
mod strike;
mod trial_clock;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use self::client::{Client, Held, Scene};
use self::load::{CONTENDED, ClientLoad, Contenders};
pub(crate) use self::nodes::ServiceNodes;
use self::register::Registers;
pub use self::register::database_name;
pub use self::server::{Launcher, ServerProgram};
use self::stage::Stage;
use self::trial_clock::TrialClock;
use crate::cell::Cell;
use crate::engine::{Cancel, EngineError, Measured, TrialEngine, threads};
use crate::history::{Occurrence, TrialHistory, Who};
use crate::plan::Plan;

/// Carries trials out with processes.
pub struct RealEngine {
    server: ServerProgram,
    scratch: PathBuf,
    runtime: Runtime,
    trials: u64,
}

impl RealEngine {
    /// An engine that tries these nodes, which keep their data below `scratch`, on the disk that is to be
    /// tried. It must be used by the thread that made it: the kernel ends children with the thread that started them.
    ///
    /// # Errors
    /// If no threads can be had.
    pub fn new(server: ServerProgram, scratch: PathBuf) -> Result<RealEngine, EngineError> {
        Ok(RealEngine {
            server,
            scratch,
            runtime: threads()?,
            trials: 0,
        })
    }
}

impl TrialEngine for RealEngine {
    fn name(&self) -> &str {
        self.server.name()
    }

    fn run(
        &mut self,
        cell: &Cell,
        plan: &Plan,
        _seed: u64,
        history: &Arc<TrialHistory>,
        cancel: &Cancel,
    ) -> Result<Measured, EngineError> {
        if let Some(reason) = self.server.refusal(cell) {
            return Err(EngineError::Missing(reason.to_owned()));
        }
        self.trials += 1;
        let number = self.trials;
        let directory = self.scratch.join(format!("trial-{number}"));
        // Of a run that was interrupted.
        let _was_none = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory)?;
        let scene = Scene::new(TrialClock::begin(), history, cell.fences);
        let trial = trial(cell, plan, &self.server, &directory, &scene);
        let outcome = self.runtime.block_on(cancel.or(trial));
        // What a trial that failed has left says why.
        if outcome.is_ok() || matches!(outcome, Err(EngineError::Cancelled)) {
            let _stays = std::fs::remove_dir_all(&directory);
        }
        outcome
    }
}

/// One trial from the start of the nodes to their end.
async fn trial(
    cell: &Cell,
    plan: &Plan,
    server: &ServerProgram,
    directory: &std::path::Path,
    scene: &Scene,
) -> Result<Measured, EngineError> {
    let mut stage = Stage::set(cell, plan, server, directory, scene).await?;
    let registers = Registers::create(directory)?;
    let ports = stage.ports();
    let contenders = Contenders::start(scene, &ports, &registers, plan.ttl)?;
    let load = ClientLoad::run(scene, &ports, plan.load_clients, plan.load_time, plan.ttl).await?;
    let mut measured = Measured {
        load_s: load.seconds,
        load_cycles: load.cycles,
        acquire_us: load.acquire_us,
        ..Measured::default()
    };
    for node in &stage.nodes {
        let sync_us = node.info("quorlock_sync_usec").await;
        measured.sync_us.extend(sync_us.map(whole));
    }
    let witness = Client::new("witness", scene, &ports)?;
    let standing = stand(&witness, plan).await;
    let a = Client::new("A", scene, &stage.ports_of_a())?;
    let holder = directed::hold(&stage, cell, plan, a, registers.connect()?).await?;
    let b = Client::new("B", scene, &ports)?;

    scene.note(Who::Harness, Occurrence::FaultBegins);
    let began = Instant::now();
    let held = &holder.held;
    let struck = strike::strike(&mut stage, cell, plan, &standing, held, &mut measured).await?;
    let operator = operate(cell, &witness);
    let held = directed::want(&stage, plan, &b, &registers.connect()?).await;
    let waited = held.as_ref().map(|held| held.since - began);
    measured.waited_ms = waited.map(strike::ms);
    holder.end().await;
    let _panicked = operator.await;
    struck.heal(&mut stage, cell, plan, &mut measured).await?;
    scene.note(
        Who::Harness,
        Occurrence::Healed {
            bound_ns: nanos(plan.restart_delay_max + plan.ttl + SETTLE),
        },
    );
    if let Some(held) = held {
        b.release(held).await;
    }
    contenders.end().await;
    take_all(&witness, plan, standing).await;
    registers.read_back(scene)?;

    for node in &mut stage.nodes {
        measured.log_bytes += node
            .info("aof_current_size")
            .await
            .map_or(0, |bytes| u64::from(whole(bytes)));
        node.kill();
    }
    let records = scene.history.records();
    let granted = records
        .iter()
        .filter(|record| matches!(record.what, Occurrence::Acquired { .. }));
    measured.acquired = measured.load_cycles + granted.count() as u64;
    Ok(measured)
}

/// What the operator does meanwhile.
fn operate(cell: &Cell, witness: &Client) -> JoinHandle<()> {
    let may_lose_fences = cell.fences.are_on() && cell.fault.restarted(cell.nodes) > 0;
    let witness = witness.clone();
    tokio::spawn(async move {
        if may_lose_fences {
            witness.sync_fences().await;
        }
    })
}

/// The witness takes locks that nobody else wants, so that it can be told how many of them a node forgets.
async fn stand(witness: &Client, plan: &Plan) -> Vec<Held> {
    let mut asked = JoinSet::new();
    for number in 1..=STANDING {
        let (witness, ttl) = (witness.clone(), plan.ttl);
        asked.spawn(async move {
            witness
                .acquire(&format!("standing-{number}"), ttl, SETTLE)
                .await
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// Once all is well, every lock must be to be had.
async fn take_all(witness: &Client, plan: &Plan, standing: Vec<Held>) {
    let mut locks: Vec<String> = standing.iter().map(|held| held.lock.clone()).collect();
    locks.extend([CONTENDED, directed::DIRECTED].map(str::to_owned));
    for held in standing {
        // Those that are over are nobody's any more.
        if witness.sees_valid(&held) {
            witness.release(held).await;
        }
    }
    let wait = plan.restart_delay_max + plan.ttl + SETTLE;
    let mut asked = JoinSet::new();
    for lock in locks {
        let (witness, ttl) = (witness.clone(), plan.ttl);
        asked.spawn(async move {
            if let Some(held) = witness.acquire(&lock, ttl, wait).await {
                witness.release(held).await;
            }
        });
    }
    asked.join_all().await;
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a conversion from a float saturates"
)]
fn whole(value: f64) -> u32 {
    value as u32
}

const STANDING: u32 = 20;
const SETTLE: Duration = Duration::from_secs(2);
