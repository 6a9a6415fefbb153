//! Standing in line behind readers: at which nodes a writer does so, what a turn at each of them leads to, and when it
//! leaves them.

use std::time::Duration;

use bytes::Bytes;

use super::cluster_for_tests::{Cluster, Conduct, Node};
use super::line_tests::{acquired, tried};
use crate::OperationId;
use crate::action::Event;
use crate::call::{AcquireCall, Call};
use crate::name::LockName;
use crate::token::Token;
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);
/// What a node answers about the lock while readers hold it.
const READERS: &str = "WRONGTYPE readers hold this lock: it is held shared";

/// Nodes with lines for what they have, on which readers hold a lock, and a caller that wants these alone.
fn waiting(nodes: usize, held: &str, names: &[&'static str]) -> (Cluster, OperationId) {
    let mut cluster = Cluster::new(nodes);
    for node in &mut cluster.nodes {
        node.in_line = Some(1);
        node.has_no_line_for_free = true;
        node.left_ms = 4_000;
        node.keys.insert(held.to_owned(), READERS.to_owned());
    }
    let call = AcquireCall {
        name: LockName::of_all(names.iter().copied().map(Bytes::from)),
        ..Cluster::acquisition(Wait::Forever)
    };
    let call = cluster.call(Call::Acquire(call));
    cluster.pass(MS);
    // Without these readers have no majority. To the others there are connections with the first check.
    let keep_out = |node: &&Node| node.waits_for.iter().any(|name| name == held);
    assert!(cluster.nodes.iter().filter(keep_out).count() > nodes / 2);
    cluster.pass(1_300 * MS);
    (cluster, call)
}

fn token(cluster: &Cluster, node: usize) -> String {
    cluster.nodes[node].waits.last().cloned().unwrap()
}

fn sum(cluster: &Cluster, of: impl Fn(&Node) -> usize) -> usize {
    cluster.nodes.iter().map(of).sum()
}

#[test]
fn a_writer_behind_readers_stands_in_line_and_keeps_new_ones_out_at_all_nodes() {
    for (names, held) in [(&["b"][..], "b"), (&["a", "b", "c"][..], "b")] {
        let (mut cluster, call) = waiting(5, held, names);
        let first = token(&cluster, 0);
        for node in &cluster.nodes[1..] {
            assert!(node.waits_for.iter().all(|name| name == held), "{names:?}");
            assert_eq!(node.waits.first(), Some(&first));
        }
        let tries = tried(&cluster);
        cluster.pass(3_500 * MS);
        assert_eq!(tried(&cluster), tries, "it does not poll");
        for node in &mut cluster.nodes {
            node.keys.clear();
        }
        cluster.push(0, held, &first);
        assert_eq!(acquired(&mut cluster, call), Some(first));
        // No other caller of this client is kept from reading by what it stood for.
        for node in &cluster.nodes[1..] {
            assert_eq!(node.unwaits, [held], "{names:?}");
        }
        assert_eq!(cluster.client.size().lines, 0);
    }
}

#[test]
fn a_writer_behind_readers_costs_no_more_than_behind_a_writer_and_asks_each_node_in_time() {
    // A fifth of a request in a second, and half of one.
    for (nodes, most) in [(5, 720), (11, 1_800)] {
        let (mut cluster, _) = waiting(nodes, "a", &["a"]);
        let before = sum(&cluster, |node| node.requests);
        for _ in 0..30 {
            let asked: Vec<usize> = cluster.nodes.iter().map(|node| node.waits.len()).collect();
            // So long a node keeps readers out for it.
            cluster.pass(Duration::from_secs(120));
            for (node, asked) in cluster.nodes.iter().zip(asked) {
                assert!(node.waits.len() > asked, "{nodes}");
            }
        }
        let all = sum(&cluster, |node| node.requests) - before;
        assert!((100..=most).contains(&all), "{nodes}: {all}");
    }
}

#[test]
fn a_writer_that_a_node_asks_whether_it_still_waits_stands_in_line_there_anew() {
    let (mut cluster, _) = waiting(5, "a", &["a"]);
    let tries = tried(&cluster);
    for node in [0, 3] {
        let (asked, token) = (cluster.nodes[node].waits.len(), token(&cluster, node));
        cluster.push_wanted(node, "a", &token);
        assert_eq!(cluster.nodes[node].waits[asked..], [token], "{node}");
    }
    assert_eq!(tried(&cluster), tries);
    // A line in which no call of this client stands is left.
    cluster.push_wanted(0, "b", "t");
    assert_eq!(cluster.nodes[0].unwaits, ["b"]);
}

#[test]
fn a_writer_keeps_its_place_while_an_attempt_waits_for_slow_nodes() {
    let (mut cluster, _) = waiting(5, "a", &["a"]);
    let token = token(&cluster, 0);
    for node in [1, 2] {
        cluster.nodes[node].keys.clear();
    }
    for node in [3, 4] {
        cluster.conduct(node, Conduct::IsSilent);
    }
    cluster.push(0, "a", &token);
    let tries = tried(&cluster);
    assert_eq!(cluster.nodes[0].tried.last(), Some(&token));
    let asked = cluster.nodes[0].waits.len();
    cluster.push_wanted(0, "a", &token);
    assert_eq!(cluster.nodes[0].waits[asked..], [token]);
    assert_eq!(tried(&cluster), tries);
}

/// As often as a node asks where a reader stands behind the writer and nothing changes.
#[test]
fn a_writer_that_is_asked_whether_it_still_waits_costs_no_more_and_asks_each_node_in_time() {
    for (nodes, most) in [(5, 720), (11, 1_800)] {
        let (mut cluster, _) = waiting(nodes, "a", &["a"]);
        let before = sum(&cluster, |node| node.requests);
        for _ in 0..30 {
            let asked: Vec<usize> = cluster.nodes.iter().map(|node| node.waits.len()).collect();
            // A node of an earlier version keeps readers out for so long.
            for _ in 0..11 {
                cluster.pass(Duration::from_secs(11));
                let token = token(&cluster, 0);
                cluster.push_wanted(0, "a", &token);
            }
            for (node, asked) in cluster.nodes.iter().zip(asked) {
                assert!(node.waits.len() > asked, "{nodes}");
            }
        }
        let all = sum(&cluster, |node| node.requests) - before;
        assert!((100..=most).contains(&all), "{nodes}: {all}");
    }
}

/// Readers that come and go need a majority without it.
#[test]
fn a_majority_without_the_node_of_the_line_that_says_it_is_free_has_all_of_them_asked() {
    let (mut cluster, call) = waiting(3, "a", &["a"]);
    let (tries, token) = (tried(&cluster), token(&cluster, 1));
    for node in &mut cluster.nodes[1..] {
        node.keys.clear();
    }
    cluster.push(1, "a", &token);
    assert_eq!(tried(&cluster), tries);
    cluster.push(2, "a", &token);
    assert_eq!(acquired(&mut cluster, call), Some(token));
}

#[test]
fn a_node_that_readers_have_taken_since_is_not_free() {
    let (mut cluster, _) = waiting(3, "a", &["a"]);
    let (tries, token) = (tried(&cluster), token(&cluster, 1));
    cluster.push(1, "a", &token);
    // With the next checks it says that others have it.
    cluster.pass(Duration::from_secs(5));
    cluster.push(2, "a", &token);
    assert_eq!(tried(&cluster), tries);
}

#[test]
fn a_node_that_was_away_keeps_readers_out_from_the_next_check_on() {
    for is_asked_meanwhile in [true, false] {
        let (mut cluster, _) = waiting(5, "a", &["a"]);
        cluster.conduct(4, Conduct::IsAway);
        cluster.pass(100 * MS);
        cluster.conduct(4, Conduct::Serves);
        cluster.pass(500 * MS);
        let asked = cluster.nodes[4].waits.len();
        let mut checks = Duration::from_secs(40);
        if is_asked_meanwhile {
            cluster.call(Call::Acquire(AcquireCall {
                name: "b".into(),
                ..Cluster::acquisition(Wait::None)
            }));
            checks = 2_100 * MS;
        }
        cluster.pass(checks);
        let is_asked = cluster.nodes[4].waits.len() > asked;
        assert!(is_asked, "{is_asked_meanwhile}");
    }
}

#[test]
fn a_turn_at_another_node_than_that_of_the_line_is_given_to_those_who_come_first_in_the_line() {
    for (waiting_there, is_left) in [(1, false), (2, true)] {
        let mut cluster = Cluster::new(3);
        for node in &mut cluster.nodes {
            node.in_line = Some(1);
            node.keys.insert("a".to_owned(), READERS.to_owned());
        }
        cluster.nodes[0].in_line = Some(waiting_there);
        cluster.call(Call::Acquire(Cluster::acquisition(Wait::Forever)));
        cluster.pass(MS);
        let (tries, token) = (tried(&cluster), token(&cluster, 1));
        cluster.push(1, "a", &token);
        assert_eq!(tried(&cluster), tries);
        let left: &[&str] = if is_left { &["a"] } else { &[] };
        assert_eq!(cluster.nodes[1].unwaits, left);
        // It stands there again with its next check.
        let asked = cluster.nodes[1].waits.len();
        cluster.pass(2_000 * MS);
        assert!(cluster.nodes[1].waits.len() > asked);
    }
}

#[test]
fn a_writer_that_is_gone_keeps_no_reader_out() {
    let (mut cluster, call) = waiting(3, "a", &["a"]);
    let behind = cluster.call(Call::Acquire(AcquireCall {
        is_shared: true,
        ..Cluster::acquisition(Wait::Forever)
    }));
    cluster.happens(Event::Gone(call));
    // Nor one of its own client, which has its place in the line.
    let others = cluster.nodes[1..].iter();
    assert!(
        others
            .map(|node| &node.unwaits)
            .all(|left| left[..] == ["a"])
    );
    assert_eq!(cluster.nodes[0].unwaits, [""; 0]);
    assert!(acquired(&mut cluster, behind).is_some());
    assert_eq!(cluster.client.size().lines, 0);
}

/// The release that the node of the line has missed, say.
#[test]
fn a_node_that_says_at_a_check_that_it_is_free_has_all_of_them_asked() {
    let (mut cluster, call) = waiting(5, "a", &["a"]);
    cluster.pass(Duration::from_secs(60));
    for node in &mut cluster.nodes[1..] {
        node.keys.clear();
    }
    cluster.pass(Duration::from_secs(20));
    assert!(acquired(&mut cluster, call).is_some());
}

/// The node says when the last one has.
#[test]
fn a_reader_of_this_client_that_releases_is_no_turn_for_its_writer() {
    let (mut cluster, _) = waiting(3, "a", &["a"]);
    let tries = tried(&cluster);
    cluster.call(Call::Release {
        held: None,
        name: "a".into(),
        token: Token::from("of a reader"),
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
    cluster.pass(500 * MS);
    assert_eq!(tried(&cluster), tries);
}

/// The node of the line gives it its turn when the writer has used its own, has gone, or has been silent for too long.
#[test]
fn a_reader_behind_a_writer_asks_little_and_has_the_lock_with_its_turn() {
    let mut cluster = Cluster::new(5);
    for node in &mut cluster.nodes {
        node.in_line = Some(2);
        node.keeps_readers_out = true;
    }
    let call = cluster.call(Call::Acquire(AcquireCall {
        is_shared: true,
        ..Cluster::acquisition(Wait::Forever)
    }));
    cluster.pass(Duration::from_secs(60));
    let before = sum(&cluster, |node| node.requests);
    cluster.pass(Duration::from_secs(3_600));
    let all = sum(&cluster, |node| node.requests) - before;
    assert!((100..=720).contains(&all), "{all}");
    for node in &mut cluster.nodes {
        node.keeps_readers_out = false;
    }
    let token = token(&cluster, 0);
    cluster.push(0, "a", &token);
    assert_eq!(acquired(&mut cluster, call), Some(token));
}
