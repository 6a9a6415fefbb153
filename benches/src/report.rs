//! The report: one table for people, the same figures as JSON for programs.
//!
//! Losses are as visible as wins: each row says whether its target was met.

#[cfg(test)]
mod book_tests;
mod words;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::failure::{Doing, Failure};
use crate::statistics::Summary;
use crate::workload::{Figure, Workload};
use words::describe;

/// One server's figures in one workload, round by round.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    pub(crate) operations_per_second: Vec<f64>,
    pub(crate) median_latency_us: Vec<f64>,
    pub(crate) p99_latency_us: Vec<f64>,
    pub(crate) cpu_us_per_operation: Vec<f64>,
    /// Locks taken by other connections meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) writes_beside_per_second: Vec<f64>,
    /// Median of how long a sync was held back in reality.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sync_delay_us: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) bytes_per_lock: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) bytes_per_connection: Vec<f64>,
    /// The longest that a request waited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stall_ms: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) idle_cpu_us_per_second: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) wakeups_per_second: Vec<f64>,
    /// From the start of the process to the first PONG.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) start_ms: Vec<f64>,
}

impl Figures {
    /// What the row is about, with the unit to show and the factor to show it with.
    fn main(&self, figure: Figure) -> (&[f64], &'static str, f64) {
        match figure {
            Figure::Throughput | Figure::MedianLatency | Figure::HighLatency => {
                (&self.operations_per_second, "", 1e-3)
            }
            Figure::BytesPerLock => (&self.bytes_per_lock, " bytes", 1.0),
            Figure::BytesPerConnection => (&self.bytes_per_connection, " bytes", 1.0),
            Figure::StartTime | Figure::EmptyStart => (&self.start_ms, " ms", 1.0),
            Figure::Stall => (&self.stall_ms, " ms", 1.0),
            Figure::IdleCpu => (&self.idle_cpu_us_per_second, " us/s", 1.0),
        }
    }
}

/// One row: the same workload on both servers.
#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    what: String,
    ours: Figures,
    peer: Figures,
    /// Of the throughput, or of the memory or time that the row is about.
    main_ratio: Option<Summary>,
    latency_ratio: Option<Summary>,
    p99_ratio: Option<Summary>,
    cpu_ratio: Option<Summary>,
    target: Option<f64>,
    cpu_target: Option<f64>,
    is_target_met: Option<bool>,
    is_cpu_target_met: Option<bool>,
    /// Why the row was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    #[serde(skip)]
    figure: Figure,
}

const VERSION: u32 = 2;

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    environment: &'a Environment,
    rows: &'a [Row],
}

impl Row {
    pub(crate) fn new(workload: &Workload, ours: Figures, peer: Figures) -> Self {
        let of = Summary::of_ratios;
        let main = |side: &'_ Figures| side.main(workload.figure).0.to_vec();
        let main_ratio = of(&main(&ours), &main(&peer));
        let latency_ratio = of(&ours.median_latency_us, &peer.median_latency_us);
        let p99_ratio = of(&ours.p99_latency_us, &peer.p99_latency_us);
        let cpu_ratio = of(&ours.cpu_us_per_operation, &peer.cpu_us_per_operation);
        let is_target_met = match workload.figure {
            Figure::Throughput => is_met(main_ratio, workload.target, |a, b| a >= b),
            Figure::MedianLatency => is_met(latency_ratio, workload.target, |a, b| a <= b),
            Figure::HighLatency => is_met(p99_ratio, workload.target, |a, b| a <= b),
            Figure::BytesPerLock | Figure::BytesPerConnection | Figure::StartTime => {
                is_met(main_ratio, workload.target, |a, b| a <= b)
            }
            Figure::EmptyStart | Figure::Stall | Figure::IdleCpu => {
                let ours = Summary::of(main(&ours));
                is_met(ours, workload.target, |a, b| a <= b)
            }
        };
        Self {
            name: workload.name.to_owned(),
            what: describe(workload) + &notes(&ours, &peer),
            is_target_met,
            is_cpu_target_met: is_met(cpu_ratio, workload.cpu_target, |a, b| a <= b),
            main_ratio,
            latency_ratio,
            p99_ratio,
            cpu_ratio,
            ours,
            peer,
            target: workload.target,
            cpu_target: workload.cpu_target,
            skipped: None,
            figure: workload.figure,
        }
    }

    /// A row that could not be measured here.
    pub(crate) fn skipped(workload: &Workload, reason: &Failure) -> Self {
        let mut row = Self::new(workload, Figures::default(), Figures::default());
        row.skipped = Some(reason.to_string());
        row
    }

    /// The row as a line of the table.
    pub(crate) fn line(&self) -> String {
        let (ours, peer) = (&self.ours, &self.peer);
        let (main, unit, scale) = ours.main(self.figure);
        let scaled = |values: &[f64]| values.iter().map(|value| value * scale).collect::<Vec<_>>();
        let (main, of_peer) = (scaled(main), scaled(peer.main(self.figure).0));
        let target = self.target.map(|target| match self.figure {
            Figure::Throughput => format!("throughput >= {target}"),
            Figure::MedianLatency => format!("p50 <= {target}"),
            Figure::HighLatency => format!("p99 <= {target}"),
            Figure::BytesPerLock => format!("bytes a lock <= {target}"),
            Figure::BytesPerConnection => format!("bytes a connection <= {target}"),
            Figure::StartTime => format!("time <= {target}"),
            Figure::EmptyStart => format!("ours <= {target} ms"),
            Figure::Stall => format!("our longest <= {target} ms"),
            Figure::IdleCpu => format!("ours <= {target} us/s"),
        });
        let cpu_target = self.cpu_target.map(|target| format!("CPU <= {target}"));
        let targets: Vec<String> = [target, cpu_target].into_iter().flatten().collect();
        let verdicts = [self.is_target_met, self.is_cpu_target_met];
        let verdicts = verdicts.into_iter().flatten();
        let verdicts = verdicts.map(|met| if met { "met" } else { "missed" }.to_owned());
        let skipped = self
            .skipped
            .iter()
            .map(|reason| format!("skipped: {reason}"));
        let verdicts: Vec<String> = verdicts.chain(skipped).collect();
        let cell = |of: fn(&Figures) -> &Vec<f64>, digits, ratio| {
            pair(of(ours), of(peer), digits, "", ratio)
        };
        let cells = [
            self.name.clone(),
            self.what.clone(),
            pair(&main, &of_peer, 1, unit, self.main_ratio),
            cell(|side| &side.cpu_us_per_operation, 2, self.cpu_ratio),
            cell(|side| &side.median_latency_us, 0, self.latency_ratio),
            cell(|side| &side.p99_latency_us, 0, self.p99_ratio),
            targets.join(", "),
            verdicts.join(" "),
        ];
        format!("| {} |", cells.join(" | "))
    }
}

pub(crate) const HEADER: &str = "\
| row | workload | k/s or as said | CPU, us | p50, us | p99, us | targets | |
|---|---|---|---|---|---|---|---|";

/// Writes `report.json` and `report.md` into `folder` and returns the Markdown.
pub(crate) fn write(
    folder: &Path,
    environment: &Environment,
    rows: &[Row],
) -> Result<String, Failure> {
    let report = Report {
        version: VERSION,
        environment,
        rows,
    };
    let json = serde_json::to_string_pretty(&report).doing("writing the report")?;
    fs::write(folder.join("report.json"), json + "\n").doing("writing report.json")?;
    let text = text(environment, rows);
    fs::write(folder.join("report.md"), &text).doing("writing report.md")?;
    Ok(text)
}

/// The report as Markdown.
fn text(environment: &Environment, rows: &[Row]) -> String {
    let mut text = format!(
        "Measured {} at commit {}: {} against {}.\n\n{}\n\n{HEADER}\n",
        environment.date,
        environment.commit,
        environment.ours,
        environment.peer,
        environment.line()
    );
    for row in rows {
        let _ = writeln!(text, "{}", row.line());
    }
    let rounds = rows.iter().map(|row| row.ours.cpu_us_per_operation.len());
    let rounds = rounds.max().unwrap_or_default();
    let _ = writeln!(
        text,
        "\nOurs : the peer's, and ours divided by the peer's, round by round. Medians of {rounds} alternating rounds, the \
         lowest and the highest ratio in brackets. CPU is the server's for an operation."
    );
    text
}

/// What else was seen and belongs to the row.
fn notes(ours: &Figures, peer: &Figures) -> String {
    let beside = [ours, peer].map(|side| median(&side.writes_beside_per_second));
    let delays = [ours, peer].map(|side| median(&side.sync_delay_us));
    let mut text = String::new();
    if let [Some(ours), Some(peer)] = beside {
        let _ = write!(text, "; SETs beside: {ours:.0} : {peer:.0} a second");
    }
    let wakeups = [ours, peer].map(|side| median(&side.wakeups_per_second));
    if let [Some(ours), Some(peer)] = wakeups {
        let _ = write!(text, "; wake-ups: {ours:.1} : {peer:.1} a second");
    }
    if let [Some(ours), Some(peer)] = delays {
        let _ = write!(text, "; syncs delayed by {ours:.0} : {peer:.0} us");
    }
    text
}

fn is_met(
    ratio: Option<Summary>,
    target: Option<f64>,
    holds: fn(f64, f64) -> bool,
) -> Option<bool> {
    Some(holds(ratio?.median, target?))
}

fn median(values: &[f64]) -> Option<f64> {
    Summary::of(values.iter().copied()).map(|summary| summary.median)
}

/// Ours : theirs = how they compare.
fn pair(ours: &[f64], theirs: &[f64], digits: usize, unit: &str, ratio: Option<Summary>) -> String {
    let (Some(ours), Some(theirs)) = (median(ours), median(theirs)) else {
        return String::new();
    };
    let ratio = ratio.map_or(String::new(), |ratio| {
        let (low, high) = (ratio.lowest, ratio.highest);
        format!(" = **{:.2}** ({low:.2}-{high:.2})", ratio.median)
    });
    format!("{ours:.digits$} : {theirs:.digits$}{unit}{ratio}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;
    use crate::workload;

    fn row(name: &str, ours: &Figures, peer: &Figures) -> Row {
        let mut rows = workload::all().into_iter();
        let workload = rows.find(|row| row.name == name).unwrap();
        Row::new(&workload, ours.clone(), peer.clone())
    }

    #[test]
    fn a_target_is_a_least_throughput_and_a_most_of_all_else() {
        let slow = Figures {
            operations_per_second: vec![10e3, 11e3, 12e3],
            median_latency_us: vec![100.0],
            bytes_per_lock: vec![40.0],
            start_ms: vec![9.0],
            bytes_per_connection: vec![2e3],
            stall_ms: vec![1.0],
            idle_cpu_us_per_second: vec![20.0],
            ..Figures::default()
        };
        let fast = Figures {
            operations_per_second: vec![110e3, 120e3, 130e3],
            median_latency_us: vec![200.0],
            bytes_per_lock: vec![100.0],
            start_ms: vec![60.0],
            bytes_per_connection: vec![3e3],
            stall_ms: vec![3.0],
            idle_cpu_us_per_second: vec![200.0],
            ..Figures::default()
        };
        for (name, of_slow, of_fast) in [
            ("P8", false, true),
            ("P7", true, false),
            ("P10", true, false),
            ("P11", true, false),
            ("P12", true, false),
            ("P13 start", true, false),
            ("P13 idle", true, false),
            ("P13 connections", true, false),
        ] {
            let met = row(name, &slow, &fast).is_target_met;
            assert_eq!(met, Some(of_slow), "{name}");
            let met = row(name, &fast, &slow).is_target_met;
            assert_eq!(met, Some(of_fast), "{name}");
        }
    }

    #[test]
    fn a_row_that_was_not_measured_says_so_and_meets_nothing() {
        let workload = workload::all().remove(0);
        let row = Row::skipped(&workload, &Failure::new("not permitted"));
        assert_eq!((row.is_target_met, row.is_cpu_target_met), (None, None));
        let line = row.line();
        assert!(line.ends_with("| skipped: not permitted |"), "{line}");
        let columns = |line: &str| line.lines().next().unwrap().matches('|').count();
        assert_eq!(columns(&line), columns(HEADER));
    }
}
