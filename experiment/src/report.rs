//! Everything that is shown to people, as functions of the summary, the trials and their records.

#[cfg(test)]
mod book_tests;
mod chart;
mod comparison;
mod html;
mod page;
mod repro;
mod services;
mod services_baseline;
mod services_page;
mod table;
mod timeline;
mod timeline_svg;
mod timeline_text;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{Cell, Delay};
use crate::history::TrialRecord;
use crate::summary::Summary;
use crate::trial::Trial;

pub use comparison::comparison_text;
pub use repro::repro;
pub use services::{services_files, services_text};
pub use services_baseline::services_baseline_text;
pub use timeline_text::timeline_text;

/// The records of the trials whose timelines are drawn.
pub type Records = BTreeMap<(Cell, u32), Vec<TrialRecord>>;

/// The table and the verdicts, for a terminal.
pub fn text(summary: &Summary) -> String {
    let mut text = table::table(summary);
    for line in verdict::lines(summary) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The trials whose timelines are worth a look: of each fsync mode one that is a defect, if there is one, and one with two
/// holders at once where that was expected, beside it the trial of the same number with the delay that is needed.
pub fn timelines(trials: &[Trial]) -> Vec<(Cell, u32)> {
    let mut wanted = Vec::new();
    let mut shown = Vec::new();
    let mut striking: Vec<&Trial> = trials.iter().filter(|trial| trial.is_striking()).collect();
    striking.sort_by_key(|trial| !trial.is_defect());
    for trial in striking {
        let kind = (trial.cell.fsync, trial.is_defect());
        if shown.contains(&kind) {
            continue;
        }
        shown.push(kind);
        wanted.push((trial.cell, trial.number));
        let same = Cell {
            delay: Delay::Auto,
            ..trial.cell
        };
        let counterpart = trials
            .iter()
            .find(|other| other.cell == same && other.number == trial.number);
        wanted.extend(counterpart.map(|other| (other.cell, other.number)));
    }
    if wanted.is_empty() {
        wanted.extend(trials.first().map(|trial| (trial.cell, trial.number)));
    }
    let mut seen = BTreeSet::new();
    wanted.retain(|of| seen.insert(*of));
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
    let repeat = repro::whole_run(summary);
    let html = html::page(summary, &timelines, &charts, &repeat, baseline);
    let mut files = vec![("report.html".to_owned(), html.into_bytes())];
    for (name, _, svg) in timelines {
        files.push((format!("svg/{name}.svg"), svg.into_bytes()));
    }
    files.extend(charts.into_iter().map(chart::Chart::into_file));
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::timeline::tests::amnesia;

    fn trial(cell: &str, number: u32, is_violated: bool) -> Trial {
        let (mut trial, _) = amnesia();
        trial.cell = cell.parse().expect("a cell");
        trial.number = number;
        trial.verdict.stuck.clear();
        if !is_violated {
            trial.verdict.violations.clear();
        }
        trial
    }

    #[test]
    fn a_defect_is_drawn_before_an_expected_violation_of_its_mode_and_nothing_twice() {
        let (off, auto) = ("no/off/power-loss-one/5", "no/auto/power-loss-one/5");
        let expected = [
            trial(off, 1, false),
            trial(off, 2, true),
            trial(auto, 1, false),
            trial(auto, 2, false),
        ];
        let names = |trials: &[Trial]| -> Vec<(String, u32)> {
            let of = timelines(trials).into_iter();
            of.map(|(cell, number)| (cell.id(), number)).collect()
        };
        assert_eq!(
            names(&expected),
            [(off.to_owned(), 2), (auto.to_owned(), 2)]
        );
        let mut defect = expected.to_vec();
        defect[3] = trial(auto, 2, true);
        assert_eq!(names(&defect), [(auto.to_owned(), 2), (off.to_owned(), 2)]);
        assert_eq!(names(&expected[..1]), [(off.to_owned(), 1)]);
        assert_eq!(names(&[]), []);
    }
}
