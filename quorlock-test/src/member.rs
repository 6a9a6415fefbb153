//! One node of a cluster over all its starts: its disk, its clock, and what it runs from.
//!
//! Invariant: the turn of the cluster is held by everything here that waits, so that a node has one change at a time. A
//! node that is down is no error: what would have happened to it does not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorlock_server::clock::SettableClock;
use quorlock_server::{
    DiskFault, DiskOperation, MemoryDisk, Node, NodeStream, RunState, StartError, Value,
};

use crate::random::SeededRandom;

/// When a node forces its log to the disk: `appendfsync`. It decides what [`lose_power`](crate::TestCluster::lose_power) takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before each reply.
    Always,
    /// Once in a second of the cluster's time, as nodes do by default. The thread that syncs is not waited for: what an
    /// [`advance`](crate::TestCluster::advance) leaves unsynced depends on the scheduler.
    #[default]
    EverySecond,
    /// When the system likes.
    No,
}

/// One node of a cluster.
#[derive(Debug)]
pub(crate) struct Member {
    clock: Arc<SettableClock>,
    fsync: Fsync,
    ttl_max: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    node: Option<Arc<Node>>,
    disk: MemoryDisk,
    image: MemoryDisk,
    random: SeededRandom,
}

impl Member {
    pub(crate) fn new(fsync: Fsync, ttl_max: Duration, random: SeededRandom) -> Self {
        let disk = MemoryDisk::with_power_loss();
        Self {
            clock: Arc::new(SettableClock::new()),
            fsync,
            ttl_max,
            state: Mutex::new(State {
                node: None,
                image: disk.after_process_end(),
                disk,
                random,
            }),
        }
    }

    pub(crate) fn clock(&self) -> Arc<SettableClock> {
        Arc::clone(&self.clock)
    }

    /// Starts the node, unless it runs.
    pub(crate) async fn start(&self, has_delay: bool) -> Result<(), StartError> {
        if self.is_up() {
            return Ok(());
        }
        self.kill().await;
        let disk = self.state().disk.clone();
        let fsync = match self.fsync {
            Fsync::Always => "always",
            Fsync::EverySecond => "everysec",
            Fsync::No => "no",
        };
        let ttl_max = format!("{}ms", self.ttl_max.as_millis());
        let mut builder = Node::builder()
            .ephemeral()
            // Raises the limit of open files: each node keeps 96 in reserve, and often 1,024 are all.
            .owns_process()
            .disk(Arc::new(disk))
            .clock(self.clock())
            .directive("appendfsync", &[fsync])
            .directive("restart-delay-max", &[&ttl_max])
            .directive("workers", &["1"]);
        if !has_delay {
            builder = builder.directive("restart-delay", &["off"]);
        }
        let node = builder.start().await?;
        self.state().node = Some(Arc::new(node));
        Ok(())
    }

    /// Ends the node as a killed process ends.
    pub(crate) async fn kill(&self) {
        let node = self.state().node.take();
        let Some(node) = node else { return };
        match Arc::into_inner(node) {
            Some(node) => node.crash().await,
            None => unreachable!("what asks a node something has the turn, as this has"),
        }
    }

    /// Ends the node, and takes some of what its disk has not synced. The machine has another boot then.
    pub(crate) async fn lose_power(&self) {
        self.kill().await;
        let mut state = self.state();
        let names_survive = state.random.below(2) == 0;
        let mut random = state.random.split();
        let disk = state
            .disk
            .after_power_loss(names_survive, |_, _| random.below(2) == 0);
        state.disk = disk;
        drop(state);
        self.clock.reboot(UPTIME);
    }

    /// From now on the disk has no room, and the next write fails.
    pub(crate) fn fill_disk(&self) {
        let state = self.state();
        state.disk.leave_room(0);
        // A log overwrites segments that were made ahead, which takes no room: with the capacity alone a node goes on for megabytes.
        let full = DiskFault::Error(NO_SPACE);
        state.disk.plan_fault(&[DiskOperation::Write], 0, full);
    }

    /// The disk of a node that is down has room again, and no fault to come.
    pub(crate) fn repair_disk(&self) {
        let mut state = self.state();
        // A copy has the data alone.
        state.disk = state.disk.after_process_end();
    }

    pub(crate) fn fail_sync(&self) {
        self.state().disk.fail_sync_after(0, IO_ERROR);
    }

    /// Keeps an image of the disk as it is.
    pub(crate) fn save_image(&self) {
        let mut state = self.state();
        state.image = state.disk.after_process_end();
    }

    /// Ends the node, and puts the image back.
    pub(crate) async fn put_image_back(&self) {
        self.kill().await;
        let mut state = self.state();
        state.disk = state.image.after_process_end();
    }

    /// A connection to the node, if it runs.
    pub(crate) fn connect(&self) -> Option<NodeStream> {
        self.state().node.as_ref()?.connect().ok()
    }

    /// What the node answers, past the network; nothing if it is down or answers with an error.
    pub(crate) async fn ask(&self, words: &[&[u8]]) -> Option<Value> {
        let node = self.state().node.clone()?;
        node.call(words.iter().copied()).await.ok()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.run_state().is_some_and(|state| !state.is_final())
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.run_state().is_some_and(|state| state.is_serving())
    }

    /// What is left of its restart delay.
    pub(crate) fn delay_left(&self) -> Option<Duration> {
        match self.run_state()? {
            RunState::Delayed { left, .. } => Some(left),
            _ => None,
        }
    }

    /// Waits until the node serves, once its restart delay is over.
    pub(crate) async fn end_delay(&self) {
        if self.delay_left().is_some_and(|left| left.is_zero()) {
            let node = self.state().node.clone();
            if let Some(node) = node {
                // A node that ends in between serves nobody: that is for its clients to see.
                let _served = tokio::time::timeout(SERVES_WITHIN, node.serving()).await;
            }
        }
    }

    fn run_state(&self) -> Option<RunState> {
        self.state().node.as_ref().map(|node| node.state())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a node does not start, for a process that has many of them.
pub(crate) fn explained(error: &StartError) -> String {
    let bound = match error {
        StartError::Descriptors { .. } => {
            ". Each node of the process keeps 96: a hard limit of 1,024 (ulimit -Hn) allows ten nodes at once"
        }
        _ => "",
    };
    format!("{error}{bound}")
}

/// What the machine's clocks show when the node starts after a loss of power.
const UPTIME: Duration = Duration::from_secs(10);

/// Of the machine's time.
const SERVES_WITHIN: Duration = Duration::from_secs(5);

const IO_ERROR: i32 = 5;
const NO_SPACE: i32 = 28;
