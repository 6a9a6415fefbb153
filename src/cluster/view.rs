//! What is known about a running cluster, as it goes over the control socket and into files.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A running cluster as its supervisor sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LocalCluster {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    /// The supervisor's process.
    pub(super) pid: u32,
    pub(super) quorum: usize,
    pub(super) appendfsync: String,
    /// The authority that clients trust, where the nodes speak TLS.
    #[serde(default)]
    pub(super) cacert: Option<PathBuf>,
    /// The address of its page for a browser, where it has one.
    #[serde(default)]
    pub(super) page: Option<String>,
    /// Whether the data goes when the cluster stops.
    pub(super) ephemeral: bool,
    /// Whether the nodes run inside the supervisor.
    pub(super) in_process: bool,
    /// Whether the cluster existed before and was resumed.
    pub(super) resumed: bool,
    /// Something the user should know about this start, or nothing.
    pub(super) note: String,
    /// Whether all nodes have served at once since the start.
    pub(super) ready: bool,
    pub(super) nodes: Vec<NodeView>,
}

/// One node as its supervisor sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeView {
    pub(super) number: u16,
    pub(super) id: String,
    pub(super) url: String,
    pub(super) port: u16,
    /// Where the node answers although it is cut off or slow.
    pub(super) direct_port: u16,
    /// Whether nothing passes between it and its clients.
    pub(super) is_cut: bool,
    /// How much later arrives what either side sends.
    pub(super) delay_ms: u64,
    /// Whether a command has left no room on its disk.
    #[serde(default)]
    pub(super) is_disk_full: bool,
    /// None while the node is down.
    pub(super) pid: Option<u32>,
    pub(super) dir: PathBuf,
    pub(super) log: PathBuf,
    pub(super) process: ProcessState,
}

/// What the supervisor knows of a node's process. Whether it serves is for the node to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProcessState {
    /// It runs.
    Running,
    /// It was paused with SIGSTOP.
    Paused,
    /// It was killed on request.
    Killed,
    /// It was stopped cleanly.
    Stopped,
    /// It ended by itself; how.
    Ended(String),
}

impl NodeView {
    /// These of its fields, for a program.
    pub(super) fn fields(&self, names: &[&str]) -> Map<String, Value> {
        let all = json!(self);
        let fields = names
            .iter()
            .map(|name| ((*name).to_owned(), all[*name].clone()));
        fields.collect()
    }
}

impl LocalCluster {
    pub(super) fn node(&self, number: u16) -> Option<&NodeView> {
        self.nodes.iter().find(|node| node.number == number)
    }

    /// The addresses as the variable `QUORLOCK_NODES` holds them.
    pub(super) fn node_list(&self) -> String {
        self.nodes
            .iter()
            .map(|node| node.url.as_str())
            .collect::<Vec<_>>()
            .join(",")
    }
}

impl LocalCluster {
    /// What is said of it in JSON, and what clients and browsers need, where there is any.
    pub(super) fn with_addresses(&self, mut value: Value) -> Value {
        if let Some(url) = &self.page {
            value["page"] = json!(url);
        }
        with_authority(value, self.cacert.as_deref())
    }
}

/// What is said of a cluster in JSON, and with TLS the file that clients need.
pub(super) fn with_authority(mut value: Value, cacert: Option<&Path>) -> Value {
    if let Some(file) = cacert {
        value["cacert"] = json!(file);
    }
    value
}
