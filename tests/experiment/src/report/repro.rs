//! `repro.txt`: the lines that carry out what was carried out, and those that try a violation once more.

use crate::engine::real::Server;
use crate::summary::Summary;
use crate::trial::Trial;

/// The text of the file.
pub fn repro(summary: &Summary, trials: &[Trial]) -> String {
    let plan = &summary.plan;
    // A simulated trial is the same for the same seed; processes are never twice the same.
    let is_simulated = summary.engine == "simulated";
    let server = match Server::is_redis(&summary.engine) {
        true => "--server redis-server ",
        false if is_simulated => "--engine simulated ",
        false => "",
    };
    let common = format!(
        "{server}--ttl {}ms --restart-delay-max {}ms --seed {}",
        plan.ttl.as_millis(),
        plan.restart_delay_max.as_millis(),
        plan.seed
    );
    let cells: Vec<String> = plan
        .cells
        .iter()
        .map(|cell| format!("--cell {cell}"))
        .collect();
    let mut text = format!(
        "# The whole run:\nquorlock experiment crash-recovery {} --trials {} {common}\n",
        cells.join(" "),
        plan.trials
    );
    let violated = trials
        .iter()
        .filter(|trial| !trial.verdict.violations.is_empty());
    for trial in violated {
        let (cell, number) = (trial.cell, trial.number);
        let trials = if is_simulated { number } else { 1 };
        text.push_str(&format!(
            "# Two holders in trial {number} of {cell} (seed {}):\n\
             quorlock experiment crash-recovery --cell {cell} --trials {trials} {common}\n",
            trial.seed
        ));
    }
    text
}
