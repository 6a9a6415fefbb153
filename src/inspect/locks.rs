//! `quorlock locks`: all locks that the nodes have, of every library.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client_rules::inspection::lock_view::{LockState, LockView};
use quorlock_server::show_duration;
use serde_json::{Value, json};

use super::names::{self, Found, Wanted};
use super::nodes::Nodes;
use super::{shown, table};
use crate::clusters::{Clusters, NodeList, heading, of_cluster};
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
    /// Read the list of each node for so long at most; which lists had no end by then is said
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    within: Duration,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Shows the locks.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    runtime::block_on(async {
        let clusters = arguments.nodes.clusters()?;
        loop {
            let mut have_answered = true;
            for list in clusters.all() {
                if arguments.watch && is_watched() && *list == clusters.all()[0] {
                    let _may_be_closed = io::stdout().write_all(CLEAR);
                }
                match show(arguments, &clusters, list, format).await {
                    Ok(Ok(has_answered)) => have_answered &= has_answered,
                    Ok(Err(error)) => return was_written(Err(error)).map(|()| ExitCode::SUCCESS),
                    // The locks of the others are to be seen all the same.
                    Err(failure) if clusters.all().len() > 1 => {
                        have_answered = false;
                        remark(format_args!("{}{failure}", heading(list)));
                    }
                    Err(failure) => return Err(failure),
                }
            }
            match (arguments.watch, have_answered) {
                (true, _) => tokio::time::sleep(WATCH_EVERY).await,
                (false, true) => return Ok(ExitCode::SUCCESS),
                (false, false) => return Ok(ExitCode::from(NO_QUORUM)),
            }
        }
    })
}

/// Shows the locks of a cluster, and returns whether a majority of its nodes has answered, and named all of its locks.
async fn show(
    arguments: &Arguments,
    clusters: &Clusters,
    list: &NodeList,
    format: Format,
) -> Result<io::Result<bool>, Failure> {
    let mut nodes = Nodes::connect_to_some(&arguments.nodes, list).await?;
    let wanted = Wanted {
        pattern: arguments.pattern.as_bytes(),
        is_all: arguments.all,
        count_max: arguments.limit,
        patience: arguments.within,
    };
    let found = names::find(&mut nodes, &wanted).await;
    let of = (clusters, list);
    let counts = match print(arguments, &mut nodes, of, &found, format).await {
        Ok(counts) => counts,
        Err(error) => return Ok(Err(error)),
    };
    let silent: Vec<(String, String)> = nodes
        .silent()
        .map(|(label, why)| (label.to_owned(), why))
        .collect();
    let all = nodes.all.len();
    let said = match format {
        Format::Text => {
            let heading = match counts.count == 0 && !arguments.watch {
                true => heading(list),
                false => "".into(),
            };
            let words = counts.words(clusters, &silent, all);
            format!("{heading}{words}{}{}", unfinished(&found), unshown(&found))
        }
        Format::Json => {
            let value = counts.value(clusters, &silent, (all, &found));
            of_cluster(value, list).to_string()
        }
    };
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
    let is_whole = |label: &str| found.unfinished.iter().all(|list| list.label != label);
    let answered = nodes.answering().filter(|label| is_whole(label)).count();
    Ok(Ok(answered > all / 2))
}

/// How many locks were found, how many of them are held, and how many are on another cluster by the next list.
#[derive(Default)]
struct LockTotals {
    count: usize,
    held: usize,
    moving: usize,
}

impl LockTotals {
    fn words(&self, clusters: &Clusters, silent: &[(String, String)], all: usize) -> String {
        let Self {
            count,
            held,
            moving,
        } = self;
        let locks = if *count == 1 { "lock" } else { "locks" };
        let answered = all - silent.len();
        let mut said = format!("{count} {locks}, {held} held; {answered} of {all} nodes answered");
        if clusters.are_changing() {
            let _ = write!(said, "; {moving} move to another cluster");
        }
        // Nothing is wrong while a majority answers, so that cron has nothing to send.
        for (label, why) in silent {
            let _ = write!(said, "\n  no answer: {label}: {}", shown::words(why));
        }
        said
    }

    fn value(
        &self,
        clusters: &Clusters,
        silent: &[(String, String)],
        (all, found): (usize, &Found),
    ) -> Value {
        let answered = all - silent.len();
        let silent = silent
            .iter()
            .map(|(label, why)| json!({ "node": label, "why": why }));
        let unfinished = found.unfinished.iter();
        let unfinished = unfinished.map(|list| json!({ "node": list.label, "why": list.why }));
        let mut value = json!({
            "locks": self.count, "held": self.held, "nodes": all, "answered": answered, "complete": found.is_whole(),
            "without_ttl": found.without_ttl, "silent": silent.collect::<Vec<_>>(), "unfinished": unfinished.collect::<Vec<_>>(),
        });
        if clusters.are_changing() {
            value["moving"] = self.moving.into();
        }
        value
    }
}

/// Says which nodes may have more locks than they have named.
fn unfinished(found: &Found) -> String {
    let lists = found.unfinished.iter();
    let lines = lists.map(|list| format!("\n  not whole: {}: {}", list.label, list.why));
    lines.collect()
}

/// Says that there are keys which may be locks and are not shown.
fn unshown(found: &Found) -> String {
    let count = match found.without_ttl {
        0 => return String::new(),
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    };
    format!(
        "\n  not shown: {count} without a ttl on a node, perhaps locks that no time ends; --all shows them"
    )
}

/// Prints what was found, a batch after the other, and counts it.
async fn print(
    arguments: &Arguments,
    nodes: &mut Nodes,
    (clusters, list): (&Clusters, &NodeList),
    found: &Found,
    format: Format,
) -> io::Result<LockTotals> {
    let mut counts = LockTotals::default();
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
            let moves_to = clusters.moves_to(name);
            counts.count += 1;
            counts.held += usize::from(view.state == LockState::Held);
            counts.moving += usize::from(moves_to.is_some());
            match format {
                Format::Text => rows.push(row(name, view, moves_to)),
                Format::Json => {
                    let mut value = of_cluster(shown::value(name, view, &labels), list);
                    if let Some(to) = moves_to {
                        value["moves_to"] = to.into();
                    }
                    writeln!(out, "{value}")?;
                }
            }
        }
        out.flush()?;
    }
    if format == Format::Text && (!rows.is_empty() || arguments.watch) {
        print_table(&heading(list), &rows)?;
    }
    Ok(counts)
}

fn row(name: &[u8], view: &LockView, moves_to: Option<&str>) -> [String; 8] {
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
    let moves_to = moves_to.map(|to| format!("moves to '{to}'"));
    marks.extend(moves_to.as_deref());
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

fn print_table(heading: &str, rows: &[[String; 8]]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{heading}{}", table::aligned(&HEADINGS, rows))?;
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
(too few nodes have answered), no-ttl, old, votes-differ, ids-differ (Redisson's lock over several nodes),
not-a-lock.

A list of locks that has no end is read for --within, and its node is named behind `not whole`.

Ends with 0 if a majority of the nodes has answered and named all of its locks, with 69 if fewer have, and with
64 if the list of nodes is wrong: one node twice, or nodes of several clusters.";
