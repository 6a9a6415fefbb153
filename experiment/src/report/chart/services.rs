//! Lock services side by side: a row for each, with the spread of its rounds.

use super::strips::{StripRow, strips};
use super::{Chart, drawn};
use crate::compare::{Blow, Comparison, LoadFigures, ServiceSummary};

/// All charts of a comparison for which there is something to draw.
pub(in crate::report) fn services(comparison: &Comparison) -> Vec<Chart> {
    let rate = |figures: &LoadFigures| figures.rate;
    let p50 = |figures: &LoadFigures| figures.p50_us.map(|us| us / 1e3);
    let p99 = |figures: &LoadFigures| figures.p99_us.map(|us| us / 1e3);
    let apart = |row: &ServiceSummary| row.apart.clone();
    let together = |row: &ServiceSummary| row.together.clone();
    drawn([
        (
            "apart",
            "Callers with a lock of their own each: locks taken and given back a second; median, lowest and highest round",
            spread(comparison, apart, rate, "a second"),
        ),
        (
            "apart-p50",
            "Callers with a lock of their own each: from the request to the lock, half of them",
            spread(comparison, apart, p50, "ms"),
        ),
        (
            "apart-p99",
            "Callers with a lock of their own each: from the request to the lock, all but one in a hundred",
            spread(comparison, apart, p99, "ms"),
        ),
        (
            "together",
            "Callers that want the same lock: how often it changed hands a second",
            spread(comparison, together, rate, "a second"),
        ),
        (
            "together-p99",
            "Callers that want the same lock: from the request to the lock, all but one in a hundred",
            spread(comparison, together, p99, "ms"),
        ),
        (
            "holder-gone",
            "The holder of a lock of 3 s ends without giving it back: when somebody else had it",
            holder_gone(comparison),
        ),
    ])
}

fn spread(
    comparison: &Comparison,
    load: impl Fn(&ServiceSummary) -> Option<LoadFigures>,
    values: impl Fn(&LoadFigures) -> [f64; 3],
    unit: &str,
) -> Option<String> {
    let rows = comparison.services.iter().filter_map(|row| {
        Some(StripRow {
            label: row.service.to_string(),
            values: values(&load(row)?).to_vec(),
        })
    });
    strips(rows, unit, true)
}

fn holder_gone(comparison: &Comparison) -> Option<String> {
    let rows = comparison.services.iter().filter_map(|row| {
        Some(StripRow {
            label: row.service.to_string(),
            values: vec![row.fault(Blow::HolderGone)?.waited_ms?],
        })
    });
    strips(rows, "ms", false)
}
