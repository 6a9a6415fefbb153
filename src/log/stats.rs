//! `quorlock log stats`: segments, frames by kind, bytes, and what the next start would do.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_server::inspection::{
    self, DirectoryFinding, KindCount, LogStatistics, Position, SegmentFile, SegmentState,
    hexadecimal, kind_name,
};
use quorlock_server::show_duration;

use super::check::{self, refusal, refused, unreadable};
use super::printout::{Printout, seconds};
use crate::exit_code::Failure;
use crate::output::Format;

/// Counts what is in a directory.
pub(crate) fn run(directory: &Path, format: Format) -> Result<ExitCode, Failure> {
    let statistics = inspection::statistics(directory).map_err(unreadable)?;
    let finding = refusal(directory)?;
    let description = describe(&statistics, finding.as_ref());
    format.result(description.text, &description.object);
    Ok(match finding {
        Some(_) => refused(),
        None => ExitCode::SUCCESS,
    })
}

fn describe(log: &LogStatistics, refusal: Option<&DirectoryFinding>) -> Printout {
    let node = log.newest.map(|newest| hexadecimal(&newest.node_id));
    let incarnation = log.newest.map(|newest| newest.incarnation);
    let positions = log.positions.as_ref();
    let first = positions.map(|positions| positions.start().get());
    let last = positions.map(|positions| positions.end().get());
    let refused = refusal.map(check::describe_finding);
    let heading = match refused {
        Some(_) => {
            "\n  a start refuses this log; what follows is what can be read of it".to_owned()
        }
        None => replay(log),
    };
    let ttl_bound = log.ttl_bound_ns.map(ttl_bound).unwrap_or_default();
    let next_start = log.next_start.as_ref().map(check::describe_next_start);
    Printout::default()
        .noted("directory", log.directory.as_str(), "{}")
        .with_hidden("running", log.holder.is_some())
        .with("process", log.holder.flatten(), check::in_use(log.holder))
        .noted("node", node, "\n  node {}")
        .noted("incarnation", incarnation, ", incarnation {}")
        .noted("first_position", first, "\n  positions {}")
        .noted("last_position", last, " to {}")
        .with_hidden("checkpoint", log.checkpoint.map(Position::get))
        .with_hidden("replayed_frames", log.replayed.frames)
        .with_hidden("replayed_bytes", log.replayed.bytes)
        .with_hidden("live_bytes", log.replayed.payload_bytes)
        .with_hidden("overhead_bytes", log.overhead_bytes())
        .with("file_bytes", log.file_bytes, heading)
        .with_part("refused", refused)
        .with(
            "newest_node_time_ns",
            log.newest_node_time.as_nanos(),
            format_args!("\n  newest node time {}", seconds(log.newest_node_time)),
        )
        .with("ttl_bound_ns", log.ttl_bound_ns, ttl_bound)
        .with_part("next_start", next_start)
        .with_parts(
            "kinds",
            "\n  frames by kind:",
            log.kinds.iter().map(describe_kind),
            usize::MAX,
        )
        .with_parts(
            "segments",
            "\n  segments:",
            log.segments.iter().map(describe_segment),
            usize::MAX,
        )
}

fn ttl_bound(nanoseconds: u64) -> String {
    let length = show_duration(Duration::from_nanos(nanoseconds));
    format!("\n  TTL bound (no longer ttl is granted before a new one is on record): {length}")
}

fn replay(log: &LogStatistics) -> String {
    let from = match log.checkpoint {
        Some(position) => format!("the checkpoint at position {position}"),
        None => "the beginning".to_owned(),
    };
    let KindCount {
        frames,
        bytes,
        payload_bytes,
    } = log.replayed;
    format!(
        "\n  a start replays {frames} frames, {bytes} bytes, from {from}\
         \n  {} bytes of files for {payload_bytes} bytes of payloads to replay; the rest is room made ahead, \
         frames' own bytes, and what the next checkpoint frees",
        log.file_bytes
    )
}

fn describe_kind((code, count): (&u8, &KindCount)) -> Printout {
    let (kind, frames, bytes) = (kind_name(*code), count.frames, count.bytes);
    Printout::default()
        .with("kind", kind, format_args!("\n    {kind:<8}"))
        .with_hidden("code", *code)
        .with("frames", frames, format_args!(" {frames:>10} frames"))
        .with("bytes", bytes, format_args!(" {bytes:>12} bytes"))
        .with_hidden("payload_bytes", count.payload_bytes)
}

fn describe_segment(segment: &SegmentFile) -> Printout {
    let (number, bytes) = (segment.number, segment.bytes);
    let description = Printout::default()
        .with("number", number, format_args!("\n    {number:>10}"))
        .with_hidden("file", segment.file.as_str())
        .with("bytes", bytes, format_args!(" {bytes:>10} bytes  "));
    match &segment.state {
        Ok(SegmentState::Used(header)) => {
            let (first, previous) = (header.first_position, header.previous);
            description
                .with_hidden("state", "used")
                .noted("version", header.version, "version {}")
                .noted(
                    "incarnation",
                    header.identity.incarnation,
                    ", incarnation {}",
                )
                .noted("first_position", first.get(), ", from position {}")
                .noted("previous_number", previous.segment, ", after segment {}")
                .with_hidden("previous_cut", previous.offset)
        }
        Ok(SegmentState::Blank) => description.with("state", "blank", "made ahead, not used"),
        Ok(SegmentState::Interrupted) => {
            description.with("state", "interrupted", "its first write was cut off")
        }
        Err(why) => {
            let description = description.with_hidden("state", "unusable");
            description.noted("reason", why.as_str(), "not usable: {}")
        }
    }
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
