//! Waiting at nodes that have no lines and tell of changes, as Redis and Valkey do.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct};
use super::line_tests::{acquired, set_free, tried, wait};
use crate::OperationId;
use crate::action::Event;
use crate::call::{Call, Outcome};
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);

fn waiting(nodes: usize) -> (Cluster, OperationId) {
    let mut cluster = Cluster::new(nodes);
    for node in &mut cluster.nodes {
        node.tells_changes = true;
    }
    cluster.take_away();
    let call = wait(&mut cluster);
    (cluster, call)
}

#[test]
fn word_of_a_change_has_a_free_lock_asked_for_at_once_and_costs_one_look_otherwise() {
    let (mut cluster, call) = waiting(3);
    let tracked: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| node.tracking.len())
        .collect();
    assert_eq!(
        tracked,
        [1, 0, 0],
        "all clients with the list ask its first node"
    );
    let (tries, requests) = (tried(&cluster), cluster.nodes[0].requests);
    cluster.pass(900 * MS);
    assert_eq!(tried(&cluster), tries, "it waits for word");
    // Another one has taken it.
    cluster.push_changed(0, "a");
    assert_eq!(
        (tried(&cluster), cluster.nodes[0].requests),
        (tries, requests + 1)
    );
    cluster.push_changed(0, "another");
    cluster.push_changed(0, "ab");
    assert_eq!(cluster.nodes[0].requests, requests + 1);
    set_free(&mut cluster);
    cluster.push_changed(0, "a");
    cluster.pass(3 * MS);
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn who_waits_for_word_costs_the_nodes_next_to_nothing_and_is_not_kept_by_a_word_that_was_lost() {
    let (mut cluster, call) = waiting(5);
    let requests =
        |cluster: &Cluster| -> usize { cluster.nodes.iter().map(|node| node.requests).sum() };
    let before = requests(&cluster);
    cluster.pass(Duration::from_secs(3_600));
    let all = requests(&cluster) - before;
    assert!((100..=720).contains(&all), "{all}");
    set_free(&mut cluster);
    cluster.pass(Duration::from_secs(20));
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn a_node_whose_connection_ends_is_replaced_by_the_next_one() {
    let (mut cluster, call) = waiting(3);
    cluster.conduct(0, Conduct::IsAway);
    cluster.pass(MS);
    assert_eq!(cluster.nodes[1].tracking, ["ON BCAST PREFIX a"]);
    set_free(&mut cluster);
    cluster.push_changed(1, "a");
    cluster.pass(3 * MS);
    assert!(acquired(&mut cluster, call).is_some());
}

#[test]
fn a_change_at_a_node_that_the_call_does_not_wait_at_means_nothing() {
    let (mut cluster, call) = waiting(3);
    set_free(&mut cluster);
    cluster.push_changed(1, "a");
    cluster.pass(100 * MS);
    assert!(acquired(&mut cluster, call).is_none());
}

#[test]
fn nodes_tell_of_few_names_in_vain_and_those_who_wait_are_told_still() {
    let (mut cluster, _) = waiting(3);
    for _ in 0..20 {
        let mut other = Cluster::acquisition(Wait::Forever);
        other.name = "b".into();
        for node in &mut cluster.nodes {
            node.keys.insert("b".to_owned(), "somebody".to_owned());
        }
        let call = cluster.call(Call::Acquire(other));
        cluster.pass(MS);
        cluster.happens(Event::Gone(call));
    }
    cluster.pass(MS);
    let tracking = &cluster.nodes[0].tracking;
    let offs = tracking.iter().filter(|one| *one == "OFF").count();
    assert_eq!(offs, 1, "{tracking:?}");
    let off = tracking.iter().position(|one| one == "OFF").unwrap();
    let anew = tracking[off..].contains(&"ON BCAST PREFIX a".to_owned());
    assert!(anew, "{tracking:?}");
}

/// One of them has lines.
#[test]
fn a_line_comes_before_word_of_changes() {
    let mut cluster = Cluster::new(3);
    for node in &mut cluster.nodes {
        node.tells_changes = true;
    }
    cluster.nodes[1].in_line = Some(1);
    cluster.take_away();
    wait(&mut cluster);
    assert_eq!(cluster.nodes[1].waits.len(), 1);
    assert!(cluster.nodes.iter().all(|node| node.tracking.is_empty()));
}

/// A node that refuses to tell of changes, or does not answer who has the lock, is asked once.
#[test]
fn nodes_that_tell_of_nothing_are_asked_now_and_then() {
    let (mut cluster, call) = waiting(3);
    cluster.happens(Event::Gone(call));
    let mut cluster = Cluster::new(3);
    for node in &mut cluster.nodes {
        node.tells_changes = true;
        node.refuses_tracking = true;
    }
    cluster.take_away();
    let call = wait(&mut cluster);
    cluster.pass(1_000 * MS);
    assert!(tried(&cluster) > 9, "{}", tried(&cluster));
    let asked = cluster.nodes.iter().map(|node| node.tracking.len());
    assert_eq!(asked.collect::<Vec<_>>(), [1, 1, 1]);
    set_free(&mut cluster);
    cluster.pass(200 * MS);
    assert!(acquired(&mut cluster, call).is_some());
}

/// The nodes do not say for whom they refuse, as Redis before version 7.
#[test]
fn what_this_client_releases_is_asked_for_at_once_where_nodes_name_no_holder() {
    let mut cluster = Cluster::new(3);
    for node in &mut cluster.nodes {
        node.tells_changes = true;
        node.is_without_get = true;
    }
    let held = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    let Some(Outcome::Acquired { token, .. }) = cluster.outcome(held) else {
        panic!("the lock is free");
    };
    let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::Forever)));
    cluster.pass(500 * MS);
    assert!(cluster.outcome(call).is_none());
    cluster.call(Call::Release {
        held: Some(held),
        name: "a".into(),
        token,
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
    cluster.pass(MS);
    let told = cluster.outcome(call);
    assert!(matches!(told, Some(Outcome::Acquired { .. })), "{told:?}");
}
