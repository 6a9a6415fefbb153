//! `quorlock log dump`: the frames of a log, one line each, as text or as JSON.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_server::inspection::{
    self, Body, Collection, Deadline, Dumped, Field, Finding, Line, Mutation, NewValue, NodeTime,
    Position, Range, fields, kind_name,
};
use serde_json::{Map, Value as Json, json};

use super::change_parts::ChangeParts;
use super::check::{finding_value, refusal, refused, unreadable};
use super::excerpt::{KEY_BYTES, VALUE_BYTES, escaped, quoted, seconds};
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
        let text = match format {
            Format::Text => text(&line),
            Format::Json => value(&line).to_string(),
        };
        // The reader that closed the pipe wants no more.
        match writeln!(out, "{text}") {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let _closed_pipe = out.flush();
    result.map_err(unreadable)?;
    let Some(finding) = refusal(&arguments.directory)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let text = match format {
        Format::Text => refusal_text(&finding),
        Format::Json => json!({ "refused": finding_value(&finding) }).to_string(),
    };
    let _closed_pipe = writeln!(out, "{text}").and_then(|()| out.flush());
    Ok(refused())
}

fn refusal_text(finding: &Finding) -> String {
    let mut place = finding.file.clone();
    if let Some(offset) = finding.offset {
        let _ = write!(place, " at offset {offset}");
    }
    format!("-- a start refuses this log: {place}: {}", finding.what)
}

fn text(line: &Line<'_>) -> String {
    match line {
        Line::Frame(frame) => frame_text(frame),
        Line::Gap { from, to } => {
            format!("-- positions {from} to {} are not in the log", to.get() - 1)
        }
        Line::Broken {
            file,
            offset,
            reason,
        } => format!("-- {file} is interrupted at offset {offset}: {reason}"),
    }
}

fn frame_text(frame: &Dumped<'_>) -> String {
    let time = seconds(frame.node_time);
    let kind = kind_name(frame.kind);
    let mut text = format!("{:>10}  {time:>22}  {kind:<8}", frame.position);
    match &frame.body {
        Body::End => {}
        Body::NotUnderstood(why) => {
            let _ = write!(text, "  kind {}, not understood: {why}", frame.kind);
        }
        Body::Record(record) => {
            for (name, field) in fields(record) {
                let _ = match field {
                    Field::Number(number) => write!(text, "  {name} {number}"),
                    Field::Flag(flag) => write!(text, "  {name} {flag}"),
                    Field::Word(word) => write!(text, "  {name} {word}"),
                };
            }
        }
        Body::Mutations(changes) => {
            for change in changes.iter().take(CHANGES_SHOWN) {
                text.push_str("  ");
                add_change(change, frame.node_time, &mut text);
            }
            if let Some(more @ 1..) = changes.len().checked_sub(CHANGES_SHOWN) {
                let _ = write!(text, "  ... and {more} more");
            }
        }
    }
    text
}

fn add_change(change: &Mutation<'_>, now: NodeTime, text: &mut String) {
    let named = |word: &str, database: &u8, key: &[u8]| {
        format!("{word} {database} {}", quoted(key, KEY_BYTES))
    };
    match change {
        Mutation::Replace {
            database,
            key,
            value,
            deadline,
        } => {
            text.push_str(&named("replace", database, key));
            match value {
                NewValue::String(string) => {
                    let _ = write!(text, " string {}", quoted(string, VALUE_BYTES));
                }
                NewValue::Collection(collection) => {
                    let (name, parts) = (collection.type_name(), parts_of(collection));
                    let _ = write!(text, " {name} of {} {parts}", collection.len());
                }
            }
            add_ttl(*deadline, now, text);
        }
        Mutation::Part {
            database,
            key,
            part,
            absent,
            deadline,
        } => {
            text.push_str(&named("part", database, key));
            let (name, parts) = (part.type_name(), parts_of(part));
            let _ = write!(text, " {name}, {} {parts}, {absent} to come", part.len());
            add_ttl(*deadline, now, text);
        }
        Mutation::SetDeadline {
            database,
            key,
            deadline,
        } => {
            text.push_str(&named("deadline", database, key));
            add_ttl(*deadline, now, text);
        }
        Mutation::Change {
            database,
            key,
            change,
        } => {
            let change = ChangeParts::of(change);
            text.push_str(&named(change.word, database, key));
            change.add_to(text);
        }
        Mutation::Delete { database, key } => text.push_str(&named("delete", database, key)),
        Mutation::FlushDatabase { database } => {
            let _ = write!(text, "flush {database}");
        }
        Mutation::FlushAll => text.push_str("flush all"),
        Mutation::SwapDatabases { both: [one, other] } => {
            let _ = write!(text, "swap {one} {other}");
        }
    }
}

/// What the parts of a collection are called.
fn parts_of(collection: &Collection) -> &'static str {
    match collection {
        Collection::Hash(_) => "fields",
        Collection::List(_) => "elements",
        Collection::Set(_) | Collection::SortedSet(_) => "members",
    }
}

fn add_ttl(deadline: Deadline, now: NodeTime, text: &mut String) {
    let _ = match deadline.unless_never() {
        None => write!(text, " no ttl"),
        Some(deadline) => {
            let ttl_ms = deadline.left_ms(now);
            write!(text, " ttl {ttl_ms} ms")
        }
    };
}

fn value(line: &Line<'_>) -> Json {
    match line {
        Line::Frame(frame) => frame_value(frame),
        Line::Gap { from, to } => json!({ "gap": { "from": from.get(), "to": to.get() - 1 } }),
        Line::Broken {
            file,
            offset,
            reason,
        } => json!({ "broken": { "file": file, "offset": offset, "reason": reason } }),
    }
}

fn frame_value(frame: &Dumped<'_>) -> Json {
    let mut value = json!({
        "position": frame.position.get(),
        "node_time_ns": frame.node_time.as_nanos(),
        "kind": kind_name(frame.kind),
        "code": frame.kind,
        "segment": frame.segment,
        "offset": frame.offset,
        "durable": frame.durable.get(),
    });
    match &frame.body {
        Body::End => {}
        Body::NotUnderstood(why) => value["not_understood"] = json!(why),
        Body::Record(record) => {
            let pairs = fields(record).into_iter().map(|(name, field)| {
                let field = match field {
                    Field::Number(number) => json!(number),
                    Field::Flag(flag) => json!(flag),
                    Field::Word(word) => json!(word),
                };
                (name.to_owned(), field)
            });
            value["record"] = Json::Object(pairs.collect::<Map<_, _>>());
        }
        Body::Mutations(changes) => {
            value["changes"] = changes.iter().map(change_value).collect();
        }
    }
    value
}

fn change_value(change: &Mutation<'_>) -> Json {
    let bytes = |bytes: &[u8], bytes_max| json!(escaped(bytes, bytes_max));
    let key_of = |key: &[u8]| bytes(key, KEY_BYTES);
    match change {
        Mutation::Replace {
            database,
            key,
            value,
            deadline,
        } => {
            let deadline_ns = deadline.unless_never().map(Deadline::as_nanos);
            let (kind, excerpt, size) = match value {
                NewValue::String(string) => ("string", bytes(string, VALUE_BYTES), string.len()),
                NewValue::Collection(collection) => {
                    (collection.type_name(), Json::Null, collection.len())
                }
            };
            json!({
                "change": "replace", "database": database, "key": key_of(key), "type": kind,
                "value": excerpt, "size": size, "deadline_ns": deadline_ns,
            })
        }
        Mutation::Part {
            database,
            key,
            part,
            absent,
            deadline,
        } => json!({
            "change": "part", "database": database, "key": key_of(key), "type": part.type_name(),
            "size": part.len(), "to_come": absent,
            "deadline_ns": deadline.unless_never().map(Deadline::as_nanos),
        }),
        Mutation::SetDeadline {
            database,
            key,
            deadline,
        } => json!({
            "change": "deadline", "database": database, "key": key_of(key),
            "deadline_ns": deadline.unless_never().map(Deadline::as_nanos),
        }),
        Mutation::Change {
            database,
            key,
            change,
        } => {
            let change = ChangeParts::of(change);
            let mut value =
                json!({ "change": change.word, "database": database, "key": key_of(key) });
            change.add_to_json(&mut value);
            value
        }
        Mutation::Delete { database, key } => {
            json!({ "change": "delete", "database": database, "key": key_of(key) })
        }
        Mutation::FlushDatabase { database } => json!({ "change": "flush", "database": database }),
        Mutation::FlushAll => json!({ "change": "flush-all" }),
        Mutation::SwapDatabases { both } => json!({ "change": "swap", "databases": both }),
    }
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
