//! A line of the node's log is written while nobody holds the engine: where standard output is a
//! full pipe, the thread that has something to say waits, and the others go on.
//!
//! A program of its own: every thread of a process sends its lines to one subscriber.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use quorlock_persistence::{DiskFault, DiskOperation};
use quorlock_server::clock::SettableClock;
use quorlock_server::{MemoryDisk, Node};
use quorlock_testkit::{PATIENCE, Wire, becomes_so, eventually};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Holds each line up until another worker has executed a command.
#[derive(Default)]
struct SlowLog {
    state: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    /// A connection of each worker, once a node runs.
    probes: Vec<Wire>,
    lines: Vec<String>,
    /// Lines that were written while no worker could execute anything.
    frozen: Vec<String>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

impl SlowLog {
    fn write(&self, line: String) {
        let mut state = self.state.lock().unwrap();
        let probes = &mut state.probes;
        for probe in &mut *probes {
            probe.send(b"GET a\r\n");
        }
        // One may be the connection of the worker that writes the line.
        let is_answered = || probes.is_empty() || !probes.iter_mut().all(Wire::is_silent);
        if !becomes_so(PATIENCE, is_answered) {
            state.frozen.push(line.clone());
            // Else the first line would be followed by nothing.
            state.probes.clear();
        }
        state.lines.push(line);
    }

    /// Waits until a line with this text was written.
    fn await_line(&self, text: &str) {
        eventually(text, || {
            let state = self.state.lock().unwrap();
            assert_eq!(state.frozen, [""; 0]);
            state.lines.iter().any(|line| line.contains(text))
        });
    }
}

struct Installed(&'static SlowLog);

impl Subscriber for Installed {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("quorlock")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.write(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn slow_log() -> &'static SlowLog {
    static LOG: OnceLock<SlowLog> = OnceLock::new();
    LOG.get_or_init(SlowLog::default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_is_written_while_other_workers_execute() {
    tracing::subscriber::set_global_default(Installed(slow_log())).unwrap();
    let log = slow_log();
    let disk = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SettableClock::new());
    disk.set_capacity(Some(40 << 20));
    let node = Node::builder()
        .ephemeral()
        .directive("workers", &["3"])
        .directive("appendfsync", &["no"])
        .directive("auto-aof-rewrite-min-size", &["32mb"])
        .disk(disk.clone())
        .clock(clock.clone())
        .start()
        .await
        .unwrap();
    let probes = (0..3).map(|_| Wire::connect(node.address())).collect();
    log.state.lock().unwrap().probes = probes;
    let mut client = Wire::connect(node.address());
    let script = "redis.log(redis.LOG_WARNING, 'from a script') return 1";
    assert_eq!(client.ask_words(&["EVAL", script, "0"]), ":1");
    log.await_line("script: from a script");
    assert_eq!(client.ask("CONFIG SET appendfsync everysec"), "+OK");
    log.await_line("appendfsync was no and is everysec");
    assert_eq!(client.ask("CONFIG SET no-ttl-durability as-mode"), "+OK");
    log.await_line("no-ttl-durability was sync");
    clock.step_wall(3_600_000_000);
    clock.advance(Duration::from_secs(60));
    assert_eq!(client.ask("SET a token PX 60000"), "+OK");
    log.await_line("the wall clock was set");
    // The next segment is tried, and refused in no known way.
    disk.set_direct_blocks(Some(4096));
    disk.plan_fault(&[DiskOperation::Open], 0, DiskFault::Error(5));
    let value = "v".repeat(100_000);
    for key in 0..400 {
        let reply = client.ask(&format!("SET {key} {value} PX 60000000"));
        assert!(reply == "+OK" || reply.starts_with("-MISCONF"), "{reply}");
    }
    log.await_line("is written through the page cache");
    log.await_line("the disk is full");
    disk.set_capacity(None);
    clock.advance(Duration::from_secs(2));
    assert_eq!(client.ask("PING"), "+PONG");
    log.await_line("the disk has space again");
    log.state.lock().unwrap().probes.clear();
    node.stop().await.unwrap();
    let state = log.state.lock().unwrap();
    assert_eq!(state.frozen, [""; 0]);
}
