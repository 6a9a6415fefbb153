//! Several workers of one node, whose iterations a test takes in the order that it wants: what the clients of one see of
//! what those of another do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorlock_engine::RawTime;
use quorlock_persistence::{MemoryDisk, Preparer};

use super::EventLoop;
use super::pipe::{Pipe, PipeStream};
use super::tests::request;
use crate::clock::{Clock, SettableClock};
use crate::config::Config;
use crate::core::clients::{Client, Endpoints};
use crate::core::log_queue::LogEvents;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::{Batch, Next, Session};
use crate::start::for_tests;

struct Workers {
    node: Arc<NodeState>,
    loops: Vec<EventLoop<PipeStream>>,
    clock: Arc<SettableClock>,
    clients: Vec<(usize, usize, Pipe)>,
    /// Which of them others have woken.
    woken: Arc<[AtomicBool]>,
    _kept: (Preparer, LogEvents),
}

impl Workers {
    fn new(count: usize) -> Self {
        let mut config = Config::default();
        (config.appendonly, config.workers) = (false, count);
        let (disk, clock) = (Arc::new(MemoryDisk::new()), Arc::new(SettableClock::new()));
        let (node, preparer, log_events) = for_tests::started(config, disk, clock.clone());
        let loops = (0..count).map(|number| EventLoop::new(Arc::clone(&node), number));
        let woken: Arc<[AtomicBool]> = (0..count).map(|_| AtomicBool::new(false)).collect();
        for number in 0..count {
            let woken = Arc::clone(&woken);
            let wake = move || woken[number].store(true, Ordering::Relaxed);
            node.deliveries.wake_with(number, Box::new(wake));
        }
        Self {
            woken,
            loops: loops.collect(),
            clock,
            node,
            clients: Vec::new(),
            _kept: (preparer, log_events),
        }
    }

    fn client(&mut self, worker: usize) -> (Pipe, Arc<Client>) {
        let client = self
            .node
            .clients
            .add(Endpoints::NONE, RawTime::ZERO, worker);
        let pipe = Pipe::new(usize::MAX, None);
        let slot = self.loops[worker].next_slot();
        let now_raw = self.clock.raw();
        self.loops[worker].open(pipe.stream(), Arc::clone(&client), now_raw);
        self.clients.push((worker, slot, pipe.clone()));
        (pipe, client)
    }

    fn iterate(&mut self, worker: usize) {
        let now_raw = self.clock.raw();
        for (of, slot, pipe) in &self.clients {
            if *of == worker
                && let Some(ready) = pipe.take_readiness()
            {
                self.loops[worker].note_ready(*slot, ready.is_readable, ready.is_ending, now_raw);
            }
        }
        self.loops[worker].iterate(now_raw);
    }

    /// Iterates each worker as long as it has something to do by itself, and from then on when another one wakes it.
    fn run(&mut self) {
        let mut sleeps = vec![false; self.loops.len()];
        for _ in 0..1_000 {
            let is_due = |worker: &usize| {
                let is_woken = self.woken[*worker].swap(false, Ordering::Relaxed);
                let has_more =
                    || self.loops[*worker].pause(self.clock.raw()) == Some(Duration::ZERO);
                sleeps[*worker] = !is_woken && (sleeps[*worker] || !has_more());
                !sleeps[*worker]
            };
            let Some(worker) = (0..self.loops.len()).find(is_due) else {
                return;
            };
            self.iterate(worker);
        }
        panic!("workers find no end");
    }

    /// What a client is sent in an iteration of its worker behind this request.
    fn ask(&mut self, worker: usize, client: &Pipe, requests: &str) -> String {
        client.send(requests.as_bytes());
        self.iterate(worker);
        String::from_utf8(client.take_received()).unwrap()
    }
}

fn field(line: &str, name: &str) -> String {
    let mut fields = line.split([' ', '\n']);
    let found = fields.find(|field| field.starts_with(name));
    found.unwrap().to_owned()
}

fn words(line: &str) -> String {
    request(&line.split(' ').collect::<Vec<_>>())
}

/// Planted: the worker of the client that is killed takes it out of what others see, when it closes it.
#[test]
fn a_client_is_gone_when_the_reply_to_client_kill_is_sent() {
    let mut workers = Workers::new(2);
    let (killer, _) = workers.client(0);
    for preparation in [
        "SUBSCRIBE channel",
        "PSUBSCRIBE ch*",
        "SSUBSCRIBE channel",
        "BLPOP list 0",
        "CLIENT TRACKING ON BCAST",
        "WATCH key",
    ] {
        let (victim, client) = workers.client(1);
        let id = client.id;
        workers.ask(1, &victim, &words(preparation));
        let kill = format!("CLIENT KILL ID {id}");
        let requests = [
            kill.as_str(),
            "PUBLISH channel message",
            "SPUBLISH channel message",
            "RPUSH list element",
            "LLEN list",
            "DEL list",
            &kill,
            &format!("CLIENT LIST ID {id}"),
            &format!("CLIENT UNBLOCK {id}"),
            "PUBSUB NUMPAT",
            &format!("CLIENT TRACKING ON REDIRECT {id}"),
        ];
        let requests = requests.map(words).concat();
        let replies = workers.ask(0, &killer, &requests);
        let expected = ":1\r\n:0\r\n:0\r\n:1\r\n:1\r\n:1\r\n:0\r\n$0\r\n\r\n:0\r\n:0\r\n\
            -ERR The client ID you want redirect to does not exist\r\n";
        assert_eq!(replies, expected, "{preparation}");
        let node = &workers.node;
        assert_eq!(node.clients.count(), 1, "{preparation}");
        assert_eq!(node.statistics.blocked.load(Ordering::Relaxed), 0);
        let mut executor = node.lock().unwrap();
        assert_eq!(executor.engine.tracking().clients(), 0);
        assert_eq!((executor.watching, executor.engine.watched()), (0, 0));
        drop(executor);
        // What its worker does afterwards changes nothing of that.
        workers.iterate(1);
        assert!(victim.is_closed(), "{preparation}");
        assert!(victim.take_received().is_empty(), "{preparation}");
        assert_eq!(workers.node.clients.count(), 1);
        let blocked = &workers.node.statistics.blocked;
        assert_eq!(blocked.load(Ordering::Relaxed), 0);
    }
}

/// Planted: a request looks whether its client was killed when it begins, and not when it gets the engine.
#[test]
fn a_client_that_was_killed_executes_nothing_more() {
    let workers = Workers::new(2);
    let node = &workers.node;
    let victim = |node: &NodeState| {
        let client = node.clients.add(Endpoints::NONE, RawTime::ZERO, 1);
        Session::new(client, node)
    };
    let kill = |id: u64| {
        let mut killer = for_tests::session(node);
        let mut batch = Batch::of_worker(node, 0, RawTime::ZERO);
        let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
        let id = id.to_string();
        let arguments: [&[u8]; 4] = [b"CLIENT", b"KILL", b"ID", id.as_bytes()];
        batch.execute(&mut killer, &arguments, &mut wait, &mut replies);
        assert_eq!(replies.single_run().unwrap(), b":1\r\n");
    };
    let requests: [&[&[u8]]; 4] = [
        &[b"SET", b"key", b"value"],
        &[b"SUBSCRIBE", b"channel"],
        &[b"CLIENT", b"TRACKING", b"ON"],
        &[b"WATCH", b"key"],
    ];
    for request in requests {
        let mut session = victim(node);
        let mut batch = Batch::of_worker(node, 1, RawTime::ZERO);
        batch.serve(Some(&session.client));
        kill(session.client.id);
        // A request that is under way does not get the engine.
        assert!(batch.executor().is_err());
        let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
        let next = batch.execute(&mut session, request, &mut wait, &mut replies);
        assert_eq!(next, Next::Close, "{request:?}");
        assert!(replies.is_empty(), "{request:?}");
        batch.serve(None);
        let (executor, _) = batch.executor().unwrap();
        assert_eq!(executor.engine.count(0).keys, 0);
        assert_eq!(executor.engine.channels().clients(), 0);
        assert_eq!(executor.engine.tracking().clients(), 0);
        assert_eq!(executor.watching, 0);
    }
}

/// As redis-server 7.0.15. Planted: the command is noted when it is executed. Planted: the time of a watched key does not
/// count.
#[test]
fn client_list_shows_what_was_asked_last_and_whose_transaction_will_fail() {
    let mut workers = Workers::new(2);
    let (other, _) = workers.client(0);
    let (client, identity) = workers.client(1);
    let list = words(&format!("CLIENT LIST ID {}", identity.id));
    let set = words("SET key value");
    let steps = [
        ("WATCH key other", None, "flags=N", "cmd=watch"),
        (
            "PING",
            Some(words("SET third value")),
            "flags=N",
            "cmd=ping",
        ),
        ("MULTI", Some(set.clone()), "flags=xd", "cmd=multi"),
        ("NONE", None, "flags=xd", "cmd=NULL"),
        ("EXEC", None, "flags=N", "cmd=exec"),
        ("CLIENT NONE", None, "flags=N", "cmd=NULL"),
        ("WATCH key", Some(set.clone()), "flags=d", "cmd=watch"),
        ("UNWATCH", None, "flags=N", "cmd=unwatch"),
        (
            "WATCH none",
            Some(words("FLUSHALL")),
            "flags=N",
            "cmd=watch",
        ),
        (
            "WATCH none",
            Some(words("SET none v PX 10")),
            "flags=d",
            "cmd=watch",
        ),
        ("RESET", None, "flags=N", "cmd=reset"),
        ("WATCH none", None, "flags=N", "cmd=watch"),
        ("GET", None, "flags=N", "cmd=get"),
    ];
    let shown = |workers: &mut Workers| {
        let line = workers.ask(0, &other, &list);
        [field(&line, "flags="), field(&line, "cmd=")]
    };
    for (request, of_other, flags, command) in steps {
        workers.ask(1, &client, &words(request));
        if let Some(of_other) = of_other {
            workers.ask(0, &other, &of_other);
        }
        assert_eq!(shown(&mut workers), [flags, command], "{request}");
    }
    workers.clock.advance(Duration::from_millis(10));
    assert_eq!(
        shown(&mut workers),
        ["flags=d", "cmd=get"],
        "it has expired"
    );
    workers.ask(1, &client, &words("RESET"));
    // What is held up, or refused of who listens, was asked all the same.
    workers.ask(0, &other, &words("CLIENT PAUSE 1000 WRITE"));
    workers.ask(1, &client, &set);
    assert_eq!(shown(&mut workers), ["flags=b", "cmd=set"]);
    workers.ask(0, &other, &words("CLIENT UNPAUSE"));
    workers.run();
    workers.ask(1, &client, &words("SUBSCRIBE channel"));
    workers.ask(1, &client, &words("LLEN list"));
    assert_eq!(shown(&mut workers), ["flags=P", "cmd=llen"]);
}

/// Planted: each worker executes what it has held up when the pause is over.
#[test]
fn what_a_pause_has_held_up_is_executed_in_the_order_in_which_it_came() {
    for ends_early in [false, true] {
        let mut workers = Workers::new(3);
        let (owner, _) = workers.client(0);
        workers.ask(0, &owner, &words("CLIENT PAUSE 1000 WRITE"));
        let of_workers = [2, 0, 0, 1, 2, 2, 1, 0];
        let clients: Vec<_> = of_workers
            .iter()
            .map(|worker| workers.client(*worker).0)
            .collect();
        for (number, (worker, client)) in of_workers.iter().zip(&clients).enumerate() {
            let push = words(&format!("RPUSH list {number}"));
            assert_eq!(workers.ask(*worker, client, &push.repeat(2)), "");
        }
        // One of those in the middle goes.
        clients[3].reset();
        workers.iterate(1);
        for event_loop in &workers.loops {
            assert_eq!(
                event_loop.until_pending(workers.clock.raw()),
                Some(Duration::from_secs(1))
            );
        }
        match ends_early {
            true => drop(workers.ask(0, &owner, &words("CLIENT UNPAUSE"))),
            false => workers.clock.advance(Duration::from_secs(1)),
        }
        // Only the worker of the first has something to do, until that is done.
        let now_raw = workers.clock.raw();
        let until = workers.loops.iter();
        let until = until.map(|one| one.until_pending(now_raw));
        let expected = [None, None, Some(Duration::ZERO)];
        assert_eq!(until.collect::<Vec<_>>(), expected);
        workers.run();
        let range = workers.ask(0, &owner, &words("LRANGE list 0 -1"));
        let order: Vec<&str> = range.lines().skip(2).step_by(2).collect();
        assert_eq!(order.concat(), "00112244556677", "{ends_early}");
        let replies = clients.iter().map(Pipe::take_received);
        assert_eq!(replies.filter(|reply| !reply.is_empty()).count(), 7);
        assert!(workers.loops.iter().all(|one| one.pending.is_empty()));
        assert_eq!(workers.node.pause.last_due(0), None);
    }
}

/// Planted: only a client that tracks or listens by itself is told before it is sent what followed.
#[test]
fn a_client_that_is_told_for_another_one_is_told_before_the_reply_to_what_it_asks_next() {
    let mut workers = Workers::new(3);
    let (writer, _) = workers.client(2);
    let (reader, _) = workers.client(0);
    let (told, client) = workers.client(1);
    workers.ask(1, &told, &words("HELLO 3"));
    let id = client.id;
    let requests = [&format!("CLIENT TRACKING ON REDIRECT {id}"), "GET key"].map(words);
    workers.ask(0, &reader, &requests.concat());
    // Its worker executes the request before it looks at what others have published.
    told.send(words("PING").as_bytes());
    assert_eq!(
        workers.ask(2, &writer, &words("SET key value PX 1000")),
        "+OK\r\n"
    );
    workers.iterate(1);
    let expected = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n+PONG\r\n";
    assert_eq!(told.take_received(), expected.as_bytes());
}

/// Planted: only a client that tracks now is told before it is sent what followed.
#[test]
fn a_client_that_ends_its_tracking_is_told_before_of_what_it_changed_before() {
    let mut workers = Workers::new(1);
    let (client, _) = workers.client(0);
    let read = ["HELLO 3", "CLIENT TRACKING ON", "GET key"].map(words);
    workers.ask(0, &client, &read.concat());
    let requests = [
        "MULTI",
        "SET key value PX 1000",
        "CLIENT TRACKING OFF",
        "EXEC",
        "PING",
    ];
    let replies = workers.ask(0, &client, &requests.map(words).concat());
    let expected = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n+PONG\r\n";
    assert!(replies.ends_with(expected), "{replies}");
}

/// Planted: the place is kept until the client has read what was executed in its turn.
#[test]
fn who_has_had_a_turn_behind_a_pause_and_does_not_read_holds_up_nobody() {
    let mut workers = Workers::new(2);
    let (owner, _) = workers.client(0);
    let (silent, _) = workers.client(0);
    let (other, _) = workers.client(1);
    workers.ask(0, &owner, &words("CLIENT PAUSE 1000 WRITE"));
    let requests = ["SET a 1", "CLIENT PAUSE 1000 WRITE", "SET b 1"];
    assert_eq!(workers.ask(0, &silent, &requests.map(words).concat()), "");
    silent.set_room(0);
    workers.clock.advance(Duration::from_secs(1));
    workers.run();
    assert_eq!(workers.ask(1, &other, &words("SET c 1")), "");
    workers.clock.advance(Duration::from_secs(1));
    workers.run();
    assert_eq!(received(&other), "+OK\r\n");
    silent.set_room(usize::MAX);
    workers.iterate(0);
    workers.run();
    assert_eq!(received(&silent), "+OK\r\n".repeat(3));
}

/// Planted: a request that a pause holds up takes the word of CLIENT CACHING with it.
#[test]
fn client_caching_is_about_the_next_request_that_is_executed() {
    let mut workers = Workers::new(2);
    let (owner, _) = workers.client(0);
    let (client, _) = workers.client(1);
    let requests = ["HELLO 3", "CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES"];
    workers.ask(1, &client, &requests.map(words).concat());
    workers.ask(0, &owner, &words("CLIENT PAUSE 1000 ALL"));
    assert_eq!(workers.ask(1, &client, &words("GET key")), "");
    workers.clock.advance(Duration::from_secs(1));
    workers.run();
    assert_eq!(received(&client), "_\r\n");
    workers.ask(0, &owner, &words("SET key value"));
    workers.run();
    let invalidated = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n";
    assert_eq!(received(&client), invalidated);
}

fn received(client: &Pipe) -> String {
    String::from_utf8(client.take_received()).unwrap()
}
