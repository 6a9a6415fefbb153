//! The charts of a report: throughput with its spread, latency curves, time without locks, the violation curve.

use super::html::escaped;
use crate::cell::{Delay, Fsync};
use crate::summary::Summary;
use crate::trial::Trial;

/// A chart.
pub(super) struct Chart {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) svg: String,
}

/// All charts for which there is something to draw.
pub(super) fn all(summary: &Summary, trials: &[Trial]) -> Vec<Chart> {
    let charts = [
        (
            "throughput",
            "Locks taken and given back a second: median, lowest and highest of all trials",
            throughput(trials),
        ),
        (
            "latency",
            "How long acquisitions took: the share that took longer",
            latency(trials),
        ),
        (
            "unavailable",
            "Time without locks from the nodes that a fault has struck, trial by trial",
            unavailable(trials),
        ),
        (
            "overlap",
            "For how long two clients held a lock, by the share of the needed restart delay",
            overlap(summary),
        ),
    ];
    let drawn = charts
        .into_iter()
        .filter_map(|(name, title, svg)| Some((name, title, svg?)));
    drawn
        .map(|(name, title, svg)| Chart { name, title, svg })
        .collect()
}

/// A row with a mark for each value.
struct Row {
    label: String,
    values: Vec<f64>,
}

#[allow(
    clippy::cast_precision_loss,
    reason = "cycles of a load are far below 2^53"
)]
fn throughput(trials: &[Trial]) -> Option<String> {
    let rows = Fsync::ALL.map(|fsync| Row {
        label: format!("fsync {fsync}"),
        values: trials
            .iter()
            .filter(|trial| trial.cell.fsync == fsync && trial.measured.load_s > 0.0)
            .map(|trial| trial.measured.load_cycles as f64 / trial.measured.load_s)
            .collect(),
    });
    strips(&rows, "a second", true)
}

fn unavailable(trials: &[Trial]) -> Option<String> {
    let mut rows: Vec<Row> = Vec::new();
    for trial in trials {
        let cell = trial.cell;
        if cell.fault.restarted(cell.nodes) == 0 {
            continue;
        }
        let label = format!("{}, {}", cell.fault, cell.delay);
        let Some(ms) = trial.measured.unavailable_ms else {
            continue;
        };
        match rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.values.push(ms),
            None => rows.push(Row {
                label,
                values: vec![ms],
            }),
        }
    }
    strips(&rows, "ms", false)
}

fn overlap(summary: &Summary) -> Option<String> {
    let mut rows: Vec<Row> = Vec::new();
    for cell in &summary.cells {
        if !cell.cell.forgets() || !cell.cell.fault.is_power_loss() {
            continue;
        }
        let share = match cell.cell.delay {
            Delay::Off => "no delay".to_owned(),
            Delay::Percent(percent) => format!("{percent:>3} % of it"),
            Delay::Auto => "auto".to_owned(),
            Delay::TrustFsync => continue,
        };
        match rows.iter_mut().find(|row| row.label == share) {
            Some(row) => row.values.push(cell.overlap_ms_max),
            None => rows.push(Row {
                label: share,
                values: vec![cell.overlap_ms_max],
            }),
        }
    }
    rows.sort_by_key(|row| match row.label.as_str() {
        "no delay" => 0,
        "auto" => 1000,
        label => label
            .trim()
            .split(' ')
            .next()
            .and_then(|it| it.parse().ok())
            .unwrap_or(500),
    });
    strips(&rows, "ms", false)
}

/// Rows of dots over one scale that begins at zero; with `spread` a bar from the lowest to the highest and a mark at the
/// median instead of dots.
fn strips(rows: &[Row], unit: &str, spread: bool) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| !row.values.is_empty()).collect();
    let all = rows.iter().flat_map(|row| row.values.iter().copied());
    let largest = all.fold(0.0_f64, f64::max).max(1.0);
    if rows.is_empty() {
        return None;
    }
    let scale = ceiling(largest);
    let height = TOP + rows.len() as f64 * ROW + BOTTOM;
    let x = |value: f64| LEFT + value / scale * (WIDTH - LEFT - RIGHT);
    let mut svg = open(height);
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + index as f64 * ROW + ROW / 2.0;
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            escaped(&row.label)
        ));
        let mut values = row.values.clone();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (values[0], values[values.len() - 1]);
        if spread {
            let median = values[values.len() / 2];
            svg.push_str(&format!(
                "<rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
                 <line class=\"spread\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{median:.0}</text>",
                x(0.0),
                y - 6.0,
                x(median) - x(0.0),
                x(lowest),
                x(highest),
                x(highest) + 6.0,
                y + 4.0
            ));
        } else {
            for value in values {
                svg.push_str(&format!(
                    "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{value:.0} {}</title></circle>",
                    x(value),
                    escaped(unit)
                ));
            }
        }
    }
    for step in 0..=4 {
        let value = scale * f64::from(step) / 4.0;
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value:.0}</text>",
            x(value),
            height - 8.0
        ));
    }
    svg.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></svg>",
        LEFT - 8.0,
        height - 8.0,
        escaped(unit)
    ));
    Some(svg)
}

/// A curve per fsync mode: which share of the acquisitions took longer than so many microseconds, both axes logarithmic.
#[allow(
    clippy::cast_precision_loss,
    reason = "numbers of samples are far below 2^53"
)]
fn latency(trials: &[Trial]) -> Option<String> {
    let curves = samples(trials);
    let slowest = curves
        .iter()
        .filter_map(|(_, values)| values.last())
        .max()?;
    let decades = f64::from((*slowest).max(1000)).log10().ceil();
    let height = 260.0;
    let x =
        |us: f64| LEFT + (us.max(100.0).log10() - 2.0) / (decades - 2.0) * (WIDTH - LEFT - RIGHT);
    let y = |share: f64| TOP + -share.log10() / 4.0 * (height - TOP - BOTTOM);
    let mut svg = open(height);
    for power in 0..=4 {
        let share = 10_f64.powi(-power);
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{1:.1}\" y2=\"{1:.1}\"/>\
             <text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4} %</text>",
            WIDTH - RIGHT,
            y(share),
            LEFT - 8.0,
            y(share) + 4.0,
            share * 100.0
        ));
    }
    let mut us = 100.0;
    while us <= 10_f64.powf(decades) * 1.01 {
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} ms</text>",
            x(us),
            height - 8.0,
            us / 1e3
        ));
        us *= 10.0;
    }
    for (index, (fsync, values)) in curves.iter().enumerate() {
        let count = values.len() as f64;
        let mut points = String::new();
        for step in 0..=160 {
            let share = 10_f64.powf(-4.0 * f64::from(step) / 160.0);
            let slower = share * count;
            if slower < 1.0 {
                break;
            }
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a length is a length"
            )]
            let at = values.len() - (slower as usize).min(values.len());
            let us = f64::from(values[at.min(values.len() - 1)]);
            points.push_str(&format!("{:.1},{:.1} ", x(us), y(share)));
        }
        let top = TOP + 14.0 + index as f64 * 16.0;
        svg.push_str(&format!(
            "<polyline class=\"curve c{index}\" points=\"{points}\"/>\
             <line class=\"curve c{index}\" x1=\"{0:.1}\" x2=\"{1:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>\
             <text x=\"{3:.1}\" y=\"{4:.1}\">fsync {fsync}</text>",
            WIDTH - 130.0,
            WIDTH - 104.0,
            top - 4.0,
            WIDTH - 98.0,
            top
        ));
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// The acquisitions of each fsync mode of which there are enough, the quickest first.
fn samples(trials: &[Trial]) -> Vec<(Fsync, Vec<u32>)> {
    let of_mode = Fsync::ALL.map(|fsync| {
        let trials = trials.iter().filter(|trial| trial.cell.fsync == fsync);
        let mut values: Vec<u32> = trials
            .flat_map(|trial| trial.measured.acquire_us.iter().copied())
            .collect();
        values.sort_unstable();
        (fsync, values)
    });
    let enough = of_mode.into_iter();
    enough
        .filter(|(_, values)| values.len() >= SAMPLES_MIN)
        .collect()
}

fn open(height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         class=\"chart\"><style>{STYLE}</style>"
    )
}

/// The next number that is pleasant as the end of a scale.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    let found = steps.into_iter().find(|step| step * power >= value);
    found.unwrap_or(10.0) * power
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 10.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 28.0;
/// A curve of fewer samples says nothing about its tail.
const SAMPLES_MIN: usize = 100;

const STYLE: &str = "\
.chart{font:12px system-ui,sans-serif;fill:#444}.chart .grid{stroke:#dde1e4}\
.chart .bar{fill:#0072b2;fill-opacity:.75}.chart .spread{stroke:#222;stroke-width:2}\
.chart .dot{fill:#0072b2;fill-opacity:.7}.chart .curve{fill:none;stroke:#0072b2;stroke-width:2}\
.chart .c1{stroke:#e69f00;stroke-dasharray:8 3}.chart .c2{stroke:#009e73;stroke-dasharray:3 3}\
.chart .c3{stroke:#cc79a7;stroke-dasharray:10 3 2 3}\
@media(prefers-color-scheme:dark){.chart{fill:#c8ccd0}.chart .grid{stroke:#3a4046}\
.chart .spread{stroke:#eee}.chart .bar,.chart .dot{fill:#3a9bd9}.chart .curve{stroke:#3a9bd9}\
.chart .c1{stroke:#e69f00}.chart .c2{stroke:#2bc49a}.chart .c3{stroke:#e39cc6}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_above_its_values() {
        for (value, expected) in [
            (1.0, 1.0),
            (1.1, 2.0),
            (37.0, 40.0),
            (501.0, 800.0),
            (1990.0, 2000.0),
        ] {
            assert!((ceiling(value) - expected).abs() < 1e-9, "{value}");
        }
    }
}
