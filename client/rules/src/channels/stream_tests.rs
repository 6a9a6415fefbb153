//! One node's stream of messages, byte by byte.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::time::Duration;

use quorlock_clock::{Clock, SettableClock};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::stream::{Stream, StreamAction};
use super::{Heard, Topic};
use crate::address::NodeAddress;
use crate::clock::ClientInstant;
use crate::link::ConnectionId;
use crate::outcome::Cause;
use crate::settings::{Settings, VotesBy};

struct Tested {
    stream: Stream,
    clock: SettableClock,
    wanted: BTreeSet<Topic>,
    random: StdRng,
}

const LOGIN: &str = "+OK\r\n$27\r\n# Server\r\nrun_id:0123456789\r\n";

impl Tested {
    fn new(wanted: &[Topic]) -> Self {
        let address = NodeAddress::parse("redis://node:6379").unwrap();
        let mut tested = Self {
            stream: Stream::new(0, address, &Settings::default()),
            clock: SettableClock::new(),
            wanted: wanted.iter().cloned().collect(),
            random: StdRng::seed_from_u64(1),
        };
        tested.tick();
        tested
    }

    fn now(&self) -> ClientInstant {
        self.clock.now()
    }

    fn tick(&mut self) {
        let now = self.now();
        self.stream.tick(now, &self.wanted, &mut self.random);
    }

    /// The connection that was asked for.
    fn opened(&mut self) -> ConnectionId {
        match self.stream.actions.pop() {
            Some(StreamAction::Open(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn receive(&mut self, id: ConnectionId, bytes: &str) {
        let now = self.now();
        let (wanted, random) = (&self.wanted, &mut self.random);
        (self.stream).received(now, id, bytes.as_bytes(), wanted, random);
    }

    /// Makes the connection, and returns what is asked on it behind the login.
    fn log_in(&mut self, id: ConnectionId) -> String {
        let now = self.now();
        self.stream.connected(now, id, "10.0.0.1:6379");
        let login = self.written(id);
        assert!(
            login.contains("SETNAME") && login.contains("INFO"),
            "{login}"
        );
        self.receive(id, LOGIN);
        self.written(id)
    }

    fn written(&mut self, id: ConnectionId) -> String {
        let out = self.stream.output(id).map(std::mem::take);
        String::from_utf8(out.unwrap_or_default()).unwrap()
    }

    fn heard(&mut self) -> Vec<Heard> {
        self.stream.heard.drain(..).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
        self.tick();
    }
}

fn stands(topic: Topic) -> Heard {
    Heard::Stands { node: 0, topic }
}

fn confirmation(word: &str, name: &str) -> String {
    let (bytes, name_bytes) = (word.len(), name.len());
    format!("*3\r\n${bytes}\r\n{word}\r\n${name_bytes}\r\n{name}\r\n:1\r\n")
}

#[test]
fn all_that_is_wanted_is_asked_for_behind_the_login_on_each_connection() {
    let topics = [Topic::channel("a"), Topic::pattern("b*")];
    let mut tested = Tested::new(&topics);
    let id = tested.opened();
    let asked = tested.log_in(id);
    assert_eq!(
        asked,
        "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n*2\r\n$10\r\nPSUBSCRIBE\r\n$2\r\nb*\r\n"
    );
    let opened = Heard::Opened {
        node: 0,
        id: "0123456789".into(),
    };
    assert_eq!(tested.heard(), std::slice::from_ref(&opened));
    tested.receive(id, &confirmation("subscribe", "a"));
    tested.receive(id, &confirmation("psubscribe", "b*"));
    assert_eq!(tested.heard(), topics.clone().map(stands));
    let (now, cause) = (tested.now(), Cause::Unreachable("ended".into()));
    (tested.stream).closed(now, id, cause.clone(), &mut tested.random);
    assert_eq!(tested.heard(), [Heard::Lost { node: 0, cause }]);
    tested.pass(Duration::from_secs(1));
    tested.tick();
    let id = tested.opened();
    assert_eq!(tested.log_in(id), asked);
    assert_eq!(tested.heard(), [opened]);
}

#[test]
fn a_subscription_stands_once_the_last_request_about_it_is_confirmed() {
    let a = Topic::channel("a");
    let mut tested = Tested::new(std::slice::from_ref(&a));
    let id = tested.opened();
    tested.log_in(id);
    tested.heard();
    let again = std::slice::from_ref(&a);
    tested.stream.change(&[], again);
    tested.stream.change(again, &[]);
    tested.receive(id, &confirmation("subscribe", "a"));
    tested.receive(id, &confirmation("unsubscribe", "a"));
    assert_eq!(tested.heard(), []);
    tested.receive(id, &confirmation("subscribe", "a"));
    assert_eq!(tested.heard(), [stands(a.clone())]);
    tested.stream.change(again, &[]);
    tested.receive(id, "-NOPERM no\r\n");
    let cause = Cause::Refused("NOPERM no".into());
    let refused = Heard::Refused {
        node: 0,
        topic: a,
        cause,
    };
    assert_eq!(tested.heard(), [refused]);
}

#[test]
fn messages_say_why_they_were_sent_and_one_that_is_cut_is_none() {
    let mut tested = Tested::new(&[Topic::channel("a")]);
    let id = tested.opened();
    tested.log_in(id);
    tested.heard();
    tested.receive(
        id,
        "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n*4\r\n$8\r\npmess",
    );
    tested.receive(id, "age\r\n$2\r\na*\r\n$2\r\nab\r\n$0\r\n\r\n");
    let message = |topic, channel: &'static str, payload: &'static str| Heard::Message {
        node: 0,
        topic,
        channel: channel.into(),
        payload: payload.into(),
    };
    let expected = [
        message(Topic::channel("a"), "a", "x"),
        message(Topic::pattern("a*"), "ab", ""),
    ];
    assert_eq!(tested.heard(), expected);
    let bytes = 300_000;
    let long = "x".repeat(bytes);
    tested.receive(
        id,
        &format!("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n${bytes}\r\n{long}\r\n"),
    );
    tested.receive(id, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n");
    assert_eq!(tested.heard(), expected[..1]);
    tested.receive(id, ":1\r\n");
    assert!(matches!(tested.heard()[..], [Heard::Lost { .. }]));
}

#[test]
fn a_node_that_does_not_answer_a_ping_in_time_is_given_up() {
    let mut tested = Tested::new(&[Topic::channel("a")]);
    let id = tested.opened();
    tested.log_in(id);
    tested.heard();
    for pong in ["*2\r\n$4\r\npong\r\n$0\r\n\r\n", "+PONG\r\n"] {
        tested.pass(Duration::from_secs(2));
        assert_eq!(tested.written(id), "*1\r\n$4\r\nPING\r\n");
        tested.receive(id, pong);
        tested.pass(Duration::from_secs(1));
        assert_eq!(tested.heard(), []);
    }
    tested.pass(Duration::from_secs(1));
    tested.pass(Duration::from_secs(1));
    assert!(matches!(tested.heard()[..], [Heard::Lost { .. }]));
    assert_eq!(tested.stream.actions.pop(), Some(StreamAction::Close(id)));
    // With nothing that is wanted none is made again.
    tested.wanted.clear();
    tested.pass(Duration::from_secs(2));
    tested.pass(Duration::from_secs(2));
    assert_eq!(tested.stream.actions.pop(), None);
    assert_eq!(tested.stream.next_time(), None);
}

#[test]
fn an_agent_is_no_node_whose_messages_are_listened_to_however_votes_are_counted() {
    for votes_by in [VotesBy::Identity, VotesBy::Address] {
        let address = NodeAddress::parse("redis://node:6379").unwrap();
        let settings = Settings {
            votes_by,
            ..Settings::default()
        };
        let mut tested = Tested::new(&[Topic::channel("a")]);
        tested.stream = Stream::new(0, address, &settings);
        tested.tick();
        let id = tested.opened();
        let now = tested.now();
        tested.stream.connected(now, id, "10.0.0.1:6379");
        let info = "# Server\r\nquorlock_agent:1\r\n";
        let login = format!("+OK\r\n${}\r\n{info}\r\n", info.len());
        tested.receive(id, &login);
        let cause = Cause::Agent;
        assert_eq!(tested.heard(), [Heard::Lost { node: 0, cause }]);
    }
}
