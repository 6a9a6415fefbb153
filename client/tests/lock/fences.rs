//! Fences from nodes of this process, and from nodes that have none.

use std::time::Duration;

use quorlock_client::{
    AcquireError, Cause, FenceState, Guard, LockRequest, NodeAnswer, NodeFences, Redlock, Wait,
};

use crate::TTL;
use crate::fake_node::FakeNode;
use crate::in_process::{Embedded, listed};

fn request(redlock: &Redlock) -> LockRequest {
    request_of(redlock, "a")
}

fn request_of(redlock: &Redlock, name: &str) -> LockRequest {
    let lock = redlock.lock(name).ttl(Duration::from_millis(900));
    lock.wait(Wait::For(Duration::from_secs(5))).fenced()
}

async fn fence(redlock: &Redlock) -> u64 {
    fence_of(redlock, "a").await
}

async fn fence_of(redlock: &Redlock, name: &str) -> u64 {
    let guard: Guard = request_of(redlock, name).acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    assert!(guard.release_everywhere().await.is_free());
    fence
}

async fn asked_for_a_fence(nodes: &[Embedded]) -> u64 {
    let mut calls = 0;
    for node in nodes {
        calls += node.count("lock.fence").await;
    }
    calls
}

#[tokio::test]
async fn fences_grow_over_clients_and_restarts_and_a_right_guess_saves_a_round() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let (one, other) = (
        listed(&nodes).build().unwrap(),
        listed(&nodes).build().unwrap(),
    );
    assert_eq!([fence(&one).await, fence(&other).await], [1, 2]);
    let before = asked_for_a_fence(&nodes).await;
    // Its guess is too low, and what it learns is one more than that.
    assert_eq!(fence(&one).await, 3);
    let after = asked_for_a_fence(&nodes).await;
    assert!(
        after >= before + 3,
        "a second round to a majority: {before} requests, and then {after}"
    );
    assert_eq!([fence(&one).await, fence(&one).await], [4, 5]);
    assert_eq!(asked_for_a_fence(&nodes).await, after, "no second round");
    for node in &nodes {
        node.stop().await;
        node.restart().await;
    }
    let after = fence(&other).await;
    assert!(after > 5, "{after}");
    // One who asks for none has none, and excludes those who do.
    let plain = one.lock("a").acquire().await.unwrap();
    assert_eq!(plain.fence(), None);
    let refused = request(&other).wait(Wait::None).acquire().await;
    let Err(AcquireError::Busy { holder, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(holder.as_ref(), Some(plain.token()));
}

#[tokio::test]
async fn a_lease_hands_its_fence_on() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let redlock = listed(&nodes).build().unwrap();
    let lease = request(&redlock).acquire_lease().await.unwrap();
    assert_eq!(lease.fence(), Some(1));
    let extended = redlock.extend("a", lease.token(), Duration::from_millis(900));
    assert_eq!(extended.await.unwrap().fence(), None);
    let lease = redlock
        .lock("b")
        .ttl(lease.ttl())
        .fenced()
        .acquire()
        .await
        .unwrap()
        .into_lease();
    assert_eq!(lease.fence(), Some(1));
}

/// Of the nodes that were not certain of their fences.
fn states(nodes: &[NodeFences]) -> Vec<String> {
    let states = nodes.iter().filter_map(|node| match &node.state {
        FenceState::Certain(_) => None,
        FenceState::Adopted(_) => Some("adopted".to_owned()),
        FenceState::Uncertain {
            certain_others,
            needed,
            ..
        } => Some(format!("uncertain {certain_others} of {needed}")),
        other => Some(format!("{other:?}")),
    });
    states.collect()
}

fn causes(error: &AcquireError) -> Vec<&Cause> {
    let AcquireError::NoQuorum { nodes, .. } = error else {
        panic!("{error}");
    };
    let causes = nodes.iter().filter_map(|report| match &report.answer {
        NodeAnswer::Not(cause) => Some(cause),
        _ => None,
    });
    causes.collect()
}

#[tokio::test]
async fn nodes_that_lost_their_disks_do_not_vote_for_a_fence_until_they_know_what_others_took() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Embedded::five(&folder).await;
    let redlock = listed(&nodes).build().unwrap();
    assert_eq!(fence(&redlock).await, 1);
    nodes[0].lose_disk().await;
    nodes[1].lose_disk().await;
    let redlock = listed(&nodes).build().unwrap();
    let second = fence(&redlock).await;
    assert!(second > 1, "{second}");
    // What the others took is told to them, and they vote for fences again.
    let synced = redlock.sync_fences().await;
    assert_eq!(states(&synced), ["adopted"; 2], "{synced:?}");
    assert_eq!(states(&redlock.sync_fences().await), [""; 0]);
    nodes[4].stop().await;
    nodes[3].stop().await;
    let third = fence(&redlock).await;
    assert!(third > second, "{third}");
    for node in &nodes[3..] {
        node.restart().await;
    }
    nodes[2].lose_disk().await;
    nodes[0].lose_disk().await;
    nodes[1].lose_disk().await;
    let redlock = listed(&nodes).build().unwrap();
    let error = request(&redlock)
        .wait(Wait::None)
        .acquire()
        .await
        .unwrap_err();
    let lost = causes(&error)
        .into_iter()
        .filter(|cause| **cause == Cause::FencesLost);
    assert_eq!(lost.count(), 3, "{error}");
    assert!(error.to_string().contains("quorlock node sync"), "{error}");
    // Locks without fences are as ever.
    assert!(redlock.lock("a").acquire().await.unwrap().is_valid());
    // With too few that are certain nothing is known, unless all disks are trusted.
    let synced = redlock.sync_fences().await;
    assert_eq!(states(&synced), ["uncertain 2 of 3"; 3], "{synced:?}");
    let synced = redlock.sync_fences_of_trusted_disks().await;
    assert_eq!(states(&synced), ["adopted"; 3], "{synced:?}");
    // These were emptied, which nobody may have said of them: what they take then may have been taken before.
    assert!(fence(&redlock).await <= third);
}

/// A majority of the nodes loses its disks, one node after the other, while a lock is held. Each is told what the others took.
#[tokio::test]
async fn nodes_wiped_under_a_held_lock_give_no_fence_that_was_given_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Embedded::five(&folder).await;
    let redlock = listed(&nodes).build().unwrap();
    let mut earlier = 0;
    for _ in 0..5 {
        earlier = fence_of(&redlock, "b").await;
    }
    let guard: Guard = request(&redlock).acquire().await.unwrap();
    let held = guard.fence().unwrap();
    for number in 0..3 {
        nodes[number].lose_disk().await;
        let synced = listed(&nodes).build().unwrap().sync_fences().await;
        assert_eq!(states(&synced), ["adopted"], "{synced:?}");
        // The holder takes its lock there again.
        let retaken = async {
            while nodes[number].call(&["EXISTS", "a"]).await != ":1\r\n" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TTL, retaken).await.unwrap();
    }
    assert!(guard.is_valid(), "a majority has held it all the time");
    // No node is left that remembers what it gave before.
    for node in &nodes[3..] {
        node.stop().await;
    }
    assert!(!guard.release().await.was_lost());
    let redlock = listed(&nodes).build().unwrap();
    let next = fence(&redlock).await;
    assert!(next > held, "{next} after {held}");
    let next = fence_of(&redlock, "b").await;
    assert!(next > earlier, "{next} after {earlier}");
}

/// Numbers end, and nodes may be driven apart. The error says so, and not that the nodes which have granted the lock are none.
#[tokio::test]
async fn nodes_that_count_no_further_together_are_named_with_their_fences() {
    let last = i64::MAX.unsigned_abs();
    let far = 1 << 60;
    let cases = [
        ([last; 5], "largest fence there that there is", true),
        ([0, 0, far, 2 * far, 3 * far], "too far from those", false),
    ];
    for (ceilings, said, is_permanent) in cases {
        let folder = tempfile::tempdir().unwrap();
        let nodes = Embedded::five(&folder).await;
        for (node, ceiling) in nodes.iter().zip(ceilings) {
            let adopted = node.call(&["LOCK.ADOPT", &ceiling.to_string()]).await;
            assert_eq!(adopted, format!(":{ceiling}\r\n"));
        }
        let redlock = listed(&nodes).build().unwrap();
        let attempt = request(&redlock).wait(Wait::None);
        let error = attempt.acquire().await.unwrap_err();
        let mut named = 0;
        for cause in causes(&error) {
            let Cause::NoNextFence { fence } = cause else {
                continue;
            };
            named += 1;
            // One of them has taken what the others refused.
            let is_told = |ceiling: &u64| fence.wrapping_sub(*ceiling) <= 1;
            assert!(ceilings.iter().any(is_told), "{error}");
            assert_eq!(cause.is_permanent(), is_permanent, "{error}");
        }
        assert!(named >= 3, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        // Nothing is left of it, which this would not wait for, and locks without a fence are as ever.
        let plain = redlock.lock("a").wait(Wait::None).acquire().await;
        assert!(plain.unwrap().is_valid());
    }
}

#[tokio::test]
async fn servers_without_fences_are_named_and_no_number_is_made_up() {
    let nodes: Vec<FakeNode> = ["a", "b", "c"].map(FakeNode::start).into();
    let redlock = crate::client(&nodes);
    let error = request(&redlock)
        .wait(Wait::None)
        .acquire()
        .await
        .unwrap_err();
    // The third one need not have answered when two have.
    let causes = causes(&error).into_iter();
    let without = causes.filter(|cause| **cause == Cause::WithoutFences);
    assert!(
        without.count() >= 2 && Cause::WithoutFences.is_permanent(),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("it has no fences, as Redis and earlier versions of Quorlock"),
        "{error}"
    );
    assert_eq!(crate::acquire(&redlock, "a").await.fence(), None);
}
