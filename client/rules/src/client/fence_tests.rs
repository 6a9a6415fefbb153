//! A lock with a fence is taken again, with that fence, by nodes that it has missed.

use super::cluster_for_tests::{Cluster, TTL};
use crate::OperationId;
use crate::call::{AcquireCall, Call, Outcome};
use crate::wait::Wait;

/// A lock with a fence that all nodes have but the last one, which has forgotten it: its name there, and the fence.
fn missed_by_the_last(cluster: &mut Cluster) -> (OperationId, u64) {
    let call = AcquireCall {
        is_fenced: true,
        ..Cluster::acquisition(Wait::None)
    };
    // The last node has the lock of somebody else, so that it has never granted this one.
    cluster.nodes[2]
        .keys
        .insert("a".to_owned(), "other".to_owned());
    let held = cluster.call(Call::Acquire(call));
    let Some(Outcome::Acquired { fence, .. }) = cluster.outcome(held) else {
        panic!("not acquired")
    };
    cluster.nodes[2].keys.clear();
    (held, fence.unwrap())
}

#[test]
fn a_node_that_was_missed_takes_the_fence_with_the_lock() {
    let mut cluster = Cluster::new(3);
    let (_, fence) = missed_by_the_last(&mut cluster);
    let token = cluster.nodes[0].keys["a"].clone();
    assert_eq!(cluster.nodes[0].fence, (fence, token.clone()));
    cluster.pass(TTL);
    let last = &cluster.nodes[2];
    assert_eq!(last.keys.get("a"), Some(&token));
    assert_eq!(
        last.fence,
        (fence, token),
        "the next holder is above it here as well"
    );
}

#[test]
fn a_node_that_was_missed_and_is_ahead_takes_the_lock_and_keeps_its_fence() {
    let mut cluster = Cluster::new(3);
    let (held, fence) = missed_by_the_last(&mut cluster);
    cluster.nodes[2].fence = (fence + 7, String::new());
    cluster.pass(TTL);
    assert!(cluster.nodes[2].keys.contains_key("a"));
    assert_eq!(cluster.nodes[2].fence.0, fence + 7);
    assert_eq!(cluster.lost, [], "{held:?}");
}

#[test]
fn a_node_that_takes_no_fences_takes_the_lock_alone() {
    let mut cluster = Cluster::new(3);
    let (held, _) = missed_by_the_last(&mut cluster);
    cluster.nodes[2].has_lost_fences = true;
    let fence = cluster.nodes[2].fence.clone();
    cluster.pass(TTL);
    assert!(cluster.nodes[2].keys.contains_key("a"), "as a plain lock");
    assert_eq!(cluster.nodes[2].fence, fence);
    assert_eq!(cluster.lost, [], "{held:?}");
}
