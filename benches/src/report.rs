//! The report: one table for people, the same figures as JSON for programs.
//!
//! Losses are as visible as wins: each row says whether its target was met.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::environment::Environment;
use crate::failure::{Doing, Failure};
use crate::statistics::Summary;
use crate::workload::{Figure, Log, Traffic, Workload};

/// One server's figures in one workload, round by round.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) operations_per_second: Vec<f64>,
    pub(crate) median_latency_us: Vec<f64>,
    pub(crate) cpu_us_per_operation: Vec<f64>,
}

/// One row: the same workload on both servers.
#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    what: String,
    ours: Figures,
    peer: Figures,
    throughput_ratio: Option<Summary>,
    latency_ratio: Option<Summary>,
    cpu_ratio: Option<Summary>,
    target: Option<f64>,
    cpu_target: Option<f64>,
    is_target_met: Option<bool>,
    is_cpu_target_met: Option<bool>,
    #[serde(skip)]
    figure: Figure,
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    environment: &'a Environment,
    rows: &'a [Row],
}

impl Row {
    pub(crate) fn new(workload: &Workload, ours: Figures, peer: Figures) -> Self {
        let of = Summary::of_ratios;
        let throughput_ratio = of(&ours.operations_per_second, &peer.operations_per_second);
        let latency_ratio = of(&ours.median_latency_us, &peer.median_latency_us);
        let cpu_ratio = of(&ours.cpu_us_per_operation, &peer.cpu_us_per_operation);
        let is_target_met = match workload.figure {
            Figure::Throughput => is_met(throughput_ratio, workload.target, |a, b| a >= b),
            Figure::MedianLatency => is_met(latency_ratio, workload.target, |a, b| a <= b),
        };
        Self {
            name: workload.name.to_owned(),
            what: describe(workload),
            is_target_met,
            is_cpu_target_met: is_met(cpu_ratio, workload.cpu_target, |a, b| a <= b),
            throughput_ratio,
            latency_ratio,
            cpu_ratio,
            ours,
            peer,
            target: workload.target,
            cpu_target: workload.cpu_target,
            figure: workload.figure,
        }
    }

    /// The row as a line of the table.
    pub(crate) fn line(&self) -> String {
        let kilo = |values: &[f64]| spread(values, 1e-3);
        let target = match (self.figure, self.target) {
            (Figure::Throughput, Some(target)) => format!("throughput >= {target}"),
            (Figure::MedianLatency, Some(target)) => format!("p50 <= {target}"),
            (_, None) => String::new(),
        };
        let cpu_target = self.cpu_target.map(|target| format!("CPU <= {target}"));
        let targets: Vec<String> = [Some(target), cpu_target].into_iter().flatten().collect();
        let verdict = [self.is_target_met, self.is_cpu_target_met]
            .map(|met| met.map_or("", |met| if met { "met" } else { "missed" }))
            .join(" ");
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            self.name,
            self.what,
            kilo(&self.ours.operations_per_second),
            kilo(&self.peer.operations_per_second),
            ratio(self.throughput_ratio),
            cpu_cell(
                &self.ours.cpu_us_per_operation,
                &self.peer.cpu_us_per_operation
            ),
            ratio(self.cpu_ratio),
            latency_cell(&self.ours.median_latency_us, &self.peer.median_latency_us),
            targets.join(", ").trim_matches([',', ' ']),
            verdict.trim(),
        )
    }
}

pub(crate) const HEADER: &str = "\
| | workload | ours, k/s | peer, k/s | ratio | CPU us/op, ours : peer | ratio | p50 us, ours : peer | targets | |
|---|---|---|---|---|---|---|---|---|---|";

/// Writes `report.json` and `report.md` into `folder` and returns the Markdown.
pub(crate) fn write(
    folder: &Path,
    environment: &Environment,
    rows: &[Row],
) -> Result<String, Failure> {
    let report = Report {
        version: 1,
        environment,
        rows,
    };
    let json = serde_json::to_string_pretty(&report).doing("writing the report")?;
    fs::write(folder.join("report.json"), json + "\n").doing("writing report.json")?;
    let mut text = format!(
        "Measured {} at commit {}: {} (ours) against {} (peer).\n\n{}\n\n{HEADER}\n",
        environment.date,
        environment.commit,
        environment.ours,
        environment.peer,
        environment.line()
    );
    for row in rows {
        let _ = writeln!(text, "{}", row.line());
    }
    let rounds = rows
        .first()
        .map_or(0, |row| row.ours.operations_per_second.len());
    let _ = writeln!(
        text,
        "\nMedians of {rounds} alternating rounds, lowest and highest in brackets; ratios are \
         ours divided by the peer's, round by round."
    );
    fs::write(folder.join("report.md"), &text).doing("writing report.md")?;
    Ok(text)
}

fn describe(workload: &Workload) -> String {
    let traffic = match workload.traffic {
        Traffic::Acquire => "SET NX PX",
        Traffic::ReleaseMiss => "EVALSHA compare-and-delete, miss",
        Traffic::Cycle => "SET NX PX, then EVALSHA that deletes",
    };
    let log = match workload.log {
        Log::None => "no log",
        Log::EverySecond => "fsync everysec",
        Log::Always => "fsync always",
    };
    format!(
        "{traffic}, {log}, {} connections, depth {}",
        workload.connections, workload.depth
    )
}

fn is_met(
    ratio: Option<Summary>,
    target: Option<f64>,
    holds: fn(f64, f64) -> bool,
) -> Option<bool> {
    Some(holds(ratio?.median, target?))
}

fn spread(values: &[f64], scale: f64) -> String {
    Summary::of(values.iter().map(|value| value * scale)).map_or(String::new(), |summary| {
        format!(
            "{:.1} ({:.1}-{:.1})",
            summary.median, summary.lowest, summary.highest
        )
    })
}

fn ratio(summary: Option<Summary>) -> String {
    summary.map_or(String::new(), |summary| {
        format!(
            "**{:.2}** ({:.2}-{:.2})",
            summary.median, summary.lowest, summary.highest
        )
    })
}

fn median(values: &[f64]) -> Option<f64> {
    Summary::of(values.iter().copied()).map(|summary| summary.median)
}

fn cpu_cell(ours: &[f64], peer: &[f64]) -> String {
    match (median(ours), median(peer)) {
        (Some(ours), Some(peer)) => format!("{ours:.2} : {peer:.2}"),
        _ => String::new(),
    }
}

fn latency_cell(ours: &[f64], peer: &[f64]) -> String {
    let Some(ratio) = Summary::of_ratios(ours, peer) else {
        return String::new();
    };
    match (median(ours), median(peer)) {
        (Some(ours), Some(peer)) => format!("{ours:.0} : {peer:.0} = {:.2}", ratio.median),
        _ => String::new(),
    }
}
