//! Locks that are reentrant for an owner, with and without a runtime.

use quorlock_client::{AcquireError, LockRequest, Loss, NodeRelease, Wait, blocking};
use quorlock_testkit::eventually;

use crate::fake_node::FakeNode;
use crate::{TTL, client, holders, most_asked};

fn owned(redlock: &quorlock_client::Redlock, owner: &str) -> LockRequest {
    let lock = redlock.lock("a").ttl(TTL).wait(Wait::None);
    lock.owner(owner)
}

#[tokio::test]
async fn an_owner_has_its_lock_again_at_once_and_each_guard_ends_by_itself() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let outer = owned(&redlock, "me").acquire().await.unwrap();
    let asked = most_asked(&nodes, "a");
    // A clone is the same client.
    let inner = owned(&redlock.clone(), "me").acquire().await.unwrap();
    assert_eq!(outer.token(), inner.token());
    assert_eq!(most_asked(&nodes, "a"), asked);
    assert!(matches!(
        owned(&redlock, "you").acquire().await,
        Err(AcquireError::Busy { .. })
    ));
    // Another client does not know this one's owners.
    let stranger = client(&nodes);
    assert!(owned(&stranger, "me").acquire().await.is_err());
    inner.extend().await.unwrap();
    let (outer_watch, inner_watch) = (outer.watch(), inner.watch());
    assert_eq!(outer_watch.valid_until(), inner_watch.valid_until());
    let release = outer.release().await;
    assert!(release.is_shared() && !release.was_lost() && !release.is_free());
    assert!(
        release
            .nodes
            .iter()
            .all(|(_, node)| *node == NodeRelease::Shared)
    );
    assert_eq!(outer_watch.loss(), Some(Loss::Released));
    assert!(inner.is_valid());
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    drop(inner);
    redlock.settle().await;
    assert_eq!(holders(&nodes, "a"), 0);
    assert_eq!(inner_watch.lost().await, Loss::Released);
}

#[test]
fn an_owner_without_a_runtime_and_what_has_none() {
    let nodes = FakeNode::five();
    let redlock = blocking::Redlock::from(client(&nodes));
    let outer = redlock.lock("a").ttl(TTL).owner("me").acquire().unwrap();
    let inner = redlock.lock("a").ttl(TTL).owner("me").acquire().unwrap();
    drop(outer);
    redlock.settle();
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    assert!(inner.release().released());
    let refused = [
        redlock.lock("a").owner("me").acquire_lease().map(drop),
        redlock.semaphore("a", 2).owner("me").acquire().map(drop),
        redlock
            .lock("a")
            .owner("me")
            .lock_delay(TTL)
            .acquire()
            .map(drop),
        redlock.lock("a").owner("me").fenced().acquire().map(drop),
    ];
    for (refused, what) in
        refused
            .into_iter()
            .zip(["a lease", "a permit", "a lock delay", "a fence"])
    {
        let Err(AcquireError::Invalid { reason }) = refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains(what), "{reason}");
    }
}
