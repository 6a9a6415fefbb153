//! `quorlock log check`: the verdict, as text, as JSON and as exit code.

use std::path::Path;
use std::process::ExitCode;

use quorlock_server::inspection::{
    self, DirectoryFinding, DirectoryReport, Location, NextStart, Position, RemainingDelay,
    StartSpace, State, Unreadable,
};
use quorlock_server::show_duration;
use serde_json::json;

use super::printout::Printout;
use crate::exit_code::{Failure, NO_INPUT};
use crate::output::Format;

/// Checks a directory. The exit code is the verdict.
pub(crate) fn run(directory: &Path, format: Format) -> Result<ExitCode, Failure> {
    let report = inspection::check(directory).map_err(unreadable)?;
    let description = describe(&report);
    format.result(description.text, &description.object);
    Ok(ExitCode::from(code(report.state)))
}

/// Why a start refuses a directory's log; `None` where it does not, or where nothing can be said because a
/// running node changes it faster than it is read.
pub(crate) fn refusal(directory: &Path) -> Result<Option<DirectoryFinding>, Failure> {
    match inspection::check(directory) {
        Ok(report) if report.state == State::Refused => Ok(report.finding),
        Ok(_) | Err(Unreadable::Restless { .. }) => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

/// The exit code where a start refuses the log.
pub(crate) fn refused() -> ExitCode {
    ExitCode::from(code(State::Refused))
}

/// A directory that cannot be looked at is not a verdict on its log.
pub(crate) fn unreadable(error: Unreadable) -> Failure {
    Failure::new(NO_INPUT, error)
}

fn code(state: State) -> u8 {
    match state {
        State::Whole => 0,
        State::Broken => 1,
        State::Refused => 2,
    }
}

fn describe(report: &DirectoryReport) -> Printout {
    let (state, meaning) = match report.state {
        State::Whole => ("whole", "whole"),
        State::Broken => ("broken", "broken, and a start copes with it"),
        State::Refused => ("refused", "a start refuses this log"),
    };
    let summary = report.summary.as_ref();
    let frames = summary.map(|summary| summary.frames);
    let segments = summary.map(|summary| summary.segments);
    let last = summary.map(|summary| summary.last.get());
    let checkpoint = summary.and_then(|summary| summary.checkpoint);
    let unjudged = match report.holder {
        Some(_) => "; what it is just writing is not judged",
        None => "",
    };
    let tail = report.moving_tail.as_ref();
    let tail = tail.map(|Location { file, offset }| {
        Printout::default()
            .noted("file", file.as_str(), "\n  the node was writing {}")
            .noted("offset", *offset, " at offset {}")
    });
    let remarks = remarks(report);
    let remark_lines: String = remarks
        .iter()
        .map(|remark| format!("\n  remark: {remark}"))
        .collect();
    Printout::default()
        .noted("directory", report.directory.as_str(), "{}: ")
        .with("state", state, meaning)
        .with_hidden("exit_code", code(report.state))
        .with_hidden("node", report.node.clone())
        .noted("frames", frames, "; {} frames to replay")
        .noted("segments", segments, " in {} segments")
        .noted("last_position", last, ", last position {}")
        .with_hidden("checkpoint", checkpoint.map(Position::get))
        .with("process", report.holder.flatten(), in_use(report.holder))
        .with("running", report.holder.is_some(), unjudged)
        .with_part("finding", report.finding.as_ref().map(describe_finding))
        .with_part(
            "next_start",
            report.next_start.as_ref().map(describe_next_start),
        )
        .with_part("moving_tail", tail)
        .with("remarks", remarks, remark_lines)
}

/// What is wrong.
pub(crate) fn describe_finding(finding: &DirectoryFinding) -> Printout {
    Printout::default()
        .with_hidden("kind", finding.kind.name())
        .noted("file", finding.file.as_str(), "\n  {}")
        .noted("offset", finding.offset, " at offset {}")
        .noted("what", finding.what.as_str(), ": {}")
        .noted("meaning", finding.meaning, "\n  what it means: {}")
        .noted("remedy", finding.remedy, "\n  what to do: {}")
}

/// The line on the process that has a directory.
pub(crate) fn in_use(holder: Option<Option<u32>>) -> String {
    match holder {
        Some(Some(id)) => format!("\n  in use: process {id} has this directory"),
        Some(None) => "\n  in use: a process has this directory".to_owned(),
        None => String::new(),
    }
}

/// What the next start would do.
pub(crate) fn describe_next_start(next: &NextStart) -> Printout {
    let delay_ms = next
        .delay
        .map_or(0, |delay| delay.left.as_nanos().div_ceil(1_000_000));
    let intention = intention(next);
    Printout::default()
        .noted("last_stop", next.stop.reason(), "\n  last stop: {}")
        .with_hidden("delay_ms", json!(delay_ms))
        .with_hidden("delay_reason", next.delay.map(|delay| delay.reason))
        .with(
            "has_space",
            next.space == StartSpace::Segment,
            format_args!("\n  a start with the default configuration {intention}"),
        )
}

fn intention(next: &NextStart) -> String {
    let when = match next.delay {
        Some(RemainingDelay { left, reason }) => {
            format!("serves no locks for {} ({reason})", show_duration(left))
        }
        None => "serves at once".to_owned(),
    };
    match next.space {
        StartSpace::Segment => when,
        StartSpace::LastSegment => format!(
            "{when}; the file system has no space for another segment, so once the last one is full it grants nothing until \
             space is freed"
        ),
        StartSpace::None(bytes) => {
            format!("refuses: {bytes} bytes are missing in the file system")
        }
    }
}

fn remarks(report: &DirectoryReport) -> Vec<String> {
    let Some(summary) = &report.summary else {
        return Vec::new();
    };
    let foreign = summary.foreign_files.iter();
    let foreign = foreign.map(|name| format!("{} is no file of the log", name.escape_debug()));
    summary.remarks.iter().cloned().chain(foreign).collect()
}

/// Shown below the help.
pub(crate) const HELP: &str = "\
Exit codes:
  0   whole: everything that was written is there
  1   it is interrupted, or gone, in a way that a start copes with: it cuts there and waits
  2   a start refuses: durable data is lost, another node's log, a newer version ...
  66  the directory cannot be read, or holds no log
  64  wrong usage

Example:
  quorlock log check /var/lib/quorlock && echo whole";
