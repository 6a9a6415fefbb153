//! A node's queues, without a connection.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

use super::*;
use crate::clock::ManualClock;
use crate::token::Token;
use crate::votes::{Identity, NodeSet};
use crate::worker::mailbox::Owned;

fn node() -> (Node, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let node = Node::new(0, Arc::from("n"), clock.clone(), Duration::from_secs(1));
    (node, clock)
}

fn connect(node: &Node) {
    let peer = Peer {
        identity: Ok(Identity {
            id: Arc::from("a"),
            incarnation: 0,
        }),
        takes_get: true,
        release_hash: None,
        extend_hash: None,
    };
    node.ready(node.now(), peer);
}

fn request(node: &Node, kind: Kind, mailbox: &Owned) -> Request {
    let now = node.now();
    let mut asked = NodeSet::default();
    asked.insert(0);
    Request {
        kind,
        name: Bytes::from_static(b"a"),
        token: Token::from("t"),
        ttl: Duration::from_secs(10),
        round: 0,
        mailbox: Some(mailbox.address()),
        since: now,
        until: now.after(Duration::from_secs(11)),
        form: Form::Short,
        asked: Rc::new(Cell::new(asked)),
    }
}

#[test]
fn nothing_is_parked_behind_a_full_queue_and_what_is_owed_is_kept() {
    let (node, clock) = node();
    connect(&node);
    let mailbox = Owned::default();
    let filler = request(&node, Kind::Info, &mailbox);
    node.state.borrow_mut().in_flight = vec![filler; QUEUE_MAX].into();
    let refused = node.submit(request(&node, Kind::Take, &mailbox));
    assert!(matches!(&refused, Err(Cause::Refused(text)) if text.contains("too many")));
    node.submit(request(&node, Kind::Release, &mailbox))
        .unwrap();
    assert!(node.state.borrow().waiting.is_empty() && node.owes(node.now()));
    node.state.borrow_mut().in_flight.clear();
    clock.advance(DEFERRED_LEAST);
    node.send_deferred(node.now());
    assert_eq!(node.state.borrow().in_flight[0].kind, Kind::Release);
}

#[test]
fn a_release_that_is_refused_for_a_while_is_sent_again() {
    for text in [
        "RESTARTDELAY 400 ab this node is in its restart delay (unclean stop)",
        "LOADING Redis is loading the dataset in memory",
    ] {
        let (node, clock) = node();
        connect(&node);
        let mailbox = Owned::default();
        node.submit(request(&node, Kind::Release, &mailbox))
            .unwrap();
        let refusal = OwnedFrame::Error(text.to_owned());
        node.deliver(node.now(), &refusal);
        assert!(matches!(
            mailbox.take().unwrap().content,
            Content::Released(NodeRelease::Not(_))
        ));
        assert!(node.owes(node.now()) && !node.can_pay(node.now()), "{text}");
        clock.advance(Duration::from_millis(400));
        node.send_deferred(node.now());
        assert!(node.can_pay(node.now()), "{text}");
        node.deliver(node.now(), &OwnedFrame::Integer(1));
        assert!(!node.owes(node.now()));
        assert!(mailbox.take().is_none(), "told twice");
    }
}

#[test]
fn a_deferred_release_survives_a_lost_connection_and_ends_with_its_lease() {
    let (node, clock) = node();
    connect(&node);
    let mailbox = Owned::default();
    node.submit(request(&node, Kind::Release, &mailbox))
        .unwrap();
    let loading = OwnedFrame::Error("LOADING".to_owned());
    node.deliver(node.now(), &loading);
    node.fail(node.now(), &Cause::Silent, Duration::ZERO);
    assert!(node.wants_connection(node.now()));
    connect(&node);
    assert_eq!(node.state.borrow().in_flight.len(), 1);
    node.deliver(node.now(), &loading);
    clock.advance(Duration::from_secs(11));
    assert!(!node.owes(node.now()));
    node.send_deferred(node.now());
    let state = node.state.borrow();
    assert!(state.deferred.is_empty() && state.in_flight.is_empty());
}

#[test]
fn nobody_waits_for_a_node_that_was_not_reached_a_moment_ago() {
    let (node, clock) = node();
    let mailbox = Owned::default();
    let cause = Cause::Unreachable(Arc::from("refused"));
    node.remember_failure(node.now(), &cause);
    node.fail(node.now(), &cause, Duration::from_millis(20));
    clock.advance(Duration::from_millis(20));
    // Its rest is over: the vote is told at once, and still a connection is asked for.
    let told = node.submit(request(&node, Kind::Take, &mailbox));
    assert_eq!(told, Err(cause.clone()));
    assert!(node.wants_connection(node.now()));
    node.state.borrow_mut().link = Link::Connecting;
    let told = node.submit(request(&node, Kind::Extend, &mailbox));
    assert_eq!(told, Err(cause.clone()));
    assert!(!node.wants_connection(node.now()), "it is being made");
    // An old failure says nothing about now.
    node.fail(node.now(), &cause, Duration::ZERO);
    clock.advance(FAILURE_MEMORY * 2);
    node.submit(request(&node, Kind::Take, &mailbox)).unwrap();
    assert!(node.wants_connection(node.now()));
}

#[test]
fn a_take_is_not_repeated_behind_its_own_release() {
    let (node, _clock) = node();
    connect(&node);
    let mailbox = Owned::default();
    node.submit(request(&node, Kind::Take, &mailbox)).unwrap();
    node.submit(request(&node, Kind::Release, &mailbox))
        .unwrap();
    node.deliver(
        node.now(),
        &OwnedFrame::Error("ERR syntax error".to_owned()),
    );
    let state = node.state.borrow();
    let queued: Vec<_> = state.in_flight.iter().map(|request| request.kind).collect();
    assert_eq!(queued, [Kind::Release]);
}
