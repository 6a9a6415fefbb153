//! A run beside an earlier one: what changed, and where no change was detected.

use crate::summary::{CellSummary, Summary};

/// A line per cell that both have tried.
pub fn comparison_text(summary: &Summary, baseline: &Summary) -> String {
    let mut text = String::from("Compared with the baseline:\n");
    for line in lines(summary, baseline) {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

pub(super) fn lines(summary: &Summary, baseline: &Summary) -> Vec<String> {
    let pairs = summary.cells.iter().filter_map(|now| {
        let before = baseline
            .cells
            .iter()
            .find(|before| before.cell == now.cell)?;
        Some(line(before, now))
    });
    let lines: Vec<String> = pairs.collect();
    match lines.is_empty() {
        true => vec!["no cell was tried in both".to_owned()],
        false => lines,
    }
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
    format!("{}: {violations}; {throughput}", now.cell)
}
