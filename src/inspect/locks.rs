//! `quorlock locks`: all locks that the nodes have, of every library.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client_rules::inspection::lock_view::{LockState, LockView};
use quorlock_server::show_duration;
use serde_json::json;

use super::names::{self, Found, Wanted};
use super::nodes::Nodes;
use super::{shown, table};
use crate::duration;
use crate::exit_code::{Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::output::{Format, is_watched, remark, was_written};
use crate::release::lines;
use crate::runtime;

/// Arguments of `quorlock locks`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only locks whose name matches, as in lock:*
    #[arg(default_value = "*")]
    pattern: String,
    /// Show them again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Show at most so many
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    limit: usize,
    /// Show keys without a ttl as well: locks that stay when their holder is gone, and other keys
    #[arg(long)]
    all: bool,
    /// Mark a lock as old that has been held for longer
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    old_after: Duration,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Shows the locks.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    runtime::block_on(async {
        loop {
            let shown = show(arguments, format).await?;
            match shown {
                Ok(_) if arguments.watch => tokio::time::sleep(WATCH_EVERY).await,
                Ok(code) => return Ok(code),
                Err(error) => return was_written(Err(error)).map(|()| ExitCode::SUCCESS),
            }
        }
    })
}

async fn show(arguments: &Arguments, format: Format) -> Result<io::Result<ExitCode>, Failure> {
    let mut nodes = Nodes::connect_to_some(&arguments.nodes).await?;
    let wanted = Wanted {
        pattern: arguments.pattern.as_bytes(),
        is_all: arguments.all,
        count_max: arguments.limit,
        patience: Duration::MAX,
    };
    let found = names::find(&mut nodes, &wanted).await;
    let (count, held) = match print(arguments, &mut nodes, &found, format).await {
        Ok(counts) => counts,
        Err(error) => return Ok(Err(error)),
    };
    let silent: Vec<(String, String)> = nodes
        .silent()
        .map(|(label, why)| (label.to_owned(), why))
        .collect();
    let answered = nodes.all.len() - silent.len();
    let all = nodes.all.len();
    let mut said = String::new();
    match format {
        Format::Text => {
            let locks = if count == 1 { "lock" } else { "locks" };
            let _ = write!(said, "{count} {locks}, {held} held; {answered} of {all} nodes answered");
            // Nothing is wrong while a majority answers, so that cron has nothing to send.
            for (label, why) in &silent {
                let _ = write!(said, "\n  no answer: {label}: {}", shown::words(why));
            }
        }
        Format::Json => said = json!({
            "locks": count, "held": held, "nodes": all, "answered": answered, "complete": !found.is_cut,
            "silent": silent.iter().map(|(label, why)| json!({ "node": label, "why": why })).collect::<Vec<_>>(),
        }).to_string(),
    }
    if let Err(error) = writeln!(io::stdout().lock(), "{said}") {
        return Ok(Err(error));
    }
    if found.is_cut {
        remark(format_args!(
            "there are more locks than are shown: name a pattern, as in quorlock locks 'lock:*', or raise --limit"
        ));
    }
    let wrong = nodes.wrongly_listed();
    if !wrong.is_empty() {
        return Err(Failure::usage(format!(
            "the list of nodes is wrong, so locks are missing or counted wrongly:{}",
            lines(&wrong)
        ))
        .remedy("list all nodes of one cluster, each once, in --nodes or QUORLOCK_NODES"));
    }
    Ok(Ok(match answered > all / 2 {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NO_QUORUM),
    }))
}

/// Prints what was found, a batch after the other, and counts it: all, and those that are held.
async fn print(
    arguments: &Arguments,
    nodes: &mut Nodes,
    found: &Found,
    format: Format,
) -> io::Result<(usize, usize)> {
    let (mut count, mut held) = (0, 0);
    let labels: Vec<String> = nodes.labels().into_iter().map(str::to_owned).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut rows = Vec::new();
    let names: Vec<&[u8]> = found.names.iter().map(Vec::as_slice).collect();
    for batch in names.chunks(BATCH) {
        let views = nodes.look(batch, arguments.old_after).await;
        let mut out = BufWriter::new(io::stdout().lock());
        for (name, view) in batch.iter().zip(&views) {
            // It has ended since it was found.
            if view.state == LockState::Free {
                continue;
            }
            count += 1;
            held += usize::from(view.state == LockState::Held);
            match format {
                Format::Text => rows.push(row(name, view)),
                Format::Json => writeln!(out, "{}", shown::value(name, view, &labels))?,
            }
        }
        out.flush()?;
    }
    if format == Format::Text && (!rows.is_empty() || arguments.watch) {
        let clears = arguments.watch && is_watched();
        print_table(&rows, clears)?;
    }
    Ok((count, held))
}

fn row(name: &[u8], view: &LockView) -> [String; 8] {
    let holders: Vec<_> = match view.state {
        LockState::Held => view.held_by().collect(),
        _ => view.holders.iter().collect(),
    };
    let first = holders.first();
    let mut who = first.map_or_else(|| "-".to_owned(), |one| shown::holder(one));
    if holders.len() > 1 {
        who = format!("{who} and {} more", view.holder_count() - 1);
    }
    let about = first.map(|one| &one.about);
    let held = about.and_then(|about| about.held);
    let fence = about.and_then(|about| about.fence);
    let mut marks: Vec<&str> = view.marks.iter().map(|mark| mark.name()).collect();
    if view.state != LockState::Held {
        marks.insert(
            0,
            if view.state == LockState::Unknown {
                "unknown"
            } else {
                "not held"
            },
        );
    }
    [
        shown::name(name),
        format!("{}/{}", first.map_or(0, |one| one.votes), view.nodes),
        first.map_or_else(|| "-".to_owned(), |one| shown::left(one.left)),
        held.map_or_else(|| "-".to_owned(), show_duration),
        view.waiters
            .map_or_else(|| "-".to_owned(), |count| count.to_string()),
        fence.map_or_else(|| "-".to_owned(), |fence| fence.to_string()),
        who,
        marks.join(", "),
    ]
}

fn print_table(rows: &[[String; 8]], clears: bool) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if clears {
        out.write_all(CLEAR)?;
    }
    writeln!(out, "{}", table::aligned(&HEADINGS, rows))?;
    out.flush()
}

const HEADINGS: [&str; 8] = [
    "name", "votes", "left", "held for", "waiting", "fence", "holder", "marks",
];
/// So many locks are looked at on all nodes at about the same time.
const BATCH: usize = 256;
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The cursor to the first line, and nothing below it.
const CLEAR: &[u8] = b"\x1b[H\x1b[J";

const EXAMPLES: &str = "\
Examples:
  quorlock locks                     all locks of all libraries
  quorlock locks 'lock:*' --watch    those with this prefix, again every second
  quorlock locks --all               keys without a ttl as well
  quorlock locks --json | jq -r 'select(.state == \"held\") | .name'

A lock is held where a majority of the nodes names the same holder. Marks: not held (fewer name one), unknown
(too few nodes have answered), no-ttl, old, votes-differ, not-a-lock.

Ends with 0 if a majority of the nodes has answered, with 69 if fewer have, and with 64 if the list of nodes
is wrong: one node twice, or nodes of several clusters.";
