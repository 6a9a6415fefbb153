//! `quorlock who`: who holds a lock.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client_rules::inspection::lock_view::{HolderView, LockState, LockView, Mark};
use quorlock_server::show_duration;
use tokio::time::timeout;

use super::nodes::Nodes;
use super::shown;
use crate::exit_code::{FAILED, Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock who`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Shows who holds the lock. The exit code says whether somebody does.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let name = checked_name(&arguments.name)?;
    let list = arguments.nodes.clusters()?.having(name);
    runtime::block_on(async {
        let mut nodes = Nodes::connect_to_some(&arguments.nodes, &list).await?;
        let view = look(&mut nodes, name).await;
        let labels = nodes.labels();
        format.answer(
            &describe(name, &view, &labels),
            &shown::value(name, &view, &labels),
        )?;
        Ok(match view.state {
            LockState::Held => ExitCode::SUCCESS,
            LockState::Free | LockState::Minority => ExitCode::from(FAILED),
            LockState::Unknown => ExitCode::from(NO_QUORUM),
        })
    })
}

/// The name of a lock, which is not empty.
pub(super) fn checked_name(name: &OsString) -> Result<&[u8], Failure> {
    match name.is_empty() {
        true => Err(Failure::usage(
            "the name of the lock is empty; nothing was asked",
        )),
        false => Ok(name.as_bytes()),
    }
}

/// How one lock is held.
pub(super) async fn look(nodes: &mut Nodes, name: &[u8]) -> LockView {
    let mut views = nodes.look(&[name], Duration::MAX).await;
    views.pop().expect("one view for one name")
}

/// Who holds the first of these locks that is held, and since when, for whoever waits for them. None where no majority says so
/// soon: a node that hangs is left out.
pub(crate) async fn holder_of(options: &NodeOptions, names: &[OsString]) -> Option<String> {
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let look = async {
        let list = options.clusters().ok()?.having(names.first()?);
        let mut nodes = Nodes::open(options, &list, OPENED_SOON).await.ok()?;
        let views = nodes.look(&names, Duration::MAX).await;
        views.iter().find_map(summary)
    };
    timeout(SOON, look).await.ok()?
}

fn summary(view: &LockView) -> Option<String> {
    let mut holders = view.held_by();
    let holder = holders.next()?;
    let words = shown::holder_words(holder)?;
    let others = match view.holder_count().saturating_sub(1) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let since = holder.about.held.map(show_duration);
    let since = since.map(|time| format!(", for {time} so far"));
    Some(format!("{words}{others}{}", since.unwrap_or_default()))
}

/// A lock in some lines, the first of which says whether it is held.
pub(super) fn describe(name: &[u8], view: &LockView, nodes: &[&str]) -> String {
    let name = shown::name(name);
    let (answered, all) = (view.answered, view.nodes);
    let first = match (view.state, view.holders.first()) {
        (LockState::Held, Some(holder)) => {
            let end = match holder.left {
                Some(left) => format!("for another {} unless it is extended", show_duration(left)),
                None => "without a ttl: it stays when its holder is gone".to_owned(),
            };
            format!(
                "'{name}' is held: {} of {all} nodes say so, {end}",
                holder.votes
            )
        }
        (LockState::Minority, Some(holder)) => format!(
            "'{name}' is not held: {} of {all} nodes name a holder, which is no majority; it is being taken or released, or this \
             is what is left of it",
            holder.votes
        ),
        (LockState::Unknown, Some(_)) if answered == all => format!(
            "whether '{name}' is held cannot be said: some of {all} nodes have more readers than they name, perhaps one in common"
        ),
        (LockState::Unknown, _) => format!(
            "whether '{name}' is held cannot be said: {answered} of {all} nodes have answered"
        ),
        (LockState::Free, _) if view.marks.contains(&Mark::NoLock) => format!(
            "'{name}' is no lock: a node has something else under this name, so nobody can take it there"
        ),
        _ => format!(
            "'{name}' is free: {answered} of {all} nodes have answered, and none names a holder"
        ),
    };
    let holders = view.holders.iter().take(HOLDERS_MAX);
    let mut lines: Vec<String> = std::iter::once(first).collect();
    lines.extend(holders.flat_map(|holder| describe_holder(holder, nodes)));
    let more = view.more_than(view.holders.len().min(HOLDERS_MAX));
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    match view.waiters {
        None | Some(0) => {}
        Some(1) => lines.push("  waiting:    1 client".to_owned()),
        Some(count) => lines.push(format!("  waiting:    {count} clients")),
    }
    let marks: Vec<&str> = view.marks.iter().map(|mark| mark.name()).collect();
    if !marks.is_empty() {
        lines.push(format!("  marks:      {}", marks.join(", ")));
    }
    let silent = view
        .silent
        .iter()
        .filter_map(|(node, why)| Some((nodes.get(*node)?, why)));
    lines.extend(silent.map(|(node, why)| format!("  no answer:  {node}: {}", shown::words(why))));
    lines.join("\n")
}

fn describe_holder(holder: &HolderView, nodes: &[&str]) -> Vec<String> {
    let about = &holder.about;
    let mut lines = vec![format!("  holder:     {}", shown::holder(holder))];
    if let Some(held) = about.held {
        let times = about.extensions.unwrap_or(0);
        lines.push(format!(
            "  since:      {} ago, extended {times} times",
            show_duration(held)
        ));
    }
    if let Some(address) = &about.client_address {
        let open = match about.is_connected {
            Some(false) => ", closed since",
            _ => "",
        };
        let library = about
            .library
            .as_ref()
            .map(|name| format!(" ({name})"))
            .unwrap_or_default();
        lines.push(format!(
            "  connection: {}{open}",
            shown::name(format!("{address}{library}").as_bytes())
        ));
    }
    if let Some(fence) = about.fence {
        lines.push(format!("  fence:      {fence}"));
    }
    let on: Vec<&str> = holder
        .nodes
        .iter()
        .filter_map(|node| nodes.get(*node).copied())
        .collect();
    lines.push(format!("  on:         {}", on.join(", ")));
    lines
}

/// A hash may have a thousand fields.
const HOLDERS_MAX: usize = 20;

/// Whoever waits wants to know that it does, whatever a node is doing.
const SOON: Duration = Duration::from_millis(1_500);
/// Three round trips to the other side of the earth, and no more for a node that hangs.
const OPENED_SOON: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  quorlock who nightly
  quorlock who nightly --json | jq -r '.holders[0].owner'

Ends with 0 if a majority of the nodes names the same holder, with 1 if nobody holds the lock, and with 69 if
too few nodes have answered to say so.";
