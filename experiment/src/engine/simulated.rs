//! Trials on simulated nodes: the shipped rules of nodes and clients, with time, network, disks and faults from a seed.
//!
//! The schedules are those of the real processes, and so are the record and the checks. What differs: a trial takes
//! milliseconds of this machine, so that rates of thousands of trials have narrow intervals; the power goes between any
//! two writes, and takes any part of what was not synced; and the same seed is the same trial. Times that it measures
//! are those of the simulated network and disk, whose syncs take no time: they compare cells, not machines.

mod cluster;
mod measure;
mod schedule;
mod step;
mod strike;
mod work;

use std::sync::Arc;

use quorlock_simulation::ClusterEvent;

use self::schedule::SimulatedTrial;
use crate::cell::{Cell, Fault};
use crate::engine::{Cancel, EngineError, Measured, TrialEngine};
use crate::history::TrialHistory;
use crate::plan::Plan;

/// Carries trials out in simulated time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedEngine;

impl TrialEngine for SimulatedEngine {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn run(
        &mut self,
        cell: &Cell,
        plan: &Plan,
        seed: u64,
        history: &Arc<TrialHistory>,
        cancel: &Cancel,
    ) -> Result<Measured, EngineError> {
        if cell.fault == Fault::Failover {
            let reason = "Quorlock has no asynchronous replicas: try it with --server redis-server";
            return Err(EngineError::Missing(reason.to_owned()));
        }
        let mut trial = SimulatedTrial::begin(cell, plan, seed, history);
        let end_ns = cluster::nanos(TIME_MAX + 4 * (plan.ttl + plan.restart_delay_max));
        let end_ns = end_ns.saturating_add(cluster::nanos(plan.load_time));
        while !trial.is_over() {
            if cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            trial.cluster.advance();
            while let Some(event) = trial.cluster.take_event() {
                match event {
                    ClusterEvent::Outcome(client, operation, outcome) => {
                        trial.told(client, operation, outcome)?;
                    }
                    ClusterEvent::Step(step) => trial.step(step),
                    ClusterEvent::Failed(node) => trial.failed(node),
                    ClusterEvent::Serving(node) => trial.serving(node),
                    // Locks are leases here: nothing renews them, and callers do not ask what they wait for.
                    _ => {}
                }
            }
            if trial.cluster.now_ns > end_ns {
                return Err(EngineError::Failed(format!(
                    "after {} s of simulated time the trial is not over",
                    end_ns / 1_000_000_000
                )));
            }
        }
        Ok(trial.measure())
    }
}

/// Of simulated time, beside what depends on the length of locks and delays.
const TIME_MAX: std::time::Duration = std::time::Duration::from_secs(60);
