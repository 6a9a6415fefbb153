//! In which order an iteration reads what has come and the clock.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use quorlock_engine::control::Boot;
use quorlock_persistence::MemoryDisk;
use slab::Slab;

use crate::clock::{ClientInstant, Clock, SettableClock};
use crate::config::Config;
use crate::event_loop::connection::Connection;
use crate::event_loop::iteration::Iteration;
use crate::event_loop::pipe::{Pipe, PipeStream};
use crate::event_loop::posts::Posts;
use crate::start::for_tests;
use quorlock_engine::{BootTime, RawTime};

/// A clock that lets a client send its request when it is read.
#[derive(Default)]
struct SendingClock {
    inner: SettableClock,
    client: Mutex<Option<Pipe>>,
}

impl std::fmt::Debug for SendingClock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl Clock for SendingClock {
    fn now(&self) -> ClientInstant {
        self.inner.now()
    }
    fn raw(&self) -> RawTime {
        if let Some(client) = self.client.lock().unwrap().take() {
            client.send(b"SET a token PX 1000\r\n");
        }
        self.inner.raw()
    }
    fn boottime(&self) -> BootTime {
        self.inner.boottime()
    }
    fn wall_us(&self) -> u64 {
        self.inner.wall_us()
    }
    fn boot(&self) -> Boot {
        self.inner.boot()
    }
}

/// Planted: the clock is read before the bytes. A request may then be executed at a moment before it
/// was sent, and a deadline that the client waits for has come already.
#[test]
fn a_request_is_executed_at_a_moment_after_its_bytes_were_read() {
    let clock = Arc::new(SendingClock::default());
    let disk = Arc::new(MemoryDisk::new());
    let (node, _, _jobs) = for_tests::started(Config::default(), disk, clock.clone());
    let client = Pipe::new(usize::MAX, None);
    let mut connections = Slab::new();
    let session = for_tests::session(&node);
    let slot = connections.insert(Connection::new(client.stream(), session));
    let mut iteration = Iteration::new(0);
    let mut run = |connections: &mut Slab<Connection<PipeStream>>| {
        connections[slot].note_ready(true, false);
        iteration.queue(slot, &mut connections[slot]);
        let slots = iteration.run(&node, connections, &mut Posts::default(), RawTime::ZERO);
        iteration.give_back(slots);
        connections[slot].has_replies()
    };
    *clock.client.lock().unwrap() = Some(client);
    assert!(
        !run(&mut connections),
        "what is sent at the moment of an iteration belongs to the next one"
    );
    clock.raw();
    assert!(run(&mut connections));
}

/// Planted: the lock is taken before it is known whether a request has a key. Whoever pings in a pipeline then waits
/// for the script of another worker's client.
#[test]
fn requests_without_a_key_wait_for_nobody() {
    let (disk, clock) = (
        Arc::new(MemoryDisk::new()),
        Arc::new(SettableClock::default()),
    );
    let (node, _, _jobs) = for_tests::started(Config::default(), disk, clock);
    let client = Pipe::new(usize::MAX, None);
    let mut connections = Slab::new();
    let session = for_tests::session(&node);
    let slot = connections.insert(Connection::new(client.stream(), session));
    client.send(&b"PING\r\n".repeat(2));
    let (has_run, runs) = mpsc::channel();
    std::thread::scope(|scope| {
        let executor = node.lock().unwrap();
        scope.spawn(|| {
            let mut iteration = Iteration::new(0);
            connections[slot].note_ready(true, false);
            iteration.queue(slot, &mut connections[slot]);
            iteration.run(
                &node,
                &mut connections,
                &mut Posts::default(),
                RawTime::ZERO,
            );
            has_run.send(connections[slot].output_bytes()).unwrap();
        });
        let replies = runs.recv_timeout(Duration::from_secs(20));
        drop(executor);
        assert_eq!(replies, Ok(b"+PONG\r\n".len() * 2));
    });
}
