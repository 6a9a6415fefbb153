//! What all trials came to: `summary.json`.
//!
//! Invariant: a summary is a function of the plan, the environment and the trials. A reader that knows format 1 can
//! read every summary that says format 1; what changes a field's meaning raises the number.

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Expectation};
use crate::engine::real::ServerProgram;
use crate::plan::{Plan, SkippedCell};
use crate::statistics::{quantile, wilson_upper};
use crate::trial::Trial;

/// The number of the schema.
pub const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`FORMAT`].
    pub format: u32,
    /// `real` or `simulated`.
    pub engine: String,
    /// Whether all trials of the plan were carried out.
    pub is_complete: bool,
    /// What was asked for.
    pub plan: Plan,
    /// Where it ran.
    pub environment: Vec<(String, String)>,
    /// A row for each cell that was tried.
    pub cells: Vec<CellSummary>,
    /// Cells that were not tried, with the reason.
    pub skipped: Vec<SkippedCell>,
}

/// A row: all trials of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// Which.
    pub cell: Cell,
    /// What was known in advance.
    pub expected: Expectation,
    /// Trials that were carried out.
    pub trials: u64,
    /// Trials with a violation of mutual exclusion (C1), and the upper end of the 95 % interval of their rate.
    pub violated: u64,
    /// See `violated`.
    pub violated_upper: f64,
    /// The longest overlap.
    pub overlap_ms_max: f64,
    /// Trials in which two applications believed that they hold the lock (C2).
    pub believed: u64,
    /// Trials in which fences did not grow, or an update was lost in spite of them (C3, C4).
    #[serde(default)]
    pub broken_fences: u64,
    /// Holders that the register has refused for their fence.
    #[serde(default)]
    pub refused_holders: u64,
    /// Updates of the register, and those that were lost (C4: a figure where there are no fences).
    pub updates: u64,
    /// See `updates`.
    pub lost_updates: u64,
    /// Acknowledged updates that the database did not count at the end of its trial; none where it was not read back.
    #[serde(default)]
    pub missing_updates: Option<u64>,
    /// Locks that were not to be had again (C6).
    pub stuck: u64,
    /// Locks that clients were told they hold.
    pub acquired: u64,
    /// Acknowledged locks on the nodes that crashed, and how many they forgot: all together, and the most in a trial.
    pub standing: u64,
    /// See `standing`.
    pub lost: u64,
    /// See `standing`.
    pub lost_max: u64,
    /// Cycles of the load a second: the median, the lowest, the highest.
    pub throughput: Option<[f64; 3]>,
    /// How long acquisitions took: p50, p99, p99.9.
    pub acquire_us: Option<[f64; 3]>,
    /// Median time of recovery.
    pub recovery_ms: Option<f64>,
    /// Median of what nodes said they wait.
    pub delay_ms: Option<f64>,
    /// Median of the time without locks.
    pub unavailable_ms: Option<f64>,
    /// Median of the time from the fault until client B had the lock.
    #[serde(default)]
    pub waited_ms: Option<f64>,
    /// Median and p99 of the nodes' syncs.
    pub sync_us: Option<[f64; 2]>,
    /// Median bytes of all logs.
    pub log_bytes: u64,
}

impl CellSummary {
    /// Whether it is as expected: no violation where none is allowed, one where the cell is there to show it, and all
    /// locks to be had again.
    pub fn is_as_expected(&self) -> bool {
        let exclusion = match self.expected {
            Expectation::None => self.violated == 0,
            Expectation::Some => self.violated > 0,
            Expectation::Open => true,
        };
        exclusion && self.stuck == 0 && self.broken_fences == 0
    }

    /// Whether mutual exclusion was violated where that is a defect of the product, or another promise was broken.
    pub fn is_defect(&self) -> bool {
        (self.expected == Expectation::None && self.violated > 0)
            || self.stuck > 0
            || self.broken_fences > 0
    }

    /// Sums up the trials of a cell.
    pub fn of(cell: Cell, trials: &[&Trial]) -> CellSummary {
        let sum = |of: &dyn Fn(&Trial) -> u64| trials.iter().map(|trial| of(trial)).sum::<u64>();
        let median = |of: &dyn Fn(&Trial) -> Option<f64>| {
            let mut values: Vec<f64> = trials.iter().filter_map(|trial| of(trial)).collect();
            quantile(&mut values, 0.5)
        };
        let number = trials.len() as u64;
        let violated = sum(&|trial| u64::from(!trial.verdict.violations.is_empty()));
        let overlaps = trials.iter().flat_map(|trial| &trial.verdict.violations);
        let longest_ns = overlaps.map(|overlap| overlap.length_ns).max();
        CellSummary {
            cell,
            expected: cell.expectation(
                trials
                    .iter()
                    .any(|trial| ServerProgram::is_redis(&trial.engine)),
            ),
            trials: number,
            violated,
            violated_upper: wilson_upper(violated, number),
            overlap_ms_max: longest_ns.unwrap_or(0) as f64 / 1e6,
            believed: sum(&|trial| u64::from(!trial.verdict.believed.is_empty())),
            broken_fences: sum(&|trial| u64::from(trial.verdict.breaks_fences())),
            refused_holders: sum(&|trial| trial.verdict.refused_holders),
            updates: sum(&|trial| trial.verdict.updates),
            lost_updates: sum(&|trial| trial.verdict.lost_updates),
            missing_updates: trials
                .iter()
                .filter_map(|trial| trial.verdict.missing_updates)
                .reduce(|one, other| one + other),
            stuck: sum(&|trial| trial.verdict.stuck.len() as u64),
            acquired: sum(&|trial| trial.measured.acquired),
            standing: sum(&|trial| trial.measured.standing),
            lost: sum(&|trial| trial.measured.lost),
            lost_max: trials
                .iter()
                .map(|trial| trial.measured.lost)
                .max()
                .unwrap_or(0),
            throughput: throughput(trials),
            acquire_us: quantiles(
                trials,
                |trial| &trial.measured.acquire_us,
                [0.5, 0.99, 0.999],
            ),
            recovery_ms: median(&|trial| trial.measured.recovery_ms),
            delay_ms: median(&|trial| trial.measured.delay_ms),
            unavailable_ms: median(&|trial| trial.measured.unavailable_ms),
            waited_ms: median(&|trial| trial.measured.waited_ms),
            sync_us: quantiles(trials, |trial| &trial.measured.sync_us, [0.5, 0.99]),
            log_bytes: sum(&|trial| trial.measured.log_bytes) / number.max(1),
        }
    }
}

impl Summary {
    /// Sums up all trials, cell by cell in the order of the plan.
    pub fn of(
        plan: &Plan,
        engine: &str,
        environment: Vec<(String, String)>,
        trials: &[Trial],
        skipped: &[SkippedCell],
    ) -> Summary {
        let of_cell = |cell: &Cell| -> Vec<&Trial> {
            trials.iter().filter(|trial| trial.cell == *cell).collect()
        };
        let tried = plan.cells.iter().map(|cell| (cell, of_cell(cell)));
        let cells = tried
            .filter(|(_, trials)| !trials.is_empty())
            .map(|(cell, trials)| CellSummary::of(*cell, &trials))
            .collect();
        let is_skipped = |cell: &Cell| skipped.iter().any(|skipped| skipped.cell == *cell);
        let is_complete = plan
            .cells
            .iter()
            .all(|cell| is_skipped(cell) || of_cell(cell).len() as u64 >= u64::from(plan.trials));
        Summary {
            format: FORMAT,
            engine: engine.to_owned(),
            is_complete,
            plan: plan.clone(),
            environment,
            cells,
            skipped: plan.skipped.iter().chain(skipped).cloned().collect(),
        }
    }
}

fn throughput(trials: &[&Trial]) -> Option<[f64; 3]> {
    let loaded = trials.iter().filter(|trial| trial.measured.load_s > 0.0);
    let mut rates: Vec<f64> = loaded
        .map(|trial| trial.measured.load_cycles as f64 / trial.measured.load_s)
        .collect();
    Some([
        quantile(&mut rates, 0.5)?,
        quantile(&mut rates, 0.0)?,
        quantile(&mut rates, 1.0)?,
    ])
}

fn quantiles<const N: usize>(
    trials: &[&Trial],
    of: impl Fn(&Trial) -> &[u32],
    shares: [f64; N],
) -> Option<[f64; N]> {
    let mut values: Vec<f64> = trials
        .iter()
        .flat_map(|trial| of(trial).iter().map(|value| f64::from(*value)))
        .collect();
    quantile(&mut values, 0.5)?;
    Some(shares.map(|share| quantile(&mut values, share).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Overlap, TrialVerdict};
    use crate::engine::Measured;

    #[test]
    fn fences_that_do_not_grow_or_do_not_protect_are_a_defect() {
        let verdict = |fences, disordered_fences, lost_updates| TrialVerdict {
            fences,
            disordered_fences,
            lost_updates,
            ..TrialVerdict::default()
        };
        assert!(verdict(2, 1, 0).breaks_fences());
        assert!(verdict(2, 0, 1).breaks_fences());
        assert!(!verdict(2, 0, 0).breaks_fences());
        assert!(!verdict(0, 0, 1).breaks_fences(), "nothing was promised");
    }

    fn row(cell: &str, violated: bool, stuck: bool) -> CellSummary {
        let overlap = Overlap {
            lock: "directed".to_owned(),
            holds: (1, 2),
            from_ns: 0,
            length_ns: 1,
        };
        let cell: Cell = cell.parse().expect("a cell");
        let trial = Trial {
            cell,
            number: 1,
            seed: 1,
            engine: "real".to_owned(),
            measured: Measured::default(),
            verdict: TrialVerdict {
                violations: violated.then_some(overlap).into_iter().collect(),
                stuck: stuck.then(|| "directed".to_owned()).into_iter().collect(),
                ..TrialVerdict::default()
            },
        };
        CellSummary::of(cell, &[&trial])
    }

    #[test]
    fn two_holders_are_a_defect_where_a_node_waits_or_forgets_nothing_and_a_lost_lock_everywhere() {
        let (off, auto, kept) = (
            "no/off/power-loss-one/5",
            "no/auto/power-loss-one/5",
            "always/off/power-loss-one/5",
        );
        for (cell, violated, stuck, is_defect, is_as_expected) in [
            (off, true, false, false, true),
            (off, false, false, false, false),
            (off, true, true, true, false),
            (auto, false, false, false, true),
            (auto, true, false, true, false),
            (kept, true, false, true, false),
            ("no/50%/power-loss-one/5", true, false, false, true),
            ("no/50%/power-loss-one/5", false, false, false, true),
        ] {
            let row = row(cell, violated, stuck);
            let found = (row.is_defect(), row.is_as_expected());
            assert_eq!(
                found,
                (is_defect, is_as_expected),
                "{cell} {violated} {stuck}"
            );
        }
    }
}
