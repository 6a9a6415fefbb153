//! `quorlock cluster status`: what each node is doing, asked of the nodes themselves.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::ClusterDirectory;
use super::control::{self, ControlRequest};
use super::home::ClusterHome;
use super::info::ServingState;
use super::manifest::Manifest;
use super::snapshot::{Snapshot, state};
use super::view::{NodeView, with_authority};
use crate::exit_code::{Failure, NO_QUORUM};
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock cluster status`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) cluster: ClusterDirectory,
    /// Look again and again until Ctrl-C: on a terminal a live table, which q ends too
    #[arg(long)]
    pub(super) watch: bool,
}

/// Shows the state of a cluster. The exit code says whether a majority serves.
pub(super) fn run(cluster: &ClusterDirectory, format: Format) -> Result<ExitCode, Failure> {
    let report = StatusReport::of(&cluster.find()?)?;
    format.result(&report.text, &report.value);
    Ok(report.code)
}

/// The state of a cluster, in all the forms of an answer.
#[derive(Debug)]
pub(super) struct StatusReport {
    pub(super) text: String,
    pub(super) value: Value,
    pub(super) code: ExitCode,
    pub(super) is_running: bool,
}

impl StatusReport {
    pub(super) fn of(home: &ClusterHome) -> Result<Self, Failure> {
        if !home.is_running() {
            return Ok(Self::of_stopped(home, &Manifest::read(home)?));
        }
        let snapshot = look(home)?;
        Ok(Self {
            text: table(&snapshot),
            value: value(&snapshot),
            code: match snapshot.can_lock() {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(NO_QUORUM),
            },
            is_running: true,
        })
    }

    fn of_stopped(home: &ClusterHome, manifest: &Manifest) -> Self {
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
        let cacert = manifest.certificates(home).map(|it| it.authority);
        Self {
            text,
            value: with_authority(value, cacert.as_deref()),
            code: ExitCode::from(NO_QUORUM),
            is_running: false,
        }
    }
}

/// What a cluster that runs is doing.
pub(super) fn look(home: &ClusterHome) -> Result<Snapshot, Failure> {
    let (_, cluster) = control::ask(home, &ControlRequest::Status)?;
    runtime::block_on(async { Ok(Snapshot::take(cluster).await) })
}

fn table(snapshot: &Snapshot) -> String {
    let verdict = if snapshot.can_lock() {
        "locks can be taken"
    } else {
        "no lock can be taken"
    };
    let mut lines = vec![
        format!(
            "Cluster '{}': {} of {} nodes serve, a lock needs {}: {verdict}",
            snapshot.cluster.name,
            snapshot.serving(),
            snapshot.answers.len(),
            snapshot.cluster.quorum
        ),
        format!(
            "\n  node  {:<16}  {:<8}  {:>8}  state",
            "address", "pid", "keys"
        ),
    ];
    for (node, answer) in snapshot.rows() {
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

fn value(snapshot: &Snapshot) -> Value {
    let row = |(node, answer): (&NodeView, &ServingState)| {
        let mut row = node.fields(&["number", "id", "url", "pid"]);
        if let Value::Object(answer) = json!(answer) {
            row.extend(answer);
        }
        row.insert("state".to_owned(), state(node, answer).0.into());
        row
    };
    let nodes: Vec<_> = snapshot.rows().map(row).collect();
    let cluster = &snapshot.cluster;
    let value = json!({
        "name": cluster.name,
        "dir": cluster.directory,
        "pid": cluster.pid,
        "running": true,
        "quorum": cluster.quorum,
        "serving": snapshot.serving(),
        "nodes": nodes,
    });
    cluster.with_addresses(value)
}
