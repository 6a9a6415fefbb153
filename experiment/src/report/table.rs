//! The table of a run for a terminal: a row per cell.

use crate::cell::{Expectation, FenceCheck};
use crate::summary::{CellSummary, Summary};

/// The table, with a line break at its end.
pub(super) fn table(summary: &Summary) -> String {
    let mut rows: Vec<[String; 10]> = vec![HEADER.map(str::to_owned)];
    rows.extend(summary.cells.iter().map(row));
    let mut text = aligned(&rows, WORDS);
    for line in skipped(summary) {
        text.push_str(&format!("skipped {line}\n"));
    }
    if !summary.is_complete {
        text.push_str("NOT COMPLETE: some trials of the plan were not carried out.\n");
    }
    text.push('\n');
    text
}

/// Rows in columns: so many with words to the left, those with figures to the right.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]], words: usize) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, value) in widths.iter_mut().zip(row) {
            *width = value.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (index, (width, value)) in widths.iter().zip(row).enumerate() {
            let padding = " ".repeat(width - value.chars().count());
            match index < words {
                true => line.push_str(&format!("{value}{padding}  ")),
                false => line.push_str(&format!("{padding}{value}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(cell: &CellSummary) -> [String; 10] {
    let nodes = cell.cell.nodes;
    [
        cell.cell.fsync.to_string(),
        cell.cell.delay.to_string(),
        match (nodes, cell.cell.fences) {
            (5, FenceCheck::Off) => cell.cell.fault.to_string(),
            (5, FenceCheck::On) => format!("{}, fences", cell.cell.fault),
            (_, FenceCheck::Off) => format!("{} of {nodes}", cell.cell.fault),
            (_, FenceCheck::On) => format!("{} of {nodes}, fences", cell.cell.fault),
        },
        violations(cell),
        mark(cell).to_owned(),
        match cell.standing {
            0 => "-".to_owned(),
            standing => format!("{} of {standing}", cell.lost),
        },
        cell.throughput
            .map_or_else(dash, |[median, ..]| format!("{median:.0}")),
        cell.acquire_us.map_or_else(dash, |[p50, p99, _]| {
            format!("{:.1} / {:.1}", p50 / 1e3, p99 / 1e3)
        }),
        cell.recovery_ms.map_or_else(dash, |ms| format!("{ms:.0}")),
        cell.unavailable_ms
            .map_or_else(dash, |ms| format!("{ms:.0}")),
    ]
}

/// What was not tried: a line per reason, with the combination if it is one.
pub(super) fn skipped(summary: &Summary) -> Vec<String> {
    let skipped = summary.skipped.iter();
    let skipped = skipped.map(|skipped| (skipped.cell.id(), skipped.reason.as_str()));
    let lines = by_reason(skipped)
        .into_iter()
        .map(|(reason, cells)| match &cells[..] {
            [cell] => format!("{cell}: {reason}"),
            _ => format!(
                "{} combinations, such as {}: {reason}",
                cells.len(),
                cells[0]
            ),
        });
    lines.collect()
}

/// What has the same reason, together, in the order in which reasons come.
pub(super) fn by_reason<'a>(
    all: impl Iterator<Item = (String, &'a str)>,
) -> Vec<(&'a str, Vec<String>)> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, reason) in all {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons
}

/// `0 of 20, < 16 %`: what was seen, and the upper end of the 95 % interval.
pub(super) fn violations(cell: &CellSummary) -> String {
    let (violated, trials) = (cell.violated, cell.trials);
    match violated {
        0 => format!("0 of {trials}, < {}", bound(cell.violated_upper)),
        _ => format!("{violated} of {trials}, {:.0} ms", cell.overlap_ms_max),
    }
}

/// The upper end of an interval in per cent: rounded up, to two digits that say something.
fn bound(share: f64) -> String {
    let percent = share * 100.0;
    let (digits, unit): (usize, f64) = match percent {
        _ if percent >= 10.0 => (0, 1.0),
        _ if percent >= 1.0 => (1, 10.0),
        _ if percent >= 0.1 => (2, 100.0),
        _ => (3, 1000.0),
    };
    // A hair less, so that what is exact in decimal is not rounded up for its binary.
    let up = (percent * unit - 1e-9).ceil() / unit;
    format!("{up:.digits$} %")
}

/// Whether the row is what was known in advance. Trials never show that something is safe: only that nothing was
/// seen, with the bound beside it.
pub(super) fn mark(cell: &CellSummary) -> &'static str {
    match (cell.is_as_expected(), cell.expected) {
        (false, _) if cell.is_defect() => "DEFECT",
        (false, _) => "not shown",
        (true, Expectation::Some) => "as expected",
        (true, Expectation::Open) if cell.violated > 0 => "unsafe",
        (true, Expectation::None | Expectation::Open) => "none seen",
    }
}

pub(super) fn dash() -> String {
    "-".to_owned()
}

const HEADER: [&str; 10] = [
    "fsync",
    "delay",
    "fault",
    "two holders",
    "",
    "forgotten",
    "cycles/s",
    "p50 / p99 ms",
    "recovery ms",
    "no locks ms",
];
const WORDS: usize = 5;

#[cfg(test)]
mod tests {
    use super::bound;
    use crate::statistics::wilson_upper;

    #[test]
    fn a_bound_says_something_however_many_trials_there_were() {
        for (trials, expected) in [
            // One trial says little: the bound of E. B. Wilson for 0 of 1 is z^2 / (1 + z^2).
            (1, "80 %"),
            (2, "66 %"),
            (20, "17 %"),
            (50, "7.2 %"),
            (2000, "0.20 %"),
            (50_000, "0.008 %"),
        ] {
            assert_eq!(bound(wilson_upper(0, trials)), expected);
        }
        assert_eq!(bound(1.0), "100 %");
        assert_eq!(bound(0.05), "5.0 %");
    }
}
