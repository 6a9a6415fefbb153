//! What a local cluster asks of the node library: identities, and nodes inside this process.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorlock_server::{Node, RunState, StartError};
use tokio::sync::watch;

use super::home::{Certificates, ClusterHome};
use super::machine::Machine;
use super::manifest::Entry;
use super::proxy::{LinkConditions, NodeProxy};
use super::view::ProcessState;
use crate::exit_code::Failure;
use crate::membership::membership;

/// How the nodes of a cluster are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchMode {
    pub(super) in_process: bool,
    pub(super) ephemeral: bool,
    pub(super) appendfsync: String,
    /// What the nodes show their clients, where they speak TLS.
    pub(super) tls: Option<Certificates>,
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
    let config = membership(Some(cluster_id), Some(&size))?;
    let id = quorlock_server::init(directory, &config).map_err(Failure::failed)?;
    Ok(id.to_string())
}

/// A node that runs inside the supervisor.
#[derive(Debug)]
pub(super) struct EmbeddedNode {
    node: Node,
    /// What clients connect to, where the node is in memory.
    proxy: Option<NodeProxy>,
}

impl EmbeddedNode {
    /// Starts the node in its directory.
    pub(super) async fn start(
        entry: &Entry,
        home: &ClusterHome,
        mode: &LaunchMode,
    ) -> io::Result<Self> {
        let mut builder = Node::builder().dir(home.node_directory(entry.number));
        for (name, value) in directives(mode, entry.port) {
            builder = builder.directive(name, &[&value]);
        }
        let node = builder.owns_process().start().await;
        let node = node.map_err(io::Error::other)?;
        Ok(Self { node, proxy: None })
    }

    /// Starts the node in memory, on this machine and behind this network.
    pub(super) async fn start_in_memory(
        entry: &Entry,
        mode: &LaunchMode,
        machine: &Machine,
        network: watch::Receiver<LinkConditions>,
    ) -> io::Result<Self> {
        let node = start_on(machine, mode).await?;
        match NodeProxy::open(entry.port, node.address().port(), network).await {
            Ok(proxy) => Ok(Self {
                node,
                proxy: Some(proxy),
            }),
            Err(error) => {
                // What matters is why nobody reaches it.
                let _stopped = node.stop().await;
                let port = entry.port;
                let what = format!("cannot listen on port {port}: {error}");
                Err(io::Error::new(error.kind(), what))
            }
        }
    }

    /// The port of the node itself, behind its network.
    pub(super) fn port(&self) -> u16 {
        self.node.address().port()
    }

    /// How the node has ended by itself, if it has.
    pub(super) fn end(&self) -> Option<ProcessState> {
        match self.node.state() {
            RunState::Stopped => Some(ProcessState::Stopped),
            RunState::Failed(failure) => Some(ProcessState::Ended(failure.to_string())),
            _ => None,
        }
    }

    /// Waits for the node to serve where its restart delay has passed: an advance has ended it, and the node puts that on
    /// record first. One whose disk does not answer is not waited for.
    pub(super) async fn leave_delay(&self) {
        let served = async {
            let mut state = self.node.state();
            while matches!(&state, RunState::Delayed { left, .. } if left.is_zero()) {
                state = self.node.state_changed(&state).await;
            }
        };
        let _patience = tokio::time::timeout(RECORD_TIME, served).await;
    }

    /// Who the node is. One in memory is made anew with its cluster.
    pub(super) fn id(&self) -> String {
        self.node.id().to_string()
    }

    /// Ends the node as if its process had been killed.
    pub(super) async fn crash(mut self) {
        self.disconnect().await;
        self.node.crash().await;
    }

    /// Closes the way to a node in memory, with all that is under way.
    pub(super) async fn disconnect(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.close().await;
        }
    }

    /// Stops the node cleanly.
    pub(super) async fn stop(self) -> io::Result<()> {
        let stopped = self.node.stop().await;
        if let Some(proxy) = self.proxy {
            proxy.close().await;
        }
        stopped.map_err(io::Error::other)
    }
}

/// A node in memory, on any free port.
async fn start_on(machine: &Machine, mode: &LaunchMode) -> io::Result<Node> {
    let size = mode.size.to_string();
    let mut tries = 0;
    loop {
        let mut builder = Node::builder()
            .ephemeral()
            .disk(Arc::new(machine.disk.clone()))
            .clock(Arc::clone(&machine.clock) as _)
            .directive("appendfsync", &[mode.appendfsync.as_str()])
            .directive("cluster-size", &[size.as_str()])
            .directive("cluster-id", &[mode.cluster_id.as_str()])
            .owns_process();
        if let Some(certificates) = &mode.tls {
            // A tls-port of 0 is none.
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            for (name, value) in tls_directives(certificates, free.port()) {
                builder = builder.directive(name, &[&value]);
            }
        }
        tries += 1;
        match builder.start().await {
            Ok(node) => return Ok(node),
            // Another process has taken the port meanwhile.
            Err(StartError::Bind { .. }) if mode.tls.is_some() && tries < PORT_TRIES => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

const PORT_TRIES: u32 = 5;

/// How long a node may take to put on record that it serves.
const RECORD_TIME: Duration = Duration::from_secs(5);

/// The directives that every node of a local cluster gets, besides its directory.
pub(super) fn directives(mode: &LaunchMode, port: u16) -> Vec<(&'static str, String)> {
    let mut directives = match &mode.tls {
        Some(certificates) => tls_directives(certificates, port),
        None => vec![("port", port.to_string())],
    };
    directives.extend([
        ("bind", "127.0.0.1".to_owned()),
        ("appendonly", "yes".to_owned()),
        ("appendfsync", mode.appendfsync.clone()),
        ("first-start", "wait".to_owned()),
        ("cluster-size", mode.size.to_string()),
        ("cluster-id", mode.cluster_id.clone()),
    ]);
    directives
}

/// TLS on this port, and no plain port. Clients show no certificate: a local cluster has no password either.
fn tls_directives(certificates: &Certificates, port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("port", "0".to_owned()),
        ("tls-port", port.to_string()),
        ("tls-cert-file", certificates.node.display().to_string()),
        ("tls-key-file", certificates.key.display().to_string()),
        ("tls-auth-clients", "no".to_owned()),
    ]
}
