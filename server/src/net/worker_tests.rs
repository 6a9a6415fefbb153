//! A worker step by step, on real sockets, without its thread.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use quorlock_persistence::{MemoryDisk, Preparer};
use tokio::runtime::Runtime;

use super::*;
use crate::clock::SettableClock;
use crate::config::{ClientMemory, Config};
use crate::node::for_tests;
use crate::node::log_thread::Jobs;

/// A worker whose steps a test takes.
struct Stepped {
    worker: Worker,
    events: Events,
    listener: TcpListener,
    _kept: (Runtime, Preparer, Jobs),
}

impl Stepped {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let (disk, clock) = (Arc::new(MemoryDisk::new()), Arc::new(SettableClock::new()));
        let (shared, preparer, jobs) = for_tests::started(config, disk, clock);
        let runtime = Runtime::new().unwrap();
        Self {
            worker: Worker::new(shared, runtime.handle().clone()).unwrap(),
            events: Events::with_capacity(EVENTS),
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            _kept: (runtime, preparer, jobs),
        }
    }

    /// A connection that its worker will learn of, as the listener makes one.
    fn connect(&self) -> (TcpStream, Handover) {
        let address = self.listener.local_addr().unwrap();
        let ours = TcpStream::connect(address).unwrap();
        let (stream, peer) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let shared = &self.worker.shared;
        let client = shared.clients.add((peer, address), 0, 0);
        if shared.config.requirepass.is_some() {
            shared.clients.note_unauthenticated(&client);
        }
        (ours, Handover { stream, client })
    }

    fn client(&mut self) -> TcpStream {
        let (ours, handover) = self.connect();
        self.worker.open(handover);
        ours
    }

    fn step(&mut self) {
        let at_once = Some(Duration::ZERO);
        self.worker.step(&mut self.events, at_once).unwrap();
    }

    /// Asks, and takes steps until the reply is here.
    fn ask(&mut self, client: &mut TcpStream, request: &[u8], reply: &[u8]) {
        client.set_nonblocking(true).unwrap();
        let (mut sent, mut received) = (0, Vec::new());
        for _ in 0..1_000 {
            sent += client.write(&request[sent..]).unwrap_or(0);
            self.step();
            let mut buffer = [0; 512];
            let count = client.read(&mut buffer).unwrap_or(0);
            received.extend_from_slice(&buffer[..count]);
            if received.len() >= reply.len() {
                break;
            }
        }
        assert_eq!(received, reply);
    }
}

fn request(words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    text
}

/// Found from outside: requests that one iteration had read and could not execute were not counted,
/// and the next iteration read as much again from others.
#[test]
fn requests_that_wait_for_long_replies_of_others_are_counted_and_bounded() {
    let mut node = Stepped::new(|config| {
        config.appendonly = false;
        config.maxmemory_clients = ClientMemory::Bytes(0);
    });
    let mut first = node.client();
    let set = request(&["SET", "large", &"v".repeat(1_000_000), "PX", "90000"]);
    node.ask(&mut first, set.as_bytes(), b"+OK\r\n");
    // One reply is as much as an iteration makes.
    let long = request(&[&["MGET"][..], &["large"; 20]].concat());
    let wide = request(&[&["MGET"][..], &["k"; 1_170]].concat());
    let bytes = [long, wide.repeat(7)].concat().into_bytes();
    let mut clients: Vec<TcpStream> = (0..200).map(|_| node.client()).collect();
    for client in &mut clients {
        client.set_nonblocking(true).unwrap();
        // What the socket does not take is not needed.
        assert!(client.write(&bytes).unwrap() > 45_000);
    }
    let mut read_before = None;
    for _ in 0..5 {
        node.step();
        let connections = node.worker.connections.iter();
        let held: Vec<_> = connections.map(|(_, one)| one.held()).collect();
        let sum: usize = held.iter().map(|one| one.bytes()).sum();
        let counted = &node.worker.shared.clients.buffer_bytes;
        assert_eq!(counted.load(Ordering::Relaxed), sum);
        let read = held.iter().filter(|one| one.input_bytes > 0).count();
        let bound = read_before.replace(read).unwrap_or(160);
        assert!((100..=bound).contains(&read), "{read} and not {bound}");
    }
}

/// Found from outside: a client was asked to make room in the step in which its worker learned of it,
/// and was closed before what it had sent was read.
#[test]
fn who_sent_the_password_at_once_does_not_make_room_and_others_do() {
    let mut node = Stepped::new(|config| {
        config.appendonly = false;
        config.set("requirepass", &["secret"]).unwrap();
    });
    let inbox = node.worker.inbox();
    let mut clients = Vec::new();
    for bytes in [&b"AUTH secret\r\n"[..], b"PING\r\n"] {
        let (mut ours, handover) = node.connect();
        ours.set_nonblocking(true).unwrap();
        ours.write_all(bytes).unwrap();
        let client = Arc::clone(&handover.client);
        assert!(inbox.send(Order::Serve(handover)));
        assert!(inbox.send(Order::MakeRoom(client)));
        clients.push(ours);
    }
    for _ in 0..4 {
        node.step();
    }
    let mut buffer = [0; 512];
    let count = clients[0].read(&mut buffer).unwrap();
    assert_eq!(&buffer[..count], b"+OK\r\n");
    assert_eq!(node.worker.connections.len(), 1, "the other one has gone");
    assert_ne!(node.worker.pause(), Some(Duration::ZERO), "all is done");
}

/// Found from outside: each connection that sent no request wrote a line, 1,999 in 0.35 s.
#[test]
fn clients_that_send_no_requests_write_few_lines() {
    let mut node = Stepped::new(|_| {});
    let mut clients: Vec<TcpStream> = (0..30).map(|_| node.client()).collect();
    for client in &mut clients {
        client.write_all(b"*1\r\n!\r\n").unwrap();
    }
    for _ in 0..4 {
        node.step();
    }
    assert_eq!(node.worker.connections.len(), 0);
    assert_eq!(node.worker.guard.lines.left_out(), 20);
}
