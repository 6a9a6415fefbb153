//! `quorlock cluster status`: what each node is doing, asked of the nodes themselves.

use std::process::ExitCode;
use std::time::Duration;

use quorlock_server::show_duration;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ClusterDirectory;
use super::control::{self, ControlRequest};
use super::home::Home;
use super::info::{self, ServingState};
use super::manifest::Manifest;
use super::view::{ClusterView, NodeView, ProcessState};
use crate::exit_code::{Failure, NO_QUORUM};
use crate::output::Format;
use crate::runtime;

/// Shows the state of a cluster. The exit code tells whether a majority serves.
pub(super) fn run(cluster: &ClusterDirectory, format: Format) -> Result<ExitCode, Failure> {
    let home = cluster.find()?;
    if !home.is_running() {
        return Ok(report_stopped(&home, &Manifest::read(&home)?, format));
    }
    let (_, cluster) = control::ask(&home, &ControlRequest::Status)?;
    let answers = runtime::block_on(ask_all(&cluster))?;
    let rows: Vec<(&NodeView, ServingState)> = cluster.nodes.iter().zip(answers).collect();
    let serving = rows
        .iter()
        .filter(|(_, answer)| answer.is_serving())
        .count();
    let has_quorum = serving >= cluster.quorum;
    format.result(
        table(&cluster, &rows, serving),
        &value(&cluster, &rows, serving),
    );
    Ok(if has_quorum {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NO_QUORUM)
    })
}

fn report_stopped(home: &Home, manifest: &Manifest, format: Format) -> ExitCode {
    let count = manifest.nodes.len();
    let shown = home.directory().display();
    let text = format!(
        "Cluster '{}' is stopped ({count} nodes); start it with: quorlock cluster up --dir {shown}",
        home.name()
    );
    let nodes: Vec<Value> = manifest
        .nodes
        .iter()
        .map(|node| json!({ "number": node.number, "id": node.id, "url": node.url(), "state": "down" }))
        .collect();
    let value = json!({
        "name": home.name(),
        "dir": home.directory(),
        "running": false,
        "quorum": manifest.quorum(),
        "serving": 0,
        "nodes": nodes,
    });
    format.result(text, &value);
    ExitCode::from(NO_QUORUM)
}

/// Asks all nodes at once; a paused one is known not to answer.
async fn ask_all(cluster: &ClusterView) -> Result<Vec<ServingState>, Failure> {
    let mut asked = JoinSet::new();
    for (index, node) in cluster.nodes.iter().enumerate() {
        let (port, runs) = (node.port, node.process == ProcessState::Running);
        asked.spawn(async move {
            let answer = if runs {
                info::ask(port).await
            } else {
                ServingState::Silent
            };
            (index, answer)
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// What a node is doing, for people.
fn state(node: &NodeView, answer: &ServingState) -> String {
    match (&node.process, answer) {
        (ProcessState::Paused, _) => "paused".to_owned(),
        (ProcessState::Killed, _) => "down (killed)".to_owned(),
        (ProcessState::Stopped, _) => "down (stopped cleanly)".to_owned(),
        (ProcessState::Ended(how), _) => format!("down ({how})"),
        (ProcessState::Running, ServingState::Serving { .. }) => "serving".to_owned(),
        (ProcessState::Running, ServingState::RestartDelay { remaining_ms }) => {
            format!(
                "restart delay, {} left",
                show_duration(Duration::from_millis(*remaining_ms))
            )
        }
        (ProcessState::Running, ServingState::Starting) => "starting".to_owned(),
        (ProcessState::Running, ServingState::Silent) => "does not answer".to_owned(),
    }
}

/// The same as one word, for programs.
fn state_word(node: &NodeView, answer: &ServingState) -> &'static str {
    match (&node.process, answer) {
        (ProcessState::Paused, _) => "paused",
        (ProcessState::Running, ServingState::Serving { .. }) => "serving",
        (ProcessState::Running, ServingState::RestartDelay { .. }) => "restart-delay",
        (ProcessState::Running, ServingState::Starting) => "starting",
        (ProcessState::Running, ServingState::Silent) => "no-answer",
        _ => "down",
    }
}

fn table(cluster: &ClusterView, rows: &[(&NodeView, ServingState)], serving: usize) -> String {
    let verdict = if serving >= cluster.quorum {
        "locks can be taken"
    } else {
        "no lock can be taken"
    };
    let mut lines = vec![
        format!(
            "Cluster '{}': {serving} of {} nodes serve, a lock needs {}: {verdict}",
            cluster.name,
            rows.len(),
            cluster.quorum
        ),
        format!(
            "\n  node  {:<16}  {:<8}  {:>8}  state",
            "address", "pid", "keys"
        ),
    ];
    for (node, answer) in rows {
        let address = format!("127.0.0.1:{}", node.port);
        let pid = node
            .pid
            .map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let keys = match answer {
            ServingState::Serving { keys, .. } => keys.to_string(),
            _ => "-".to_owned(),
        };
        let (number, state) = (node.number, state(node, answer));
        lines.push(format!(
            "  {number:<4}  {address:<16}  {pid:<8}  {keys:>8}  {state}"
        ));
    }
    lines.join("\n")
}

fn value(cluster: &ClusterView, rows: &[(&NodeView, ServingState)], serving: usize) -> Value {
    let nodes: Vec<Value> = rows
        .iter()
        .map(|(node, answer)| {
            let mut value = json!({
                "number": node.number,
                "id": node.id,
                "url": node.url,
                "pid": node.pid,
                "state": state_word(node, answer),
            });
            match answer {
                ServingState::RestartDelay { remaining_ms } => {
                    value["restart_delay_remaining_ms"] = json!(remaining_ms);
                }
                ServingState::Serving {
                    keys,
                    uptime_seconds,
                } => {
                    value["keys"] = json!(keys);
                    value["uptime_seconds"] = json!(uptime_seconds);
                }
                ServingState::Starting | ServingState::Silent => {}
            }
            value
        })
        .collect();
    json!({
        "name": cluster.name,
        "dir": cluster.directory,
        "pid": cluster.pid,
        "running": true,
        "quorum": cluster.quorum,
        "serving": serving,
        "nodes": nodes,
    })
}
