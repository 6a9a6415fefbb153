//! Calls for one of many permits: nodes are asked which ones they do not have before the call asks for one after the other.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct};
use super::permit_tests::{ask, had, release, set_free, take_away};
use crate::action::Event;
use crate::call::Outcome;
use crate::outcome::AcquireError;
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);

/// Nodes that are connected to, and on which somebody else has a thousand permits, all but this one.
fn all_but(free: Option<u32>) -> Cluster {
    let mut cluster = Cluster::new(3);
    let first = ask(&mut cluster, 1, Wait::None);
    let permit = had(&mut cluster, first);
    release(&mut cluster, first, permit);
    for node in &mut cluster.nodes {
        assert!(node.takes == 1 && node.keys.is_empty());
        (node.takes, node.requests) = (0, 0);
    }
    take_away(&mut cluster, 0..1_000);
    if let Some(free) = free {
        set_free(&mut cluster, free);
    }
    cluster
}

fn is_busy(outcome: Option<Outcome>) -> bool {
    matches!(
        outcome,
        Some(Outcome::NotAcquired(AcquireError::Busy { name, .. })) if &*name == "a"
    )
}

#[test]
fn a_call_for_one_of_a_thousand_permits_that_are_held_costs_some_requests_and_not_thousands() {
    let mut cluster = all_but(None);
    let call = ask(&mut cluster, 1_000, Wait::None);
    assert!(is_busy(cluster.outcome(call)));
    for node in &cluster.nodes {
        assert_eq!((node.takes, node.surveys), (1, 8));
        // One attempt and its release beside them.
        assert!(node.requests <= 12, "{}", node.requests);
    }
}

#[test]
fn the_one_permit_that_is_free_is_found_by_a_second_attempt_and_in_some_round_trips() {
    for free in [0, 17, 511, 999] {
        let mut cluster = all_but(Some(free));
        cluster.round_trip = 10 * MS;
        let call = ask(&mut cluster, 1_000, Wait::None);
        // Two attempts and eight surveys.
        cluster.pass(105 * MS);
        assert_eq!(had(&mut cluster, call).0, free);
        for node in &cluster.nodes {
            assert!(node.takes <= 2, "{} attempts", node.takes);
        }
    }
}

/// Each of the nodes says so of those that the others decide about.
#[test]
fn a_permit_that_a_minority_has_is_had_and_one_that_is_free_at_a_minority_is_refused_by_votes() {
    for node in 0..3 {
        let mut cluster = all_but(Some(17));
        let left = "somebody who died".to_owned();
        cluster.nodes[node]
            .keys
            .insert("a:permit:17".to_owned(), left);
        let call = ask(&mut cluster, 1_000, Wait::None);
        assert_eq!(had(&mut cluster, call).0, 17);

        let mut cluster = all_but(None);
        cluster.nodes[node].keys.remove("a:permit:17");
        let call = ask(&mut cluster, 1_000, Wait::None);
        assert!(is_busy(cluster.outcome(call)));
        assert!(cluster.nodes[node].takes <= 2);
        assert!(!cluster.nodes[node].keys.contains_key("a:permit:17"));
    }
}

/// The first answers may be those of nodes that do not have them.
#[test]
fn permits_that_a_bare_majority_has_are_passed_over_whichever_nodes_answer_first() {
    for without in 0..3 {
        let mut cluster = all_but(None);
        cluster.nodes[without].keys.clear();
        let call = ask(&mut cluster, 1_000, Wait::None);
        assert!(is_busy(cluster.outcome(call)));
        for node in &cluster.nodes {
            assert_eq!((node.takes, node.surveys), (1, 8), "{without}");
        }
    }
}

#[test]
fn where_too_few_nodes_say_which_permits_are_free_each_of_them_is_asked_for() {
    let mut cluster = all_but(Some(17));
    for node in &mut cluster.nodes[1..] {
        node.refuses_surveys = true;
    }
    let call = ask(&mut cluster, 1_000, Wait::None);
    assert_eq!(had(&mut cluster, call).0, 17);
    assert!(cluster.nodes.iter().all(|node| node.surveys <= 1));
}

#[test]
fn a_node_that_is_silent_holds_no_survey_up_and_a_caller_that_has_gone_ends_it() {
    let mut cluster = all_but(Some(17));
    // From the release of the first attempt on.
    cluster.conduct(2, Conduct::IsSilentFrom("EVAL"));
    cluster.round_trip = 10 * MS;
    let call = ask(&mut cluster, 1_000, Wait::None);
    cluster.pass(150 * MS);
    assert_eq!(had(&mut cluster, call).0, 17);

    let mut cluster = all_but(None);
    cluster.round_trip = 10 * MS;
    let call = ask(&mut cluster, 1_000, Wait::Forever);
    cluster.pass(45 * MS);
    let surveys = cluster.nodes[0].surveys;
    assert!(
        (1..8).contains(&surveys),
        "{surveys} were asked for by then"
    );
    cluster.happens(Event::Gone(call));
    cluster.pass(1_000 * MS);
    assert!(cluster.nodes[0].surveys <= surveys + 1);
    assert!(cluster.client.is_idle(cluster.now));
}

#[test]
fn what_this_client_releases_while_nodes_are_asked_is_had_behind_the_survey() {
    let mut cluster = Cluster::new(3);
    let held = ask(&mut cluster, 1_000, Wait::None);
    let (index, token) = had(&mut cluster, held);
    take_away(&mut cluster, 0..index);
    take_away(&mut cluster, index + 1..1_000);
    cluster.round_trip = 10 * MS;
    let call = ask(&mut cluster, 1_000, Wait::Forever);
    cluster.pass(45 * MS);
    release(&mut cluster, held, (index, token));
    cluster.pass(400 * MS);
    assert_eq!(had(&mut cluster, call).0, index);
}
