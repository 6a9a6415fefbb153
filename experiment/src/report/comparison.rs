//! A run beside an earlier one: what changed, and where no change was detected.

use super::page::BASELINE;
use crate::summary::{CellSummary, Summary};

/// A line per cell that one of them has tried.
pub fn comparison_text(summary: &Summary, baseline: &Summary) -> String {
    baseline_text(lines(summary, baseline))
}

/// What differs from an earlier run, as text.
pub(super) fn baseline_text(lines: Vec<String>) -> String {
    let lines = lines.iter().map(|line| format!("  {line}\n"));
    format!("{BASELINE}:\n{}", lines.collect::<String>())
}

pub(super) fn lines(summary: &Summary, baseline: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let mut alone = Vec::new();
    for now in &summary.cells {
        match row_of(baseline, now) {
            Some(before) => lines.push(line(before, now)),
            None => alone.push(now.cell.id()),
        }
    }
    if lines.is_empty() {
        lines.push("no cell was tried in both".to_owned());
    }
    let gone = baseline.cells.iter();
    let gone = gone.filter(|before| row_of(summary, before).is_none());
    lines.extend(only("this run", alone));
    lines.extend(only(
        "the baseline",
        gone.map(|before| before.cell.id()).collect(),
    ));
    lines
}

fn row_of<'a>(summary: &'a Summary, wanted: &CellSummary) -> Option<&'a CellSummary> {
    summary.cells.iter().find(|row| row.cell == wanted.cell)
}

fn only(whose: &str, cells: Vec<String>) -> Option<String> {
    let first = cells.first()?;
    Some(match cells.len() {
        1 => format!("only in {whose}: {first}"),
        number => format!("only in {whose}: {number} combinations, such as {first}"),
    })
}

fn line(before: &CellSummary, now: &CellSummary) -> String {
    let violations = match (before.violated, now.violated) {
        (0, 0) => "one holder at a time in both".to_owned(),
        (before_number, number) => format!(
            "two holders in {number} of {} trials (was {before_number} of {})",
            now.trials, before.trials
        ),
    };
    let throughput = match (before.throughput, now.throughput) {
        (Some([_, lowest, highest]), Some([_, low, high])) if low <= highest && lowest <= high => {
            "throughput: no change detected".to_owned()
        }
        (Some([before, ..]), Some([now, ..])) if before > 0.0 => {
            format!("throughput x {:.2}", now / before)
        }
        _ => "throughput not comparable".to_owned(),
    };
    let latency = match (before.acquire_us, now.acquire_us) {
        (Some([before, before_99, _]), Some([now, now_99, _]))
            if before > 0.0 && before_99 > 0.0 =>
        {
            format!("p50 x {:.2}, p99 x {:.2}", now / before, now_99 / before_99)
        }
        _ => "latency not comparable".to_owned(),
    };
    format!("{}: {violations}; {throughput}; {latency}", now.cell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;
    use crate::report::timeline::tests::amnesia;

    fn run(cells: &[(&str, f64, u32)]) -> Summary {
        let mut plan = Preset::Quick.plan(1);
        let trials: Vec<_> = cells
            .iter()
            .map(|(cell, seconds, us)| {
                let (mut trial, _) = amnesia();
                trial.cell = cell.parse().expect("a cell");
                trial.measured.load_cycles = 1000;
                trial.measured.load_s = *seconds;
                trial.measured.acquire_us = vec![*us];
                trial
            })
            .collect();
        plan.cells = trials.iter().map(|trial| trial.cell).collect();
        Summary::of(&plan, "real", Vec::new(), &trials, &[])
    }

    #[test]
    fn two_runs_are_compared_cell_by_cell_and_what_only_one_tried_is_named() {
        let (off, auto, kept) = (
            "no/off/power-loss-one/5",
            "no/auto/power-loss-one/5",
            "always/off/power-loss-one/5",
        );
        let before = run(&[(off, 2.0, 200), (auto, 1.0, 100)]);
        let now = run(&[(off, 1.0, 100), (kept, 1.0, 100)]);
        assert_eq!(
            lines(&now, &before),
            [
                format!(
                    "{off}: two holders in 1 of 1 trials (was 1 of 1); throughput x 2.00; p50 x 0.50, p99 x 0.50"
                ),
                format!("only in this run: {kept}"),
                format!("only in the baseline: {auto}"),
            ]
        );
        assert_eq!(
            lines(&now, &now)[0],
            format!(
                "{off}: two holders in 1 of 1 trials (was 1 of 1); throughput: no change detected; p50 x 1.00, p99 x 1.00"
            )
        );
        assert_eq!(lines(&run(&[]), &before)[0], "no cell was tried in both");
    }
}
