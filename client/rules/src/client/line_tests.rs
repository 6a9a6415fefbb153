//! Standing in line: who waits for a lock that is held, at which node, and what ends the pause.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct, TTL};
use crate::OperationId;
use crate::action::Event;
use crate::call::{Call, Outcome};
use crate::wait::{Wait, Waiting};

const MS: Duration = Duration::from_millis(1);

/// Nodes with lines, on which somebody else has the lock, and a caller that waits for it.
fn waiting(nodes: usize) -> (Cluster, OperationId) {
    let mut cluster = Cluster::new(nodes);
    for node in &mut cluster.nodes {
        node.in_line = Some(1);
    }
    cluster.take_away();
    let call = wait(&mut cluster);
    (cluster, call)
}

pub(super) fn wait(cluster: &mut Cluster) -> OperationId {
    let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::Forever)));
    cluster.pass(MS);
    call
}

pub(super) fn set_free(cluster: &mut Cluster) {
    for node in &mut cluster.nodes {
        node.keys.clear();
    }
}

/// The token that stands in line at a node, if one does.
fn token(cluster: &Cluster, node: usize) -> String {
    cluster.nodes[node]
        .waits
        .last()
        .cloned()
        .unwrap_or_default()
}

pub(super) fn acquired(cluster: &mut Cluster, call: OperationId) -> Option<String> {
    match cluster.outcome(call) {
        Some(Outcome::Acquired { token, .. }) => Some(token.to_string()),
        _ => None,
    }
}

pub(super) fn tried(cluster: &Cluster) -> usize {
    cluster.nodes.iter().map(|node| node.takes).sum()
}

#[test]
fn a_message_of_the_line_ends_the_pause_at_once_and_nothing_else_does() {
    let (mut cluster, call) = waiting(3);
    let token = token(&cluster, 0);
    assert_eq!(cluster.nodes[0].waits.len(), 1);
    assert!(cluster.nodes[1].waits.is_empty() && cluster.nodes[2].waits.is_empty());
    let tries = tried(&cluster);
    cluster.pass(3_000 * MS);
    assert_eq!(tried(&cluster), tries);
    cluster.push(0, "a", "of somebody else");
    cluster.push(0, "other", &token);
    cluster.push(1, "a", &token);
    assert_eq!(tried(&cluster), tries);
    set_free(&mut cluster);
    cluster.push(0, "a", &token);
    // The token that stood in line is that of the attempt, and no attempt has had it before.
    assert_eq!(acquired(&mut cluster, call), Some(token.clone()));
    let others = &cluster.nodes[0].tried;
    assert_eq!(others.iter().filter(|tried| **tried == token).count(), 1);
    assert_eq!(cluster.client.size().lines, 0);
}

#[test]
fn each_failed_attempt_stands_in_line_with_the_token_of_the_next() {
    let (mut cluster, call) = waiting(3);
    for round in 1..=3 {
        let token = token(&cluster, 0);
        for node in &mut cluster.nodes {
            node.keys.insert("a".to_owned(), format!("thief{round}"));
        }
        cluster.push(0, "a", &token);
        let node = &cluster.nodes[0];
        assert_eq!(node.tried.last(), Some(&token));
        assert_eq!((node.waits.len(), node.takes), (round + 1, round + 1));
        assert!(!node.tried.contains(node.waits.last().unwrap()));
    }
    set_free(&mut cluster);
    let token = token(&cluster, 0);
    cluster.push(0, "a", &token);
    assert_eq!(acquired(&mut cluster, call), Some(token));
}

#[test]
fn the_line_moves_to_the_next_node_when_the_connection_ends() {
    let (mut cluster, call) = waiting(3);
    let token = token(&cluster, 0);
    cluster.conduct(0, Conduct::IsAway);
    assert_eq!(cluster.nodes[1].waits, std::slice::from_ref(&token));
    cluster.conduct(1, Conduct::IsAway);
    assert_eq!(cluster.nodes[2].waits, std::slice::from_ref(&token));
    cluster.conduct(1, Conduct::Serves);
    cluster.pass(500 * MS);
    set_free(&mut cluster);
    cluster.push(2, "a", &token);
    cluster.pass(1_000 * MS);
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn a_node_that_was_away_has_the_line_of_those_who_come_later() {
    let (mut cluster, _) = waiting(3);
    cluster.conduct(0, Conduct::IsAway);
    cluster.conduct(0, Conduct::Serves);
    // Somebody wants something of it.
    cluster.pass(100 * MS);
    cluster.call(Call::Probe);
    cluster.pass(1_000 * MS);
    let (before, token) = (cluster.nodes[0].waits.len(), token(&cluster, 1));
    for node in &mut cluster.nodes {
        node.keys.insert("a".to_owned(), "thief".to_owned());
    }
    cluster.push(1, "a", &token);
    cluster.pass(MS);
    assert_eq!(cluster.nodes[0].waits.len(), before + 1);
    assert_eq!(cluster.nodes[1].unwaits, ["a"]);
}

#[test]
fn a_caller_that_is_gone_leaves_the_line_and_a_message_for_it_is_answered() {
    let (mut cluster, call) = waiting(3);
    let token = token(&cluster, 0);
    cluster.happens(Event::Gone(call));
    assert_eq!(cluster.nodes[0].unwaits, ["a"]);
    let tries = tried(&cluster);
    cluster.push(0, "a", &token);
    assert_eq!(cluster.nodes[0].unwaits, ["a", "a"]);
    assert_eq!((tried(&cluster), cluster.client.size().lines), (tries, 0));
    // So does one whose wait is over.
    let wait = Wait::For(100 * MS);
    let call = cluster.call(Call::Acquire(Cluster::acquisition(wait)));
    cluster.pass(101 * MS);
    assert!(matches!(
        cluster.outcome(call),
        Some(Outcome::NotAcquired(_))
    ));
    assert_eq!(cluster.nodes[0].unwaits.len(), 3);
}

#[test]
fn the_callers_of_one_client_stand_in_line_as_one() {
    let (mut cluster, first) = waiting(3);
    let second = wait(&mut cluster);
    let third = wait(&mut cluster);
    assert_eq!(cluster.nodes[0].waits.len(), 1);
    let tries = tried(&cluster);
    set_free(&mut cluster);
    let token = token(&cluster, 0);
    cluster.push(0, "a", &token);
    let held = acquired(&mut cluster, first).unwrap();
    // The second stands in line at once, and asks no node for what this client holds.
    assert_eq!(
        (cluster.nodes[0].waits.len(), tried(&cluster)),
        (2, tries + 3)
    );
    release(&mut cluster, first, &held);
    let held = acquired(&mut cluster, second).unwrap();
    assert_eq!(cluster.nodes[0].waits[1], held);
    // Others came first for the third: it has to wait for its turn.
    cluster.nodes[0].in_line = Some(2);
    cluster.happens(Event::Gone(third));
    let third = wait(&mut cluster);
    release(&mut cluster, second, &held);
    assert_eq!(acquired(&mut cluster, third), None);
    let token = self::token(&cluster, 0);
    cluster.push(0, "a", &token);
    assert_eq!(acquired(&mut cluster, third), Some(token));
}

#[test]
fn the_last_that_wants_a_lock_leaves_the_line_also_where_it_has_asked_for_itself() {
    let (mut cluster, first) = waiting(3);
    cluster.round_trip = 20 * MS;
    let wait = Wait::For(100 * MS);
    let second = cluster.call(Call::Acquire(Cluster::acquisition(wait)));
    // Its wait is over before its turn has come: it asks once, and meanwhile the first is gone.
    cluster.pass(110 * MS);
    cluster.happens(Event::Gone(first));
    cluster.pass(100 * MS);
    assert!(cluster.outcome(second).is_some());
    assert_eq!(cluster.client.size().lines, 0);
}

fn release(cluster: &mut Cluster, held: OperationId, token: &str) {
    cluster.call(Call::Release {
        held: Some(held),
        name: "a".into(),
        token: token.to_owned().into(),
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
    cluster.pass(MS);
}

#[test]
fn a_turn_that_comes_before_the_other_releases_is_tried_again_at_once() {
    let (mut cluster, call) = waiting(3);
    cluster.round_trip = MS;
    let token = token(&cluster, 0);
    // The release has reached the first node alone.
    cluster.nodes[0].keys.clear();
    cluster.push(0, "a", &token);
    set_free(&mut cluster);
    for node in &mut cluster.nodes[1..] {
        node.keys.insert("a".to_owned(), "somebody".to_owned());
    }
    cluster.pass(MS / 2);
    for node in &mut cluster.nodes[1..] {
        node.keys.clear();
    }
    cluster.pass(3 * MS);
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn a_message_that_was_lost_is_made_up_for() {
    let (mut cluster, call) = waiting(3);
    cluster.pass(3_000 * MS);
    // The node has forgotten the line, or its message: the line is asked for when the lease seen would have ended.
    set_free(&mut cluster);
    cluster.nodes[0].in_line = Some(0);
    cluster.pass(1_100 * MS);
    assert!(acquired(&mut cluster, call).is_some());
    // A node says for ever that the lock is held.
    let (mut cluster, call) = waiting(3);
    set_free(&mut cluster);
    cluster.pass(Duration::from_secs(150));
    assert!(acquired(&mut cluster, call).is_some());
    // A node answers nothing any more.
    let (mut cluster, call) = waiting(3);
    set_free(&mut cluster);
    cluster.conduct(0, Conduct::IsSilent);
    cluster.pass(TTL);
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn a_node_that_is_free_while_the_lock_is_held_elsewhere_has_no_line_for_it() {
    let (mut cluster, _) = waiting(3);
    let token = token(&cluster, 0);
    cluster.nodes[0].keys.clear();
    cluster.push(0, "a", &token);
    cluster.pass(MS);
    assert_eq!(cluster.nodes[1].waits.len(), 1);
    assert_eq!(cluster.nodes[0].unwaits, ["a"]);
    let tries = tried(&cluster);
    cluster.pass(1_000 * MS);
    assert_eq!(tried(&cluster), tries);
}

#[test]
fn who_waits_costs_the_nodes_next_to_nothing() {
    let (mut cluster, _) = waiting(5);
    let requests =
        |cluster: &Cluster| -> usize { cluster.nodes.iter().map(|node| node.requests).sum() };
    let before = requests(&cluster);
    cluster.pass(Duration::from_secs(3_600));
    let all = requests(&cluster) - before;
    // A fifth of a request in a second.
    assert!((100..=720).contains(&all), "{all}");
}

/// A key that nobody owns, or a release that did not reach the node.
#[test]
fn a_line_on_a_node_that_alone_is_taken_keeps_nobody_waiting() {
    let (mut cluster, call) = waiting(5);
    cluster.pass(Duration::from_secs(60));
    for node in &mut cluster.nodes[1..] {
        node.keys.clear();
    }
    cluster.pass(Duration::from_secs(20));
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn nodes_without_lines_are_asked_now_and_then() {
    let (mut cluster, call) = waiting(3);
    cluster.happens(Event::Gone(call));
    let mut cluster = Cluster::new(3);
    cluster.take_away();
    let call = wait(&mut cluster);
    cluster.pass(1_000 * MS);
    assert!(cluster.nodes[0].takes > 3, "{}", cluster.nodes[0].takes);
    assert!(cluster.nodes.iter().all(|node| node.waits.is_empty()));
    set_free(&mut cluster);
    cluster.pass(200 * MS);
    assert!(acquired(&mut cluster, call).is_some());
    // Of three nodes the second has lines.
    let mut cluster = Cluster::new(3);
    cluster.nodes[1].in_line = Some(1);
    cluster.take_away();
    wait(&mut cluster);
    assert_eq!(cluster.nodes[1].waits.len(), 1);
    let (tries, asked) = (tried(&cluster), cluster.nodes[0].requests);
    cluster.pass(3_000 * MS);
    // A node that is not that of the line is asked whether it is free, and for nothing else.
    assert_eq!(tried(&cluster), tries);
    assert!(cluster.nodes[0].requests <= asked + 1);
}

#[test]
fn what_closes_a_connection_upon_a_request_about_lines_is_not_asked_again_and_again() {
    let mut cluster = Cluster::new(3);
    for node in &mut cluster.nodes {
        node.conduct = Conduct::Closes("HELLO");
    }
    cluster.take_away();
    let call = wait(&mut cluster);
    cluster.pass(Duration::from_secs(300));
    let closures = cluster.nodes.iter().map(|node| node.closures);
    assert_eq!(closures.collect::<Vec<_>>(), [2, 2, 2]);
    set_free(&mut cluster);
    cluster.pass(1_000 * MS);
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn a_turn_in_which_too_few_nodes_vote_is_no_place_in_line() {
    let (mut cluster, call) = waiting(3);
    let token = token(&cluster, 0);
    cluster.conduct(1, Conduct::IsAway);
    cluster.conduct(2, Conduct::IsAway);
    cluster.push(0, "a", &token);
    set_free(&mut cluster);
    cluster.pass(100 * MS);
    assert!(acquired(&mut cluster, call).is_none());
    cluster.conduct(1, Conduct::Serves);
    cluster.conduct(2, Conduct::Serves);
    cluster.pass(2_000 * MS);
    assert!(acquired(&mut cluster, call).is_some());
}

/// It is refused by nobody: those who are told that the lock is free come too late each time.
#[test]
fn who_takes_a_lock_again_and_again_learns_that_others_wait_and_stands_behind_them() {
    let mut cluster = Cluster::new(3);
    for node in &mut cluster.nodes {
        node.in_line = Some(2);
    }
    let mut taken = 0;
    let call = loop {
        let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::Forever)));
        let Some(token) = acquired(&mut cluster, call) else {
            break call;
        };
        taken += 1;
        cluster.pass(10 * MS);
        release(&mut cluster, call, &token);
        assert!(taken < 100, "it never looks");
    };
    assert!(taken > 20, "{taken}");
    // From now on it stands behind them each time.
    let held = token(&cluster, 0);
    cluster.push(0, "a", &held);
    assert_eq!(acquired(&mut cluster, call), Some(held.clone()));
    release(&mut cluster, call, &held);
    let next = cluster.call(Call::Acquire(Cluster::acquisition(Wait::Forever)));
    cluster.pass(500 * MS);
    assert_eq!(acquired(&mut cluster, next), None);
    // Nobody waits: it looks, and has the lock.
    let mut cluster = Cluster::new(3);
    cluster.nodes[0].in_line = Some(0);
    for _ in 0..100 {
        let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::Forever)));
        let held = acquired(&mut cluster, call).expect("the lock is free");
        cluster.pass(9 * MS);
        release(&mut cluster, call, &held);
    }
    let looks = cluster.nodes[0].waits.len();
    assert!((3..=4).contains(&looks), "{looks} in a second");
}

/// The farther nodes are apart, the more often an attempt meets one of them between two holders.
#[test]
fn a_node_that_was_met_between_two_holders_has_the_line_again() {
    let (mut cluster, _) = waiting(3);
    let hold_others = |cluster: &mut Cluster, holder: &str| {
        cluster.nodes[0].keys.clear();
        for node in &mut cluster.nodes[1..] {
            node.keys.insert("a".to_owned(), holder.to_owned());
        }
        let token = token(cluster, 0);
        cluster.push(0, "a", &token);
        cluster.pass(MS);
    };
    hold_others(&mut cluster, "first");
    assert_eq!(cluster.nodes[0].waits.len(), 2);
    assert!(
        cluster.nodes[1].waits.is_empty(),
        "it may have been free for a moment"
    );
    // It misses what the others have.
    hold_others(&mut cluster, "second");
    assert_eq!(cluster.nodes[1].waits.len(), 1);
    assert_eq!(cluster.nodes[0].unwaits, ["a"]);
}

#[test]
fn who_stands_in_line_before_it_has_asked_is_told_that_it_waits() {
    let (mut cluster, call) = waiting(3);
    let token = token(&cluster, 0);
    set_free(&mut cluster);
    cluster.push(0, "a", &token);
    let Some(Outcome::Acquired { token, .. }) = cluster.outcome(call) else {
        panic!("it was free")
    };
    cluster.call(Call::Release {
        held: Some(call),
        name: "a".into(),
        token,
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
    cluster.pass(300 * MS);
    cluster.take_away();
    let tries = tried(&cluster);
    let call = cluster.call(Call::AcquireTelling(Cluster::acquisition(Wait::Forever)));
    cluster.pass(300 * MS);
    assert_eq!(tried(&cluster), tries);
    let [(to, Waiting::Busy { .. })] = &cluster.news[..] else {
        panic!("{:?}", cluster.news)
    };
    assert_eq!(*to, call);
}
