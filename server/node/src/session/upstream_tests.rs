//! A node with an upstream, whose clients are connections in memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod channels;
mod ending;
mod rights;
mod transactions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use quorlock_engine::{ErrorReply, Reply};
use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::{Config, FirstStart};
use crate::core::upstream::{Publish, Upstream, UpstreamRequest, UpstreamSubscription};
use crate::simulation::{Client, Node, Setup, request_bytes};

/// Keeps requests until the test answers them, or answers each at once with its words.
#[derive(Debug, Default)]
struct Stub {
    answers_at_once: AtomicBool,
    requests: Mutex<Vec<UpstreamRequest>>,
    left: Mutex<Vec<u64>>,
    subscriptions: Mutex<Vec<UpstreamSubscription>>,
    /// What clients do not listen to any more.
    ended: Mutex<Vec<String>>,
    publish: Mutex<Option<Publish>>,
}

impl Upstream for Stub {
    fn execute(&self, request: UpstreamRequest) -> bool {
        let mut commands = request.commands.iter();
        let waits = commands.any(|words| &words[0][..] == b"BLPOP");
        match self.answers_at_once.load(Ordering::Relaxed) {
            true => {
                let reply = Reply::bulk(text(&request));
                request.answer.send(reply);
            }
            false => self.requests.lock().unwrap().push(request),
        }
        waits
    }

    fn begin(&self, publish: Publish) {
        *self.publish.lock().unwrap() = Some(publish);
    }

    fn listen(&self, subscription: UpstreamSubscription) {
        match self.answers_at_once.load(Ordering::Relaxed) {
            true => subscription.answer.send(Reply::Ok),
            false => self.subscriptions.lock().unwrap().push(subscription),
        }
    }

    fn unlisten(&self, client: u64, is_pattern: bool, names: Vec<bytes::Bytes>) {
        let names: Vec<_> = names
            .iter()
            .map(|name| String::from_utf8_lossy(name))
            .collect();
        let ended = format!("{client} {is_pattern} {}", names.join(" "));
        self.ended.lock().unwrap().push(ended);
    }

    fn left(&self, client: u64) {
        self.left.lock().unwrap().push(client);
    }
}

/// What is asked for: words divided by spaces, commands by commas.
fn text(request: &UpstreamRequest) -> String {
    let words = |command: &Vec<bytes::Bytes>| {
        let words = command.iter().map(|word| String::from_utf8_lossy(word));
        words.collect::<Vec<_>>().join(" ")
    };
    let commands: Vec<String> = request.commands.iter().map(words).collect();
    commands.join(",")
}

struct Tested {
    node: Node,
    upstream: Arc<Stub>,
}

impl Tested {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(mut config: Config) -> Self {
        config.first_start = FirstStart::Serve;
        let upstream = Arc::new(Stub::default());
        let setup = Setup {
            upstream: Some(upstream.clone()),
            ..Setup::new(config)
        };
        let (disk, clock) = (Arc::new(MemoryDisk::new()), Arc::new(SettableClock::new()));
        let node = Node::start(disk, clock, &setup).unwrap();
        Self { node, upstream }
    }

    fn at_once() -> Self {
        let tested = Self::new();
        let at_once = &tested.upstream.answers_at_once;
        at_once.store(true, Ordering::Relaxed);
        tested
    }

    fn connect(&mut self) -> Client {
        self.node.connect(usize::MAX, None)
    }

    /// Iterates until nothing is left to do.
    fn run(&mut self) {
        while (0..self.node.workers()).any(|worker| self.node.iterate(worker)) {}
    }

    /// Sends requests together.
    fn send(&mut self, client: Client, requests: &[&str]) {
        let bytes = requests.iter().flat_map(|request| {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            request_bytes(&words)
        });
        let bytes: Vec<u8> = bytes.collect();
        self.node.send(client, &bytes);
        self.run();
    }

    /// What has come to a client, after an iteration.
    fn received(&mut self, client: Client) -> String {
        self.run();
        String::from_utf8(self.node.take_received(client)).unwrap()
    }

    fn ask(&mut self, client: Client, request: &str) -> String {
        self.send(client, &[request]);
        self.received(client)
    }

    /// The requests that came since.
    fn take(&self) -> Vec<UpstreamRequest> {
        std::mem::take(&mut *self.upstream.requests.lock().unwrap())
    }

    fn take_one(&self) -> UpstreamRequest {
        let mut requests = self.take();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    fn take_subscription(&self) -> UpstreamSubscription {
        self.upstream.subscriptions.lock().unwrap().remove(0)
    }

    fn publish(&self, channel: &str, payload: &str) {
        let publish = self.upstream.publish.lock().unwrap();
        let publish = publish.as_ref().unwrap();
        publish.send(channel.as_bytes(), payload.as_bytes());
    }

    fn ended(&self) -> Vec<String> {
        std::mem::take(&mut *self.upstream.ended.lock().unwrap())
    }

    fn left(&self) -> Vec<u64> {
        self.upstream.left.lock().unwrap().clone()
    }
}

#[test]
fn commands_on_keys_are_the_upstreams_and_the_others_stay_here() {
    let mut tested = Tested::at_once();
    let client = tested.connect();
    for request in [
        "SET k v NX PX 10",
        "get k",
        "EVAL script 1 k v",
        "EVALSHA abc 0",
        "SCRIPT LOAD x",
        "PUBLISH c m",
        "LOCK.ACQUIRE k v 10",
        "DBSIZE",
        "BLPOP k 0",
    ] {
        let reply = format!("${}\r\n{request}\r\n", request.len());
        assert_eq!(tested.ask(client, request), reply);
    }
    for (request, reply) in [
        ("PING", "+PONG\r\n"),
        ("ECHO x", "$1\r\nx\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("CLIENT ID", ":1\r\n"),
        (
            "GET",
            "-ERR wrong number of arguments for 'get' command\r\n",
        ),
        ("CLIENT TRACKING OFF", "+OK\r\n"),
        ("UNWATCH", "+OK\r\n"),
    ] {
        assert_eq!(tested.ask(client, request), reply, "{request}");
    }
    assert!(
        tested
            .ask(client, "NOSUCH k")
            .starts_with("-ERR unknown command")
    );
    let hello = tested.ask(client, "HELLO 3");
    assert!(hello.starts_with("%7\r\n"), "{hello}");
    assert!(tested.node.stored().unwrap().is_empty());
}

#[test]
fn what_needs_keys_of_its_own_is_refused() {
    let mut tested = Tested::at_once();
    let client = tested.connect();
    for request in ["WATCH k", "SELECT 3", "CLIENT TRACKING ON"] {
        let reply = tested.ask(client, request);
        assert!(
            reply.starts_with("-NOTALOCK the agent keeps no keys"),
            "{reply}"
        );
    }
    let reply = tested.ask(client, "SELECT 16");
    assert_eq!(reply, "-ERR DB index is out of range\r\n");
    assert!(
        tested
            .ask(client, "INFO errorstats")
            .contains("errorstat_NOTALOCK:count=3")
    );
}

#[test]
fn what_is_on_disk_is_not_said_where_nothing_is_kept() {
    let mut tested = Tested::at_once();
    let client = tested.connect();
    let refused = tested.ask(client, "WAITAOF 1 0 100");
    assert!(
        refused.starts_with("-NOTALOCK an agent writes nothing to disk"),
        "{refused}"
    );
    assert_eq!(tested.ask(client, "WAITAOF 0 0 100"), "*2\r\n:0\r\n:0\r\n");
    assert_eq!(tested.ask(client, "WAIT 1 100"), ":0\r\n");
}

#[test]
fn a_password_is_asked_for_here() {
    let mut config = Config::default();
    config.set("requirepass", &["secret"]).unwrap();
    let mut tested = Tested::with(config);
    let client = tested.connect();
    assert!(tested.ask(client, "GET k").starts_with("-NOAUTH"));
    assert_eq!(tested.ask(client, "AUTH secret"), "+OK\r\n");
    assert_eq!(tested.ask(client, "GET k"), "");
    tested.take_one().answer.send(Reply::Nil);
    assert_eq!(tested.received(client), "$-1\r\n");
}

#[test]
fn a_pipeline_keeps_its_order_and_asks_for_one_at_a_time() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["PING", "GET a", "PING", "GET b", "CLIENT ID"]);
    assert_eq!(tested.received(client), "+PONG\r\n");
    let first = tested.take_one();
    assert_eq!((text(&first), first.client), ("GET a".to_owned(), 1));
    first.answer.send(Reply::Integer(7));
    assert_eq!(tested.received(client), ":7\r\n+PONG\r\n");
    let second = tested.take_one();
    assert_eq!(text(&second), "GET b");
    second
        .answer
        .send(Reply::Error(ErrorReply::fixed("NOQUORUM no")));
    assert_eq!(tested.received(client), "-NOQUORUM no\r\n:1\r\n");

    tested
        .upstream
        .answers_at_once
        .store(true, Ordering::Relaxed);
    let requests: Vec<String> = (0..500).map(|number| format!("GET {number}")).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    tested.send(client, &requests);
    let replies = requests
        .iter()
        .map(|it| format!("${}\r\n{it}\r\n", it.len()));
    assert_eq!(tested.received(client), replies.collect::<String>());
}

/// The reply comes before those to earlier requests have left.
#[test]
fn an_early_reply_waits_for_those_before_it() {
    let mut tested = Tested::at_once();
    let client = tested.connect();
    tested.node.set_room(client, 5);
    tested.send(client, &["PING", "GET a", "PING"]);
    assert_eq!(tested.received(client), "+PONG");
    tested.node.set_room(client, usize::MAX);
    assert_eq!(tested.received(client), "\r\n$5\r\nGET a\r\n+PONG\r\n");
}

#[test]
fn a_reply_may_come_from_another_thread() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["GET a"]);
    let request = tested.take_one();
    std::thread::spawn(move || request.answer.send(Reply::Ok))
        .join()
        .unwrap();
    assert_eq!(tested.received(client), "+OK\r\n");
}

#[test]
fn a_dropped_answer_is_an_error_and_the_client_goes_on() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["SET k v", "PING"]);
    drop(tested.take_one());
    let reply = tested.received(client);
    assert!(
        reply.starts_with("-ERR the command was given up"),
        "{reply}"
    );
    assert!(reply.ends_with("\r\n+PONG\r\n"), "{reply}");
    assert!(
        tested
            .ask(client, "INFO errorstats")
            .contains("errorstat_ERR:count=1")
    );
}

/// The next client has the number of the connection that was before it.
#[test]
fn the_reply_of_a_client_that_went_is_not_the_next_clients() {
    let mut tested = Tested::new();
    let gone = tested.connect();
    tested.send(gone, &["GET old"]);
    tested.node.reset(gone);
    tested.run();
    assert_eq!(tested.left(), [1]);
    let next = tested.connect();
    tested.send(next, &["GET new"]);
    let mut requests = tested.take();
    assert_eq!(requests.len(), 2);
    requests.remove(0).answer.send(Reply::bulk("old"));
    assert_eq!(tested.received(next), "");
    requests.remove(0).answer.send(Reply::bulk("new"));
    assert_eq!(tested.received(next), "$3\r\nnew\r\n");
}

/// As `printf ... | nc` does.
#[test]
fn a_client_that_sends_no_more_is_answered() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["GET a"]);
    tested.node.end(client);
    tested.run();
    assert!(!tested.node.is_closed(client));
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.received(client), "+OK\r\n");
    assert!(tested.node.is_closed(client));
}

#[test]
fn a_client_that_sends_no_more_while_it_waits_for_itself_alone_has_gone() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["BLPOP a 0"]);
    tested.node.end(client);
    tested.run();
    assert!(tested.node.is_closed(client));
    assert_eq!(tested.left(), [1]);
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.received(client), "");
}

#[test]
fn a_client_that_waits_is_not_blocked_and_cannot_be_unblocked() {
    let mut tested = Tested::new();
    let (client, other) = (tested.connect(), tested.connect());
    tested.send(client, &["SET k v"]);
    let list = tested.ask(other, "CLIENT LIST ID 1");
    assert!(
        list.contains(" flags=N ") && list.contains(" cmd=set "),
        "{list}"
    );
    assert!(
        tested
            .ask(other, "INFO clients")
            .contains("blocked_clients:0")
    );
    assert_eq!(tested.ask(other, "CLIENT UNBLOCK 1"), ":0\r\n");
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.received(client), "+OK\r\n");
}

#[test]
fn a_pause_holds_up_what_would_be_handed_over() {
    let mut tested = Tested::new();
    let (client, other) = (tested.connect(), tested.connect());
    assert_eq!(tested.ask(other, "CLIENT PAUSE 60000"), "+OK\r\n");
    tested
        .node
        .send(client, &request_bytes(&[b"SET", b"k", b"v"]));
    tested.node.iterate(0);
    assert!(tested.take().is_empty());
    assert_eq!(tested.ask(other, "CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(text(&tested.take_one()), "SET k v");
}

#[test]
fn replies_that_a_client_does_not_want_are_left_out() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["CLIENT REPLY SKIP", "SET k v", "PING"]);
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.received(client), "+PONG\r\n");
    tested.send(client, &["CLIENT REPLY OFF", "SET k v", "SET l v"]);
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.received(client), "");
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.ask(client, "CLIENT REPLY ON"), "+OK\r\n");
}

#[test]
fn a_client_that_listens_is_answered() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.ask(client, "HELLO 3");
    tested.send(client, &["SUBSCRIBE c"]);
    tested.take_subscription().answer.send(Reply::Ok);
    tested.received(client);
    tested.send(client, &["GET a"]);
    tested.take_one().answer.send(Reply::Ok);
    assert_eq!(tested.received(client), "+OK\r\n");
}

#[test]
fn thousands_wait_and_each_gets_its_own() {
    let mut config = Config::default();
    config.set("workers", &["3"]).unwrap();
    let mut tested = Tested::with(config);
    let clients: Vec<Client> = (0..5_000).map(|_| tested.connect()).collect();
    for (number, client) in clients.iter().enumerate() {
        let name = number.to_string();
        tested
            .node
            .send(*client, &request_bytes(&[b"GET", name.as_bytes()]));
    }
    tested.run();
    let mut requests = tested.take();
    assert_eq!(requests.len(), clients.len());
    requests.reverse();
    for request in requests {
        let name = Reply::bulk(&request.commands[0][1]);
        request.answer.send(name);
    }
    tested.run();
    for (number, client) in clients.iter().enumerate() {
        let name = number.to_string();
        let reply = format!("${}\r\n{name}\r\n", name.len());
        assert_eq!(tested.node.take_received(*client), reply.as_bytes());
    }
}

#[test]
fn a_node_with_an_upstream_tells_no_identity_so_that_nobody_counts_its_vote() {
    let mut tested = Tested::new();
    let client = tested.connect();
    let told = tested.ask(client, "INFO server");
    assert!(told.contains("quorlock_version:"), "{told}");
    assert!(told.contains("\r\nquorlock_agent:1\r\n"), "{told}");
    for field in ["run_id:", "quorlock_node_id:", "quorlock_cluster_id:"] {
        assert!(!told.contains(field), "{field} in {told}");
    }
}

#[test]
fn a_reply_that_is_true_only_for_some_time_is_made_when_it_leaves() {
    let mut tested = Tested::new();
    let client = tested.connect();
    tested.send(client, &["SET k v NX PX 10"]);
    let is_late = Arc::new(AtomicBool::new(false));
    let looked = Arc::clone(&is_late);
    let make = move || match looked.load(Ordering::Relaxed) {
        true => Reply::Nil,
        false => Reply::Ok,
    };
    tested.take_one().answer.send_made(make);
    // Its worker has not come to it yet.
    is_late.store(true, Ordering::Relaxed);
    assert_eq!(tested.received(client), "$-1\r\n");
}
