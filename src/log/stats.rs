//! `quorlock log stats`: segments, frames by kind, bytes, and what the next start would do.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_server::inspection::{
    self, Finding, LogStatistics, Position, SegmentState, kind_name,
};
use quorlock_server::show_duration;
use serde_json::{Value, json};

use super::check::{
    add_finding, finding_value, intention, next_value, process, refusal, refused, unreadable,
};
use super::excerpt::seconds;
use crate::exit_code::Failure;
use crate::output::Format;

/// Counts what is in a directory.
pub(crate) fn run(directory: &Path, format: Format) -> Result<ExitCode, Failure> {
    let statistics = inspection::statistics(directory).map_err(unreadable)?;
    let finding = refusal(directory)?;
    let mut all = value(&statistics);
    all["refused"] = finding.as_ref().map_or(Value::Null, finding_value);
    format.result(text(&statistics, finding.as_ref()), &all);
    Ok(match finding {
        Some(_) => refused(),
        None => ExitCode::SUCCESS,
    })
}

fn text(log: &LogStatistics, refusal: Option<&Finding>) -> String {
    let mut text = log.directory.clone();
    if let Some(holder) = log.holder {
        let _ = write!(text, "\n  in use: {}", process(holder));
    }
    if let (Some(node), Some(incarnation)) = (&log.node, log.incarnation) {
        let _ = write!(text, "\n  node {node}, incarnation {incarnation}");
    }
    if let Some(positions) = &log.positions {
        let _ = write!(
            text,
            "\n  positions {} to {}",
            positions.start(),
            positions.end()
        );
    }
    match refusal {
        Some(finding) => {
            text.push_str("\n  a start refuses this log; what follows is what can be read of it");
            add_finding(finding, &mut text);
        }
        None => add_replay(log, &mut text),
    }
    let _ = write!(
        text,
        "\n  newest node time {}",
        seconds(log.newest_node_time)
    );
    if let Some(ttl_bound_ns) = log.ttl_bound_ns {
        let ttl_bound = show_duration(Duration::from_nanos(ttl_bound_ns));
        let _ = write!(
            text,
            "\n  TTL bound (no longer ttl is granted before a new one is on record): {ttl_bound}"
        );
    }
    if let Some(next) = &log.next_start {
        let _ = write!(text, "\n  last stop: {}", next.stop.reason());
        let _ = write!(
            text,
            "\n  a start with the default configuration {}",
            intention(next)
        );
    }
    text.push_str("\n  frames by kind:");
    for (code, count) in &log.kinds {
        let (name, frames, bytes) = (kind_name(*code), count.frames, count.bytes);
        let _ = write!(
            text,
            "\n    {name:<8} {frames:>10} frames {bytes:>12} bytes"
        );
    }
    add_segments(log, &mut text);
    text
}

fn add_replay(log: &LogStatistics, text: &mut String) {
    let replayed = &log.replayed;
    let from = log
        .checkpoint
        .map_or("the beginning".to_owned(), |position| {
            format!("the checkpoint at position {position}")
        });
    let _ = write!(
        text,
        "\n  a start replays {} frames, {} bytes, from {from}",
        replayed.frames, replayed.bytes
    );
    let _ = write!(
        text,
        "\n  {} bytes of files for {} bytes of payloads to replay; the rest is room made ahead, \
         frames' own bytes, and what the next checkpoint frees",
        log.file_bytes, replayed.payload_bytes
    );
}

fn add_segments(log: &LogStatistics, text: &mut String) {
    text.push_str("\n  segments:");
    for segment in &log.segments {
        let _ = write!(
            text,
            "\n    {:>10} {:>10} bytes  ",
            segment.number, segment.bytes
        );
        let _ = match &segment.state {
            Ok(SegmentState::Used(header)) => write!(
                text,
                "version {}, incarnation {}, from position {}, after segment {}",
                header.version,
                header.identity.incarnation,
                header.first_position,
                header.previous.segment
            ),
            Ok(SegmentState::Blank) => write!(text, "made ahead, not used"),
            Ok(SegmentState::Interrupted) => write!(text, "its first write was cut off"),
            Err(why) => write!(text, "not usable: {why}"),
        };
    }
}

fn value(log: &LogStatistics) -> Value {
    let segments: Vec<Value> = log.segments.iter().map(segment_value).collect();
    let kinds: Vec<Value> = log
        .kinds
        .iter()
        .map(|(code, count)| {
            json!({
                "kind": kind_name(*code), "code": code, "frames": count.frames,
                "bytes": count.bytes, "payload_bytes": count.payload_bytes,
            })
        })
        .collect();
    json!({
        "directory": log.directory,
        "running": log.holder.is_some(),
        "process": log.holder.flatten(),
        "node": log.node,
        "incarnation": log.incarnation,
        "first_position": log.positions.as_ref().map(|positions| positions.start().get()),
        "last_position": log.positions.as_ref().map(|positions| positions.end().get()),
        "checkpoint": log.checkpoint.map(Position::get),
        "file_bytes": log.file_bytes,
        "replayed_frames": log.replayed.frames,
        "replayed_bytes": log.replayed.bytes,
        "live_bytes": log.replayed.payload_bytes,
        "overhead_bytes": log.overhead_bytes(),
        "newest_node_time_ns": log.newest_node_time.as_nanos(),
        "ttl_bound_ns": log.ttl_bound_ns,
        "next_start": log.next_start.as_ref().map(next_value),
        "kinds": kinds,
        "segments": segments,
    })
}

fn segment_value(segment: &inspection::SegmentFile) -> Value {
    let mut value =
        json!({ "number": segment.number, "file": segment.file, "bytes": segment.bytes });
    match &segment.state {
        Ok(SegmentState::Used(header)) => {
            value["state"] = json!("used");
            value["version"] = json!(header.version);
            value["incarnation"] = json!(header.identity.incarnation);
            value["first_position"] = json!(header.first_position.get());
            value["previous_number"] = json!(header.previous.segment);
            value["previous_cut"] = json!(header.previous.offset);
        }
        Ok(SegmentState::Blank) => value["state"] = json!("blank"),
        Ok(SegmentState::Interrupted) => value["state"] = json!("interrupted"),
        Err(why) => {
            value["state"] = json!("unusable");
            value["reason"] = json!(why);
        }
    }
    value
}

/// Shown below the help.
pub(crate) const HELP: &str = "\
Exit codes:
  0   counted
  2   a start refuses this log; what can be read of it was counted
  66  the directory cannot be read, or holds no log
  64  wrong usage

Example:
  quorlock log stats /var/lib/quorlock";
