//! Nodes that run beside no trial: comparisons start them, load them, kill one, and end them.

use std::path::Path;
use std::time::Duration;

use super::node::NodeProcess;
use super::ports;
use super::server::ServerProgram;
use crate::cell::{Cell, Delay, Fault, FenceCheck, FsyncMode};
use crate::engine::EngineError;
use crate::preset::Preset;

/// Five nodes of a product; they are killed when this is dropped.
pub(crate) struct ServiceNodes(Vec<NodeProcess>);

impl ServiceNodes {
    /// Starts them in this mode, and waits until all of them answer. `ttl` is the longest that they will be asked for.
    pub(crate) async fn start(
        server: &ServerProgram,
        fsync: FsyncMode,
        ttl: Duration,
        directory: &Path,
    ) -> Result<ServiceNodes, EngineError> {
        let cell = Cell {
            fsync,
            delay: Delay::Auto,
            fault: Fault::ProcessKill,
            nodes: NODES,
            fences: FenceCheck::Off,
        };
        let mut plan = Preset::Quick.plan(1);
        (plan.ttl, plan.restart_delay_max) = (ttl, ttl);
        let ports = ports::free(usize::from(NODES))?;
        let mut nodes = Vec::new();
        for (number, port) in (1..=NODES).zip(ports) {
            let node = NodeProcess::new(server, &cell, &plan, directory, number, port);
            nodes.push(node?);
        }
        for node in &mut nodes {
            node.start()?;
        }
        for node in &mut nodes {
            node.await_answer().await?;
        }
        Ok(ServiceNodes(nodes))
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.0.iter().map(|node| node.port).collect()
    }

    /// `kill -9` of one of them, which starts again at once.
    pub(crate) fn strike(&mut self) -> Result<(), EngineError> {
        match self.0.last_mut() {
            Some(node) => {
                node.kill();
                node.start()
            }
            None => Ok(()),
        }
    }
}

const NODES: u8 = 5;
