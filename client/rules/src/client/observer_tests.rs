//! Observers: what nodes are asked for, what their messages lead to, and what is made up for when connections end.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct};
use crate::OperationId;
use crate::action::Event;
use crate::call::Call;
use crate::leader::{Leader, Observed};
use crate::token::Token;

const MS: Duration = Duration::from_millis(1);

fn nodes(count: usize) -> Cluster {
    let mut cluster = Cluster::new(count);
    for node in &mut cluster.nodes {
        // They know RESP3.
        node.in_line = Some(1);
    }
    cluster
}

fn observe(cluster: &mut Cluster, name: &'static str) -> OperationId {
    let observer = cluster.call(Call::Observe { name: name.into() });
    cluster.pass(100 * MS);
    observer
}

fn observed(cluster: &mut Cluster) -> Vec<Observed> {
    let observed = std::mem::take(&mut cluster.observed);
    observed.into_iter().map(|(_, observed)| observed).collect()
}

fn somebody() -> Observed {
    Observed::Leader(Leader::new(Token::from("somebody"), None, None))
}

#[test]
fn a_message_of_a_node_has_all_asked_and_nobody_polls() {
    let mut cluster = nodes(3);
    observe(&mut cluster, "a");
    assert_eq!(observed(&mut cluster), [Observed::Vacant]);
    let requests = |cluster: &Cluster| {
        cluster
            .nodes
            .iter()
            .map(|node| node.requests)
            .sum::<usize>()
    };
    let before = requests(&cluster);
    cluster.pass(40_000 * MS);
    assert_eq!(requests(&cluster), before, "nothing has changed");
    cluster.take_away();
    cluster.push_changed(1, "another");
    cluster.pass(1_000 * MS);
    assert_eq!(observed(&mut cluster), []);
    cluster.push_changed(1, "a");
    cluster.pass(100 * MS);
    assert_eq!(observed(&mut cluster), [somebody()]);
    for node in &cluster.nodes {
        assert_eq!(node.tracking, ["ON BCAST PREFIX a"]);
    }
}

#[test]
fn an_observer_asks_a_node_again_whose_connection_has_ended() {
    let mut cluster = nodes(3);
    observe(&mut cluster, "a");
    cluster.pass(1_000 * MS);
    for node in 0..3 {
        cluster.conduct(node, Conduct::IsAway);
    }
    cluster.take_away();
    for node in 0..3 {
        cluster.conduct(node, Conduct::Serves);
    }
    cluster.pass(5_000 * MS);
    assert_eq!(observed(&mut cluster).last(), Some(&somebody()));
    for node in &cluster.nodes {
        assert_eq!(node.tracking.len(), 2, "{:?}", node.tracking);
    }
}

#[test]
fn names_that_begin_alike_are_tracked_once_and_nothing_is_behind_the_last_observer() {
    let mut cluster = nodes(1);
    let long = observe(&mut cluster, "ab");
    let short = observe(&mut cluster, "a");
    let other = observe(&mut cluster, "abc");
    let asked = ["ON BCAST PREFIX ab", "OFF", "ON BCAST PREFIX a"];
    assert_eq!(cluster.nodes[0].tracking, asked);
    cluster.happens(Event::Gone(short));
    cluster.pass(2_000 * MS);
    // As long as more names are observed than not, the node tells of some in vain.
    assert_eq!(cluster.nodes[0].tracking, asked);
    cluster.happens(Event::Gone(long));
    cluster.pass(2_000 * MS);
    let again = ["OFF", "ON BCAST PREFIX abc"];
    assert_eq!(cluster.nodes[0].tracking[asked.len()..], again);
    cluster.happens(Event::Gone(other));
    cluster.pass(2_000 * MS);
    assert_eq!(cluster.nodes[0].tracking.last().unwrap(), "OFF");
    assert_eq!(cluster.client.size().of_calls(), 0);
    assert!(cluster.client.is_idle(cluster.now));
}

#[test]
fn a_watch_says_who_has_the_lock_until_one_node_tells_of_a_change() {
    let mut cluster = nodes(3);
    cluster.take_away();
    let watch = cluster.call(Call::Watch { name: "a".into() });
    cluster.pass(500 * MS);
    let held = || Some(Token::from("somebody"));
    let watched = |cluster: &mut Cluster| -> Vec<_> {
        let watched = std::mem::take(&mut cluster.watched).into_iter();
        watched.map(|(_, holder)| holder).collect()
    };
    assert_eq!(watched(&mut cluster), [None, held()]);
    // It was a renewal.
    cluster.push_changed(2, "a");
    cluster.pass(5 * MS);
    assert_eq!(watched(&mut cluster), [None]);
    cluster.pass(500 * MS);
    assert_eq!(watched(&mut cluster), [held()]);
    // It was a release.
    cluster.nodes.iter_mut().for_each(|node| node.keys.clear());
    cluster.push_changed(0, "a");
    cluster.pass(500 * MS);
    assert_eq!(watched(&mut cluster), [None]);
    assert!(cluster.observed.is_empty());
    cluster.take_away();
    // Nodes that would not tell of a change leave nothing certain.
    for node in 0..2 {
        cluster.conduct(node, Conduct::IsAway);
    }
    cluster.pass(60_000 * MS);
    assert_eq!(watched(&mut cluster), []);
    cluster.happens(Event::Gone(watch));
}
