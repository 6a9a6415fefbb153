//! A client without threads and sockets, and nodes that answer it in memory, one reply after the other, at once or after
//! a round trip.

mod node_replies;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::OperationId;
use crate::action::{Action, Event};
use crate::address::NodeAddress;
use crate::call::{AcquireCall, Call, Outcome};
use crate::client::Client;
use crate::clock::ClientInstant;
use crate::leader::Observed;
use crate::link::{ConnectionId, earlier};
use crate::log_line::News;
use crate::outcome::Cause;
use crate::settings::Settings;
use crate::token::Token;
use crate::wait::{Wait, Waiting};

pub(super) const TTL: Duration = Duration::from_secs(10);

/// What a node does with a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Conduct {
    #[default]
    Serves,
    /// It refuses connections, and closes the one it has.
    IsAway,
    /// A connection to it is begun and never stands.
    IsConnecting,
    /// It answers nothing from now on.
    IsSilent,
    /// It answers nothing from the next request with this command on.
    IsSilentFrom(&'static str),
    /// It closes the connection upon this command.
    Closes(&'static str),
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) conduct: Conduct,
    /// More lines of its INFO.
    pub(super) info: String,
    pub(super) keys: HashMap<String, String>,
    /// For how long it was asked to keep the key that it keeps last.
    pub(super) kept_ms: String,
    /// What it tells of the time left.
    pub(super) left_ms: u64,
    /// The fence of the lock, and the token that took it.
    pub(super) fence: (u64, String),
    /// It does not know which fences it took.
    pub(super) has_lost_fences: bool,
    /// What it answers each time it is asked for its ceiling, and the last of it from then on.
    pub(super) ceilings: Vec<String>,
    /// The ceilings that it was given.
    pub(super) adopted: Vec<String>,
    /// How often it was asked for a lock.
    pub(super) takes: usize,
    /// How much longer its answers take.
    pub(super) slow: Duration,
    /// How many it says stand in a line, if it has lines.
    pub(super) in_line: Option<u64>,
    /// The requests about lines that it has refused because it knows none.
    pub(super) refused: Vec<String>,
    /// A writer stands in line there, and readers that come are refused.
    pub(super) keeps_readers_out: bool,
    /// It lets nobody stand in line for a lock that it does not have.
    pub(super) has_no_line_for_free: bool,
    /// It tells of changes and has no lines, as Redis and Valkey do.
    pub(super) tells_changes: bool,
    /// It refuses to tell of changes.
    pub(super) refuses_tracking: bool,
    /// It is of a version that knows no `TURN`.
    pub(super) is_without_turns: bool,
    /// How long the last turn that was asked for is to last.
    pub(super) turn_ms: Option<u64>,
    /// The tokens that stood in line for the lock, one after the other, and those that were tried.
    pub(super) waits: Vec<String>,
    /// The locks in whose lines they stood.
    pub(super) waits_for: Vec<String>,
    pub(super) tried: Vec<String>,
    /// The locks for which the client stands in line no longer.
    pub(super) unwaits: Vec<String>,
    /// The locks of which it was asked whether they are held.
    pub(super) looks_at: Vec<String>,
    /// How often it has closed a connection.
    pub(super) closures: usize,
    /// The node that answers under this entry as well.
    pub(super) answers_as: Option<usize>,
    /// How often it was asked which of several locks it has.
    pub(super) surveys: usize,
    pub(super) refuses_surveys: bool,
    /// It is of a version that knows no `SET ... NX ... GET`, as Redis before 7.
    pub(super) is_without_get: bool,
    /// A page of its list of locks: what it answers to each question for one.
    pub(super) page: String,
    /// How it was asked to tell of changes.
    pub(super) tracking: Vec<String>,
    /// All that it was asked since its login.
    pub(super) requests: usize,
    connection: Option<ConnectionId>,
}

pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) now: ClientInstant,
    pub(super) nodes: Vec<Node>,
    pub(super) told: Vec<(OperationId, Outcome)>,
    pub(super) news: Vec<(OperationId, Waiting)>,
    pub(super) observed: Vec<(OperationId, Observed)>,
    pub(super) watched: Vec<(OperationId, Option<Token>)>,
    pub(super) lost: Vec<OperationId>,
    /// How long the kernel was told to wait for acknowledgements.
    pub(super) limits: Vec<Duration>,
    pub(super) log: Vec<News>,
    /// How long connecting takes, and every answer.
    pub(super) round_trip: Duration,
    on_the_way: VecDeque<(ClientInstant, Arrival)>,
    calls: u64,
}

/// What reaches the client a round trip later.
#[derive(Debug)]
struct Arrival {
    id: ConnectionId,
    /// Nothing: the connection stands.
    replies: Option<String>,
}

impl Cluster {
    pub(super) fn new(count: usize) -> Self {
        let address = |number| NodeAddress::parse(&format!("redis://10.0.0.{number}:7001"));
        let addresses = (0..count).map(|number| address(number).unwrap()).collect();
        let random = Box::new(StdRng::seed_from_u64(1));
        Self {
            client: Client::new(addresses, Settings::default(), random),
            now: ClientInstant::from_nanos(7_000_000_000, 3_000_000_000),
            nodes: (0..count).map(|_| Node::default()).collect(),
            told: Vec::new(),
            news: Vec::new(),
            observed: Vec::new(),
            watched: Vec::new(),
            lost: Vec::new(),
            limits: Vec::new(),
            log: Vec::new(),
            round_trip: Duration::ZERO,
            on_the_way: VecDeque::new(),
            calls: 0,
        }
    }

    pub(super) fn acquisition(wait: Wait) -> AcquireCall {
        AcquireCall {
            name: "a".into(),
            own_token: None,
            permits: None,
            owner: None,
            ttl: TTL,
            lock_delay: Duration::ZERO,
            is_fenced: false,
            is_shared: false,
            text: None,
            wait,
            renews: true,
            min_validity: Duration::ZERO,
            reserve: Duration::ZERO,
            max_lifetime: None,
        }
    }

    pub(super) fn call(&mut self, call: Call) -> OperationId {
        self.calls += 1;
        let operation = OperationId(self.calls);
        self.happens(Event::Call(operation, call));
        operation
    }

    /// A lock that all nodes hold.
    pub(super) fn held(&mut self) -> OperationId {
        let held = self.call(Call::Acquire(Self::acquisition(Wait::None)));
        assert!(matches!(self.outcome(held), Some(Outcome::Acquired { .. })));
        assert!(self.nodes.iter().all(|node| node.keys.contains_key("a")));
        held
    }

    /// What a call was told, once.
    pub(super) fn outcome(&mut self, of: OperationId) -> Option<Outcome> {
        let at = self.told.iter().position(|(to, _)| *to == of)?;
        Some(self.told.remove(at).1)
    }

    /// Somebody else holds the lock on all nodes.
    pub(super) fn take_away(&mut self) {
        for node in &mut self.nodes {
            node.keys.insert("a".to_owned(), "somebody".to_owned());
            node.left_ms = 4_000;
        }
    }

    pub(super) fn conduct(&mut self, node: usize, conduct: Conduct) {
        self.nodes[node].conduct = conduct;
        if conduct == Conduct::IsAway
            && let Some(id) = self.nodes[node].connection.take()
        {
            self.happens(Event::Closed(id, refused()));
        }
        self.happens(Event::Timer);
    }

    /// Time passes, and the client does what is due, when it is.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        loop {
            let arrival = self.on_the_way.front().map(|(at, _)| *at);
            let next = earlier(arrival, self.client.next_time());
            let Some(next) = next.filter(|next| until.has_reached(*next)) else {
                break;
            };
            self.now = self.now.after(self.now.until(next));
            while let Some((at, _)) = self.on_the_way.front()
                && self.now.has_reached(*at)
            {
                self.arrive();
            }
            self.happens(Event::Timer);
        }
        self.now = until;
        self.happens(Event::Timer);
    }

    /// A node says that a lock is free, and that it is the turn of this token.
    pub(super) fn push(&mut self, node: usize, name: &str, token: &str) {
        self.push_of("lock-free", node, name, token);
    }

    /// A node asks whether the client still stands in line.
    pub(super) fn push_wanted(&mut self, node: usize, name: &str, token: &str) {
        self.push_of("lock-wanted", node, name, token);
    }

    fn push_of(&mut self, kind: &str, node: usize, name: &str, token: &str) {
        let words = [kind, name, token];
        let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let id = self.nodes[node].connection.unwrap();
        let push = format!(">3\r\n{}", words.concat());
        self.happens(Event::Received(id, push.as_bytes()));
    }

    /// A node says that a lock has changed.
    pub(super) fn push_changed(&mut self, node: usize, name: &str) {
        let id = self.nodes[node].connection.unwrap();
        let bytes = name.len();
        let push = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${bytes}\r\n{name}\r\n");
        self.happens(Event::Received(id, push.as_bytes()));
    }

    /// What the client has written for a node, which does not get it.
    pub(super) fn take_written(&mut self, node: usize) -> String {
        let connection = self.nodes[node].connection;
        let output = connection.and_then(|id| self.client.output(id));
        String::from_utf8(output.map(std::mem::take).unwrap_or_default()).unwrap()
    }

    fn arrive(&mut self) {
        let Some((_, Arrival { id, replies })) = self.on_the_way.pop_front() else {
            return;
        };
        if self.nodes[id.node].connection != Some(id) {
            return;
        }
        match replies {
            None => self.happens(Event::Connected(id, &peer(id))),
            Some(replies) => self.happens(Event::Received(id, replies.as_bytes())),
        }
    }

    /// An event, and all that follows from it at the same time.
    pub(super) fn happens(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.client.handle(self.now, event, &mut actions);
        let mut actions = VecDeque::from(actions);
        loop {
            let mut more = Vec::new();
            match actions.pop_front() {
                Some(Action::Open(id)) => self.open(id, &mut more),
                Some(Action::Close(id)) => {
                    let connection = &mut self.nodes[id.node].connection;
                    connection.take_if(|open| *open == id);
                }
                Some(Action::Tell(operation, outcome)) => self.told.push((operation, outcome)),
                Some(Action::Waiting(operation, waiting)) => self.news.push((operation, waiting)),
                Some(Action::Observed(operation, observed)) => {
                    self.observed.push((operation, observed));
                }
                Some(Action::Watched(operation, observed)) => {
                    self.watched.push((operation, observed));
                }
                Some(Action::Lost { held, .. }) => self.lost.push(held),
                Some(Action::LimitUnacknowledged(_, limit)) => self.limits.push(limit),
                Some(Action::Log(line)) => self.log.push(line.news),
                Some(_) => {}
                None if !self.answer(&mut more) => return,
                None => {}
            }
            actions.extend(more);
        }
    }

    fn open(&mut self, id: ConnectionId, actions: &mut Vec<Action>) {
        let node = &mut self.nodes[id.node];
        if node.conduct == Conduct::IsAway {
            let closed = Event::Closed(id, refused());
            return self.client.handle(self.now, closed, actions);
        }
        if node.conduct == Conduct::IsConnecting {
            return;
        }
        node.connection = Some(id);
        if !self.round_trip.is_zero() {
            let connected = Arrival { id, replies: None };
            let at = self.now.after(self.round_trip);
            return self.on_the_way.push_back((at, connected));
        }
        let peer = peer(id);
        let connected = Event::Connected(id, &peer);
        self.client.handle(self.now, connected, actions);
    }

    /// Has one node answer what it was sent. Says whether there was anything.
    fn answer(&mut self, actions: &mut Vec<Action>) -> bool {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let Some(id) = node.connection else { continue };
            let Some(output) = self.client.output(id).filter(|output| !output.is_empty()) else {
                continue;
            };
            let requests = String::from_utf8(std::mem::take(output)).unwrap();
            if let Conduct::Closes(command) = node.conduct
                && requests.contains(command)
            {
                node.closures += 1;
                node.connection = None;
                let closed = Event::Closed(id, refused());
                self.client.handle(self.now, closed, actions);
                return true;
            }
            let replies: String = requests
                .split('*')
                .skip(1)
                .map(|request| node.reply(index, request))
                .collect();
            if !self.round_trip.is_zero() {
                let replies = Some(replies);
                let at = self.now.after(self.round_trip + node.slow);
                let later = self
                    .on_the_way
                    .iter()
                    .position(|(other, _)| !at.has_reached(*other));
                let place = later.unwrap_or(self.on_the_way.len());
                self.on_the_way.insert(place, (at, Arrival { id, replies }));
                return true;
            }
            let received = Event::Received(id, replies.as_bytes());
            self.client.handle(self.now, received, actions);
            return true;
        }
        false
    }
}

impl Node {
    fn reply(&mut self, index: usize, request: &str) -> String {
        // Every second line is the length of the next.
        let words: Vec<&str> = request.split("\r\n").skip(2).step_by(2).collect();
        if let Conduct::IsSilentFrom(command) = self.conduct
            && words[0] == command
        {
            self.conduct = Conduct::IsSilent;
        }
        if self.conduct == Conduct::IsSilent {
            return String::new();
        }
        self.requests += 1;
        match words[..] {
            ["HELLO", "3"] if self.tells_changes => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
            ["HELLO", "3"] | ["LOCK.WAIT", ..] if self.in_line.is_none() => {
                self.refused.push(words[0].to_owned());
                format!("-ERR unknown command '{}'\r\n", words[0])
            }
            ["HELLO", "3"] => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
            ["LOCK.WAIT", _, _, .., "TURN", _] if self.is_without_turns => {
                "-ERR syntax error\r\n".to_owned()
            }
            ["LOCK.WAIT", name, token, ref options @ ..] => self.join_line(name, token, options),
            ["LOCK.UNWAIT", name] => {
                self.unwaits.push(name.to_owned());
                ":1\r\n".to_owned()
            }
            ["INFO", ..] => {
                let number = self.answers_as.unwrap_or(index);
                let info = format!("run_id:n{number}\r\n{}", self.info);
                format!("${}\r\n{info}\r\n", info.len())
            }
            ["SCRIPT", ..] => "$-1\r\n".to_owned(),
            ["SET", .., "GET"] if self.is_without_get => "-ERR syntax error\r\n".to_owned(),
            ["SET", name, token, "NX", "PX", kept_ms, ref get @ ..] => {
                self.take(name, token, kept_ms, get)
            }
            ["GET", name] => self.holder_of(name),
            ["LOCK.ACQUIRE", name, token, _, ref rest @ ..] => self.acquire(name, token, rest),
            ["LOCK.FENCE", _, token, fence] => self.reply_to_fence(token, fence),
            ["LOCK.CEILING"] | ["LOCK.ADOPT", _] => self.reply_about_ceiling(&words),
            ["EXISTS", name] => {
                self.looks_at.push(name.to_owned());
                format!(":{}\r\n", u8::from(self.keys.contains_key(name)))
            }
            ["PTTL", ..] => format!(":{}\r\n", self.left_ms),
            ["EVAL", script, _, ref names @ ..] if script.contains("'EXISTS'") => {
                self.reply_to_survey(names)
            }
            ["EVAL", script, "0", ..] if script.contains("'SCAN'") => bulk(Some(&self.page)),
            ["EVAL", script, "0", _] if script.contains("'GET'") => bulk(Some(&String::new())),
            // It keeps no readers.
            ["LOCK.RELEASE", ..] => ":0\r\n".to_owned(),
            ["LOCK.INFO", ..] | ["CLIENT", "TRACKING", ..] | ["EVAL", _, "1", _] => {
                self.reply_to_observer(&words)
            }
            ["EVAL", script, "1", name, token, ref rest @ ..] => {
                self.reply_for_one(script, name, token, rest)
            }
            ["EVAL", script, count, ref rest @ ..] if count != "0" => {
                let (names, rest) = rest.split_at(count.parse().unwrap());
                self.reply_for_all(script, names, rest[0])
            }
            ["EVAL", ..] => ":1\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        }
    }

    fn take(&mut self, name: &str, token: &str, kept_ms: &str, get: &[&str]) -> String {
        self.takes += 1;
        self.tried.push(token.to_owned());
        let reply = match (get, self.keys.contains_key(name)) {
            ([], false) => "+OK\r\n".to_owned(),
            ([], true) => "$-1\r\n".to_owned(),
            _ => self.holder_of(name),
        };
        if !self.keys.contains_key(name) {
            self.keys.insert(name.to_owned(), token.to_owned());
            self.kept_ms = kept_ms.to_owned();
        }
        reply
    }
}

fn bulk(text: Option<&String>) -> String {
    text.map_or_else(
        || "$-1\r\n".to_owned(),
        |text| format!("${}\r\n{text}\r\n", text.len()),
    )
}

fn peer(id: ConnectionId) -> String {
    format!("10.0.0.{}:7001", id.node)
}

fn refused() -> Cause {
    Cause::Unreachable(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
}
