//! `quorlock wait`: waits until a lock is free, and does not take it.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client::Wait;
use quorlock_client_rules::inspection::lock_view::{LockState, LockView, Mark};
use quorlock_server::show_duration;

use super::nodes::Nodes;
use super::shown;
use super::who::{checked_name, describe, look};
use crate::clock;
use crate::exit_code::{BUSY, Failure, NO_QUORUM};
use crate::lock_options::{NodeOptions, WaitOptions};
use crate::output::{Format, remark};
use crate::runtime;

/// Arguments of `quorlock wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    #[command(flatten)]
    wait: WaitOptions,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Waits until nobody holds the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let name = checked_name(&arguments.name)?;
    let list = arguments.nodes.clusters()?.having(name);
    let begun = clock::now();
    let waited = || clock::now().saturating_sub(begun);
    runtime::block_on(async {
        // A list that is wrong, or a local cluster that is down, does not come right by waiting.
        let mut nodes = Nodes::connect_to_some(&arguments.nodes, &list).await?;
        let mut has_said = false;
        loop {
            let view = look(&mut nodes, name).await;
            let is_free = matches!(view.state, LockState::Free | LockState::Minority);
            // A key that is no lock is in the way of whoever wants one.
            if is_free && !view.marks.contains(&Mark::NoLock) {
                let took = show_duration(waited());
                let words = format!("'{}' is free, after {took}", shown::name(name));
                format.result(words, &shown::value(name, &view, &nodes.labels()));
                return Ok(ExitCode::SUCCESS);
            }
            let left = match arguments.wait.wait() {
                Wait::None => Some(Duration::ZERO),
                Wait::For(time) => Some(time.saturating_sub(waited())),
                _ => None,
            };
            if left.is_some_and(|left| left.is_zero()) {
                return Err(over(name, &view, &nodes));
            }
            if !has_said && waited() >= REMARK_AFTER {
                has_said = true;
                remark(describe(name, &view, &nodes.labels()));
            }
            tokio::time::sleep(pause(&view).min(left.unwrap_or(LONGEST_PAUSE))).await;
            // Nodes that were away may be back.
            if nodes.silent().next().is_some() {
                nodes = Nodes::connect(&arguments.nodes, &list).await?;
            }
        }
    })
}

fn over(name: &[u8], view: &LockView, nodes: &Nodes) -> Failure {
    let shown = describe(name, view, &nodes.labels());
    match view.state {
        LockState::Unknown => Failure::new(NO_QUORUM, shown),
        _ => Failure::new(BUSY, shown),
    }
}

/// Until the next look: a lock that ends soon is looked at then.
fn pause(view: &LockView) -> Duration {
    let left = view.holders.first().and_then(|holder| holder.left);
    left.unwrap_or(LONGEST_PAUSE)
        .clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

const REMARK_AFTER: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  quorlock wait nightly && echo \"it is over\"
  quorlock wait nightly --wait 10m || echo \"it still runs ($?)\"

When it ends somebody else may have taken the lock: to have it, use quorlock run or quorlock acquire.

Ends with 0 when no majority of the nodes names a holder, with 75 if it is held when the wait is over, and with
69 if too few nodes have answered then.";
