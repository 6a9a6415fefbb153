//! `quorlock log dump`: the frames of a log, one line each, as text or as JSON.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_server::inspection::{
    self, Body, Dumped, Finding, Line, NodeTime, Position, Range, kind_name,
};
use serde_json::json;

use super::check::{self, refusal, refused, unreadable};
use super::description::{Description, seconds};
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
    if arguments.from > arguments.to {
        return Err(Failure::usage("--from lies behind --to"));
    }
    let range = Range {
        from: Position::from_raw(arguments.from),
        to: Position::from_raw(arguments.to),
    };
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut out = BufWriter::new(io::stdout().lock());
    let result = inspection::dump(&arguments.directory, range, |line| {
        if matches!(line, Line::Frame(_)) {
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
    let Some(finding) = refusal(&arguments.directory)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let text = describe_refusal(&finding).shown(format);
    let _closed_pipe = writeln!(out, "{text}").and_then(|()| out.flush());
    Ok(refused())
}

fn describe(line: &Line<'_>) -> Description {
    let description = Description::default();
    match line {
        Line::Frame(frame) => describe_frame(frame),
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

fn describe_frame(dumped: &Dumped<'_>) -> Description {
    let inspected = &dumped.inspected;
    let (position, code) = (inspected.frame.position.get(), inspected.frame.kind);
    let (kind, time_ns) = (kind_name(code), inspected.frame.node_time_ns);
    let node_time = NodeTime::from_nanos(time_ns);
    let time = seconds(node_time);
    let description = Description::default()
        .with("position", position, format_args!("{position:>10}"))
        .with("node_time_ns", time_ns, format_args!("  {time:>22}"))
        .with("kind", kind, format_args!("  {kind:<8}"))
        .with_hidden("code", code)
        .with_hidden("segment", dumped.segment)
        .with_hidden("offset", inspected.offset)
        .with_hidden("durable", inspected.durable.get());
    match &dumped.body {
        Body::End => description,
        Body::NotUnderstood(why) => {
            let words = format!("  kind {code}, not understood: {why}");
            description.with("not_understood", why.as_str(), words)
        }
        Body::Record(record) => description.with_part("record", Some(record::describe(record))),
        Body::Mutations(mutations) => {
            let changes = mutations.iter().zip(1..).map(|(mutation, count)| {
                let mut change = change::describe(mutation, node_time);
                if count > CHANGES_SHOWN {
                    change.text.clear();
                }
                change
            });
            let mut description = description.with_parts("changes", "", changes);
            if let Some(more @ 1..) = mutations.len().checked_sub(CHANGES_SHOWN) {
                let _ = write!(description.text, "  ... and {more} more");
            }
            description
        }
    }
}

fn describe_refusal(finding: &Finding) -> Description {
    let mut location = finding.file.clone();
    if let Some(offset) = finding.offset {
        let _ = write!(location, " at offset {offset}");
    }
    let what = &finding.what;
    Description::default().with(
        "refused",
        check::describe_finding(finding).object,
        format_args!("-- a start refuses this log: {location}: {what}"),
    )
}

/// A line of text shows so many changes; JSON shows all.
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
