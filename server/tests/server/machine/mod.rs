//! One node's disk and clock, over its restarts, and what each start says about itself.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod shelf;
pub(crate) mod slow;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorlock_server::clock::SettableClock;
use quorlock_server::{Disk, MemoryDisk, Node, NodeBuilder, StartError};

use crate::wire::Wire;

/// Directives, as name and value.
pub(crate) type Directives<'a> = &'a [(&'a str, &'a str)];

/// A disk in memory that may lose its power, and a clock that tests move.
pub(crate) struct Machine {
    disk: MemoryDisk,
    pub(crate) clock: Arc<SettableClock>,
}

impl Machine {
    /// A machine whose power does not fail: to remember what was synced takes time.
    pub(crate) fn new() -> Self {
        Self {
            disk: MemoryDisk::new(),
            clock: Arc::new(SettableClock::new()),
        }
    }

    /// A machine whose power may fail.
    pub(crate) fn with_power_loss() -> Self {
        Self {
            disk: MemoryDisk::with_power_loss(),
            ..Self::new()
        }
    }

    /// A machine with this disk, some time after a boot of its own.
    pub(crate) fn with(disk: MemoryDisk) -> Self {
        let machine = Self {
            disk,
            ..Self::new()
        };
        machine.clock.reboot(Duration::from_secs(5));
        machine
    }

    pub(crate) fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    pub(crate) async fn start(&self, directives: Directives<'_>) -> Node {
        self.try_start(directives).await.unwrap()
    }

    pub(crate) async fn try_start(&self, directives: Directives<'_>) -> Result<Node, StartError> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        configured(directives)
            .disk(disk)
            .clock(self.clock.clone())
            .start()
            .await
    }

    /// The machine goes down: nothing unsynced survives, and the next boot is another one.
    pub(crate) fn lose_power(&mut self) {
        self.disk = self.disk.after_power_loss(false, |_, _| false);
        self.clock.reboot(Duration::from_secs(5));
    }

    /// The machine goes down in order: everything written survives, and the next boot is another.
    pub(crate) fn reboot(&self) {
        self.clock.reboot(Duration::from_secs(5));
    }

    pub(crate) fn advance_ms(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }
}

/// A real directory instead of a disk in memory.
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<SettableClock>,
}

impl Home {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self {
            path,
            clock: Arc::new(SettableClock::new()),
        }
    }

    /// The same machine, another directory.
    pub(crate) fn beside(&self, path: PathBuf) -> Self {
        Self {
            path,
            clock: self.clock.clone(),
        }
    }

    pub(crate) async fn start(&self, directives: Directives<'_>) -> Node {
        self.try_start(directives).await.unwrap()
    }

    pub(crate) async fn try_start(&self, directives: Directives<'_>) -> Result<Node, StartError> {
        let mut builder = Node::builder().port(0);
        builder = builder.directive("bind", &["127.0.0.1"]);
        for (name, value) in directives {
            builder = builder.directive(name, &[value]);
        }
        builder
            .dir(&self.path)
            .clock(self.clock.clone())
            .start()
            .await
    }
}

fn configured(directives: Directives<'_>) -> NodeBuilder {
    let mut builder = Node::builder().ephemeral();
    for (name, value) in directives {
        builder = builder.directive(name, &[value]);
    }
    builder
}

/// What a start says of the stop before it, and of its delay.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) stop: String,
    pub(crate) cause: String,
    pub(crate) length_ms: u64,
    pub(crate) left_ms: u64,
}

/// Asks INFO, and checks that its fields agree with each other and with what commands get.
pub(crate) fn said(node: &Node) -> Said {
    let mut client = wire(node);
    let number = |client: &mut Wire, field: &str| client.info(field).parse::<u64>().unwrap();
    let said = Said {
        stop: client.info("restart_last_stop"),
        cause: client.info("restart_delay_cause"),
        length_ms: number(&mut client, "restart_delay_length_ms"),
        left_ms: number(&mut client, "restart_delay_left_ms"),
    };
    let waits = said.left_ms > 0;
    assert_eq!(client.info("restart_delay"), u8::from(waits).to_string());
    assert_eq!(
        number(&mut client, "restart_delay_remaining_ms"),
        said.left_ms
    );
    assert_eq!(
        number(&mut client, "restart_delay_at_start_ms"),
        said.left_ms
    );
    assert_eq!(
        client.info("restart_delay_end_estimate_utc").is_empty(),
        !waits
    );
    assert_eq!(client.info("restart_waited_ms").is_empty(), waits);
    assert_eq!(client.info("restart_delay_reason").is_empty(), !waits);
    assert_eq!(said.cause == "none", !waits);
    assert_eq!(node.is_serving(), !waits);
    assert_eq!(client.info("restart_last_stop_words"), node.last_stop());
    assert_eq!(
        client.info("restart_incarnation"),
        node.incarnation().to_string()
    );
    let clean = match said.stop.as_str() {
        "clean" => "yes",
        "never-ran" => "none",
        "unknown" => "unknown",
        _ => "no",
    };
    assert_eq!(client.info("restart_last_stop_clean"), clean);
    let reply = client.ask("GET a");
    if waits {
        assert_eq!(milliseconds_left(&reply), said.left_ms, "{reply}");
        assert!(
            reply.contains(&client.info("restart_delay_reason")),
            "{reply}"
        );
    } else {
        assert!(!reply.starts_with('-'), "{reply}");
    }
    said
}

/// The time a refusal names.
pub(crate) fn milliseconds_left(reply: &str) -> u64 {
    let rest = reply
        .split("for another ")
        .nth(1)
        .unwrap_or_else(|| panic!("no delay: {reply}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

pub(crate) fn wire(node: &Node) -> Wire {
    Wire::connect(node.address())
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}
