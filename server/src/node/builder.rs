//! Preparing a node: configuration, disk and clock.

use std::path::PathBuf;
use std::sync::Arc;

use quorlock_persistence::{Disk, Hold, LogOptions, MemoryDisk};
use tokio::sync::{oneshot, watch};

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::core::compaction::PART_BYTES;
use crate::node::call::Calls;
use crate::node::error::StartError;
use crate::node::start::{Plan, system_random};
use crate::node::{Node, StateWatch, identity, socket_of, threads};
use crate::runtime::{descriptors, process};

/// A node that has not been started.
#[derive(Default)]
pub struct NodeBuilder {
    config: Config,
    problem: Option<StartError>,
    disk: Option<Arc<dyn Disk>>,
    /// `None`: the machine's.
    clock: Option<Arc<dyn Clock>>,
    owns_process: bool,
}

impl NodeBuilder {
    /// A node for tests: any free port of 127.0.0.1, its log in memory, a new identity each time,
    /// serving at once. Nothing of it is left when it stops.
    #[must_use]
    pub fn ephemeral(self) -> Self {
        self.directive("bind", &["127.0.0.1"])
            .directive("first-start", &["serve"])
            .port(0)
            .disk(Arc::new(MemoryDisk::default()))
    }

    /// The port to listen on; 0 takes any free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.config.port = port;
        self
    }

    /// The data directory. It must exist; [`init`](crate::init) makes that of a new node.
    #[must_use]
    pub fn dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.config.dir = directory.into();
        self
    }

    /// Sets a directive as a line of the configuration file would; a mistake is reported by
    /// [`NodeBuilder::start`].
    #[must_use]
    pub fn directive(mut self, name: &str, values: &[&str]) -> Self {
        if let Err(problem) = self.config.set(name, values)
            && self.problem.is_none()
        {
            self.problem = Some(StartError::Config(format!("{name}: {problem}")));
        }
        self
    }

    /// Takes a whole configuration, replacing what was set so far.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Keeps the log on this disk instead of a directory. A second node started on the same
    /// [`MemoryDisk`] after the first has stopped is the same node restarted; beside it, it is refused.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Reads this clock instead of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The process exists for this node, as that of `quorlock server` does: its limit of open files is raised for
    /// `maxclients`, as far as it may. Without this the limit is the program's business. All nodes of a process share it.
    #[must_use]
    pub fn owns_process(mut self) -> Self {
        self.owns_process = true;
        self
    }

    /// Starts the node. It answers when this returns; whether it grants at once is for its past
    /// to say: [`Node::serving`] waits for it. Everything that takes time is done on the node's
    /// own threads. A future that is dropped stops the node as soon as it has started.
    ///
    /// # Errors
    /// When a directive is wrong, the address is taken, the directory or its log cannot be used,
    /// or the machine's clock shows a time before its zero.
    pub async fn start(self) -> Result<Node, StartError> {
        let (ready, started) = oneshot::channel();
        let (sender, outcome) = watch::channel(None);
        let supervisor =
            threads::spawn(|| self.plan(), ready, sender).map_err(StartError::Thread)?;
        match started.await {
            Ok(Ok((node, address, in_process))) => Ok(Node {
                states: Box::new(StateWatch::of(&node, outcome)),
                socket: socket_of(&node.config),
                node,
                address,
                calls: Calls::new(Arc::clone(&in_process)),
                in_process,
                supervisor: Some(supervisor),
            }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Panicked),
        }
    }
}

impl NodeBuilder {
    /// What the node starts from, and its hold of the disk. Opens the directory, so it may wait for the disk.
    fn plan(self) -> Result<(Plan, Hold), StartError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let clock = match self.clock {
            Some(clock) => clock,
            None => machine_clock()?,
        };
        let disk = match self.disk {
            Some(disk) => disk,
            None => identity::open(&self.config.dir)?,
        };
        if self.owns_process {
            descriptors::raise(self.config.maxclients);
        }
        let hold = disk.hold().map_err(StartError::Open)?;
        let plan = Plan {
            config: self.config,
            clock,
            process: process::own(),
            disk,
            sizes: LogOptions::default(),
            part_bytes: PART_BYTES,
            random: Arc::new(system_random),
        };
        Ok((plan, hold))
    }
}

fn machine_clock() -> Result<Arc<dyn Clock>, StartError> {
    match SystemClock.before_zero() {
        Some(clock) => Err(StartError::ClockBeforeZero(clock)),
        None => Ok(Arc::new(SystemClock)),
    }
}

impl std::fmt::Debug for NodeBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NodeBuilder")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
