//! The nodes of a trial, client A's ways to them, and what strikes them.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ask::ask;
use super::client::Scene;
use super::node::NodeProcess;
use super::server::Server;
use crate::cell::Cell;
use crate::engine::EngineError;
use crate::engine::proxy::{Proxy, Silence};
use crate::history::{What, Who};
use crate::plan::Plan;

/// All nodes of a trial.
pub(super) struct Stage {
    pub(super) nodes: Vec<NodeProcess>,
    proxies: Vec<Proxy>,
    scene: Scene,
}

impl Stage {
    /// Makes the nodes and waits until all of them serve.
    pub(super) async fn set(
        cell: &Cell,
        plan: &Plan,
        server: &Server,
        directory: &Path,
        scene: &Scene,
    ) -> Result<Stage, EngineError> {
        let failed = |error: std::io::Error| EngineError::Failed(error.to_string());
        let mut nodes = Vec::new();
        for number in 1..=cell.nodes {
            let node = NodeProcess::new(server, cell, plan, directory, number);
            nodes.push(node.map_err(failed)?);
        }
        for node in &mut nodes {
            node.start()?;
        }
        let mut proxies = Vec::new();
        for node in &mut nodes {
            node.await_answer().await?;
            scene.note(Who::Node(node.number), What::Serving);
            proxies.push(Proxy::start(node.port).await.map_err(failed)?);
        }
        let scene = scene.clone();
        Ok(Stage {
            nodes,
            proxies,
            scene,
        })
    }

    /// The nodes' own ports.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// Client A's ways to them.
    pub(super) fn ports_of_a(&self) -> Vec<u16> {
        self.proxies.iter().map(Proxy::port).collect()
    }

    /// Cuts client A off from the nodes behind this index.
    pub(super) fn cut_from(&self, index: usize) {
        for (node, proxy) in self.nodes.iter().zip(&self.proxies).skip(index) {
            proxy.cut(Silence::Refusing);
            let node = node.number;
            self.scene
                .note(Who::Client("A".to_owned()), What::Cut { node });
        }
    }

    /// Joins all ways again.
    pub(super) fn join(&self, index: usize) {
        for (node, proxy) in self.nodes.iter().zip(&self.proxies).skip(index) {
            proxy.join();
            let node = node.number;
            self.scene
                .note(Who::Client("A".to_owned()), What::Joined { node });
        }
    }

    /// The nodes that the cell's fault strikes: the last ones of the first majority, so that a client that holds just
    /// these has its lock on one of them.
    pub(super) fn struck(&self, cell: &Cell) -> std::ops::Range<usize> {
        let quorum = usize::from(cell.quorum());
        match usize::from(cell.fault.restarted(cell.nodes)) {
            0 | 1 => quorum - 1..quorum,
            several => 0..several,
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
            scene.note(Who::Node(number), What::Serving);
            true
        }
    }

    pub(super) fn note_node(&self, index: usize, what: What) {
        if let Some(node) = self.nodes.get(index) {
            self.scene.note(Who::Node(node.number), what);
        }
    }
}

const GRANTS_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
