//! Semaphores: a guard for each permit, with and without a runtime.

use std::time::Duration;

use quorlock_client::{AcquireError, LockRequest, Wait, blocking};

use crate::fake_node::FakeNode;
use crate::{TTL, client, holders};

/// A semaphore of two, asked for once.
fn two(redlock: &quorlock_client::Redlock) -> LockRequest {
    redlock.semaphore("a", 2).ttl(TTL).wait(Wait::None)
}

#[tokio::test]
async fn a_permit_is_a_guard_that_is_renewed_and_released_like_one_of_a_lock() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let first = two(&redlock).acquire().await.unwrap();
    let second = two(&redlock).acquire().await.unwrap();
    let mut permits = [first.permit(), second.permit()];
    permits.sort_unstable();
    assert_eq!(permits, [Some(0), Some(1)]);
    let busy = two(&redlock).acquire().await.unwrap_err();
    let AcquireError::Busy { name, .. } = &busy else {
        panic!("{busy}")
    };
    assert_eq!(&**name, "a");
    let name = String::from_utf8(first.name().to_vec()).unwrap();
    assert_eq!(name, format!("a:permit:{}", first.permit().unwrap()));
    first.extend().await.unwrap();
    let longer = redlock.extend(&name, first.token(), 2 * TTL).await.unwrap();
    assert!(longer.remaining() > TTL);
    // What waits has the permit that is released, or dropped.
    let waiting = redlock.semaphore("a", 2).ttl(TTL).wait(Wait::For(TTL));
    let third = tokio::spawn(waiting.clone().acquire());
    let permit = first.permit();
    assert!(first.release().await.released());
    let third = third.await.unwrap().unwrap();
    assert_eq!(third.permit(), permit);
    let permit = second.permit();
    drop(second);
    assert_eq!(waiting.acquire().await.unwrap().permit(), permit);
    // A lock has none.
    let lock = redlock.lock("a").ttl(TTL).acquire().await.unwrap();
    assert_eq!(lock.permit(), None);
}

#[test]
fn a_permit_is_had_without_a_runtime() {
    let nodes = FakeNode::five();
    let redlock = blocking::Redlock::from(client(&nodes));
    let guard = redlock.semaphore("a", 1).ttl(TTL).acquire().unwrap();
    assert_eq!(
        (guard.permit(), guard.name()),
        (Some(0), &b"a:permit:0"[..])
    );
    let wait = Wait::For(Duration::from_millis(50));
    let busy = redlock.semaphore("a", 1).ttl(TTL).wait(wait).acquire();
    assert!(matches!(busy, Err(AcquireError::Busy { .. })));
    drop(guard);
    redlock.settle();
    assert_eq!(holders(&nodes, "a:permit:0"), 0);
    let lease = redlock.semaphore("a", 1).ttl(TTL).acquire_lease().unwrap();
    assert!(redlock.release(lease.name(), lease.token()).released());
}

#[test]
fn numbers_of_permits_that_cannot_be_are_refused_before_anything_is_sent() {
    let nodes = FakeNode::five();
    let redlock = blocking::Redlock::from(client(&nodes));
    for permits in [0, 1_025, u32::MAX] {
        let refused = redlock.semaphore("a", permits).acquire();
        let Err(AcquireError::Invalid { reason }) = refused else {
            panic!("{permits}: {refused:?}")
        };
        assert!(reason.contains("1 to 1024 permits"), "{reason}");
    }
    assert_eq!(nodes[0].state().connections, 0);
}
