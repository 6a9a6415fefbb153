//! Everything that is shown to people, as functions of the summary, the trials and their records.

#[cfg(test)]
mod book_tests;
mod chart;
mod comparison;
mod html;
mod repro;
mod table;
mod timeline;
mod timeline_svg;
mod timeline_text;
mod verdict;

use std::collections::BTreeMap;

use crate::cell::{Cell, Delay};
use crate::history::Record;
use crate::summary::Summary;
use crate::trial::Trial;

pub use comparison::comparison_text;
pub use repro::repro;
pub use timeline_text::timeline_text;

/// The records of the trials whose timelines are drawn.
pub type Records = BTreeMap<(Cell, u32), Vec<Record>>;

/// The table and the verdicts, for a terminal.
pub fn text(summary: &Summary) -> String {
    let mut text = table::table(summary);
    for line in verdict::lines(summary) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The trials whose timelines are worth a look: of each fsync mode one with two holders at once, if there is one, and of
/// the same mode, fault and number of nodes one with the delay that is needed.
pub fn timelines(trials: &[Trial]) -> Vec<(Cell, u32)> {
    let mut wanted = Vec::new();
    let mut modes = Vec::new();
    for trial in trials {
        let is_violated = !trial.verdict.violations.is_empty();
        if !is_violated || modes.contains(&trial.cell.fsync) {
            continue;
        }
        modes.push(trial.cell.fsync);
        wanted.push((trial.cell, trial.number));
        let same = Cell {
            delay: Delay::Auto,
            ..trial.cell
        };
        let with_delay = trials.iter().find(|other| other.cell == same);
        wanted.extend(with_delay.map(|other| (other.cell, other.number)));
    }
    if wanted.is_empty() {
        wanted.extend(trials.first().map(|trial| (trial.cell, trial.number)));
    }
    wanted
}

/// The report and its figures: names of files, and what they hold.
pub fn files(
    summary: &Summary,
    trials: &[Trial],
    records: &Records,
    baseline: Option<&Summary>,
) -> Vec<(String, Vec<u8>)> {
    let drawn = timelines(trials).into_iter().filter_map(|of| {
        let (cell, number) = of;
        let trial = trials
            .iter()
            .find(|trial| trial.cell == cell && trial.number == number)?;
        let lanes = timeline::Timeline::of(trial, records.get(&of)?);
        let name = format!("timeline-{}-{number}", cell.id().replace(['/', '%'], "-"));
        Some((name, cell, timeline_svg::draw(&lanes)))
    });
    let timelines: Vec<(String, Cell, String)> = drawn.collect();
    let charts = chart::all(summary, trials);
    let html = html::page(summary, &timelines, &charts, baseline);
    let mut files = vec![("report.html".to_owned(), html.into_bytes())];
    for (name, _, svg) in timelines {
        files.push((format!("svg/{name}.svg"), svg.into_bytes()));
    }
    for chart in charts {
        files.push((format!("svg/{}.svg", chart.name), chart.svg.into_bytes()));
    }
    files
}
