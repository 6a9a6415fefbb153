//! The loop over cells and trials: what is left to do, in which order, and what it came to.
//!
//! Trials go round: the first trial of every cell, then the second of every cell. A run that is interrupted has then
//! tried all cells about as often, and what drifts over minutes meets all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cell::Cell;
use crate::checks::judge;
use crate::engine::{Cancel, EngineError, TrialEngine};
use crate::history::TrialHistory;
use crate::plan::{Plan, SkippedCell};
use crate::results::{Results, ResultsError};
use crate::trial::Trial;

/// What a run reports while it goes on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A trial begins; so many of all are done.
    Begins {
        /// Of which cell.
        cell: Cell,
        /// From 1 on.
        number: u32,
        /// Trials that are done or will not be carried out.
        done: u64,
        /// All of them.
        total: u64,
    },
    /// A trial is over.
    Done(&'a Trial),
    /// A cell cannot be tried on this machine.
    Skipped(&'a SkippedCell),
    /// A trial could not be carried out.
    Failed {
        /// Of which cell.
        cell: Cell,
        /// From 1 on.
        number: u32,
        /// Why.
        why: &'a str,
    },
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct RunOutcome {
    /// All trials, those of the run that this one resumes included.
    pub trials: Vec<Trial>,
    /// Cells that could not be tried.
    pub skipped: Vec<SkippedCell>,
    /// Trials that could not be carried out.
    pub failures: Vec<String>,
    /// Whether the user has ended it.
    pub is_cancelled: bool,
}

/// Carries out what is left of a plan, given the trials that are there. Each trial is on disk before the next begins.
///
/// # Errors
/// If the results cannot be written.
pub fn run(
    plan: &Plan,
    engine: &mut dyn TrialEngine,
    results: &mut Results,
    before: Vec<Trial>,
    cancel: &Cancel,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<RunOutcome, ResultsError> {
    let there: BTreeSet<(Cell, u32)> = before
        .iter()
        .map(|trial| (trial.cell, trial.number))
        .collect();
    let mut outcome = RunOutcome {
        trials: before,
        ..RunOutcome::default()
    };
    let total = plan.cells.len() as u64 * u64::from(plan.trials);
    let mut done = 0;
    for number in 1..=plan.trials {
        for &cell in &plan.cells {
            let is_skipped = outcome.skipped.iter().any(|skipped| skipped.cell == cell);
            if there.contains(&(cell, number)) || is_skipped {
                done += 1;
                continue;
            }
            if cancel.is_cancelled() {
                outcome.is_cancelled = true;
                return Ok(outcome);
            }
            tell(Progress::Begins {
                cell,
                number,
                done,
                total,
            });
            match one(plan, engine, results, cell, number, cancel)? {
                Ok(trial) => {
                    tell(Progress::Done(&trial));
                    outcome.trials.push(trial);
                }
                Err(EngineError::Cancelled) => {
                    outcome.is_cancelled = true;
                    return Ok(outcome);
                }
                Err(EngineError::Missing(reason)) => {
                    let skipped = SkippedCell { cell, reason };
                    tell(Progress::Skipped(&skipped));
                    outcome.skipped.push(skipped);
                }
                Err(EngineError::Failed(why)) => {
                    tell(Progress::Failed {
                        cell,
                        number,
                        why: &why,
                    });
                    outcome
                        .failures
                        .push(format!("{cell}, trial {number}: {why}"));
                    if outcome.failures.len() >= FAILURES_MAX {
                        return Ok(outcome);
                    }
                }
            }
            done += 1;
        }
    }
    Ok(outcome)
}

fn one(
    plan: &Plan,
    engine: &mut dyn TrialEngine,
    results: &mut Results,
    cell: Cell,
    number: u32,
    cancel: &Cancel,
) -> Result<Result<Trial, EngineError>, ResultsError> {
    let history = Arc::new(TrialHistory::default());
    let seed = plan.seed_of(&cell, number);
    let measured = match engine.run(&cell, plan, seed, &history, cancel) {
        Ok(measured) => measured,
        Err(error) => return Ok(Err(error)),
    };
    let records = history.records();
    let trial = Trial {
        cell,
        number,
        seed,
        engine: engine.name().to_owned(),
        measured,
        verdict: judge(&records),
    };
    results.add(&trial, &records)?;
    Ok(Ok(trial))
}

/// After so many trials that could not be carried out something is wrong with the machine.
const FAILURES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Measured;
    use crate::history::{Occurrence, Who};
    use crate::preset::Preset;

    /// An engine whose trials are what the test says.
    struct Scripted<F: FnMut(&Cell) -> Result<Measured, EngineError>>(F);

    impl<F: FnMut(&Cell) -> Result<Measured, EngineError>> TrialEngine for Scripted<F> {
        fn name(&self) -> &str {
            "scripted"
        }

        fn run(
            &mut self,
            cell: &Cell,
            _plan: &Plan,
            seed: u64,
            history: &Arc<TrialHistory>,
            _cancel: &Cancel,
        ) -> Result<Measured, EngineError> {
            let text = seed.to_string();
            history.note(0, Who::Harness, Occurrence::Said { text });
            (self.0)(cell)
        }
    }

    fn carry_out(
        plan: &Plan,
        results: &mut Results,
        before: Vec<Trial>,
        cancel: &Cancel,
        trial: impl FnMut(&Cell) -> Result<Measured, EngineError>,
    ) -> RunOutcome {
        run(
            plan,
            &mut Scripted(trial),
            results,
            before,
            cancel,
            &mut |_| {},
        )
        .expect("the results can be written")
    }

    #[test]
    fn an_interrupted_run_goes_on_where_it_was() {
        let home = tempfile::tempdir().expect("a directory");
        let mut plan = Preset::Quick.plan(1);
        plan.trials = 2;
        let mut results = Results::create(home.path(), "run", &plan, "real").expect("it is new");
        let (cancel, mut count) = (Cancel::default(), 0);
        let stops = cancel.clone();
        let first = carry_out(&plan, &mut results, Vec::new(), &cancel, |_| {
            count += 1;
            if count == 4 {
                stops.cancel();
            }
            Ok(Measured::default())
        });
        assert!(first.is_cancelled && first.trials.len() == 4);
        drop(results);

        let directory = home.path().join("run");
        let (mut results, again, before) = Results::resume(&directory).expect("it can go on");
        assert_eq!((&again.plan, before.len()), (&plan, 4));
        let mut seen = Vec::new();
        let rest = carry_out(&plan, &mut results, before, &Cancel::default(), |cell| {
            seen.push(*cell);
            Ok(Measured::default())
        });
        assert!(!rest.is_cancelled);
        let total = plan.cells.len() * 2;
        assert_eq!((rest.trials.len(), seen.len()), (total, total - 4));
        assert_eq!(seen[0], plan.cells[4]);
    }

    #[test]
    fn what_is_missing_is_skipped_and_what_fails_again_and_again_ends_the_run() {
        let home = tempfile::tempdir().expect("a directory");
        let mut plan = Preset::Quick.plan(1);
        plan.trials = 2;
        let mut results = Results::create(home.path(), "a", &plan, "real").expect("it is new");
        let first_cell = plan.cells[0];
        let outcome = carry_out(
            &plan,
            &mut results,
            Vec::new(),
            &Cancel::default(),
            |cell| match *cell == first_cell {
                true => Err(EngineError::Missing("no such peer".to_owned())),
                false => Ok(Measured::default()),
            },
        );
        assert_eq!(outcome.skipped.len(), 1);
        assert_eq!(outcome.trials.len(), (plan.cells.len() - 1) * 2);
        let mut results = Results::create(home.path(), "b", &plan, "real").expect("it is new");
        let outcome = carry_out(&plan, &mut results, Vec::new(), &Cancel::default(), |_| {
            Err(EngineError::Failed("no ports".to_owned()))
        });
        assert_eq!(outcome.failures.len(), FAILURES_MAX);
    }
}
