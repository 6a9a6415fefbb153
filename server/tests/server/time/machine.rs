//! One machine over the restarts of its node: disk, clocks, and the ways to end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_persistence::{LogOptions, Recovery};
use quorlock_server::clock::SettableClock;
use quorlock_server::{MemoryDisk, Node};

use crate::wire::Wire;

pub(crate) struct Machine {
    disk: Mutex<Arc<MemoryDisk>>,
    pub(crate) clock: Arc<SettableClock>,
}

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Killed,
}

/// The modes that keep keys in a log.
pub(crate) const MODES: [&str; 3] = ["always", "everysec", "no"];

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            disk: Mutex::default(),
            clock: Arc::new(SettableClock::new()),
        }
    }

    /// A machine whose disk keeps apart what was synced, which takes its time.
    pub(crate) fn with_power_loss() -> Self {
        Self {
            disk: Mutex::new(Arc::new(MemoryDisk::with_power_loss())),
            ..Self::new()
        }
    }

    /// Starts the node with this `appendfsync`; `off` is a node that logs no keys.
    pub(crate) async fn start(&self, mode: &str) -> Node {
        self.start_with(mode, &[]).await
    }

    pub(crate) async fn start_with(&self, mode: &str, directives: &[(&str, &str)]) -> Node {
        let mut builder = Node::builder().ephemeral();
        builder = match mode {
            "off" => builder.directive("appendonly", &["no"]),
            mode => builder.directive("appendfsync", &[mode]),
        };
        for (name, value) in directives {
            builder = builder.directive(name, &[value]);
        }
        let disk = self.disk.lock().unwrap().clone();
        builder
            .disk(disk)
            .clock(self.clock.clone())
            .start()
            .await
            .unwrap()
    }

    /// Ends the node's process.
    pub(crate) async fn end(&self, node: Node, end: End) {
        match end {
            End::Stopped => node.stop().await.unwrap(),
            End::Killed => node.crash().await,
        }
    }

    /// The machine loses power: of what was not synced, `survives` says which sectors are there.
    pub(crate) async fn lose_power(&self, node: Node, survives: impl FnMut(&str, u64) -> bool) {
        node.crash().await;
        let mut disk = self.disk.lock().unwrap();
        *disk = Arc::new(disk.after_power_loss(true, survives));
    }

    pub(crate) fn advance_ms(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }

    /// Kind and node time of the frames on the disk.
    pub(crate) fn frames(&self) -> Vec<(u8, u64)> {
        let disk = Arc::new(self.disk.lock().unwrap().after_process_end());
        let recovery = Recovery::read(disk, &LogOptions::default()).unwrap();
        recovery
            .frames()
            .map(|frame| (frame.kind, frame.node_time_ns))
            .collect()
    }

    /// Waits for a frame that the node writes in its own time.
    pub(crate) async fn await_frames(&self, what: &str, is_there: impl Fn(&[(u8, u64)]) -> bool) {
        let mut tries = 0;
        while !is_there(&self.frames()) {
            tries += 1;
            assert!(tries < 1_000, "not in time: {what}: {:?}", self.frames());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

pub(crate) fn wire(node: &Node) -> Wire {
    Wire::connect(node.address())
}

/// An integer reply.
pub(crate) fn number(reply: &str) -> i128 {
    let digits = reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}"));
    digits.parse().unwrap()
}

/// What TIME shows, in microseconds.
pub(crate) fn time_us(client: &mut Wire) -> i128 {
    let reply = client.ask("TIME");
    let parts = reply.trim_matches(['[', ']']);
    let (seconds, micros) = parts.split_once(", ").unwrap();
    seconds.parse::<i128>().unwrap() * 1_000_000 + micros.parse::<i128>().unwrap()
}

/// The time left that a node in its restart delay names; 0 if it serves.
pub(crate) fn delay_left_ms(client: &mut Wire) -> u64 {
    let reply = client.ask("EXISTS any");
    let Some(rest) = reply.split("takes no part for another ").nth(1) else {
        assert!(reply.starts_with(':'), "{reply}");
        return 0;
    };
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// Asserts that a key's end is due after exactly this much node time: the clock is moved there.
pub(crate) fn assert_ends_after(machine: &Machine, client: &mut Wire, key: &str, ns: u64) {
    machine.clock.advance(Duration::from_nanos(ns - 1));
    assert_ne!(
        client.ask(&format!("GET {key}")),
        "nil",
        "{key} ended early"
    );
    assert_eq!(client.ask(&format!("PTTL {key}")), ":1");
    machine.clock.advance(Duration::from_nanos(1));
    assert_eq!(
        client.ask(&format!("GET {key}")),
        "nil",
        "{key} outlived its ttl"
    );
}
