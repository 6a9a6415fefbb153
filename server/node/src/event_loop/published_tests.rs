//! Messages to many who listen: in bounded parts, once each, in order, and with bounded memory where nobody reads.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pipe::Pipe;
use super::tests::{Stepped, request};
use crate::config::ClientMemory;
use crate::core::deliveries::PUBLISHED_COST_MAX;

/// So many who listen to `channel`, the last of them first in no list.
fn listeners(node: &mut Stepped, count: usize) -> Vec<Pipe> {
    let subscribe = request(&["SUBSCRIBE", "channel"]);
    let all: Vec<Pipe> = (0..count).map(|_| node.client()).collect();
    for one in &all {
        one.send(subscribe.as_bytes());
    }
    node.iterate();
    for one in &all {
        assert!(!one.take_received().is_empty());
    }
    all
}

fn publish(payload: &str) -> Vec<u8> {
    request(&["PUBLISH", "channel", payload]).into_bytes()
}

fn message(payload: &str) -> Vec<u8> {
    request(&["message", "channel", payload]).into_bytes()
}

fn unlogged() -> Stepped {
    Stepped::new(|config| config.appendonly = false)
}

/// Planted: the whole queue is handed out in one iteration.
#[test]
fn one_iteration_reaches_a_bounded_number_of_listeners_and_others_are_served() {
    let mut node = unlogged();
    let listeners = listeners(&mut node, 3_000);
    let (publisher, other) = (node.client(), node.client());
    let sent = [publish("one"), publish("two")].concat();
    publisher.send(&sent);
    let expected = [message("one"), message("two")].concat();
    let mut reached = 0;
    for iteration in 1.. {
        other.send(b"PING\r\n");
        node.iterate();
        assert_eq!(other.take_received(), b"+PONG\r\n");
        let received = listeners.iter().map(Pipe::take_received);
        let now = received.filter(|one| *one == expected).count();
        // The first gathers.
        let least = usize::from(iteration > 1);
        assert!(
            (least..=512).contains(&now),
            "{now} in iteration {iteration}"
        );
        reached += now;
        if reached == listeners.len() {
            break;
        }
        // What is left is no reason to wait.
        assert_eq!(node.pause(), Some(Duration::ZERO));
    }
    assert_eq!(publisher.take_received(), b":3000\r\n:3000\r\n");
    node.iterate();
    assert!(listeners.iter().all(|one| one.take_received().is_empty()));
    assert_eq!(node.event_loop.node.deliveries.cost(), 0);
}

/// Planted: a connection that was told before its request does not note how far it has looked.
#[test]
fn who_asks_before_its_turn_is_told_before_its_reply_and_once() {
    let mut node = unlogged();
    let listeners = listeners(&mut node, 2_000);
    let publisher = node.client();
    let last = listeners.last().unwrap();
    publisher.send(&[publish("one"), publish("two")].concat());
    node.iterate();
    assert!(last.take_received().is_empty(), "its turn has not come");
    last.send(b"PING\r\n");
    node.iterate();
    let pong = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n".to_vec();
    let expected = [message("one"), message("two"), pong].concat();
    assert_eq!(last.take_received(), expected);
    publisher.send(&publish("three"));
    let mut received = Vec::new();
    for _ in 0..10 {
        node.iterate();
        received.extend(last.take_received());
    }
    assert_eq!(received, message("three"));
}

/// Known from a review: a pipeline of PUBLISH was bounded by what an iteration reads, times the listeners. Planted: who
/// has published is not held back.
#[test]
fn who_publishes_much_to_many_waits_until_it_is_handed_out_and_others_do_not() {
    let mut node = unlogged();
    let listeners = listeners(&mut node, 400);
    let (publisher, other) = (node.client(), node.client());
    let set = request(&["SET", "a", "token", "PX", "1000"]).into_bytes();
    node.ask(&other, &set, b"+OK\r\n");
    let requests: Vec<u8> = (0..1_000)
        .flat_map(|number| publish(&number.to_string()))
        .collect();
    publisher.send(&requests);
    let replies = b":400\r\n".repeat(1_000);
    let (mut received, mut highest) = (Vec::new(), 0);
    for _ in 0..10_000 {
        other.send(&set);
        node.iterate();
        assert_eq!(
            other.take_received(),
            b"+OK\r\n",
            "it has published nothing"
        );
        highest = highest.max(node.event_loop.node.deliveries.cost());
        received.extend(publisher.take_received());
        if received.len() == replies.len() && node.event_loop.posts.is_empty() {
            break;
        }
    }
    assert_eq!(received, replies);
    // One message costs less than a hundredth of it.
    assert!(highest > PUBLISHED_COST_MAX / 2, "{highest}");
    assert!(highest < PUBLISHED_COST_MAX + PUBLISHED_COST_MAX / 100);
    let expected: Vec<u8> = (0..1_000)
        .flat_map(|number| message(&number.to_string()))
        .collect();
    for one in &listeners {
        assert_eq!(one.take_received(), expected);
    }
}

/// Each of them alone publishes little. Planted: without a second bound, all would be executed. Planted: a connection
/// is sent one part in an iteration, so that listeners that read are closed for what they were not sent.
#[test]
fn thousands_who_publish_once_each_wait_as_well() {
    let mut node = Stepped::new(|config| {
        config.appendonly = false;
        config.maxmemory_clients = ClientMemory::Bytes(0);
    });
    let listeners = listeners(&mut node, 2);
    let publishers: Vec<Pipe> = (0..1_500).map(|_| node.client()).collect();
    let large = publish(&"p".repeat(100_000));
    for one in &publishers {
        one.send(&large);
    }
    let (mut highest, mut answered) = (0, 0);
    for _ in 0..2_000 {
        node.iterate();
        highest = highest.max(node.event_loop.node.deliveries.cost());
        let replies = publishers.iter().map(Pipe::take_received);
        answered += replies.filter(|reply| reply == b":2\r\n").count();
        for one in &listeners {
            drop(one.take_received());
        }
        if answered == publishers.len() {
            break;
        }
    }
    assert_eq!(answered, publishers.len());
    assert!(highest > PUBLISHED_COST_MAX, "{highest}");
    assert!(highest < 5 * PUBLISHED_COST_MAX, "{highest}");
}

/// Planted: each listener counts the payload as its own. Then the first messages of 500 would be more than all clients
/// may hold, and listeners, or even the publisher, would be closed that harm nobody.
#[test]
fn a_payload_that_many_hold_counts_once_until_the_last_of_them_has_gone() {
    let mut node = Stepped::new(|config| {
        config.appendonly = false;
        config.maxmemory_clients = ClientMemory::Bytes(64 << 20);
    });
    let listeners = listeners(&mut node, 500);
    for one in &listeners {
        one.set_room(0);
    }
    let publisher = node.client();
    let payload = "p".repeat(1_000_000);
    let counted = |node: &Stepped| node.event_loop.node.clients.held_bytes();
    for _ in 0..20 {
        node.ask(&publisher, &publish(&payload), b":500\r\n");
    }
    while !node.event_loop.posts.is_empty() {
        node.iterate();
    }
    node.iterate();
    let held = counted(&node);
    assert!((20_000_000..24_000_000).contains(&held), "{held}");
    assert!(listeners.iter().all(|one| !one.is_closed()));
    // Beyond client-output-buffer-limit they go, one like the other, and nothing is left.
    for _ in 0..20 {
        publisher.send(&publish(&payload));
        for _ in 0..200 {
            node.iterate();
        }
    }
    assert!(listeners.iter().all(Pipe::is_closed));
    assert!(!publisher.is_closed());
    assert!(counted(&node) < 100_000, "{}", counted(&node));
    let shared = &node.event_loop.node.clients.shared_bytes;
    assert_eq!(shared.load(Ordering::Relaxed), 0);
}

/// Publishes so many short ones, a hundred at a time, and calls `each` after every iteration.
fn publish_short(node: &mut Stepped, count: usize, mut each: impl FnMut(&Stepped)) {
    let publisher = node.client();
    let requests = publish("p").repeat(100);
    for _ in 0..count / 100 {
        publisher.send(&requests);
        let mut answered = 0;
        while answered < 100 {
            node.iterate();
            each(node);
            let received = publisher.take_received();
            answered += received.iter().filter(|byte| **byte == b':').count();
        }
    }
    while !node.event_loop.posts.is_empty() {
        node.iterate();
        each(node);
    }
}

/// Found from outside: a short message takes ten times its bytes, and those who kept a million of them stayed until
/// the bytes alone were more than all clients may hold.
#[test]
fn who_does_not_read_short_messages_goes_when_they_take_too_much() {
    let limit = 2 << 20;
    let mut node = Stepped::new(|config| {
        config.appendonly = false;
        config.maxmemory_clients = ClientMemory::Bytes(limit);
    });
    let (other, listeners) = (node.client(), listeners(&mut node, 2));
    listeners.iter().for_each(|one| one.set_room(0));
    let mut highest = 0;
    publish_short(&mut node, 20_000, |node| {
        let shared = &node.event_loop.node.clients.shared_bytes;
        highest = shared.load(Ordering::Relaxed).max(highest);
    });
    assert!(listeners.iter().all(Pipe::is_closed));
    let limit = usize::try_from(limit).unwrap();
    assert!((limit / 2..limit * 5 / 4).contains(&highest), "{highest}");
    node.ask(&other, b"PING\r\n", b"+PONG\r\n");
}

/// Found from outside: a million of them at once kept all others waiting for a second.
#[test]
fn messages_of_who_has_gone_are_freed_in_parts_and_no_longer_count() {
    let mut node = unlogged();
    let listeners = listeners(&mut node, 1);
    listeners[0].set_room(0);
    publish_short(&mut node, 10_000, |_| {});
    assert!(node.event_loop.node.clients.held_bytes() > 10_000 * 512);
    listeners[0].reset();
    let mut left: Vec<usize> = vec![10_000 * 512];
    while *left.last().unwrap() > 0 {
        node.iterate();
        let clients = &node.event_loop.node.clients;
        assert!(clients.held_bytes() < 100_000, "{}", clients.held_bytes());
        let shared = clients.shared_bytes.load(Ordering::Relaxed);
        let freed = left.last().unwrap().saturating_sub(shared);
        assert!(freed < 1_000 * 1_000, "{freed}");
        left.push(shared);
        let is_more = node.pause() == Some(Duration::ZERO);
        assert_eq!(is_more, shared > 0);
    }
    assert!(left.len() > 10, "{left:?}");
    let discarded = &node.event_loop.node.clients.discarded_bytes;
    assert_eq!(discarded.load(Ordering::Relaxed), 0);
}

/// Planted: what was published while a worker slept is handed out on its own.
#[test]
fn messages_to_many_leave_together_and_replies_and_answers_at_once() {
    let mut node = unlogged();
    let listeners = listeners(&mut node, 100);
    let (one, other, waiting) = (node.client(), node.client(), node.client());
    node.ask(&waiting, request(&["BLPOP", "list", "0"]).as_bytes(), b"");
    let push = request(&["LPUSH", "list", "a"]).into_bytes();
    node.ask(&one, &[publish("one"), push].concat(), b":100\r\n:1\r\n");
    let element = request(&["list", "a"]).into_bytes();
    assert_eq!(waiting.take_received(), element, "it listens to nothing");
    assert!(node.event_loop.gathering.is_waiting());
    node.ask(&other, &publish("two"), b":100\r\n");
    assert!(listeners.iter().all(|one| one.take_received().is_empty()));
    node.iterate();
    let expected = [message("one"), message("two")].concat();
    assert!(listeners.iter().all(|one| one.take_received() == expected));
    assert!(!node.event_loop.gathering.is_waiting());
}

/// Planted: whatever else is published counts as a message for the same.
#[test]
fn messages_to_many_do_not_wait_for_those_to_others() {
    let mut node = unlogged();
    let listeners = listeners(&mut node, 100);
    let (other, publisher) = (node.client(), node.client());
    let subscribe = request(&["SUBSCRIBE", "other"]);
    node.ask(
        &other,
        subscribe.as_bytes(),
        b"*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
    );
    node.ask(&publisher, &publish("one"), b":100\r\n");
    assert!(node.event_loop.gathering.is_waiting());
    let elsewhere = request(&["PUBLISH", "other", "two"]);
    node.ask(&publisher, elsewhere.as_bytes(), b":1\r\n");
    let one = message("one");
    assert!(listeners.iter().all(|pipe| pipe.take_received() == one));
}

/// Planted: a node that is told to stop sleeps until more is published.
#[test]
fn a_node_that_stops_waits_for_no_messages() {
    let mut node = unlogged();
    let listeners = listeners(&mut node, 100);
    let publisher = node.client();
    node.receive(super::message::Message::Stop);
    node.ask(&publisher, &publish("last"), b":100\r\n");
    let last = message("last");
    assert!(listeners.iter().all(|one| one.take_received() == last));
}

/// Planted: all messages come before an answer that was there before the replies to earlier requests had left.
#[test]
fn an_early_answer_comes_between_the_messages_before_and_behind_it() {
    let mut node = unlogged();
    let (client, other) = (node.client(), node.client());
    client.send(b"HELLO 3\r\nCLIENT TRACKING ON\r\nEXISTS before to\r\n");
    node.iterate();
    assert!(client.take_received().ends_with(b"+OK\r\n:0\r\n"));
    client.set_room(0);
    client.send(b"ECHO held\r\nBLMOVE from to LEFT LEFT 0\r\n");
    node.iterate();
    node.ask(
        &other,
        b"SET before 1\r\nRPUSH from x\r\n",
        b"+OK\r\n:1\r\n",
    );
    assert!(client.take_received().is_empty());
    client.set_room(usize::MAX);
    let told = |key: &str| {
        format!(
            ">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n",
            key.len()
        )
    };
    let expected = format!("$4\r\nheld\r\n{}$1\r\nx\r\n{}", told("before"), told("to"));
    node.ask(&client, b"", expected.as_bytes());
}
