//! In which order an iteration reads what has come and the clock.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::IoSlice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use quorlock_engine::control::Boot;
use quorlock_persistence::MemoryDisk;
use slab::Slab;

use crate::clock::{ClientInstant, Clock, SettableClock};
use crate::config::Config;
use crate::event_loop::connection::Connection;
use crate::event_loop::iteration::{HANDSHAKES_PER_ITERATION, Iteration};
use crate::event_loop::pipe::{Pipe, PipeStream};
use crate::event_loop::posts::Posts;
use crate::event_loop::stream::{Stream, StreamError};
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

/// A client whose handshake does not end, and counts how often it is read.
struct Handshake(PipeStream, Arc<AtomicUsize>, bool);

impl Stream for Handshake {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        if self.2 {
            self.1.fetch_add(1, Ordering::Relaxed);
            return Err(StreamError::WouldBlock);
        }
        self.0.receive(buffer)
    }
    fn send(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        self.0.send(bytes)
    }
    fn send_vectored(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, StreamError> {
        self.0.send_vectored(runs)
    }
    fn is_handshaking(&self) -> bool {
        self.2
    }
}

/// Planted: an iteration reads all hellos that have come, each of which costs a signature. A client that is connected then
/// waits for all of them.
#[test]
fn a_flood_of_handshakes_is_taken_in_a_few_at_a_time_and_each_in_its_turn() {
    let clock = Arc::new(SettableClock::default());
    let (node, _, _jobs) =
        for_tests::started(Config::default(), Arc::new(MemoryDisk::new()), clock);
    let client = Pipe::new(usize::MAX, None);
    let mut connections = Slab::new();
    let mut iteration = Iteration::new(0);
    let mut reads = Vec::new();
    // One that is connected, in the middle of the flood.
    for number in 0..=20 {
        let (is_handshake, count) = (number != 10, Arc::new(AtomicUsize::new(0)));
        let stream = Handshake(client.stream(), Arc::clone(&count), is_handshake);
        let session = for_tests::session(&node);
        let slot = connections.insert(Connection::new(stream, session));
        connections[slot].note_ready(true, false);
        iteration.queue(slot, &mut connections[slot]);
        if is_handshake {
            reads.push(count);
        }
    }
    client.send(b"PING\r\n");
    for taken in 1..=5 {
        let posts = &mut Posts::default();
        let slots = iteration.run(&node, &mut connections, posts, RawTime::ZERO);
        iteration.give_back(slots);
        assert!(connections[10].has_replies(), "it waits for no other");
        let counts: Vec<_> = reads.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let (first, rest) = counts.split_at(taken * HANDSHAKES_PER_ITERATION);
        assert!(first.iter().all(|count| *count == 1), "{counts:?}");
        assert!(rest.iter().all(|count| *count == 0), "{counts:?}");
    }
    assert!(iteration.is_empty());
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
