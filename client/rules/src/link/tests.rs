//! One node's link, without sockets: what is queued, owed, and moved to another connection.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::rc::Rc;

use bytes::Bytes;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::request::{Asker, Form, Subject};
use super::*;
use crate::answer::ExtendAnswer;
use crate::outcome::NodeRelease;
use crate::token::Token;

const START: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
pub(super) const TTL: Duration = Duration::from_secs(10);

pub(super) struct Node {
    pub(super) link: Link,
    pub(super) now: ClientInstant,
    pub(super) register: Register,
    random: StdRng,
    /// Where its connections lead.
    pub(super) address: String,
}

impl Node {
    pub(super) fn new() -> Self {
        let settings = Settings {
            client_name: Arc::from("test"),
            ..Settings::default()
        };
        Self::with_settings(&settings)
    }

    pub(super) fn with_settings(settings: &Settings) -> Self {
        let address = NodeAddress::parse("redis://127.0.0.1:7001").unwrap();
        Self {
            link: Link::new(0, address, settings),
            now: START,
            register: Register::default(),
            random: StdRng::seed_from_u64(1),
            address: "10.0.0.1:7001".to_owned(),
        }
    }

    /// A link with a connection that stands.
    pub(super) fn ready() -> Self {
        let mut this = Self::new();
        this.link.is_wanted = true;
        let id = this.opened();
        this.log_in(id, "a");
        this
    }

    pub(super) fn with<T>(&mut self, act: impl FnOnce(&mut Link, &mut Surroundings<'_>) -> T) -> T {
        let mut world = Surroundings {
            now: self.now,
            register: &mut self.register,
            random: &mut self.random,
            is_wanted: &|_| true,
        };
        act(&mut self.link, &mut world)
    }

    /// The connection that the link asks for next.
    pub(super) fn opened(&mut self) -> ConnectionId {
        self.with(Link::tick);
        let mut actions = self.link.take_actions();
        let opened = actions.find_map(|action| match action {
            LinkAction::Open(id) => Some(id),
            _ => None,
        });
        opened.unwrap()
    }

    pub(super) fn log_in(&mut self, id: ConnectionId, run_id: &str) {
        let info = format!("run_id:{run_id}\r\n");
        self.log_in_with(id, &format!("${}\r\n{info}\r\n", info.len()));
    }

    /// A node that does not say who it is.
    pub(super) fn log_in_unnamed(&mut self, id: ConnectionId) {
        self.log_in_with(id, "-NOPERM no INFO\r\n");
    }

    pub(super) fn log_in_with(&mut self, id: ConnectionId, info: &str) {
        self.link.connected(id, &self.address, self.now);
        let replies = format!("+OK\r\n+OK\r\n+OK\r\n{info}:1\r\n$-1\r\n$-1\r\n");
        self.receive(id, &replies);
    }

    pub(super) fn receive(&mut self, id: ConnectionId, bytes: &str) {
        self.with(|link, world| link.received(id, bytes.as_bytes(), world));
    }

    pub(super) fn lose(&mut self) {
        let id = self.id().unwrap();
        self.with(|link, world| link.closed(id, &Cause::Silent, world));
    }

    /// The connection is lost, and after this time another one leads to a node that says this of itself.
    pub(super) fn comes_back(&mut self, after: Duration, run_id: &str) -> ConnectionId {
        self.lose();
        self.told();
        self.pass(after);
        self.link.is_wanted = true;
        let id = self.opened();
        self.log_in(id, run_id);
        id
    }

    pub(super) fn id(&self) -> Option<ConnectionId> {
        match &self.link.state {
            State::Ready(connection) => Some(connection.id),
            _ => None,
        }
    }

    pub(super) fn submit(&mut self, kind: Kind) -> Result<(), Cause> {
        self.submit_for(
            kind,
            &Subject::of_unknown_past("a".into(), "t".into(), TTL, TTL, 1),
        )
    }

    pub(super) fn submit_for(&mut self, kind: Kind, subject: &Rc<Subject>) -> Result<(), Cause> {
        let request = Request {
            kind,
            subject: Rc::clone(subject),
            asker: Some(Asker {
                operation: OperationId(1),
                round: 0,
            }),
            since: self.now,
            until: self.now.after(TTL + Duration::from_secs(1)),
            form: Form::Preferred,
            is_repeated: false,
            closures: 0,
        };
        self.link.submit(self.now, request)
    }

    fn patience(&self, ttl: Duration) -> Duration {
        self.link.patience(ttl, self.now)
    }

    pub(super) fn pass(&mut self, time: Duration) {
        // As the client does: it looks again and again.
        let until = self.now.after(time);
        while !self.now.has_reached(until) {
            let step = self.now.until(until).min(Duration::from_millis(50));
            self.now = self.now.after(step);
            self.with(Link::tick);
        }
    }

    pub(super) fn in_flight(&self) -> Vec<Kind> {
        match &self.link.state {
            State::Ready(connection) => connection.in_flight.iter().map(|one| one.kind).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn told(&mut self) -> Vec<Content> {
        std::iter::from_fn(|| self.link.take_reply())
            .map(|reply| reply.content)
            .collect()
    }
}

#[test]
fn a_release_that_is_refused_is_sent_again_whatever_the_reason() {
    for text in [
        "RESTARTDELAY 400 ab this node is in its restart delay (unclean stop)",
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script",
        "OOM command not allowed",
        "NOPERM this user has no permissions to run the 'eval' command",
        "ERR The user executing the script can't run this command or subcommand script: f, on @user_script:1.",
    ] {
        let mut node = Node::ready();
        node.submit(Kind::Release).unwrap();
        let id = node.id().unwrap();
        node.receive(id, &format!("-{text}\r\n"));
        assert!(matches!(
            node.told()[..],
            [Content::Released(NodeRelease::Not(_))]
        ));
        assert!(
            node.link.owes(node.now) && !node.link.can_pay(node.now),
            "{text}"
        );
        // Thousands may be owed, and rights do not come back by themselves.
        if text.contains("NOPERM") || text.contains("The user executing") {
            node.pass(Duration::from_millis(4_500));
            assert_eq!(node.in_flight(), [], "{text}");
            node.pass(Duration::from_millis(200));
        }
        node.pass(Duration::from_millis(400));
        assert_eq!(node.in_flight(), [Kind::Release], "{text}");
        node.receive(id, ":1\r\n");
        assert!(!node.link.owes(node.now));
        assert!(node.told().is_empty(), "told twice");
    }
}

#[test]
fn a_release_survives_a_lost_connection_and_ends_with_its_lease() {
    let mut node = Node::ready();
    node.submit(Kind::Release).unwrap();
    node.lose();
    assert_eq!(node.told().len(), 1);
    assert!(node.link.owes(node.now));
    node.now = node.now.after(Duration::from_secs(1));
    let id = node.opened();
    node.log_in(id, "a");
    assert_eq!(node.in_flight(), [Kind::Release]);
    node.receive(id, "-LOADING\r\n");
    node.now = node.now.after(TTL);
    assert!(!node.link.owes(node.now));
    node.pass(Duration::from_secs(2));
    assert!(node.link.deferred.is_empty() && node.in_flight().is_empty());
}

#[test]
fn nobody_waits_for_a_node_that_was_not_reached_a_moment_ago() {
    let mut node = Node::new();
    node.link.is_wanted = true;
    let id = node.opened();
    let cause = Cause::Unreachable("refused".into());
    node.with(|link, world| link.closed(id, &cause, world));
    node.now = node.now.after(Duration::from_millis(50));
    // Its rest is over: the vote is told at once, and still a connection is asked for.
    assert_eq!(node.submit(Kind::Take), Err(cause.clone()));
    let id = node.opened();
    assert_eq!(node.submit(Kind::Extend), Err(cause.clone()));
    node.with(|link, world| link.closed(id, &cause, world));
    // An old failure says nothing about now.
    node.now = node.now.after(Duration::from_secs(6));
    node.submit(Kind::Take).unwrap();
    node.opened();
}

#[test]
fn a_take_is_not_repeated_behind_its_own_release() {
    let mut node = Node::ready();
    let subject = Subject::new("a".into(), Token::from("t"), TTL);
    node.submit_for(Kind::Take, &subject).unwrap();
    node.submit_for(Kind::Release, &subject).unwrap();
    let id = node.id().unwrap();
    node.receive(id, "-ERR syntax error\r\n");
    assert_eq!(node.in_flight(), [Kind::Release]);
}

#[test]
fn a_path_that_swallows_everything_is_left_for_one_that_answers() {
    let mut node = Node::ready();
    let first = node.id().unwrap();
    node.submit(Kind::Extend).unwrap();
    node.submit(Kind::Release).unwrap();
    node.pass(Duration::from_millis(600));
    let second = node.link.take_actions().find_map(|action| match action {
        LinkAction::Open(id) => Some(id),
        _ => None,
    });
    let second = second.expect("a silent connection is suspect after a few round trips");
    assert_eq!(node.id(), Some(first), "the first one still serves");
    node.log_in(second, "a");
    assert_eq!(node.id(), Some(second));
    assert!(
        node.link
            .take_actions()
            .any(|action| action == LinkAction::Close(first))
    );
    // What was asked has an unknown outcome and is sent again.
    assert_eq!(node.in_flight(), [Kind::Extend, Kind::Release]);
    node.receive(first, ":1\r\n");
    assert!(
        node.told().is_empty(),
        "a late reply of the old connection counts"
    );
    node.receive(second, ":1\r\n");
    assert!(matches!(
        node.told()[..],
        [Content::Extended(ExtendAnswer::Extended(_))]
    ));
}

#[test]
fn an_extension_under_way_when_its_connection_breaks_is_sent_again_and_no_third_time() {
    let mut node = Node::ready();
    node.submit(Kind::Extend).unwrap();
    node.submit(Kind::Take).unwrap();
    for _ in 0..2 {
        node.lose();
        let told = node.told();
        let not = |content: &Content| {
            matches!(
                content,
                Content::Extended(ExtendAnswer::Not(_)) | Content::Taken(Answer::Not(_), _)
            )
        };
        assert!(!told.is_empty() && told.iter().all(not), "{told:?}");
        node.now = node.now.after(Duration::from_secs(1));
        node.link.is_wanted = true;
        let id = node.opened();
        node.log_in(id, "a");
    }
    // The node closes because of it, as far as anybody knows.
    assert_eq!(node.in_flight(), []);
    node.submit(Kind::Extend).unwrap();
    node.lose();
    drop(node.told());
    node.now = node.now.after(Duration::from_secs(1));
    let id = node.opened();
    node.log_in(id, "a");
    assert_eq!(node.in_flight(), [Kind::Extend]);
    node.receive(id, ":1\r\n");
    assert!(matches!(
        node.told()[..],
        [Content::Extended(ExtendAnswer::Extended(_))]
    ));
}

#[test]
fn a_node_that_is_only_slow_is_not_called_again_and_again() {
    let mut node = Node::ready();
    let first = node.id().unwrap();
    // Long enough that the first connection itself is not given up.
    let long = Duration::from_secs(300);
    let subject = Subject::of_unknown_past("a".into(), "t".into(), long, long, 1);
    node.submit_for(Kind::Extend, &subject).unwrap();
    let mut calls = 0;
    for _ in 0..100 {
        node.pass(Duration::from_millis(600));
        let actions = node.link.take_actions();
        calls += actions
            .filter(|action| matches!(action, LinkAction::Open(_)))
            .count();
    }
    assert!((4..=9).contains(&calls), "{calls} connects in a minute");
    assert_eq!(node.id(), Some(first));
    node.receive(first, ":1\r\n");
    assert!(matches!(
        node.told()[..],
        [Content::Extended(ExtendAnswer::Extended(_))]
    ));
    assert!(!node.link.second.is_open());
}

#[test]
fn a_client_that_was_stopped_does_not_hold_it_against_the_node() {
    let mut node = Node::ready();
    let id = node.id().unwrap();
    node.submit(Kind::Extend).unwrap();
    node.now = node.now.after(Duration::from_secs(100));
    node.with(Link::tick);
    assert_eq!(node.id(), Some(id));
    node.receive(id, ":1\r\n");
    assert!(matches!(
        node.told()[..],
        [Content::Extended(ExtendAnswer::Extended(_))]
    ));
}

#[test]
fn a_node_that_may_not_run_scripts_does_not_vote() {
    let mut node = Node::new();
    node.link.is_wanted = true;
    let id = node.opened();
    node.link.connected(id, "here", node.now);
    node.receive(
        id,
        "+OK\r\n+OK\r\n+OK\r\n$8\r\nrun_id:a\r\n-NOPERM no permission to run 'eval'\r\n$-1\r\n$-1\r\n",
    );
    let refused = node.submit(Kind::Take);
    assert!(
        matches!(&refused, Err(Cause::Refused(text)) if text.contains("EVAL")),
        "{refused:?}"
    );
}

#[test]
fn a_node_that_did_not_vote_because_of_its_login_is_asked_again_who_it_is() {
    let mut node = Node::new();
    node.link.is_wanted = true;
    let id = node.opened();
    node.link.connected(id, "here", node.now);
    node.receive(id, &"-LOADING for a while\r\n".repeat(7));
    // A sixth of the ttl.
    for millis in [1_600, 100] {
        assert_eq!(node.id(), Some(id));
        node.pass(Duration::from_millis(millis));
        assert!(node.submit(Kind::Take).is_err());
    }
    for seconds in [0, 1] {
        node.pass(Duration::from_secs(seconds));
    }
    let again = node.opened();
    node.log_in(again, "a");
    node.submit(Kind::Take).unwrap();
}

#[test]
fn a_node_that_is_not_connected_is_given_three_round_trips() {
    let mut node = Node::new();
    // 200 ms away at a ttl of 1 s, and 400 ms away at 2 s.
    let millis = Duration::from_millis;
    assert!(node.patience(millis(1_000)) > millis(600));
    assert!(node.patience(millis(2_000)) > millis(1_200));
    assert_eq!(node.patience(TTL), millis(3_000));
    // The time that a connection has taken so far is not given again.
    node.link.is_wanted = true;
    let id = node.opened();
    assert_eq!(node.patience(TTL), millis(3_000));
    node.pass(millis(400));
    assert_eq!(node.patience(TTL), millis(2_600));
    node.link.connected(id, "here", node.now);
    assert_eq!(node.patience(TTL), millis(2_000));
    node.pass(millis(900));
    assert_eq!(node.patience(TTL), millis(1_100));
}

#[test]
fn what_is_known_of_a_node_that_was_not_waited_for() {
    let mut node = Node::new();
    node.submit(Kind::Take).unwrap();
    let id = node.opened();
    assert_eq!(node.link.last_known(node.now), Cause::NotConnected);
    node.log_in(id, "a");
    assert_eq!(node.link.last_known(node.now), Cause::NotWaitedFor);
    // It sits on the request.
    node.pass(Duration::from_secs(1));
    assert_eq!(node.link.last_known(node.now), Cause::Silent);
    node.receive(
        id,
        "-RESTARTDELAY 5000 ab this node is in its restart delay\r\n",
    );
    let known = node.link.last_known(node.now);
    assert!(matches!(known, Cause::Delayed { .. }), "{known}");
    let refused = Cause::Unreachable("connection refused".into());
    for _ in 0..2 {
        // Lost, and then refused; either is known while it rests.
        let id = node.id().unwrap_or_else(|| node.opened());
        node.with(|link, world| link.closed(id, &refused, world));
        assert_eq!(node.link.last_known(node.now), refused);
        drop(node.link.take_actions());
        node.now = node.now.after(Duration::from_secs(4));
        node.link.is_wanted = true;
    }
    // It is tried again, and nothing else is known yet.
    node.opened();
    assert_eq!(node.link.last_known(node.now), refused);
}

#[test]
fn a_release_on_which_a_node_closes_is_sent_once_more_and_spoils_no_third_connection() {
    let mut node = Node::ready();
    let lock =
        |name| Subject::of_unknown_past(Bytes::from_static(name).into(), "t".into(), TTL, TTL, 1);
    // The node closes at the first that it has not answered; the other one is only behind it.
    node.submit_for(Kind::Release, &lock(b"unwelcome")).unwrap();
    node.submit_for(Kind::Release, &lock(b"other")).unwrap();
    for _ in 0..2 {
        assert_eq!(node.in_flight(), [Kind::Release, Kind::Release]);
        node.lose();
        node.now = node.now.after(Duration::from_secs(1));
        let id = node.opened();
        node.log_in(id, "a");
    }
    assert_eq!(node.in_flight(), [Kind::Release]);
    let id = node.id().unwrap();
    node.receive(id, ":1\r\n");
    assert!(!node.link.owes(node.now));
}

#[test]
fn what_is_owed_to_a_node_is_bounded_and_leaves_room_for_what_is_asked() {
    let mut node = Node::new();
    for _ in 0..OWED_MAX {
        node.submit(Kind::Release).unwrap();
    }
    let Err(Cause::Refused(text)) = node.submit(Kind::Release) else {
        panic!("it is owed as well")
    };
    assert!(text.contains("too many releases are owed"), "{text}");
    node.submit(Kind::Extend).unwrap();
}
