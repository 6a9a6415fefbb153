//! Calls for several names at once: what nodes grant and keep, and what becomes of calls for some of the same names.

use std::time::Duration;

use bytes::Bytes;

use super::cluster_for_tests::{Cluster, Conduct, Node, TTL};
use super::line_tests::tried;
use super::owner_tests::had;
use crate::OperationId;
use crate::action::Event;
use crate::call::{AcquireCall, Call, Outcome};
use crate::name::LockName;
use crate::outcome::AcquireError;
use crate::token::Token;
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);

fn all(names: &[&'static str]) -> LockName {
    LockName::of_all(names.iter().copied().map(Bytes::from))
}

fn ask(cluster: &mut Cluster, names: &[&'static str], wait: Wait) -> OperationId {
    let call = AcquireCall {
        name: all(names),
        ..Cluster::acquisition(wait)
    };
    cluster.call(Call::Acquire(call))
}

fn release(cluster: &mut Cluster, held: OperationId, names: &[&'static str], token: Token) {
    cluster.call(Call::Release {
        held: Some(held),
        name: all(names),
        token,
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
}

/// Somebody else holds a lock on some nodes.
fn take_away(cluster: &mut Cluster, name: &str, nodes: std::ops::Range<usize>) {
    for node in &mut cluster.nodes[nodes] {
        node.keys.insert(name.to_owned(), "somebody".to_owned());
    }
}

/// Which locks each node has.
fn kept(cluster: &Cluster) -> Vec<Vec<&str>> {
    cluster
        .nodes
        .iter()
        .map(|node| {
            let mut names: Vec<&str> = node.keys.keys().map(String::as_str).collect();
            names.sort_unstable();
            names
        })
        .collect()
}

#[test]
fn a_node_votes_for_all_names_or_for_none() {
    let mut cluster = Cluster::new(3);
    take_away(&mut cluster, "b", 0..1);
    let call = ask(&mut cluster, &["c", "a", "b"], Wait::None);
    let token = had(&mut cluster, call);
    let everything = vec!["a", "b", "c"];
    assert_eq!(kept(&cluster), [vec!["b"], everything.clone(), everything]);
    // One of the names is enough to keep everybody else out.
    for names in [&["c"][..], &["c", "d"], &["a", "b", "c"]] {
        let call = ask(&mut cluster, names, Wait::None);
        let told = cluster.outcome(call);
        let Some(Outcome::NotAcquired(AcquireError::Busy { holder, .. })) = told else {
            panic!("{names:?}: {told:?}");
        };
        assert_eq!(holder.as_ref(), Some(&token), "{names:?}");
    }
    release(&mut cluster, call, &["a", "b", "c"], token);
    assert_eq!(kept(&cluster), [vec!["b"], vec![], vec![]]);
}

#[test]
fn an_attempt_that_fails_leaves_no_name_anywhere() {
    let mut cluster = Cluster::new(5);
    // Each name is free on a majority, and no majority has both free.
    take_away(&mut cluster, "a", 0..2);
    take_away(&mut cluster, "b", 2..4);
    let call = ask(&mut cluster, &["a", "b"], Wait::None);
    let told = cluster.outcome(call);
    let Some(Outcome::NotAcquired(AcquireError::Busy { name, .. })) = told else {
        panic!("{told:?}");
    };
    assert_eq!(&*name, "a, b");
    let nothing = vec![];
    assert_eq!(
        kept(&cluster),
        [
            ["a"].to_vec(),
            ["a"].to_vec(),
            ["b"].to_vec(),
            ["b"].to_vec(),
            nothing
        ]
    );
    assert_eq!(cluster.client.size().of_calls(), 0);
}

/// The script stops there, and has freed nothing behind it.
#[test]
fn a_key_of_another_type_keeps_no_other_name_and_missing_rights_are_not_passed_over() {
    for (error, left) in [
        ("WRONGTYPE Operation against a key", &["a"][..]),
        ("NOPERM this user may not", &["a", "b", "c"][..]),
    ] {
        let mut cluster = Cluster::new(3);
        let call = ask(&mut cluster, &["a", "b", "c"], Wait::None);
        let token = had(&mut cluster, call);
        for node in &mut cluster.nodes {
            node.keys.insert("a".to_owned(), error.to_owned());
        }
        release(&mut cluster, call, &["a", "b", "c"], token);
        assert_eq!(kept(&cluster), [left; 3], "{error}");
        if left.len() == 1 {
            cluster.pass(TTL);
            assert_eq!(cluster.client.size().of_calls(), 0);
        }
    }
}

#[test]
fn what_is_asked_is_one_request_about_all_names() {
    let mut cluster = Cluster::new(1);
    cluster.held();
    let written = |cluster: &mut Cluster, names: &[&'static str]| {
        let call = AcquireCall {
            name: all(names),
            ..Cluster::acquisition(Wait::None)
        };
        let mut actions = Vec::new();
        let event = Event::Call(OperationId(77), Call::Acquire(call));
        cluster.client.handle(cluster.now, event, &mut actions);
        cluster.take_written(0)
    };
    let request = written(&mut cluster, &["d", "b"]);
    assert!(request.starts_with("*7\r\n$4\r\nEVAL\r\n"), "{request}");
    assert!(
        request.contains("\r\n$1\r\n2\r\n$1\r\nb\r\n$1\r\nd\r\n"),
        "{request}"
    );
    assert_eq!(request.matches('*').count(), 1, "{request}");
    // One name is asked for as ever, however often it is said.
    let request = written(&mut cluster, &["d", "d"]);
    assert!(
        request.starts_with("*7\r\n$3\r\nSET\r\n$1\r\nd\r\n"),
        "{request}"
    );
}

#[test]
fn the_loss_of_one_name_on_a_majority_is_the_loss_of_all() {
    for (gone, is_lost) in [(1, false), (2, true)] {
        let mut cluster = Cluster::new(3);
        let held = ask(&mut cluster, &["a", "b"], Wait::None);
        had(&mut cluster, held);
        take_away(&mut cluster, "b", 0..gone);
        cluster.pass(TTL);
        assert_eq!(cluster.lost == [held], is_lost, "{gone}");
        let kept = kept(&cluster);
        match is_lost {
            // What was left of it is free for others.
            true => assert_eq!(kept, [vec!["b"], vec!["b"], vec![]]),
            false => assert_eq!(kept, [["a", "b"]; 3]),
        }
    }
}

#[test]
fn a_node_that_has_lost_one_of_the_names_takes_it_again() {
    let mut cluster = Cluster::new(3);
    let held = ask(&mut cluster, &["a", "b"], Wait::None);
    let token = had(&mut cluster, held).to_string();
    cluster.nodes[0].keys.clear();
    cluster.nodes[0].keys.insert("b".to_owned(), token.clone());
    cluster.pass(2 * TTL);
    assert!(cluster.lost.is_empty());
    assert!(
        cluster
            .nodes
            .iter()
            .all(|node| node.keys.len() == 2 && node.keys["a"] == token)
    );
}

#[test]
fn a_call_that_waits_for_several_names_keeps_nobody_from_one_that_is_free() {
    let mut cluster = Cluster::new(3);
    take_away(&mut cluster, "a", 0..3);
    let both = ask(&mut cluster, &["a", "b"], Wait::Forever);
    cluster.pass(500 * MS);
    let one = ask(&mut cluster, &["b"], Wait::Forever);
    let token = had(&mut cluster, one);
    for node in &mut cluster.nodes {
        node.keys.remove("a");
    }
    cluster.pass(500 * MS);
    assert!(
        cluster.outcome(both).is_none(),
        "the other call has one of the names"
    );
    release(&mut cluster, one, &["b"], token);
    cluster.pass(MS);
    had(&mut cluster, both);
}

/// Whoever came first of those that can have what was released has it, alone or with other names.
#[test]
fn a_release_is_passed_on_to_all_who_wait_for_one_of_the_names() {
    let mut cluster = Cluster::new(3);
    let orders: [&[&'static str]; 5] = [
        &["a", "b"],
        &["b"],
        &["b", "a"],
        &["b", "c"],
        &["a", "b", "c"],
    ];
    let first = ask(&mut cluster, &["b", "c"], Wait::None);
    let mut token = had(&mut cluster, first);
    let waiting = orders.map(|names| ask(&mut cluster, names, Wait::Forever));
    let (mut held, mut names) = (first, &["b", "c"][..]);
    let mut served = Vec::new();
    for _ in orders {
        cluster.pass(300 * MS);
        assert!(cluster.told.is_empty());
        release(&mut cluster, held, names, token);
        cluster.pass(MS);
        let is_told = |told: &(OperationId, Outcome)| waiting.contains(&told.0);
        let at = cluster
            .told
            .iter()
            .position(is_told)
            .expect("it is asked for at once");
        let (call, outcome) = cluster.told.remove(at);
        cluster.told.clear();
        let Outcome::Acquired { token: next, .. } = outcome else {
            panic!("{outcome:?}");
        };
        let index = waiting
            .iter()
            .position(|one| *one == call)
            .expect("it waits");
        served.push(index);
        (held, names, token) = (call, orders[index], next);
    }
    served.sort_unstable();
    assert_eq!(served, [0, 1, 2, 3, 4], "each has its turn");
    release(&mut cluster, held, names, token);
    cluster.pass(TTL);
    assert_eq!(cluster.client.size().of_calls(), 0);
}

/// Nodes with lines for what they have, on which somebody else has one lock.
fn with_lines(nodes: usize, taken: &str) -> Cluster {
    let mut cluster = Cluster::new(nodes);
    for node in &mut cluster.nodes {
        node.in_line = Some(1);
        node.has_no_line_for_free = true;
    }
    take_away(&mut cluster, taken, 0..nodes);
    cluster
}

fn set_free(cluster: &mut Cluster, name: &str) {
    for node in &mut cluster.nodes {
        node.keys.remove(name);
    }
}

/// The first node says that it is the turn of whoever stands last in line there.
fn call_last(cluster: &mut Cluster, name: &str) -> String {
    let node = &cluster.nodes[0];
    assert_eq!(node.waits_for.last().map(String::as_str), Some(name));
    let token = node.waits.last().cloned().unwrap();
    cluster.push(0, name, &token);
    token
}

#[test]
fn who_waits_for_several_names_stands_in_line_for_the_one_that_is_held() {
    let mut cluster = with_lines(5, "b");
    let call = ask(&mut cluster, &["a", "b", "c"], Wait::Forever);
    cluster.pass(10 * MS);
    // The first name is free, and whoever wants it alone is not kept from it.
    assert_eq!(cluster.nodes[0].waits_for, ["a", "b"]);
    assert_eq!(cluster.nodes[0].unwaits, ["a"]);
    assert!(cluster.nodes[1..].iter().all(|node| node.waits.is_empty()));
    let requests =
        |cluster: &Cluster| -> usize { cluster.nodes.iter().map(|node| node.requests).sum() };
    let before = requests(&cluster);
    cluster.pass(Duration::from_secs(3_600));
    let all = requests(&cluster) - before;
    // A fifth of a request in a second.
    assert!((100..=900).contains(&all), "{all}");
    set_free(&mut cluster, "b");
    let token = call_last(&mut cluster, "b");
    assert_eq!(had(&mut cluster, call).to_string(), token);
    assert_eq!(cluster.client.size().lines, 0);
}

#[test]
fn a_turn_for_one_name_while_another_is_held_leads_to_the_line_of_that() {
    let mut cluster = with_lines(3, "a");
    let call = ask(&mut cluster, &["a", "b"], Wait::Forever);
    cluster.pass(10 * MS);
    for node in &mut cluster.nodes {
        node.keys.insert("b".to_owned(), "another".to_owned());
    }
    set_free(&mut cluster, "a");
    call_last(&mut cluster, "a");
    cluster.pass(200 * MS);
    assert!(cluster.nodes[0].unwaits.contains(&"a".to_owned()));
    let tries = tried(&cluster);
    cluster.pass(500 * MS);
    assert_eq!(tried(&cluster), tries, "it waits for its turn");
    set_free(&mut cluster, "b");
    let token = call_last(&mut cluster, "b");
    assert_eq!(had(&mut cluster, call).to_string(), token);
}

/// A connection waits for a name once.
#[test]
fn calls_of_one_client_for_one_name_alone_and_with_others_stand_in_its_line_one_after_the_other() {
    let mut cluster = with_lines(3, "b");
    let both = ask(&mut cluster, &["a", "b"], Wait::Forever);
    cluster.pass(10 * MS);
    let alone = ask(&mut cluster, &["b"], Wait::Forever);
    let other = ask(&mut cluster, &["b", "c"], Wait::Forever);
    cluster.pass(10 * MS);
    let waits = cluster.nodes[0].waits.len();
    assert_eq!(cluster.client.size().lines, 1);
    // No token is that of two calls.
    let tokens = &cluster.nodes[0].waits;
    assert_ne!(tokens.first(), tokens.last());
    let tries = tried(&cluster);
    cluster.pass(Duration::from_secs(60));
    assert_eq!(tried(&cluster), tries, "none of them polls");
    // The one that stood there gives up: another one does at once.
    cluster.happens(Event::Gone(alone));
    cluster.pass(MS);
    assert!(cluster.nodes[0].waits.len() > waits);
    assert_eq!(cluster.client.size().lines, 1);
    set_free(&mut cluster, "b");
    call_last(&mut cluster, "b");
    cluster.pass(MS);
    let first = [both, other].map(|call| cluster.outcome(call));
    let have = first.iter();
    let have = have.filter(|told| matches!(told, Some(Outcome::Acquired { .. })));
    assert_eq!(have.count(), 1);
}

/// As Redis and Valkey do.
#[test]
fn nodes_that_tell_changes_do_so_of_the_name_that_is_held_and_not_of_those_that_are_passed_over() {
    let names = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        "s", "t",
    ];
    let mut cluster = Cluster::new(3);
    for node in &mut cluster.nodes {
        node.tells_changes = true;
    }
    take_away(&mut cluster, "k", 0..3);
    for _ in 0..3 {
        let call = ask(&mut cluster, &names, Wait::Forever);
        cluster.pass(10 * MS);
        cluster.happens(Event::Gone(call));
        cluster.pass(MS);
    }
    let call = ask(&mut cluster, &names, Wait::Forever);
    cluster.pass(10 * MS);
    assert_eq!(cluster.nodes[0].tracking, ["ON BCAST PREFIX k"]);
    let mut others = cluster.nodes[1..].iter();
    assert!(others.all(|node| node.tracking.is_empty()));
    let tries = tried(&cluster);
    cluster.pass(500 * MS);
    assert_eq!(tried(&cluster), tries, "it waits for word");
    set_free(&mut cluster, "k");
    cluster.push_changed(0, "k");
    cluster.pass(3 * MS);
    had(&mut cluster, call);
}

/// The line of `b` is another call's, and the release of `a` says nothing of it.
#[test]
fn a_release_of_another_name_is_no_turn_for_who_waits_behind_a_call_of_this_client() {
    let mut cluster = with_lines(3, "b");
    let both = ask(&mut cluster, &["a", "b"], Wait::Forever);
    cluster.pass(10 * MS);
    let alone = ask(&mut cluster, &["b"], Wait::Forever);
    cluster.pass(10 * MS);
    for _ in 0..3 {
        let held = ask(&mut cluster, &["a"], Wait::None);
        let token = had(&mut cluster, held);
        let tries = tried(&cluster);
        release(&mut cluster, held, &["a"], token);
        cluster.pass(100 * MS);
        assert_eq!(tried(&cluster), tries);
    }
    // It stands there once the other one does not.
    cluster.happens(Event::Gone(alone));
    cluster.pass(MS);
    set_free(&mut cluster, "b");
    let token = call_last(&mut cluster, "b");
    assert_eq!(had(&mut cluster, both).to_string(), token);
}

/// Its token was tried and has no place in line any more.
#[test]
fn a_call_whose_turn_comes_to_no_quorum_keeps_no_other_call_of_this_client_from_the_line() {
    let mut cluster = with_lines(3, "a");
    let alone = ask(&mut cluster, &["a"], Wait::Forever);
    cluster.pass(10 * MS);
    let both = ask(&mut cluster, &["a", "c"], Wait::Forever);
    cluster.pass(10 * MS);
    assert_eq!(
        cluster.nodes[0].waits_for,
        ["a"],
        "the other one stands behind it"
    );
    for node in 1..3 {
        cluster.conduct(node, Conduct::IsSilentFrom("SET"));
    }
    set_free(&mut cluster, "a");
    call_last(&mut cluster, "a");
    cluster.pass(TTL);
    assert!(cluster.outcome(alone).is_none() && cluster.outcome(both).is_none());
    let joined = &cluster.nodes[0].waits_for;
    assert!(
        joined.starts_with(&["a", "a", "c"].map(String::from)),
        "{joined:?}"
    );
    assert_eq!(cluster.nodes[0].unwaits[0], "a");
}

#[test]
fn the_line_for_one_of_several_names_moves_with_its_node_and_is_left_with_its_caller() {
    let mut cluster = with_lines(3, "b");
    let call = ask(&mut cluster, &["a", "b"], Wait::Forever);
    cluster.pass(10 * MS);
    let token = cluster.nodes[0].waits.last().cloned();
    cluster.conduct(0, Conduct::IsAway);
    assert_eq!(cluster.nodes[1].waits.last().cloned(), token);
    assert_eq!(cluster.nodes[1].waits_for, ["b"]);
    cluster.happens(Event::Gone(call));
    assert_eq!(cluster.nodes[1].unwaits, ["b"]);
    assert_eq!(cluster.client.size().lines, 0);
}

/// Nodes without lines have no readers: it is data, and to look for a line would cost two requests a node each time.
#[test]
fn a_key_of_another_type_is_not_looked_at_again_and_again_where_nobody_reads() {
    let mut cluster = Cluster::new(5);
    for node in &mut cluster.nodes {
        node.tells_changes = true;
        let error = "WRONGTYPE Operation against a key";
        node.keys.insert("b".to_owned(), error.to_owned());
    }
    ask(&mut cluster, &["a", "b", "c"], Wait::Forever);
    cluster.pass(2_000 * MS);
    let sum = |of: fn(&Node) -> usize| -> usize { cluster.nodes.iter().map(of).sum() };
    let before = [sum(|node| node.requests), sum(|node| node.takes)];
    cluster.pass(5_000 * MS);
    let sum = |of: fn(&Node) -> usize| -> usize { cluster.nodes.iter().map(of).sum() };
    let [requests, takes] = [sum(|node| node.requests), sum(|node| node.takes)];
    let (requests, takes) = (requests - before[0], takes - before[1]);
    // Three nodes are asked and all five told of the release.
    assert!(takes > 50 && requests <= 3 * takes, "{requests} {takes}");
}
