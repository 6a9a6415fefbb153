//! Nodes of several clusters in one list: which are asked, whose grants count, and what is said of them.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct, TTL};
use crate::call::{Call, Outcome};
use crate::outcome::{AcquireError, Cause, NodeAnswer};
use crate::probe::NodeState;
use crate::wait::Wait;

/// Nodes of the clusters that these letters name; `-` names none.
fn list(letters: &str) -> Cluster {
    let mut cluster = Cluster::new(letters.len());
    for (node, letter) in cluster.nodes.iter_mut().zip(letters.chars()) {
        if letter != '-' {
            node.info = format!("quorlock_cluster_id:{letter}\r\n");
        }
    }
    cluster
}

/// Why each node has not voted for a call that is over.
fn causes(outcome: Option<Outcome>) -> Vec<Cause> {
    let nodes = match outcome {
        Some(Outcome::NotAcquired(AcquireError::NoQuorum { nodes, .. })) => nodes,
        other => panic!("{other:?}"),
    };
    let cause = |answer| match answer {
        NodeAnswer::Not(cause) => cause,
        other => panic!("{other:?}"),
    };
    nodes
        .into_iter()
        .map(|report| cause(report.answer))
        .collect()
}

#[test]
fn nothing_is_sent_where_the_node_that_might_decide_can_never_vote() {
    for last in ["quorlock_agent:1\r\n", "quorlock_cluster_size:7\r\n"] {
        let mut cluster = list("rrbb-");
        cluster.nodes[4].info = last.to_owned();
        cluster.call(Call::Probe);
        let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
        let causes = causes(cluster.outcome(call));
        assert!(causes.iter().all(Cause::is_permanent), "{causes:?}");
        let takes = cluster.nodes.iter().map(|node| node.takes);
        assert_eq!(takes.sum::<usize>(), 0, "{last}");
    }
}

#[test]
fn nodes_that_name_no_cluster_have_no_majority_of_their_own_beside_two_clusters() {
    let mut cluster = list("---br");
    cluster.call(Call::Probe);
    let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    let causes = causes(cluster.outcome(call));
    assert!(causes.iter().all(Cause::is_permanent), "{causes:?}");
    let is_free = cluster.nodes.iter().all(|node| node.takes == 0);
    assert!(is_free, "nothing was asked of them");
    // Beside one cluster alone they vote, as while servers are replaced by its nodes one after the other.
    for letters in ["----b", "---bb", "--bbb"] {
        list(letters).held();
    }
}

#[test]
fn nodes_of_two_clusters_have_no_vote_while_the_one_that_decides_is_away() {
    let mut cluster = list("bbrr-");
    cluster.nodes[4].conduct = Conduct::IsAway;
    let call = cluster.call(Call::Probe);
    cluster.pass(TTL);
    let Some(Outcome::Probed(statuses)) = cluster.outcome(call) else {
        panic!("not probed")
    };
    for status in &statuses[..4] {
        let NodeState::DoesNotVote(cause @ Cause::MixedClusters { .. }) = &status.state else {
            panic!("{status:?}")
        };
        let text = cause.to_string();
        assert!(!cause.is_permanent(), "{text}");
        assert!(
            text.contains("not known yet which has a majority"),
            "{text}"
        );
    }
}

/// A client that knows nothing yet asks the first majority that has logged in.
#[test]
fn a_grant_of_a_node_that_names_no_cluster_does_not_count_once_several_are_known() {
    let mut cluster = list("bb-rr");
    let time = Duration::from_millis;
    cluster.round_trip = time(10);
    for (node, slow) in [(0, 10), (1, 10), (3, 15), (4, 15)] {
        cluster.nodes[node].slow = time(slow);
    }
    let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    cluster.pass(time(500));
    let causes = causes(cluster.outcome(call));
    let is_mixed = |cause: &Cause| matches!(cause, Cause::MixedClusters { .. });
    assert!(causes.iter().all(is_mixed), "{causes:?}");
    let takes: Vec<usize> = cluster.nodes.iter().map(|node| node.takes).collect();
    assert_eq!(takes, [1, 1, 1, 0, 0], "it was not known yet");
    let is_free = cluster.nodes.iter().all(|node| node.keys.is_empty());
    assert!(is_free, "what was granted is released");
}

/// The first three have refused before the fourth has logged in.
#[test]
fn a_lock_is_held_by_another_client_only_where_the_cluster_that_says_so_has_the_majority() {
    let time = Duration::from_millis;
    for (letters, is_busy) in [("rrbr", true), ("rrbb", false)] {
        let mut cluster = list(letters);
        cluster.take_away();
        cluster.round_trip = time(10);
        cluster.nodes[3].slow = time(15);
        let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
        cluster.pass(time(500));
        assert_eq!(cluster.nodes[0].takes, 1, "{letters}");
        let outcome = cluster.outcome(call);
        if is_busy {
            let busy = matches!(
                outcome,
                Some(Outcome::NotAcquired(AcquireError::Busy { .. }))
            );
            assert!(busy, "{letters}: {outcome:?}");
            continue;
        }
        for cause in causes(outcome) {
            let is_mixed = matches!(cause, Cause::MixedClusters { .. });
            assert!(is_mixed && cause.is_permanent(), "{cause:?}");
        }
    }
}

#[test]
fn a_lock_that_is_held_is_taken_again_where_it_was_missed_though_no_cluster_has_a_majority() {
    let mut cluster = list("bb--r");
    cluster.nodes[4].conduct = Conduct::IsAway;
    let other = ("a".to_owned(), "other".to_owned());
    cluster.nodes[3].keys.extend([other]);
    let held = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    let outcome = cluster.outcome(held);
    assert!(
        matches!(outcome, Some(Outcome::Acquired { .. })),
        "{outcome:?}"
    );
    cluster.conduct(4, Conduct::Serves);
    cluster.pass(TTL);
    assert!(cluster.client.register.undecided(3).is_some());
    cluster.nodes[3].keys.clear();
    cluster.pass(TTL);
    let token = cluster.nodes[0].keys.get("a");
    assert!(token.is_some() && cluster.nodes[3].keys.get("a") == token);
    assert_eq!(cluster.lost, []);
}
