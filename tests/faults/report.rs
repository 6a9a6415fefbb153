//! What is printed: a line per check that failed or has figures, a table, and the sums last.

use std::fmt::Write as _;

use crate::check::{Check, Record, Totals};

/// What to say of one check when it has ended; empty if there is nothing to say.
pub(crate) fn of_check(check: &Check, record: &Record, is_thorough: bool) -> String {
    let mut text = String::new();
    for figure in &record.figures {
        let _ = writeln!(text, "{}: {figure}", check.name);
    }
    let option = if is_thorough { "--all " } else { "" };
    for (nth, what) in &record.failures {
        let run = nth.map(|nth| format!("/{nth}")).unwrap_or_default();
        let name = &check.name;
        let _ = writeln!(text, "FAILED {name}{run}\n    {what}");
        let _ = writeln!(
            text,
            "    again: tests/faults/run {option}--only {name}{run}"
        );
    }
    text
}

/// The table of kinds, what was skipped, and the sums.
pub(crate) fn of_all(totals: &Totals) -> String {
    let mut text = format!(
        "\n{:<40} {:>6} {:>6} {:>6} {:>12} {:>6} {:>6} {:>6}\n",
        "kind", "checks", "faults", "runs", "acknowledged", "lost", "panics", "failed"
    );
    let mut sums = Record::default();
    for (kind, record) in &totals.kinds {
        let failed = totals.failed.get(kind).copied().unwrap_or_default();
        let checks = totals.checks.get(kind).copied().unwrap_or_default();
        text.push_str(&row(kind, record, checks, failed));
        sums.faults += record.faults;
        sums.runs += record.runs;
        sums.acknowledged += record.acknowledged;
        sums.losses += record.losses;
        sums.panics += record.panics;
    }
    let checks = totals.checks.values().sum();
    text.push_str(&row("all", &sums, checks, totals.failures()));
    text.push('\n');
    for skipped in &totals.skipped {
        let _ = writeln!(text, "skipped: {skipped}");
    }
    let (passed, failed) = (totals.passed, totals.failures());
    let skipped = totals.skipped.len();
    let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
    text
}

fn row(kind: &str, record: &Record, checks: u64, failed: u64) -> String {
    format!(
        "{kind:<40} {checks:>6} {:>6} {:>6} {:>12} {:>6} {:>6} {failed:>6}\n",
        record.faults, record.runs, record.acknowledged, record.losses, record.panics
    )
}
