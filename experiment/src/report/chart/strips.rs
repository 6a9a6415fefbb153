//! Rows of values over one scale: a dot for each, or a bar with its spread.

use std::collections::BTreeMap;

use super::share::DelayShare;
use super::{BOTTOM, Drawing, LEFT, RIGHT, ROW, TOP, WIDTH, ceiling};
use crate::cell::{Cell, FsyncMode};
use crate::report::page::{escaped, text};
use crate::summary::Summary;
use crate::trial::Trial;

/// A row with a mark for each value.
pub(super) struct StripRow {
    pub(super) label: String,
    pub(super) values: Vec<f64>,
}

pub(super) fn throughput(trials: &[Trial]) -> Option<String> {
    let rate = |trial: &Trial| {
        let seconds = trial.measured.load_s;
        let rate = (seconds > 0.0).then(|| trial.measured.load_cycles as f64 / seconds);
        rate.into_iter().collect()
    };
    strips(rows(trials, under_load, rate), "a second", true)
}

pub(super) fn sync(trials: &[Trial]) -> Option<String> {
    let times = |trial: &Trial| {
        let times = trial.measured.sync_us.iter();
        times.map(|us| f64::from(*us) / 1e3).collect()
    };
    // Without a log there is nothing to sync but the little that a node keeps of itself.
    let label = |cell: Cell| under_load(cell).filter(|_| cell.fsync != FsyncMode::None);
    strips(rows(trials, label, times), "ms", false)
}

pub(super) fn unavailable(trials: &[Trial]) -> Option<String> {
    let time = |trial: &Trial| trial.measured.unavailable_ms.into_iter().collect();
    let label = |cell: Cell| {
        let restarts = cell.fault.restarted(cell.nodes) > 0;
        restarts.then(|| format!("{}, {}", cell.fault, cell.delay))
    };
    strips(rows(trials, label, time), "ms", false)
}

pub(super) fn recovery(trials: &[Trial]) -> Option<String> {
    let time = |trial: &Trial| trial.measured.recovery_ms.into_iter().collect();
    let label = |cell: Cell| {
        let restarts = cell.fault.restarted(cell.nodes) > 0;
        restarts.then(|| format!("{}, fsync {}", cell.fault, cell.fsync))
    };
    strips(rows(trials, label, time), "ms", false)
}

/// What the load before the fault depends on: the mode, the number of nodes, and whose disk it is. Where a fault needs it,
/// nodes run on the machine of the experiment.
fn under_load(cell: Cell) -> Option<String> {
    let disk = match cell.fault.needs_machine() {
        true => "kept back",
        false => "as it is",
    };
    Some(format!("{}, {} nodes, disk {disk}", cell.fsync, cell.nodes))
}

pub(super) fn overlap(summary: &Summary) -> Option<String> {
    let mut shares: BTreeMap<DelayShare, Vec<f64>> = BTreeMap::new();
    for cell in &summary.cells {
        if let Some(share) = DelayShare::of(&cell.cell) {
            shares.entry(share).or_default().push(cell.overlap_ms_max);
        }
    }
    let rows = shares.into_iter().map(|(share, values)| StripRow {
        label: share.to_string(),
        values,
    });
    strips(rows, "ms", false)
}

/// A row for each label, in the order in which they come.
fn rows(
    trials: &[Trial],
    label: impl Fn(Cell) -> Option<String>,
    values: impl Fn(&Trial) -> Vec<f64>,
) -> Vec<StripRow> {
    let mut rows: Vec<StripRow> = Vec::new();
    for trial in trials {
        let Some(label) = label(trial.cell) else {
            continue;
        };
        let values = values(trial);
        match rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.values.extend(values),
            None => rows.push(StripRow { label, values }),
        }
    }
    rows
}

/// Rows of dots over one scale that begins at zero; with `spread` a bar from the lowest to the highest and a mark at the
/// median instead of dots.
pub(super) fn strips(
    rows: impl IntoIterator<Item = StripRow>,
    unit: &str,
    spread: bool,
) -> Option<String> {
    let rows = rows.into_iter().filter(|row| !row.values.is_empty());
    let rows: Vec<StripRow> = rows.collect();
    let all = rows.iter().flat_map(|row| row.values.iter().copied());
    let largest = all.fold(0.0_f64, f64::max).max(1.0);
    if rows.is_empty() {
        return None;
    }
    let scale = ceiling(largest);
    let height = TOP + rows.len() as f64 * ROW + BOTTOM;
    let x = |value: f64| LEFT + value / scale * (WIDTH - LEFT - RIGHT);
    let mut drawing = Drawing::open(height);
    for (index, row) in rows.into_iter().enumerate() {
        let y = TOP + index as f64 * ROW + ROW / 2.0;
        drawing.level(y, WIDTH - RIGHT, escaped(&row.label));
        let mut values = row.values;
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (values[0], values[values.len() - 1]);
        if spread {
            let median = values[values.len() / 2];
            drawing.add(format!(
                "<rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
                 <line class=\"spread\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x(0.0),
                y - 6.0,
                x(median) - x(0.0),
                x(lowest),
                x(highest),
                x(highest) + 6.0,
                y + 4.0,
                shown(median)
            ));
        } else {
            for value in values {
                drawing.add(format!(
                    "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{} {}</title></circle>",
                    x(value),
                    shown(value),
                    escaped(unit)
                ));
            }
        }
    }
    for step in 0..=4 {
        let value = scale * f64::from(step) / 4.0;
        drawing.below(x(value), tick(value));
    }
    drawing.add(text(LEFT - 8.0, height - 8.0, "end", escaped(unit)));
    Some(drawing.close())
}

/// A value with as many digits as say something.
fn shown(value: f64) -> String {
    match value {
        _ if value < 1.0 => format!("{value:.2}"),
        _ if value < 10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A tick exactly, so that none stands beside where it is.
fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_exact_and_small_values_have_digits() {
        let ticks = [0.0, 2.5, 7.5, 0.25, 1000.0, 10.0].map(tick);
        assert_eq!(ticks, ["0", "2.5", "7.5", "0.25", "1000", "10"]);
        let values = [0.38, 4.23, 1871.4].map(shown);
        assert_eq!(values, ["0.38", "4.2", "1871"]);
    }
}
