//! The nodes of a trial, client A's ways to them, and what strikes them.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ask::{ask, sync};
use super::client::Scene;
use super::node::NodeProcess;
use super::ports;
use super::replica::Replica;
use super::server::ServerProgram;
use crate::cell::{Cell, Fault};
use crate::engine::EngineError;
use crate::engine::proxy::{Proxy, Silence};
use crate::history::{Occurrence, Who};
use crate::plan::Plan;

/// All nodes of a trial.
pub(super) struct Stage {
    pub(super) nodes: Vec<NodeProcess>,
    proxies: Vec<Proxy>,
    /// The ways around the second node, where it is a replica of the first.
    replica: Option<Replica>,
    scene: Scene,
}

impl Stage {
    /// Makes the nodes and waits until all of them serve.
    pub(super) async fn set(
        cell: &Cell,
        plan: &Plan,
        server: &ServerProgram,
        directory: &Path,
        scene: &Scene,
    ) -> Result<Stage, EngineError> {
        let mut nodes = Vec::new();
        let has_replica = cell.fault == Fault::Failover;
        let count = cell.nodes + u8::from(has_replica);
        let ports = ports::free(usize::from(count))?;
        for (number, port) in (1..=count).zip(ports) {
            let node = NodeProcess::new(server, cell, plan, directory, number, port);
            nodes.push(node?);
        }
        for node in &mut nodes {
            node.start()?;
        }
        let mut proxies = Vec::new();
        for node in &mut nodes {
            node.await_answer().await?;
            scene.note(Who::Node(node.number), Occurrence::Serving);
            proxies.push(Proxy::start(node.port).await?);
        }
        let replica = match &nodes[..] {
            [primary, replica] if has_replica => {
                Some(Replica::attach(primary.port, replica.port).await?)
            }
            _ => None,
        };
        let scene = scene.clone();
        Ok(Stage {
            nodes,
            proxies,
            replica,
            scene,
        })
    }

    /// The nodes' own ports.
    pub(super) fn ports(&self) -> Vec<u16> {
        match &self.replica {
            Some(replica) => vec![replica.address()],
            None => self.nodes.iter().map(|node| node.port).collect(),
        }
    }

    /// Client A's ways to them.
    pub(super) fn ports_of_a(&self) -> Vec<u16> {
        match &self.replica {
            Some(_) => self.ports(),
            None => self.proxies.iter().map(Proxy::port).collect(),
        }
    }

    /// Nothing that is written from here on reaches the replica, if there is one.
    pub(super) fn lag(&self) {
        if let Some(replica) = &self.replica {
            replica.lag();
            self.note_node(REPLICA, Occurrence::Cut { node: 1 });
        }
    }

    /// The primary ends, and the replica is promoted.
    pub(super) async fn fail_over(&mut self) -> Result<(), EngineError> {
        self.nodes[0].kill();
        self.note_node(0, Occurrence::Killed);
        if let Some(replica) = &self.replica {
            replica.promote().await?;
            let text = "it is the primary from here on".to_owned();
            self.note_node(REPLICA, Occurrence::Said { text });
        }
        Ok(())
    }

    /// Cuts client A off from the nodes behind this index.
    pub(super) fn cut_from(&self, index: usize) {
        for (node, proxy) in self.nodes.iter().zip(&self.proxies).skip(index) {
            proxy.cut(Silence::Refusing);
            let node = node.number;
            self.scene
                .note(Who::Client("A".to_owned()), Occurrence::Cut { node });
        }
    }

    /// Joins all ways again.
    pub(super) fn join(&self, index: usize) {
        for (node, proxy) in self.nodes.iter().zip(&self.proxies).skip(index) {
            proxy.join();
            let node = node.number;
            self.scene
                .note(Who::Client("A".to_owned()), Occurrence::Joined { node });
        }
    }

    /// Waits until everything that the nodes have written so far is on their disks.
    pub(super) async fn sync(&self) -> Result<(), EngineError> {
        for node in &self.nodes {
            let number = node.number;
            sync(node.port).await.map_err(|error| {
                EngineError::failed(format_args!("node {number} did not sync: {error}"))
            })?;
        }
        Ok(())
    }

    /// The nodes that the cell's fault strikes.
    pub(super) fn struck(&self, cell: &Cell) -> std::ops::Range<usize> {
        match self.replica {
            Some(_) => REPLICA..REPLICA + 1,
            None => cell.struck(),
        }
    }

    /// Asks a node for locks until it grants one, and notes that; gives up after a while.
    pub(super) fn grants_again(&self, index: usize) -> impl Future<Output = bool> + use<> {
        let (port, number) = match self.nodes.get(index) {
            Some(node) => (node.port, node.number),
            None => (0, 0),
        };
        let scene = self.scene.clone();
        async move {
            let give_up = Instant::now() + GRANTS_MAX;
            let probe = format!("probe-{number}");
            let words: [&[u8]; 5] = [b"SET", probe.as_bytes(), b"probe", b"PX", b"100"];
            while ask(port, &words).await.is_err() {
                if Instant::now() > give_up {
                    return false;
                }
                sleep(LOOK_AGAIN).await;
            }
            scene.note(Who::Node(number), Occurrence::Serving);
            true
        }
    }

    pub(super) fn note_node(&self, index: usize, what: Occurrence) {
        if let Some(node) = self.nodes.get(index) {
            self.scene.note(Who::Node(node.number), what);
        }
    }
}

/// The index of the replica.
const REPLICA: usize = 1;
const GRANTS_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
