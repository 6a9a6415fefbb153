//! `repro.txt`: the lines that carry out what was carried out, and those that try a violation once more.

use crate::engine::real::ServerProgram;
use crate::summary::Summary;
use crate::trial::Trial;

/// The line that carries out the whole run once more.
pub(super) fn whole_run(summary: &Summary) -> String {
    let plan = &summary.plan;
    let cells: Vec<String> = plan
        .cells
        .iter()
        .map(|cell| format!("--cell {cell}"))
        .collect();
    format!(
        "quorlock experiment crash-recovery {} --trials {} {}",
        cells.join(" "),
        plan.trials,
        common(summary)
    )
}

/// The text of the file.
pub fn repro(summary: &Summary, trials: &[Trial]) -> String {
    let common = common(summary);
    let mut text = format!("# The whole run:\n{}\n", whole_run(summary));
    // A simulated trial is the same for the same seed; processes are never twice the same.
    let is_simulated = summary.engine == SIMULATED;
    let violated = trials.iter().filter(|trial| trial.is_striking());
    for trial in violated {
        let (cell, number) = (trial.cell, trial.number);
        let trials = if is_simulated { number } else { 1 };
        let what = match (
            trial.verdict.violations.is_empty(),
            trial.verdict.breaks_fences(),
        ) {
            (_, true) => "Fences that did not hold",
            (true, false) => "A lock that was not to be had again",
            (false, false) => "Two holders",
        };
        text.push_str(&format!(
            "# {what} in trial {number} of {cell} (seed {}):\n\
             quorlock experiment crash-recovery --cell {cell} --trials {trials} {common}\n",
            trial.seed
        ));
    }
    text
}

fn common(summary: &Summary) -> String {
    let plan = &summary.plan;
    let server = match ServerProgram::is_redis(&summary.engine) {
        true => "--server redis-server ",
        false if summary.engine == SIMULATED => "--engine simulated ",
        false => "",
    };
    format!(
        "{server}--ttl {}ms --restart-delay-max {}ms --seed {}",
        plan.ttl.as_millis(),
        plan.restart_delay_max.as_millis(),
        plan.seed
    )
}

const SIMULATED: &str = "simulated";
