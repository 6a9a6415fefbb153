//! One sentence per fsync mode, from what was seen.

use crate::cell::{Delay, Expectation, Fault, FsyncMode};
use crate::summary::{CellSummary, Summary};

/// The sentences, the most important first: whether there was a defect.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let mut lines = vec![overall(summary)];
    for fsync in FsyncMode::ALL {
        let cells: Vec<&CellSummary> = summary
            .cells
            .iter()
            .filter(|cell| cell.cell.fsync == fsync)
            .collect();
        if !cells.is_empty() {
            lines.push(mode(fsync, &cells));
        }
    }
    let others = Fault::ALL
        .into_iter()
        .filter_map(|fault| other(summary, fault));
    lines.extend(others);
    lines.extend(fences(summary));
    lines
}

/// What the register made of those who came late, if some locks had fences.
fn fences(summary: &Summary) -> Option<String> {
    let (mut trials, mut refused, mut lost) = ([0, 0], 0, [0, 0]);
    for cell in &summary.cells {
        let with = usize::from(cell.cell.fences.are_on());
        trials[with] += cell.trials;
        refused += cell.refused_holders;
        lost[with] += cell.lost_updates.max(cell.missing_updates.unwrap_or(0));
    }
    let without = match trials[0] {
        0 => String::new(),
        trials => format!(" Without: {} were lost in {trials} trials.", lost[0]),
    };
    (trials[1] > 0).then(|| {
        format!(
            "With fences: the database refused {refused} holders that came late; {} updates were lost in {} trials.{without}",
            lost[1], trials[1]
        )
    })
}

/// A fault after which no node starts again, if it made two holders.
fn other(summary: &Summary, fault: Fault) -> Option<String> {
    let of = |cell: &&CellSummary| {
        cell.cell.fault == fault && fault.restarted(cell.cell.nodes) == 0 && cell.violated > 0
    };
    let (mut trials, mut violated, mut worst) = (0, 0, 0.0_f64);
    for cell in summary.cells.iter().filter(of) {
        trials += cell.trials;
        violated += cell.violated;
        worst = worst.max(cell.overlap_ms_max);
    }
    (violated > 0).then(|| {
        format!("{fault}: {violated} of {trials} trials had two holders at once, for up to {worst:.0} ms.")
    })
}

fn overall(summary: &Summary) -> String {
    let waits =
        |cell: &&CellSummary| cell.expected == Expectation::None && cell.cell.delay != Delay::Off;
    let safe = summary.cells.iter().filter(waits);
    let trials: u64 = safe.clone().map(|cell| cell.trials).sum();
    let violated: u64 = safe.map(|cell| cell.violated).sum();
    let defects = summary.cells.iter().filter(|cell| cell.is_defect()).count();
    match defects {
        0 if trials == 0 => {
            "No combination was tried with the restart delay that is needed.".to_owned()
        }
        0 => format!(
            "With the restart delay that is needed: {violated} of {trials} trials had two holders at once."
        ),
        _ => format!(
            "DEFECT in {defects} cells: two holders where none are allowed, locks that were not to be had again, or fences \
             that did not hold. Please report it with repro.txt."
        ),
    }
}

fn mode(fsync: FsyncMode, cells: &[&CellSummary]) -> String {
    let off = cells.iter().filter(|cell| {
        cell.cell.delay == Delay::Off && cell.cell.fault.restarted(cell.cell.nodes) > 0
    });
    let (mut trials, mut violated, mut worst) = (0, 0, 0.0_f64);
    for cell in off {
        trials += cell.trials;
        violated += cell.violated;
        worst = worst.max(cell.overlap_ms_max);
    }
    let speed = cells
        .iter()
        .filter_map(|cell| cell.throughput)
        .map(|[median, ..]| median)
        .reduce(f64::max);
    let speed = speed.map_or_else(String::new, |rate| {
        format!(" Up to {rate:.0} locks a second.")
    });
    match (trials, violated) {
        (0, _) => format!("fsync {fsync}: not tried without the restart delay.{speed}"),
        (_, 0) => format!(
            "fsync {fsync}: without the restart delay none of {trials} restarts gave a lock to two holders.{speed}"
        ),
        _ => format!(
            "fsync {fsync}: without the restart delay {violated} of {trials} restarts gave a lock to two holders, \
             for up to {worst:.0} ms.{speed}"
        ),
    }
}
