//! What other terminals do to a cluster: kill, restart, pause, resume, down.

use std::process::ExitCode;
use std::time::Duration;

use quorlock_server::show_duration;
use serde_json::json;

use super::ClusterDirectory;
use super::control::{self, ControlRequest};
use super::home::ClusterHome;
use super::info::{self, ServingState};
use super::view::LocalCluster;
use crate::clock;
use crate::exit_code::Failure;
use crate::output::Format;
use crate::runtime;

/// Has the supervisor carry out a request, and says what came of it.
pub(super) fn run(
    cluster: &ClusterDirectory,
    request: &ControlRequest,
    format: Format,
) -> Result<ExitCode, Failure> {
    let home = cluster.find()?;
    if *request == ControlRequest::Down {
        return end(&home, format);
    }
    let (mut text, view) = control::ask(&home, request)?;
    if let ControlRequest::Restart { node } = request {
        let answer = runtime::block_on(await_answer(&home, &view, *node))?;
        text = match answer {
            ServingState::RestartDelay { remaining_ms } => format!(
                "{text}; it is in its restart delay and serves no locks for another {}",
                show_duration(Duration::from_millis(remaining_ms))
            ),
            ServingState::Serving { .. } => format!("{text}; it serves locks"),
            ServingState::Starting | ServingState::Silent | ServingState::Unreached { .. } => {
                format!("{text}; it does not answer yet")
            }
        };
    }
    format.result(&text, &json!({ "done": text, "nodes": view.nodes }));
    Ok(ExitCode::SUCCESS)
}

/// Ends the cluster. A second command that asks meanwhile reports the same.
fn end(home: &ClusterHome, format: Format) -> Result<ExitCode, Failure> {
    let (text, nodes) = match control::ask_to_end(home)? {
        Some((text, view)) => (text, Some(view.nodes)),
        None => {
            let name = home.name();
            let text = format!("Cluster '{name}' is down: somebody else has ended it as well");
            (text, None)
        }
    };
    await_end(home);
    if home.is_running() {
        return Err(Failure::failed(format!(
            "the supervisor of {} was asked to end and has not ended yet",
            home.name()
        ))
        .remedy("see whether it is down: quorlock cluster status"));
    }
    format.result(&text, &json!({ "done": text, "nodes": nodes }));
    Ok(ExitCode::SUCCESS)
}

/// Waits until the supervisor, whose last answer came just before its end, has let go of the
/// directory, so that the cluster can be started again or removed at once.
fn await_end(home: &ClusterHome) {
    let give_up = clock::now() + END_PATIENCE;
    while home.is_running() && clock::now() < give_up {
        clock::block_for(END_STEP);
    }
}

/// Waits until a node that was just started answers, or has ended.
async fn await_answer(
    home: &ClusterHome,
    cluster: &LocalCluster,
    number: u16,
) -> Result<ServingState, Failure> {
    let Some(node) = cluster.node(number) else {
        return Ok(ServingState::Silent);
    };
    let give_up = clock::now() + RESTART_PATIENCE;
    loop {
        let answer = info::ask(node.direct_port, cluster.cacert.as_deref()).await;
        let is_settled = answer.is_serving() || matches!(answer, ServingState::RestartDelay { .. });
        if is_settled || clock::now() > give_up {
            return Ok(answer);
        }
        let (_, now) = control::ask(home, &ControlRequest::Status)?;
        if now.node(number).is_some_and(|node| node.pid.is_none()) {
            return Err(Failure::failed(format!("node {number} did not start"))
                .remedy(format!("see why: quorlock cluster logs {number}")));
        }
        tokio::time::sleep(STEP).await;
    }
}

/// A supervisor gives its nodes ten seconds.
const END_PATIENCE: Duration = Duration::from_secs(15);
const END_STEP: Duration = Duration::from_millis(5);
const RESTART_PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);
