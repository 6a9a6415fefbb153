//! What tests of whole nodes share: one node's disk and clock over its restarts, the ways to start and
//! to end it, and the waiting for what its threads do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

pub(crate) mod gate;
pub(crate) mod home;
pub(crate) mod hooked_clock;
pub(crate) mod said;
pub(crate) mod shelf;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_persistence::{LogOptions, Recovery};
use quorlock_server::clock::SettableClock;
use quorlock_server::{MemoryDisk, Node, NodeBuilder, StartError};
use quorlock_testkit::Wire;

/// Directives, as name and value.
pub(crate) type Directives<'a> = &'a [(&'a str, &'a str)];

/// Directives, as name and values.
pub(crate) type Lists<'a> = &'a [(&'a str, &'a [&'a str])];

/// The modes that keep keys in a log.
pub(crate) const MODES: [&str; 3] = ["always", "everysec", "no"];

/// The error of a disk that fails.
pub(crate) const EIO: i32 = 5;

/// A disk in memory that may lose its power, and a clock that tests move.
pub(crate) struct Machine {
    disk: Mutex<MemoryDisk>,
    pub(crate) clock: Arc<SettableClock>,
}

impl Machine {
    /// A machine whose power does not fail: to remember what was synced takes time.
    pub(crate) fn new() -> Self {
        Self::on(MemoryDisk::new())
    }

    /// A machine whose power may fail.
    pub(crate) fn with_power_loss() -> Self {
        Self::on(MemoryDisk::with_power_loss())
    }

    /// A machine whose disk holds so many bytes.
    pub(crate) fn with_space(bytes: u64) -> Self {
        let machine = Self::new();
        machine.disk().set_capacity(Some(bytes));
        machine
    }

    /// A machine with this disk, some time after a boot of its own.
    pub(crate) fn rebooted_on(disk: MemoryDisk) -> Self {
        let machine = Self::on(disk);
        machine.reboot();
        machine
    }

    /// The same disk and the same clock, for a test that goes on in two ways.
    pub(crate) fn twin(&self) -> Self {
        Self {
            disk: Mutex::new(self.disk()),
            clock: Arc::clone(&self.clock),
        }
    }

    fn on(disk: MemoryDisk) -> Self {
        Self {
            disk: Mutex::new(disk),
            clock: Arc::new(SettableClock::new()),
        }
    }

    pub(crate) fn disk(&self) -> MemoryDisk {
        self.disk.lock().unwrap().clone()
    }

    /// A node of this machine, not started yet.
    pub(crate) fn node(&self, directives: Directives<'_>) -> NodeBuilder {
        let mut builder = Node::builder().ephemeral().directive("workers", ONE_WORKER);
        for (name, value) in directives {
            builder = builder.directive(name, &[value]);
        }
        let disk = Arc::new(self.disk());
        builder.disk(disk).clock(self.clock.clone())
    }

    pub(crate) async fn start(&self, directives: Directives<'_>) -> Node {
        self.try_start(directives).await.unwrap()
    }

    pub(crate) async fn try_start(&self, directives: Directives<'_>) -> Result<Node, StartError> {
        self.node(directives).start().await
    }

    /// Starts the node with this `appendfsync`.
    pub(crate) async fn start_in(&self, mode: &str) -> Node {
        self.start(&[("appendfsync", mode)]).await
    }

    /// Starts the node and has it grant a lock.
    pub(crate) async fn granting(&self, directives: Directives<'_>, set: &str) -> Node {
        let node = self.start(directives).await;
        assert_eq!(wire(&node).ask(set), "+OK");
        node
    }

    /// Fails the next syncs: that of a reply, and any of a segment that is made ahead.
    pub(crate) fn fail_syncs(&self) {
        for number in 0..4 {
            self.disk().fail_sync_after(number, EIO);
        }
    }

    /// What is on the disk, seen by a node that does not wait for locks to expire.
    pub(crate) async fn look(&self) -> Node {
        let node = self.node(&[("appendfsync", "no"), ("restart-delay", "off")]);
        let disk = Arc::new(self.disk().after_process_end());
        node.disk(disk).start().await.unwrap()
    }

    /// The process ends now: what its threads still do changes nothing.
    pub(crate) fn kill(&self) {
        let left = self.disk().after_process_end();
        *self.disk.lock().unwrap() = left;
    }

    /// The machine goes down: nothing unsynced survives, and the next boot is another one.
    pub(crate) fn lose_power(&self) {
        self.lose_power_except(false, |_, _| false);
        self.reboot();
    }

    /// The power fails, in the same boot as far as the clock goes: of what is not synced, these names
    /// and sectors are there.
    pub(crate) fn lose_power_except(
        &self,
        names_survive: bool,
        sector_survives: impl FnMut(&str, u64) -> bool,
    ) {
        let disk = self.disk();
        let left = disk.after_power_loss(names_survive, sector_survives);
        *self.disk.lock().unwrap() = left;
    }

    /// The machine goes down in order: everything written survives, and the next boot is another.
    pub(crate) fn reboot(&self) {
        self.clock.reboot(Duration::from_secs(5));
    }

    pub(crate) fn advance_ms(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }

    /// How many frames of this kind are in the log.
    pub(crate) fn frames_of(&self, kind: u8) -> usize {
        let frames = self.log().frames().collect().unwrap();
        frames.iter().filter(|frame| frame.kind == kind).count()
    }

    /// The log on the disk, as the next start would read it.
    pub(crate) fn log(&self) -> Recovery {
        let disk = Arc::new(self.disk().after_process_end());
        Recovery::read(disk, &LogOptions::default()).unwrap()
    }
}

/// A node of its own for one test; it is stopped in order afterwards.
pub(crate) fn serve(builder: NodeBuilder, test: impl FnOnce(&Node)) {
    run(async {
        let node = builder.ephemeral().start().await.unwrap();
        test(&node);
        node.stop().await.unwrap();
    });
}

/// What a test does not say otherwise: threads would else be as many as the machine's cores make them, and tests that
/// hold one up would mean another elsewhere.
pub(crate) const ONE_WORKER: &[&str] = &["1"];

/// A node of its own with a clock that the test moves.
pub(crate) fn with_node(directives: Lists<'_>, test: impl FnOnce(&Node, &SettableClock)) {
    let clock = Arc::new(SettableClock::new());
    let builder = configured(directives).clock(clock.clone());
    serve(builder, |node| test(node, &clock));
}

pub(crate) fn configured(directives: Lists<'_>) -> NodeBuilder {
    let mut builder = Node::builder().directive("workers", ONE_WORKER);
    for (name, values) in directives {
        builder = builder.directive(name, values);
    }
    builder
}

pub(crate) fn wire(node: &Node) -> Wire {
    Wire::connect(node.address())
}

/// Runs a test whose node has threads of its own.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}
