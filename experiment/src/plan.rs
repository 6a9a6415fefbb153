//! What a run carries out: cells, trials, the length of locks, the load.
//!
//! Invariant: a plan has at least one cell, and every cell in it makes sense; those that were asked for and make none are
//! listed with the reason.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cell::{Cell, Delay, Fault, FenceCheck, FsyncMode};

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What is compared.
    pub cells: Vec<Cell>,
    /// What was asked for and makes no sense.
    pub skipped: Vec<SkippedCell>,
    /// How often each cell is tried.
    pub trials: u32,
    /// How long the locks of the directed schedules last. It is the longest ttl, hence the needed delay.
    pub ttl: Duration,
    /// The nodes' `restart-delay-max`, which they wait after the loss of power.
    pub restart_delay_max: Duration,
    /// How long the load runs before the fault.
    pub load_time: Duration,
    /// How many clients take locks beside the directed schedule.
    pub load_clients: u32,
    /// All that is random comes from it.
    pub seed: u64,
}

/// A cell that is not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedCell {
    /// Which.
    pub cell: Cell,
    /// Why.
    pub reason: String,
}

/// The values of each axis; cells are all their combinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// When logs reach the disk.
    pub fsync: Vec<FsyncMode>,
    /// How long nodes wait after a start.
    pub delay: Vec<Delay>,
    /// What goes wrong.
    pub fault: Vec<Fault>,
    /// How many nodes.
    pub nodes: Vec<u8>,
    /// Whether locks have fences.
    pub fences: Vec<FenceCheck>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// No combination makes sense.
    #[error("no cell is left to try: {first} makes no sense, since {reason}")]
    Empty {
        /// The first of them.
        first: String,
        /// Why.
        reason: String,
    },
    /// An axis has no value.
    #[error("the axis '{0}' has no value")]
    NoValue(&'static str),
    /// The number of nodes is none of 1, 3 and 5.
    #[error("{0} nodes are not offered: the number of nodes is 1, 3 or 5")]
    Nodes(u8),
    /// Locks that outlive what nodes grant.
    #[error(
        "a ttl of {ttl_ms} ms is longer than restart-delay-max ({max_ms} ms), so nodes would sync every grant; \
         choose a shorter --ttl or a longer --restart-delay-max"
    )]
    Ttl {
        /// The ttl.
        ttl_ms: u128,
        /// The limit.
        max_ms: u128,
    },
    /// Locks that are too short to be observed.
    #[error(
        "a ttl of {0} ms is too short: a node needs about 100 ms to start again, choose at least {TTL_MIN_MS} ms"
    )]
    Short(u128),
    /// No trial at all, or too many.
    #[error("the number of trials is from 1 to {TRIALS_MAX}")]
    Trials,
}

impl Axes {
    /// All combinations, those that make sense and those that do not.
    ///
    /// # Errors
    /// If none makes sense.
    pub fn cells(&self) -> Result<(Vec<Cell>, Vec<SkippedCell>), PlanError> {
        let lengths = [
            ("fsync", self.fsync.len()),
            ("restart-delay", self.delay.len()),
            ("fault", self.fault.len()),
            ("nodes", self.nodes.len()),
            ("fences", self.fences.len()),
        ];
        if let Some((axis, _)) = lengths.into_iter().find(|(_, length)| *length == 0) {
            return Err(PlanError::NoValue(axis));
        }
        let (mut cells, mut skipped) = (Vec::new(), Vec::<SkippedCell>::new());
        for cell in self.combinations() {
            if ![1, 3, 5].contains(&cell.nodes) {
                return Err(PlanError::Nodes(cell.nodes));
            }
            match cell.refusal() {
                None if cells.contains(&cell) => {}
                None => cells.push(cell),
                Some(reason) => skipped.push(SkippedCell {
                    cell,
                    reason: reason.to_owned(),
                }),
            }
        }
        match (cells.is_empty(), skipped.first()) {
            (true, Some(first)) => Err(PlanError::Empty {
                first: first.cell.id(),
                reason: first.reason.clone(),
            }),
            _ => Ok((cells, skipped)),
        }
    }

    fn combinations(&self) -> impl Iterator<Item = Cell> {
        let sizes = self
            .fences
            .iter()
            .flat_map(move |&fences| self.nodes.iter().map(move |&nodes| (fences, nodes)));
        sizes.flat_map(move |(fences, nodes)| {
            self.fault.iter().flat_map(move |&fault| {
                self.delay.iter().flat_map(move |&delay| {
                    self.fsync.iter().map(move |&fsync| Cell {
                        fsync,
                        delay,
                        fault,
                        nodes,
                        fences,
                    })
                })
            })
        })
    }
}

impl Plan {
    /// Refuses what cannot be carried out.
    ///
    /// # Errors
    /// What does not fit together, and what to choose instead.
    pub fn check(&self) -> Result<(), PlanError> {
        let ttl_ms = self.ttl.as_millis();
        let max_ms = self.restart_delay_max.as_millis();
        if ttl_ms > max_ms {
            return Err(PlanError::Ttl { ttl_ms, max_ms });
        }
        if ttl_ms < TTL_MIN_MS {
            return Err(PlanError::Short(ttl_ms));
        }
        if !(1..=TRIALS_MAX).contains(&self.trials) {
            return Err(PlanError::Trials);
        }
        Ok(())
    }

    /// The seed of one trial of one cell: it replays alone.
    pub fn seed_of(&self, cell: &Cell, trial: u32) -> u64 {
        let mut seed = self.seed;
        for byte in cell.id().bytes().chain(trial.to_le_bytes()) {
            // FNV-1a: a published mix that needs no crate, and nobody has a reason to attack it.
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        seed
    }
}

const TTL_MIN_MS: u128 = 300;
const TRIALS_MAX: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        Axes {
            fsync: vec![FsyncMode::Always, FsyncMode::No],
            delay: vec![Delay::Auto, Delay::Off],
            fault: vec![Fault::PowerLossOne, Fault::Partition],
            nodes: vec![1, 5],
            fences: vec![FenceCheck::Off],
        }
    }

    #[test]
    fn combinations_without_sense_are_listed_with_the_reason() {
        let (cells, skipped) = axes().cells().expect("most make sense");
        assert_eq!(cells.len() + skipped.len(), 16);
        assert!(cells.iter().all(|cell| cell.refusal().is_none()));
        assert!(!skipped.is_empty() && skipped.iter().all(|skipped| !skipped.reason.is_empty()));
    }

    #[test]
    fn axes_without_any_sense_are_refused() {
        let mut nothing = axes();
        nothing.fault = vec![Fault::Partition];
        nothing.nodes = vec![1];
        assert!(matches!(nothing.cells(), Err(PlanError::Empty { .. })));
        nothing.nodes = vec![];
        assert_eq!(nothing.cells(), Err(PlanError::NoValue("nodes")));
        nothing.nodes = vec![4];
        assert_eq!(nothing.cells(), Err(PlanError::Nodes(4)));
        nothing.fences = vec![];
        assert_eq!(nothing.cells(), Err(PlanError::NoValue("fences")));
    }

    #[test]
    fn trials_of_cells_have_seeds_of_their_own() {
        let plan = crate::preset::Preset::Quick.plan(1);
        let cells = &plan.cells;
        let mut seeds: Vec<u64> = cells.iter().map(|cell| plan.seed_of(cell, 1)).collect();
        seeds.extend(cells.iter().map(|cell| plan.seed_of(cell, 2)));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 2 * cells.len());
    }
}
