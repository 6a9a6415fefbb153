//! In which order a turn reads what has come and the clock.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use quorlock_engine::control::Boot;
use quorlock_persistence::MemoryDisk;
use slab::Slab;

use crate::clock::{Clock, SettableClock};
use crate::config::Config;
use crate::net::connection::Connection;
use crate::net::turn::Turn;
use crate::node::for_tests;

/// A clock that lets a client send its request when it is read.
#[derive(Default)]
struct SendingClock {
    inner: SettableClock,
    client: Mutex<Option<TcpStream>>,
}

impl Clock for SendingClock {
    fn raw_ns(&self) -> u64 {
        if let Some(mut client) = self.client.lock().unwrap().take() {
            client.write_all(b"SET a token PX 1000\r\n").unwrap();
        }
        self.inner.raw_ns()
    }
    fn boottime_ns(&self) -> u64 {
        self.inner.boottime_ns()
    }
    fn wall_us(&self) -> u64 {
        self.inner.wall_us()
    }
    fn boot(&self) -> Boot {
        self.inner.boot()
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    (client, server)
}

/// Planted: the clock is read before the bytes. A request may then be executed at a moment before it
/// was sent, and a deadline that the client waits for has come already.
#[test]
fn a_request_is_executed_at_a_moment_after_its_bytes_were_read() {
    let clock = Arc::new(SendingClock::default());
    let disk = Arc::new(MemoryDisk::new());
    let (shared, _, _jobs) = for_tests::started(Config::default(), disk, clock.clone());
    let (client, server) = pair();
    let mut connections = Slab::new();
    let place = connections.insert(Connection::new(server, for_tests::session(&shared)));
    let mut turn = Turn::default();
    let mut run = |connections: &mut Slab<Connection>| {
        connections[place].note_readable(false);
        turn.queue(place, &mut connections[place]);
        let places = turn.run(&shared, connections);
        turn.give_back(places);
        connections[place].has_replies()
    };
    *clock.client.lock().unwrap() = Some(client);
    assert!(
        !run(&mut connections),
        "what is sent at the moment of a turn belongs to the next one"
    );
    clock.raw_ns();
    assert!(run(&mut connections));
}
