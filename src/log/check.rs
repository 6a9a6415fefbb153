//! `quorlock log check`: the verdict, as text, as JSON and as exit code.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use quorlock_server::inspection::{
    self, Delay, Finding, Location, NextStart, Report, StartSpace, State, Unreadable,
};
use quorlock_server::show_duration;
use serde_json::{Value, json};

use crate::exit_code::{Failure, NO_INPUT};
use crate::output::Format;

/// Checks a directory. The exit code is the verdict.
pub(crate) fn run(directory: &Path, format: Format) -> Result<ExitCode, Failure> {
    let report = inspection::check(directory).map_err(unreadable)?;
    format.result(text(&report), &value(&report));
    Ok(ExitCode::from(code(report.state)))
}

/// Why a start refuses a directory's log; `None` where it does not, or where nothing can be said because a
/// running node changes it faster than it is read.
pub(crate) fn refusal(directory: &Path) -> Result<Option<Finding>, Failure> {
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

fn text(report: &Report) -> String {
    let mut text = format!("{}: ", report.directory);
    text.push_str(match report.state {
        State::Whole => "whole",
        State::Broken => "broken, and a start copes with it",
        State::Refused => "a start refuses this log",
    });
    if let Some(summary) = &report.summary {
        let (frames, segments, last) = (summary.frames, summary.segments, summary.last);
        let _ = write!(
            text,
            "; {frames} frames to replay in {segments} segments, last position {last}"
        );
    }
    if let Some(holder) = report.holder {
        let _ = write!(text, "\n  in use: {}", process(holder));
        text.push_str("; what it is just writing is not judged");
    }
    if let Some(finding) = &report.finding {
        add_finding(finding, &mut text);
    }
    if let Some(next) = &report.next_start {
        let _ = write!(text, "\n  last stop: {}", next.stop.reason());
        let _ = write!(
            text,
            "\n  a start with the default configuration {}",
            intention(next)
        );
    }
    if let Some(Location { file, offset }) = &report.moving_tail {
        let _ = write!(text, "\n  the node was writing {file} at offset {offset}");
    }
    for remark in remarks(report) {
        let _ = write!(text, "\n  remark: {remark}");
    }
    text
}

pub(crate) fn add_finding(finding: &Finding, text: &mut String) {
    let _ = write!(text, "\n  {}", finding.file);
    if let Some(offset) = finding.offset {
        let _ = write!(text, " at offset {offset}");
    }
    let _ = write!(text, ": {}", finding.what);
    let _ = write!(text, "\n  what it means: {}", finding.meaning);
    let _ = write!(text, "\n  what to do: {}", finding.remedy);
}

/// The process that has a directory, for people.
pub(crate) fn process(holder: Option<u32>) -> String {
    match holder {
        Some(id) => format!("process {id} has this directory"),
        None => "a process has this directory".to_owned(),
    }
}

/// What the next start would do.
pub(crate) fn intention(next: &NextStart) -> String {
    let when = match next.delay {
        Some(Delay { left, reason }) => {
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

fn remarks(report: &Report) -> Vec<String> {
    let Some(summary) = &report.summary else {
        return Vec::new();
    };
    let foreign = summary.foreign_files.iter();
    let foreign = foreign.map(|name| format!("{} is no file of the log", name.escape_debug()));
    summary.remarks.iter().cloned().chain(foreign).collect()
}

fn value(report: &Report) -> Value {
    let summary = report.summary.as_ref();
    json!({
        "directory": report.directory,
        "state": match report.state {
            State::Whole => "whole",
            State::Broken => "broken",
            State::Refused => "refused",
        },
        "exit_code": code(report.state),
        "running": report.holder.is_some(),
        "process": report.holder.flatten(),
        "node": report.node,
        "finding": report.finding.as_ref().map(finding_value),
        "frames": summary.map(|summary| summary.frames),
        "segments": summary.map(|summary| summary.segments),
        "last_position": summary.map(|summary| summary.last.get()),
        "checkpoint": summary.and_then(|summary| summary.checkpoint).map(|position| position.get()),
        "next_start": report.next_start.as_ref().map(next_value),
        "moving_tail": report.moving_tail.as_ref().map(|Location { file, offset }| json!({
            "file": file,
            "offset": offset,
        })),
        "remarks": remarks(report),
    })
}

/// What is wrong, for programs.
pub(crate) fn finding_value(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind.name(),
        "file": finding.file,
        "offset": finding.offset,
        "what": finding.what,
        "meaning": finding.meaning,
        "remedy": finding.remedy,
    })
}

/// What the next start would do, for programs.
pub(crate) fn next_value(next: &NextStart) -> Value {
    json!({
        "last_stop": next.stop.reason(),
        "delay_ms": next.delay.map_or(0, |delay| delay.left.as_nanos().div_ceil(1_000_000)),
        "delay_reason": next.delay.map(|delay| delay.reason),
        "has_space": next.space == StartSpace::Segment,
    })
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
