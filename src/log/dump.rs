//! `quorlock log dump`: the frames of a log, one line each, as text or as JSON.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_server::inspection::{
    self, FrameBody, InspectedFrame, Line, NodeTime, Position, kind_name,
};
use serde_json::json;

use super::check::{self, refusal, refused, unreadable};
use super::printout::{Printout, seconds};
use super::{change, record};
use crate::exit_code::Failure;
use crate::output::Format;

/// Arguments of `quorlock log dump`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A node's data directory; the node may run
    directory: PathBuf,
    /// The first position to print
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    from: u64,
    /// The last position to print
    #[arg(long, value_name = "POSITION", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,
    /// Print at most so many frames
    #[arg(long, value_name = "FRAMES")]
    limit: Option<u64>,
}

/// Prints the frames of a log.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    if arguments.from > arguments.to {
        return Err(Failure::usage("--from lies behind --to"));
    }
    let positions = Position::from_raw(arguments.from)..=Position::from_raw(arguments.to);
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut out = BufWriter::new(io::stdout().lock());
    let result = inspection::dump(directory, &positions, |line| {
        if matches!(line, Line::Frame { .. }) {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
        }
        // The reader that closed the pipe wants no more.
        match writeln!(out, "{}", describe(&line).shown(format)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let _closed_pipe = out.flush();
    result.map_err(unreadable)?;
    let Some(finding) = refusal(directory)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let at = match finding.offset {
        Some(offset) => format!(" at offset {offset}"),
        None => String::new(),
    };
    let words = format!(
        "-- a start refuses this log: {}{at}: {}",
        finding.file, finding.what
    );
    let object = check::describe_finding(&finding).object;
    let refusal = Printout::default().with("refused", object, words);
    let _closed_pipe = writeln!(out, "{}", refusal.shown(format)).and_then(|()| out.flush());
    Ok(refused())
}

fn describe(line: &Line<'_>) -> Printout {
    let description = Printout::default();
    match line {
        Line::Frame {
            segment,
            inspected,
            body,
        } => describe_frame(*segment, inspected, body),
        Line::Gap { from, to } => {
            let (from, last) = (from.get(), to.get() - 1);
            let words = format!("-- positions {from} to {last} are not in the log");
            description.with("gap", json!({ "from": from, "to": last }), words)
        }
        Line::Broken {
            file,
            offset,
            reason,
        } => description.with(
            "broken",
            json!({ "file": file, "offset": offset, "reason": reason }),
            format_args!("-- {file} is interrupted at offset {offset}: {reason}"),
        ),
    }
}

fn describe_frame(segment: u64, inspected: &InspectedFrame<'_>, body: &FrameBody<'_>) -> Printout {
    let frame = &inspected.frame;
    let (position, kind) = (frame.position.get(), kind_name(frame.kind));
    let node_time = NodeTime::from_nanos(frame.node_time_ns);
    let words = format!("{position:>10}  {:>22}  {kind:<8}", seconds(node_time));
    let description = Printout::default()
        .with("position", position, words)
        .with_hidden("node_time_ns", frame.node_time_ns)
        .with_hidden("kind", kind)
        .with_hidden("code", frame.kind)
        .with_hidden("segment", segment)
        .with_hidden("offset", inspected.offset)
        .with_hidden("durable", inspected.durable.get());
    match body {
        FrameBody::End => description,
        FrameBody::NotUnderstood(why) => {
            let words = format!("  kind {}, not understood: {why}", frame.kind);
            description.with("not_understood", why.as_str(), words)
        }
        FrameBody::Record(record) => {
            description.with_part("record", Some(record::describe(record)))
        }
        FrameBody::Mutations(all) => {
            let changes = all.iter().map(|change| change::describe(change, node_time));
            description.with_parts("changes", "", changes, CHANGES_SHOWN)
        }
    }
}

/// The most changes that a line of text shows; JSON shows all.
const CHANGES_SHOWN: usize = 8;

/// Shown below the help.
pub(crate) const HELP: &str = "\
A line is: position, node time, kind, and what the frame holds. Values are cut to a few bytes, so
that a token in the output cannot be used. Deadlines are given as the time that was left.
With --json each line is an object, with segment, offset and every change.

Exit codes:
  0   printed
  2   a start refuses this log; what can be read of it was printed, and last why
  66  the directory cannot be read, or holds no log
  64  wrong usage

Examples:
  quorlock log dump /var/lib/quorlock --limit 20
  quorlock log dump /var/lib/quorlock --from 1000 --to 1010 --json";
