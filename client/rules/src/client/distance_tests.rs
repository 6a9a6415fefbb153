//! Locks whose leases are a few round trips long.

use std::time::Duration;

use super::cluster_for_tests::Cluster;
use crate::OperationId;
use crate::call::{AcquireCall, Call, Outcome};
use crate::log_line::News;
use crate::outcome::AcquireError;
use crate::wait::Wait;

const ROUND_TRIP: Duration = Duration::from_millis(400);

fn far_away() -> Cluster {
    let mut cluster = Cluster::new(5);
    cluster.round_trip = ROUND_TRIP;
    cluster
}

fn acquisition(ttl_ms: u64, renews: bool, wait: Wait) -> AcquireCall {
    AcquireCall {
        ttl: Duration::from_millis(ttl_ms),
        renews,
        ..Cluster::acquisition(wait)
    }
}

#[test]
fn a_free_lock_is_had_with_a_lease_of_two_and_a_half_round_trips() {
    for wait in [
        Wait::None,
        Wait::For(Duration::from_millis(5)),
        Wait::Forever,
    ] {
        let mut cluster = far_away();
        let began = cluster.now;
        let call = cluster.call(Call::Acquire(acquisition(1_000, false, wait)));
        cluster.pass(4 * ROUND_TRIP);
        let told = cluster.outcome(call);
        let Some(Outcome::Acquired { valid_until, .. }) = told else {
            panic!("{wait:?}: {told:?}")
        };
        // A connect, a login and a vote took three round trips, of which the lease lost one.
        let told_at = began.after(3 * ROUND_TRIP);
        assert_eq!(told_at.until(valid_until), Duration::from_millis(988 - 400));
        assert!(cluster.nodes.iter().all(|node| node.keys.contains_key("a")));
    }
}

#[test]
fn a_lock_far_away_is_held_as_long_as_its_owner_wants() {
    for ttl_ms in [1_600, 2_000, 4_000] {
        let mut cluster = far_away();
        let call = cluster.call(Call::Acquire(acquisition(ttl_ms, true, Wait::None)));
        cluster.pass(Duration::from_secs(60));
        let told = cluster.outcome(call);
        assert!(matches!(told, Some(Outcome::Acquired { .. })), "{told:?}");
        assert_eq!(cluster.lost, [], "{ttl_ms}");
    }
}

#[test]
fn a_lock_that_could_not_be_renewed_in_time_is_not_handed_out_and_the_figures_are_told() {
    let ms = Duration::from_millis;
    for (ttl_ms, reserve_ms, ttl_needed_ms) in [
        // The votes leave 489 ms, and a renewal may take 500.
        (900, 0, 1_100),
        // A third of the lease, a renewal, and what its holder needs to stop are together too long.
        (1_400, 600, 2_500),
        // The votes come when the lease is over.
        (300, 0, 1_100),
    ] {
        let mut cluster = far_away();
        let call = cluster.call(Call::Acquire(AcquireCall {
            reserve: ms(reserve_ms),
            ..acquisition(ttl_ms, true, Wait::None)
        }));
        cluster.pass(Duration::from_secs(5));
        let told = cluster.outcome(call);
        let Some(Outcome::NotAcquired(AcquireError::TimedOut { too_short, .. })) = &told else {
            panic!("{ttl_ms}: {told:?}")
        };
        let short = too_short.expect("a longer lease would do");
        assert_eq!((short.ttl, short.round_trip), (ms(ttl_ms), ROUND_TRIP));
        assert_eq!(short.ttl_needed, ms(ttl_needed_ms), "{ttl_ms}");
        let is_free = |node: &super::cluster_for_tests::Node| node.keys.is_empty();
        assert!(cluster.nodes.iter().all(is_free), "{ttl_ms}");
        // And that would do.
        let reserve = ms(reserve_ms * ttl_needed_ms / ttl_ms);
        let call = cluster.call(Call::Acquire(AcquireCall {
            reserve,
            ..acquisition(ttl_needed_ms, true, Wait::None)
        }));
        cluster.pass(Duration::from_secs(60));
        let told = cluster.outcome(call);
        assert!(matches!(told, Some(Outcome::Acquired { .. })), "{told:?}");
        assert_eq!(cluster.lost, [], "{ttl_ms}");
    }
}

#[test]
fn an_extension_counts_from_when_the_connections_stand() {
    let mut cluster = far_away();
    cluster.take_away();
    let began = cluster.now;
    let call = cluster.call(Call::Extend {
        name: "a".into(),
        token: "somebody".into(),
        ttl: Duration::from_secs(1),
        waits_for_all: true,
    });
    cluster.pass(Duration::from_secs(3));
    let told = cluster.outcome(call);
    let Some(Outcome::Extended(Ok(extended))) = told else {
        panic!("{told:?}")
    };
    let asked_at = began.after(2 * ROUND_TRIP);
    let validity = asked_at.until(extended.valid_until);
    assert_eq!(validity, Duration::from_millis(988));
}

#[test]
fn the_kernel_waits_for_acknowledgements_as_long_as_a_round_trip_may_take() {
    let mut cluster = far_away();
    cluster.call(Call::Acquire(acquisition(1_000, false, Wait::None)));
    cluster.pass(Duration::from_secs(3));
    let limits = &cluster.limits;
    assert_eq!(limits.len(), 5, "{limits:?}");
    assert!(
        limits.iter().all(|limit| *limit >= 2 * ROUND_TRIP),
        "{limits:?}"
    );
    // Near by it is a quarter of the lease, whatever was said before.
    let mut cluster = Cluster::new(5);
    cluster.held();
    cluster.call(Call::Acquire(acquisition(1_000, false, Wait::None)));
    let limits = cluster.limits.iter().map(Duration::as_millis);
    assert_eq!(limits.collect::<Vec<_>>(), [[2_000; 5], [250; 5]].concat());
}

/// Nodes with lines, of which the first two are near, where somebody else has the lock; and a caller that waits for it.
fn in_line(near: Duration) -> (Cluster, OperationId) {
    let mut cluster = far_away();
    cluster.round_trip = near;
    for node in &mut cluster.nodes {
        node.in_line = Some(2);
    }
    for node in &mut cluster.nodes[2..] {
        node.slow = ROUND_TRIP;
    }
    cluster.take_away();
    let call = cluster.call(Call::Acquire(acquisition(10_000, true, Wait::Forever)));
    cluster.pass(Duration::from_secs(30));
    (cluster, call)
}

/// A majority is far away though the node of the line is near.
#[test]
fn who_stands_in_line_says_how_long_its_attempt_takes_to_arrive() {
    let (cluster, _) = in_line(Duration::from_millis(1));
    let node = &cluster.nodes[0];
    let turn_ms = node.turn_ms.expect("a turn of 50 ms is too short");
    assert!((400..=1_900).contains(&turn_ms), "{turn_ms} ms");
    // Near nodes are not asked for anything.
    let mut cluster = Cluster::new(3);
    cluster.round_trip = Duration::from_millis(1);
    cluster.nodes[0].in_line = Some(1);
    cluster.take_away();
    cluster.call(Call::Acquire(acquisition(10_000, true, Wait::Forever)));
    cluster.pass(Duration::from_secs(30));
    let node = &cluster.nodes[0];
    assert!(!node.waits.is_empty());
    assert_eq!(node.turn_ms, None);
    // No node admits more than 2 s.
    let (cluster, _) = in_line(Duration::from_millis(500));
    assert_eq!(cluster.nodes[0].turn_ms, Some(2_000));
}

#[test]
fn a_node_of_a_version_without_turns_has_a_line_all_the_same() {
    let mut cluster = far_away();
    for node in &mut cluster.nodes {
        (node.in_line, node.is_without_turns) = (Some(2), true);
    }
    cluster.take_away();
    let call = cluster.call(Call::Acquire(acquisition(10_000, true, Wait::Forever)));
    cluster.pass(Duration::from_secs(30));
    let token = cluster.nodes[0].waits.last().cloned().unwrap();
    let named = cluster
        .log
        .iter()
        .filter(|news| **news == News::WithoutTurns);
    assert_eq!(named.count(), 1, "and is not asked for them again");
    assert!(cluster.nodes[1].waits.is_empty());
    for node in &mut cluster.nodes {
        node.keys.clear();
    }
    cluster.push(0, "a", &token);
    cluster.pass(2 * ROUND_TRIP);
    let told = cluster.outcome(call);
    assert!(matches!(told, Some(Outcome::Acquired { .. })), "{told:?}");
}
