//! The charts of a report: throughput with its spread, latency curves, syncs, recovery, time without locks, and what a
//! restart delay that is too short risks.

mod latency;
mod risk;
mod services;
mod share;
mod strips;

use std::fmt::Display;

use super::page::text;
use crate::cell::FsyncMode;
use crate::summary::Summary;
use crate::trial::Trial;

pub(super) use services::services;

/// A chart.
pub(super) struct Chart {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) svg: String,
}

impl Chart {
    pub(super) fn into_file(self) -> (String, Vec<u8>) {
        (format!("svg/{}.svg", self.name), self.svg.into_bytes())
    }
}

/// All charts for which there is something to draw.
pub(super) fn all(summary: &Summary, trials: &[Trial]) -> Vec<Chart> {
    drawn([
        (
            "risk",
            "Where power was lost: the share of trials with two holders, by the share of the needed restart delay, with \
             95 % intervals",
            risk::risk(summary),
        ),
        (
            "overlap",
            "For how long two clients held a lock, by the share of the needed restart delay: the longest of each \
             combination",
            strips::overlap(summary),
        ),
        (
            "unavailable",
            "Time without locks from the nodes that a fault has struck, trial by trial",
            strips::unavailable(trials),
        ),
        (
            "recovery",
            "From the start of a crashed node to its first answer, trial by trial",
            strips::recovery(trials),
        ),
        (
            "throughput",
            "Locks taken and given back a second: median, lowest and highest of all trials",
            strips::throughput(trials),
        ),
        (
            "latency",
            "How long acquisitions took: the share that took longer",
            latency::latency(trials),
        ),
        (
            "sync",
            "How long a sync of the log took, as each node measured it under load",
            strips::sync(trials),
        ),
    ])
}

/// Those of some charts for which there is something to draw.
fn drawn(
    charts: impl IntoIterator<Item = (&'static str, &'static str, Option<String>)>,
) -> Vec<Chart> {
    let drawn = charts.into_iter().filter_map(|(name, title, svg)| {
        let svg = svg?;
        Some(Chart { name, title, svg })
    });
    drawn.collect()
}

/// The style of what belongs to a mode: the same in every chart.
fn style_of(fsync: FsyncMode) -> String {
    let position = FsyncMode::ALL.iter().position(|known| *known == fsync);
    position.map_or_else(String::new, |position| format!("c{position}"))
}

/// A chart that is being drawn.
struct Drawing {
    svg: String,
    height: f64,
}

impl Drawing {
    fn open(height: f64) -> Drawing {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             class=\"chart\"><style>{STYLE}</style>"
        );
        Drawing { svg, height }
    }

    fn add(&mut self, svg: impl AsRef<str>) {
        self.svg.push_str(svg.as_ref());
    }

    /// A line of the grid, from its label up to `to`.
    fn level(&mut self, y: f64, to: f64, label: impl Display) {
        self.add(format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        ));
        self.add(text(LEFT - 8.0, y + 4.0, "end", label));
    }

    /// A label of the scale at the bottom.
    fn below(&mut self, x: f64, label: impl Display) {
        self.add(text(x, self.height - 8.0, "middle", label));
    }

    /// Which curve is that of this mode, at its place among them.
    fn legend(&mut self, fsync: FsyncMode, position: usize) {
        let top = TOP + 14.0 + position as f64 * 16.0;
        self.add(format!(
            "<line class=\"curve {}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{4:.1}\" y2=\"{4:.1}\"/>\
             <text x=\"{:.1}\" y=\"{top:.1}\">fsync {fsync}</text>",
            style_of(fsync),
            WIDTH - 130.0,
            WIDTH - 104.0,
            WIDTH - 98.0,
            top - 4.0,
        ));
    }

    fn close(mut self) -> String {
        self.add("</svg>");
        self.svg
    }
}

/// The next number that is pleasant as the end of a scale.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
    let found = steps.into_iter().find(|step| step * power >= value);
    found.unwrap_or(10.0) * power
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 240.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 10.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 28.0;
const STYLE: &str = "\
.chart{font:12px system-ui,sans-serif;fill:#444}.chart .grid{stroke:#dde1e4}\
.chart .bar{fill:#0072b2;fill-opacity:.75}.chart .spread{stroke:#222;stroke-width:2}\
.chart .dot{fill:#0072b2;fill-opacity:.7}.chart .c0{stroke:#0072b2}.chart .curve{fill:none;stroke:#0072b2;stroke-width:2}\
.chart .c1{stroke:#e69f00;stroke-dasharray:8 3}.chart .c2{stroke:#009e73;stroke-dasharray:3 3}\
.chart .c3{stroke:#cc79a7;stroke-dasharray:10 3 2 3}\
.chart .mark{fill:#fff;stroke-width:2;stroke-dasharray:none}\
@media(prefers-color-scheme:dark){.chart{fill:#c8ccd0}.chart .grid{stroke:#3a4046}\
.chart .spread{stroke:#eee}.chart .c0{stroke:#3a9bd9}.chart .mark{fill:#15181b}.chart .bar,.chart .dot{fill:#3a9bd9}.chart .curve{stroke:#3a9bd9}\
.chart .c1{stroke:#e69f00}.chart .c2{stroke:#2bc49a}.chart .c3{stroke:#e39cc6}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_above_its_values() {
        for (value, expected) in [
            (1.0, 1.0),
            (1.1, 1.2),
            (37.0, 40.0),
            (501.0, 600.0),
            (1990.0, 2000.0),
        ] {
            assert!((ceiling(value) - expected).abs() < 1e-9, "{value}");
        }
    }
}
