//! The risk of a restart delay that is too short: the share of trials with two holders.

use std::collections::BTreeMap;

use super::share::DelayShare;
use super::{BOTTOM, Drawing, LEFT, RIGHT, TOP, WIDTH, style_of};
use crate::cell::FsyncMode;
use crate::statistics::wilson;
use crate::summary::Summary;

/// Trials with two holders, and all of them.
type Counts = (u64, u64);

/// A curve for each fsync mode over the shares of the needed delay, each point with its 95 % interval.
pub(super) fn risk(summary: &Summary) -> Option<String> {
    let curves = curves(summary);
    let mut shares: Vec<DelayShare> = curves
        .values()
        .flat_map(|curve| curve.keys().copied())
        .collect();
    shares.sort_unstable();
    shares.dedup();
    // One share is no curve.
    if shares.len() < 2 {
        return None;
    }
    let mut drawing = Drawing::open(HEIGHT);
    axes(&mut drawing, &shares);
    for (position, (fsync, curve)) in curves.iter().enumerate() {
        draw(&mut drawing, &shares, curve, *fsync, position);
        drawing.legend(*fsync, position);
    }
    Some(drawing.close())
}

fn curves(summary: &Summary) -> BTreeMap<FsyncMode, BTreeMap<DelayShare, Counts>> {
    let mut curves: BTreeMap<FsyncMode, BTreeMap<DelayShare, Counts>> = BTreeMap::new();
    for cell in &summary.cells {
        let Some(share) = DelayShare::of(&cell.cell) else {
            continue;
        };
        let curve = curves.entry(cell.cell.fsync).or_default();
        let counts = curve.entry(share).or_default();
        counts.0 += cell.violated;
        counts.1 += cell.trials;
    }
    for curve in curves.values_mut() {
        curve.retain(|_, (_, trials)| *trials >= TRIALS_MIN);
    }
    curves
}

fn axes(drawing: &mut Drawing, shares: &[DelayShare]) {
    for percent in [0, 25, 50, 75, 100] {
        let y = y(f64::from(percent) / 100.0);
        drawing.level(y, WIDTH - LEGEND, format_args!("{percent} %"));
    }
    for (place, share) in shares.iter().enumerate() {
        drawing.below(x(place, shares.len()), share);
    }
}

/// Curves stand a little beside each other, so that none hides another.
fn draw(
    drawing: &mut Drawing,
    shares: &[DelayShare],
    curve: &BTreeMap<DelayShare, Counts>,
    fsync: FsyncMode,
    position: usize,
) {
    let style = style_of(fsync);
    let aside = (position as f64 - 1.0) * 8.0;
    let mut marks = String::new();
    let mut points = Vec::new();
    for (place, share) in shares.iter().enumerate() {
        let Some((violated, trials)) = curve.get(share) else {
            // What was not tried is not drawn through.
            line(drawing, &style, &mut points);
            continue;
        };
        let x = x(place, shares.len()) + aside;
        let (low, high) = wilson(*violated, *trials);
        let rate = y(*violated as f64 / (*trials).max(1) as f64);
        points.push(format!("{x:.1},{rate:.1}"));
        marks.push_str(&format!(
            "<line class=\"{style}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <circle class=\"mark {style}\" cx=\"{x:.1}\" cy=\"{rate:.1}\" r=\"4\">\
             <title>fsync {fsync}, {share}: {violated} of {trials}, {:.1} to {:.1} %</title></circle>",
            y(low),
            y(high),
            low * 100.0,
            high * 100.0
        ));
    }
    line(drawing, &style, &mut points);
    drawing.add(marks);
}

fn line(drawing: &mut Drawing, style: &str, points: &mut Vec<String>) {
    if points.len() > 1 {
        let points = points.join(" ");
        drawing.add(format!(
            "<polyline class=\"curve {style}\" points=\"{points}\"/>"
        ));
    }
    points.clear();
}

fn x(place: usize, places: usize) -> f64 {
    let width = WIDTH - LEFT - LEGEND - 2.0 * INSET;
    LEFT + INSET + place as f64 / (places.max(2) - 1) as f64 * width
}

fn y(share: f64) -> f64 {
    TOP + (1.0 - share) * (HEIGHT - TOP - BOTTOM)
}

/// Of fewer trials the interval says nothing: of a single one it goes from 0 to 79 %, or from 21 to 100 %.
const TRIALS_MIN: u64 = 5;
const HEIGHT: f64 = 230.0;
/// What the names of the curves need on the right.
const LEGEND: f64 = RIGHT + 90.0;
/// From the ends of the axis to the first and the last share.
const INSET: f64 = 40.0;
