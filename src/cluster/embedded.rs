//! What a local cluster asks of the node library: identities, and nodes inside this process.

use std::io;
use std::path::Path;
use std::sync::Arc;

use quorlock_server::{MemoryDisk, Node};

use super::home::ClusterHome;
use super::manifest::Entry;
use crate::exit_code::Failure;
use crate::node;

/// How the nodes of a cluster are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchMode {
    pub(super) in_process: bool,
    pub(super) ephemeral: bool,
    pub(super) appendfsync: String,
    pub(super) size: usize,
    /// What the nodes call their cluster.
    pub(super) cluster_id: String,
}

/// Creates a node in a directory, once in its life, and gives its id.
pub(super) fn create_identity(
    directory: &Path,
    cluster_id: &str,
    size: usize,
) -> Result<String, Failure> {
    let size = size.to_string();
    let config = node::membership(Some(cluster_id), Some(&size))?;
    let id = quorlock_server::init(directory, &config).map_err(Failure::failed)?;
    Ok(id.to_string())
}

/// A node that runs inside the supervisor.
#[derive(Debug)]
pub(super) struct EmbeddedNode {
    node: Node,
}

impl EmbeddedNode {
    /// Starts the node. An ephemeral one keeps its data in memory.
    pub(super) async fn start(
        entry: &Entry,
        home: &ClusterHome,
        mode: &LaunchMode,
        memory: Arc<MemoryDisk>,
    ) -> io::Result<Self> {
        let mut builder = Node::builder();
        if mode.ephemeral {
            let size = mode.size.to_string();
            builder = builder
                .ephemeral()
                .disk(memory)
                .directive("appendfsync", &[mode.appendfsync.as_str()])
                .directive("cluster-size", &[size.as_str()])
                .directive("cluster-id", &[mode.cluster_id.as_str()]);
        } else {
            builder = builder.dir(home.node_directory(entry.number));
            for (name, value) in directives(mode) {
                builder = builder.directive(name, &[&value]);
            }
        }
        let node = builder
            .port(entry.port)
            .owns_process()
            .start()
            .await
            .map_err(io::Error::other)?;
        Ok(Self { node })
    }

    /// Who the node is. One in memory is made anew with its cluster.
    pub(super) fn id(&self) -> String {
        self.node.id().to_string()
    }

    /// Ends the node as if its process had been killed.
    pub(super) async fn crash(self) {
        self.node.crash().await;
    }

    /// Stops the node cleanly.
    pub(super) async fn stop(self) -> io::Result<()> {
        self.node.stop().await.map_err(io::Error::other)
    }
}

/// The directives that every node of a local cluster gets, besides its port and directory.
pub(super) fn directives(mode: &LaunchMode) -> [(&'static str, String); 6] {
    [
        ("bind", "127.0.0.1".to_owned()),
        ("appendonly", "yes".to_owned()),
        ("appendfsync", mode.appendfsync.clone()),
        ("first-start", "wait".to_owned()),
        ("cluster-size", mode.size.to_string()),
        ("cluster-id", mode.cluster_id.clone()),
    ]
}
