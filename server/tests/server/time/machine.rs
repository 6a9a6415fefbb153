//! What the tests of time add to a machine: modes by one word, the ways to end a run, and the frames
//! of the log.

use std::time::Duration;

use quorlock_server::Node;
use quorlock_testkit::{Wire, eventually};

pub(crate) use crate::machine::{MODES, Machine, run, wire};

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Killed,
}

impl Machine {
    /// Starts the node with this `appendfsync`; `off` is a node that logs no keys.
    pub(crate) async fn start_mode(&self, mode: &str) -> Node {
        self.start_mode_with(mode, &[]).await
    }

    pub(crate) async fn start_mode_with(&self, mode: &str, more: &[(&str, &str)]) -> Node {
        let mode = match mode {
            "off" => ("appendonly", "no"),
            mode => ("appendfsync", mode),
        };
        self.start(&[&[mode], more].concat()).await
    }

    /// Ends the node's process.
    pub(crate) async fn end(&self, node: Node, end: End) {
        match end {
            End::Stopped => node.stop().await.unwrap(),
            End::Killed => node.crash().await,
        }
    }

    /// Kind and node time of the frames on the disk.
    pub(crate) fn frames(&self) -> Vec<(u8, u64)> {
        let log = self.log();
        let frames = log.frames().collect().unwrap();
        let known = frames.iter().map(|frame| (frame.kind, frame.node_time_ns));
        known.collect()
    }

    /// Waits for a frame that the node writes in its own time.
    pub(crate) fn await_frames(&self, what: &str, is_there: impl Fn(&[(u8, u64)]) -> bool) {
        eventually(what, || is_there(&self.frames()));
    }
}

/// An integer reply.
pub(crate) fn number(reply: &str) -> i128 {
    let digits = reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}"));
    digits.parse().unwrap()
}

/// What TIME shows, in microseconds.
pub(crate) fn time_us(client: &mut Wire) -> i128 {
    in_microseconds(&client.ask("TIME"))
}

/// A reply to TIME in microseconds.
pub(crate) fn in_microseconds(reply: &str) -> i128 {
    let parts = reply.trim_matches(['[', ']']);
    let (seconds, micros) = parts.split_once(", ").unwrap();
    seconds.parse::<i128>().unwrap() * 1_000_000 + micros.parse::<i128>().unwrap()
}

/// The time left that a node in its restart delay names; 0 if it serves.
pub(crate) fn delay_left_ms(client: &mut Wire) -> u64 {
    let reply = client.ask("EXISTS any");
    let Some(rest) = reply.strip_prefix("-RESTARTDELAY ") else {
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
