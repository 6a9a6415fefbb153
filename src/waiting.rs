//! Waiting for a lock in a way that people can follow and break off.
//!
//! A signal drops the attempt; the client then releases what it took on single nodes. On a
//! terminal the wait is announced once it is long enough to be noticed. A wait that cannot end
//! because too few nodes vote is explained everywhere, once, and goes on: nodes come back. One that
//! a majority refuses for its password ends, because nothing will change that.

use std::ffi::OsStr;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::time::Duration;

use quorlock_client::{AcquireError, NodeState, NodeStatus, Redlock};
use tokio::time::sleep;

use crate::exit_code::{BUSY, FAILED, Failure, NO_QUORUM, SIGNAL_BASE, USAGE};
use crate::lock_options::settle;
use crate::output::remark;
use crate::signals::Signals;

/// Acquires a lock by `attempt`, unless somebody breaks the wait off. After a failure the client has
/// had a moment to release what it took on single nodes.
pub(crate) async fn acquire<T>(
    name: &OsStr,
    redlock: &Redlock,
    signals: &mut Signals,
    attempt: impl Future<Output = Result<T, AcquireError>>,
) -> Result<T, Failure> {
    let acquired = wait(name, redlock, signals, attempt).await;
    if acquired.is_err() {
        settle(redlock).await;
    }
    acquired
}

async fn wait<T>(
    name: &OsStr,
    redlock: &Redlock,
    signals: &mut Signals,
    attempt: impl Future<Output = Result<T, AcquireError>>,
) -> Result<T, Failure> {
    let mut notice = std::pin::pin!(sleep(NOTICE_AFTER));
    let mut is_announced = !io::stderr().is_terminal();
    let mut refusal = std::pin::pin!(watch_nodes(name, redlock));
    let mut attempt = std::pin::pin!(attempt);
    let signal = loop {
        tokio::select! {
            outcome = &mut attempt => return outcome.map_err(|error| failure(&error)),
            signal = signals.next() => break signal,
            failure = &mut refusal => return Err(failure),
            () = &mut notice, if !is_announced => {
                is_announced = true;
                remark(format_args!("waiting for '{}'; Ctrl-C gives up", name.display()));
            }
        }
    };
    let code = u8::try_from(signal.as_raw())
        .expect("signals end at 64")
        .saturating_add(SIGNAL_BASE);
    let shown = name.display();
    Err(Failure::new(
        code,
        format!("interrupted while waiting for '{shown}'; it is not held"),
    ))
}

/// What a failed acquisition means for the exit code.
fn failure(error: &AcquireError) -> Failure {
    let code = match error {
        AcquireError::Busy { .. } => BUSY,
        AcquireError::NoQuorum { .. } | AcquireError::TimedOut { .. } => NO_QUORUM,
        AcquireError::Invalid { .. } => USAGE,
        _ => FAILED,
    };
    Failure::new(code, error)
}

/// Looks at the nodes now and then, and says once if too few of them vote. Ends only with a
/// refusal that waiting cannot cure.
async fn watch_nodes(name: &OsStr, redlock: &Redlock) -> Failure {
    let shown = name.display();
    sleep(FIRST_LOOK_AFTER).await;
    let mut may_say = false;
    let mut has_said = false;
    loop {
        let nodes = redlock.probe().await;
        let count = nodes.len();
        if nodes.iter().filter(|node| refuses_password(node)).count() >= redlock.quorum() {
            return Failure::new(
                NO_QUORUM,
                format!(
                    "no quorum for '{shown}': {} of {count} nodes must vote, and so many refuse \
                     the password; not acquired{}",
                    redlock.quorum(),
                    causes(&nodes)
                ),
            )
            .remedy("give user and password in the address: redis://user:password@host:port");
        }
        let votes = nodes.iter().filter(|node| node.votes()).count();
        if may_say && !has_said && count > 0 && votes < redlock.quorum() {
            has_said = true;
            remark(format_args!(
                "no quorum for '{shown}': {votes} of {count} nodes vote, {} are needed; still \
                 waiting{}",
                redlock.quorum(),
                causes(&nodes)
            ));
        }
        sleep(if may_say { LOOK_EVERY } else { SAY_AFTER }).await;
        may_say = true;
    }
}

fn refuses_password(node: &NodeStatus) -> bool {
    match &node.state {
        NodeState::Votes => false,
        NodeState::DoesNotVote(cause) => {
            let text = cause.to_string();
            text.contains("NOAUTH") || text.contains("WRONGPASS")
        }
    }
}

fn causes(nodes: &[NodeStatus]) -> String {
    nodes
        .iter()
        .filter_map(|node| match &node.state {
            NodeState::Votes => None,
            NodeState::DoesNotVote(cause) => Some(format!("\n  {}: {cause}", node.node)),
        })
        .collect()
}

const NOTICE_AFTER: Duration = Duration::from_secs(1);
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(200);
/// From the first look to the first that is talked about.
const SAY_AFTER: Duration = Duration::from_millis(1_800);
const LOOK_EVERY: Duration = Duration::from_secs(10);
