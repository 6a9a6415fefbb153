//! An event loop, iteration by iteration, on connections in memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use quorlock_engine::RawTime;
use quorlock_persistence::{MemoryDisk, Preparer};

use super::pipe::{Pipe, PipeStream};
use super::*;
use crate::clock::{Clock, SettableClock};
use crate::config::{ClientMemory, Config};
use crate::core::clients::Endpoints;
use crate::core::log_queue::LogEvents;
use crate::start::for_tests;

/// An event loop whose iterations a test takes.
pub(super) struct Stepped {
    pub(super) event_loop: EventLoop<PipeStream>,
    pipes: Vec<(usize, Pipe)>,
    clock: Arc<SettableClock>,
    _kept: (Preparer, LogEvents),
}

impl Stepped {
    pub(super) fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let (disk, clock) = (Arc::new(MemoryDisk::new()), Arc::new(SettableClock::new()));
        let (node, preparer, log_events) = for_tests::started(config, disk, clock.clone());
        Self {
            clock,
            event_loop: EventLoop::new(node, 0),
            pipes: Vec::new(),
            _kept: (preparer, log_events),
        }
    }

    /// A client that the event loop has just learned of.
    fn connect(&mut self) -> (Pipe, Arc<Client>) {
        let node = &self.event_loop.node;
        let client = node.clients.add(Endpoints::NONE, RawTime::ZERO, 0);
        if node.config.requirepass.is_some() {
            node.clients.note_unauthenticated(&client);
        }
        let pipe = Pipe::new(usize::MAX, None);
        let slot = self.event_loop.next_slot();
        let now_raw = self.now_raw();
        self.event_loop
            .open(pipe.stream(), Arc::clone(&client), now_raw);
        self.pipes.push((slot, pipe.clone()));
        (pipe, client)
    }

    pub(super) fn client(&mut self) -> Pipe {
        self.connect().0
    }

    fn now_raw(&self) -> RawTime {
        self.clock.raw()
    }

    /// How long nothing is to be done by itself.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.event_loop.pause(self.now_raw())
    }

    pub(super) fn receive(&mut self, message: Message) {
        self.event_loop.receive(message, self.clock.raw());
    }

    pub(super) fn iterate(&mut self) {
        let now_raw = self.now_raw();
        for (slot, pipe) in &self.pipes {
            if let Some(ready) = pipe.take_readiness() {
                self.event_loop
                    .note_ready(*slot, ready.is_readable, ready.is_ending, now_raw);
            }
        }
        self.event_loop.iterate(now_raw);
    }

    /// Asks, and iterates until the reply is here.
    pub(super) fn ask(&mut self, client: &Pipe, request: &[u8], reply: &[u8]) {
        client.send(request);
        let mut received = Vec::new();
        for _ in 0..1_000 {
            self.iterate();
            received.extend(client.take_received());
            if received.len() >= reply.len() {
                break;
            }
        }
        assert_eq!(received, reply);
    }
}

pub(super) fn request(words: &[&str]) -> String {
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
    let first = node.client();
    let set = request(&["SET", "large", &"v".repeat(1_000_000), "PX", "90000"]);
    node.ask(&first, set.as_bytes(), b"+OK\r\n");
    // One reply is as much as an iteration makes.
    let long = request(&[&["MGET"][..], &["large"; 20]].concat());
    let wide = request(&[&["MGET"][..], &["k"; 1_170]].concat());
    let bytes = [long, wide.repeat(7)].concat().into_bytes();
    let clients: Vec<Pipe> = (0..200).map(|_| node.client()).collect();
    for client in &clients {
        client.set_room(64 * 1024);
        client.send(&bytes);
    }
    let mut read_before = None;
    for _ in 0..5 {
        node.iterate();
        let connections = node.event_loop.connections.iter();
        let held: Vec<_> = connections.map(|(_, one)| one.held()).collect();
        let sum: usize = held.iter().map(|one| one.bytes()).sum();
        let counted = &node.event_loop.node.clients.buffer_bytes;
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
    let mut pipes = Vec::new();
    for bytes in [&b"AUTH secret\r\n"[..], b"PING\r\n"] {
        let (pipe, client) = node.connect();
        node.receive(Message::MakeRoom(client));
        pipes.push((pipe, bytes));
    }
    // The poll tells of what has come only once it knows of a connection.
    node.event_loop.iterate(node.clock.raw());
    for (pipe, bytes) in &pipes {
        pipe.send(bytes);
    }
    for _ in 0..4 {
        node.iterate();
    }
    assert_eq!(pipes[0].0.take_received(), b"+OK\r\n");
    assert_eq!(
        node.event_loop.connections.len(),
        1,
        "the other one has gone"
    );
    assert_ne!(node.pause(), Some(Duration::ZERO), "all is done");
}

/// Found from outside: each connection that sent no request wrote a line, 1,999 in 0.35 s.
#[test]
fn clients_that_send_no_requests_write_few_lines() {
    let mut node = Stepped::new(|_| {});
    for _ in 0..30 {
        node.client().send(b"*1\r\n!\r\n");
    }
    for _ in 0..4 {
        node.iterate();
    }
    assert_eq!(node.event_loop.connections.len(), 0);
    assert_eq!(node.event_loop.guard.lines.left_out(), 20);
}

/// What it has executed is visible to others, and WAITAOF of anybody must cover it.
#[test]
fn what_a_client_that_is_closed_for_its_output_has_executed_is_written() {
    let mut node = Stepped::new(|config| {
        config
            .set("client-output-buffer-limit", &["normal", "1000", "0", "0"])
            .unwrap();
    });
    let client = node.client();
    let value = "v".repeat(2_000);
    let set = request(&["SET", "a", &value, "PX", "90000"]);
    client.send((set + &request(&["GET", "a"])).as_bytes());
    node.iterate();
    assert!(client.is_closed());
    let state = &node.event_loop.node;
    let appended = state.lock().unwrap().appender.next_position();
    assert_eq!(state.commit.written().next(), appended);
}

/// Such a client would be sent to for as long as it reads, while others wait.
#[test]
fn one_iteration_sends_a_bounded_part_of_long_replies() {
    let mut node = Stepped::new(|config| config.appendonly = false);
    let client = node.client();
    let value = "v".repeat(1_000_000);
    let set = request(&["SET", "long", &value, "PX", "90000"]);
    node.ask(&client, set.as_bytes(), b"+OK\r\n");
    client.send(request(&[&["MGET"][..], &["long"; 5]].concat()).as_bytes());
    let mut longest = 0;
    let mut received = 0;
    for _ in 0..8 {
        node.iterate();
        let sent = client.take_received().len();
        longest = longest.max(sent);
        received += sent;
        let is_done = received > 5 * value.len();
        assert_eq!(node.pause() == Some(Duration::ZERO), !is_done);
        if is_done {
            break;
        }
    }
    let overhead = b"*5\r\n".len() + 5 * b"$1000000\r\n\r\n".len();
    assert_eq!(received, 5 * value.len() + overhead);
    assert_eq!(longest, 1024 * 1024);
}

/// Found by the crash states: its worker ended, and the node with it.
#[test]
fn a_client_may_vanish_in_the_moment_in_which_its_wait_ends() {
    for word in ["WAITAOF 1 0 1000", "BLPOP list 1"] {
        let mut node = Stepped::new(|config| config.set("appendfsync", &["everysec"]).unwrap());
        let client = node.client();
        let words: Vec<&str> = word.split(' ').collect();
        client.send((request(&["SET", "a", "token", "PX", "9000"]) + &request(&words)).as_bytes());
        node.iterate();
        let blocked = Arc::clone(&node.event_loop.node);
        let blocked = || blocked.statistics.blocked.load(Ordering::Relaxed);
        assert_eq!(blocked(), 1, "{word}");
        client.reset();
        let (slot, pipe) = &node.pipes[0];
        let ready = pipe.take_readiness().expect("it has gone");
        node.event_loop
            .note_ready(*slot, ready.is_readable, ready.is_ending, node.clock.raw());
        node.clock.advance(Duration::from_secs(1));
        node.iterate();
        assert_eq!(node.event_loop.connections.len(), 0, "{word}");
        assert_eq!(blocked(), 0, "{word}");
    }
}

/// A segment that was made is for those who had asked before; who comes before they go on asks for the next one. Planted:
/// who finds others waiting asks for none.
#[test]
fn who_lacks_a_segment_when_one_has_just_come_asks_for_another() {
    let mut node = Stepped::new(|config| config.appendonly = false);
    let (_kept, early) = node.connect();
    let (_kept_too, late) = node.connect();
    let waits = |node: &mut Stepped, of: &Arc<Client>| {
        let now_raw = node.now_raw();
        let lacks = Pending::on(Condition::Segment);
        node.event_loop.wait_for(of.connection(), lacks, now_raw);
        let tasks = node.event_loop.tasks.drain(..);
        tasks
            .filter(|task| matches!(task, Task::MakeSegment))
            .count()
    };
    assert_eq!(waits(&mut node, &early), 1);
    node.receive(Message::SegmentMade);
    assert_eq!(waits(&mut node, &late), 1);
    node.iterate();
    assert!(!node.event_loop.pending.is_empty(), "the late one waits");
    node.receive(Message::SegmentMade);
    node.iterate();
    assert!(node.event_loop.pending.is_empty());
}

#[test]
fn who_writes_more_quickly_than_the_maintenance_frees_does_not_fill_the_memory() {
    let mut node = Stepped::new(|config| config.appendonly = false);
    let client = node.client();
    for turn in 0..50 {
        let sets = (0..300)
            .map(|number| request(&["SET", &format!("{turn}:{number}"), "token", "PX", "40"]));
        let sets: String = sets.collect();
        node.ask(&client, sets.as_bytes(), &b"+OK\r\n".repeat(300));
        node.clock.advance(Duration::from_millis(10));
        let keys = node.event_loop.node.lock().unwrap().engine.count(0).keys;
        assert!(
            keys <= 10 * 300,
            "{keys} in turn {turn}, of which at most 1200 live"
        );
    }
}

/// Planted: keys that end together are freed together, whatever it takes to tell of them.
#[test]
fn who_listens_to_patterns_misses_nothing_because_many_keys_end_together() {
    let mut node = Stepped::new(|config| {
        config.appendonly = false;
        config.set("notify-keyspace-events", &["KEx"]).unwrap();
    });
    let (listener, writer) = (node.client(), node.client());
    for number in 0..1_000 {
        let pattern = format!("__keyspace@0__:service-{number}:*");
        listener.send(request(&["PSUBSCRIBE", &pattern]).as_bytes());
    }
    listener.send(request(&["PSUBSCRIBE", "__keyevent@0__:expired"]).as_bytes());
    let set = |number| request(&["SET", &format!("service:{number}"), "token", "PX", "40"]);
    let sets: String = (0..2_000).map(set).collect();
    node.ask(&writer, sets.as_bytes(), &b"+OK\r\n".repeat(2_000));
    let _ = listener.take_received();
    node.clock.advance(Duration::from_millis(100));
    let sets: String = (2_000..4_000).map(set).collect();
    node.ask(&writer, sets.as_bytes(), &b"+OK\r\n".repeat(2_000));
    let mut told = 0;
    for _ in 0..100 {
        let state = Arc::clone(&node.event_loop.node);
        let mut executor = state.lock().unwrap();
        let now = executor.time.read(&*node.clock).node;
        executor.reclaim(now, 10_000);
        drop(executor);
        node.ask(&writer, request(&["GET", "none"]).as_bytes(), b"$-1\r\n");
        let text = String::from_utf8(listener.take_received()).unwrap();
        told += text.matches("pmessage").count();
    }
    assert!(!listener.is_closed());
    assert_eq!(told, 2_000);
}

#[test]
fn who_listens_is_told_at_once_of_keys_that_others_have_freed() {
    let mut node = Stepped::new(|config| {
        config.appendonly = false;
        config.set("notify-keyspace-events", &["Ex"]).unwrap();
    });
    let (listener, writer) = (node.client(), node.client());
    let listen = request(&["SUBSCRIBE", "__keyevent@0__:expired"]);
    let confirmed = b"*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:expired\r\n:1\r\n";
    node.ask(&listener, listen.as_bytes(), confirmed);
    let set = |name: &str| request(&["SET", name, "token", "PX", "40"]);
    node.ask(&writer, set("gone").as_bytes(), b"+OK\r\n");
    node.clock.advance(Duration::from_millis(100));
    let sets: String = ["a", "b", "c", "d"].map(set).concat();
    node.ask(&writer, sets.as_bytes(), &b"+OK\r\n".repeat(4));
    let told = b"*3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:expired\r\n$4\r\ngone\r\n";
    node.ask(&listener, b"", told);
}
