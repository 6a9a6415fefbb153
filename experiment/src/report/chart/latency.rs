//! Latency: which share of the acquisitions took longer than so long.

use super::{BOTTOM, Drawing, LEFT, RIGHT, TOP, WIDTH, style_of};
use crate::cell::FsyncMode;
use crate::trial::Trial;

/// A curve per fsync mode: which share of the acquisitions took longer than so many microseconds, both axes logarithmic.
pub(super) fn latency(trials: &[Trial]) -> Option<String> {
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
    let mut drawing = Drawing::open(height);
    for power in 0..=4 {
        let share = 10_f64.powi(-power);
        drawing.level(y(share), WIDTH - RIGHT, format_args!("{} %", share * 100.0));
    }
    let mut us = 100.0;
    while us <= 10_f64.powf(decades) * 1.01 {
        drawing.below(x(us), format_args!("{} ms", us / 1e3));
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
                reason = "a share of a length is a length"
            )]
            let at = values.len() - (slower as usize).min(values.len());
            let us = f64::from(values[at.min(values.len() - 1)]);
            points.push_str(&format!("{:.1},{:.1} ", x(us), y(share)));
        }
        let style = style_of(*fsync);
        drawing.add(format!(
            "<polyline class=\"curve {style}\" points=\"{points}\"/>"
        ));
        drawing.legend(*fsync, index);
    }
    Some(drawing.close())
}

/// The acquisitions of each fsync mode of which there are enough, the quickest first.
fn samples(trials: &[Trial]) -> Vec<(FsyncMode, Vec<u32>)> {
    let of_mode = FsyncMode::ALL.map(|fsync| {
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

/// A curve of fewer samples says nothing about its tail.
const SAMPLES_MIN: usize = 100;
