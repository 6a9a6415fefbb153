//! `quorlock cluster status`: what each node is doing, asked of the nodes themselves.

use std::process::ExitCode;
use std::time::Duration;

use quorlock_server::show_duration;
use serde_json::{Value, json};

use super::ClusterDirectory;
use super::control::{self, ControlRequest};
use super::home::ClusterHome;
use super::info::{self, ServingState};
use super::manifest::Manifest;
use super::view::{ClusterView, NodeView, ProcessState};
use crate::exit_code::{Failure, NO_QUORUM};
use crate::output::Format;
use crate::runtime::{self, all_of};

/// Shows the state of a cluster. The exit code says whether a majority serves.
pub(super) fn run(cluster: &ClusterDirectory, format: Format) -> Result<ExitCode, Failure> {
    let home = cluster.find()?;
    if !home.is_running() {
        return Ok(report_stopped(&home, &Manifest::read(&home)?, format));
    }
    let (_, cluster) = control::ask(&home, &ControlRequest::Status)?;
    let answers = runtime::block_on(async { Ok(ask_all(&cluster).await) })?;
    let rows: Vec<(&NodeView, ServingState)> = cluster.nodes.iter().zip(answers).collect();
    let serving = rows
        .iter()
        .filter(|(_, answer)| answer.is_serving())
        .count();
    format.result(
        table(&cluster, &rows, serving),
        &value(&cluster, &rows, serving),
    );
    Ok(match serving >= cluster.quorum {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NO_QUORUM),
    })
}

fn report_stopped(home: &ClusterHome, manifest: &Manifest, format: Format) -> ExitCode {
    let count = manifest.nodes.len();
    let text = format!(
        "Cluster '{}' is stopped ({count} nodes); {}",
        home.name(),
        manifest.way_on(home)
    );
    let nodes: Vec<Value> = manifest
        .nodes
        .iter()
        .map(|node| json!({ "number": node.number, "id": node.id, "url": node.url(manifest.speaks_tls()), "state": "down" }))
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

/// Asks all nodes at once, past their networks; one that is paused or cut off is known to answer no client.
async fn ask_all(cluster: &ClusterView) -> Vec<ServingState> {
    let asked = cluster.nodes.iter().map(async |node| {
        match node.process == ProcessState::Running && !node.is_cut {
            true => info::ask(node.direct_port, cluster.cacert.as_deref()).await,
            false => ServingState::Silent,
        }
    });
    all_of(asked).await
}

/// What a node is doing: as one word for programs, and for people.
fn state(node: &NodeView, answer: &ServingState) -> (&'static str, String) {
    let (word, words) = match (&node.process, answer) {
        (ProcessState::Running, _) if node.is_cut => ("cut", "cut off"),
        (ProcessState::Running, ServingState::Serving { .. }) if node.delay_ms > 0 => {
            let later = show_duration(Duration::from_millis(node.delay_ms));
            return ("serving", format!("serving, slow by {later} each way"));
        }
        (ProcessState::Ended(how), _) => return ("down", format!("down ({how})")),
        (ProcessState::Running, ServingState::RestartDelay { remaining_ms }) => {
            let left = show_duration(Duration::from_millis(*remaining_ms));
            return ("restart-delay", format!("restart delay, {left} left"));
        }
        (ProcessState::Paused, _) => ("paused", "paused"),
        (ProcessState::Killed, _) => ("down", "down (killed)"),
        (ProcessState::Stopped, _) => ("down", "down (stopped cleanly)"),
        (ProcessState::Running, ServingState::Serving { .. }) => ("serving", "serving"),
        (ProcessState::Running, ServingState::Starting) => ("starting", "starting"),
        (ProcessState::Running, ServingState::Silent) => ("no-answer", "does not answer"),
    };
    (word, words.to_owned())
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
        let (number, (_, state)) = (node.number, state(node, answer));
        lines.push(format!(
            "  {number:<4}  {address:<16}  {pid:<8}  {keys:>8}  {state}"
        ));
    }
    lines.join("\n")
}

fn value(cluster: &ClusterView, rows: &[(&NodeView, ServingState)], serving: usize) -> Value {
    let row = |(node, answer): &(&NodeView, ServingState)| {
        let mut row = node.fields(&["number", "id", "url", "pid"]);
        if let Value::Object(answer) = json!(answer) {
            row.extend(answer);
        }
        row.insert("state".to_owned(), state(node, answer).0.into());
        row
    };
    let nodes: Vec<_> = rows.iter().map(row).collect();
    cluster.with_authority(json!({
        "name": cluster.name,
        "dir": cluster.directory,
        "pid": cluster.pid,
        "running": true,
        "quorum": cluster.quorum,
        "serving": serving,
        "nodes": nodes,
    }))
}
