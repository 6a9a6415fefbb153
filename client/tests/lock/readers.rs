//! Readers and writers of one name, on nodes of this process, and on nodes that know no readers.

use std::time::Duration;

use quorlock_client::{AcquireError, Cause, Guard, LockRequest, NodeAnswer, Redlock, Wait};
use quorlock_testkit::eventually;

use crate::fake_node::FakeNode;
use crate::in_process::{Embedded, listed};

const TTL: Duration = Duration::from_millis(900);

fn request(redlock: &Redlock) -> LockRequest {
    let lock = redlock.lock("a").ttl(TTL);
    lock.wait(Wait::For(Duration::from_secs(20)))
}

async fn read(redlock: &Redlock) -> Guard {
    request(redlock).shared().acquire().await.unwrap()
}

async fn assert_busy(request: LockRequest) {
    let refused = request.wait(Wait::None).acquire().await;
    assert!(
        matches!(refused, Err(AcquireError::Busy { .. })),
        "{refused:?}"
    );
}

async fn two_clients(nodes: &[Embedded]) -> [Redlock; 2] {
    [(); 2].map(|()| listed(nodes).build().unwrap())
}

#[tokio::test]
async fn readers_of_several_clients_hold_a_lock_together_and_no_writer_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let [one, other] = two_clients(&nodes).await;
    let readers = [read(&one).await, read(&one).await, read(&other).await];
    for redlock in [&one, &other] {
        assert_busy(request(redlock)).await;
        assert_busy(request(redlock).fenced()).await;
    }
    for reader in &readers {
        let first = reader.valid_until();
        eventually("it is renewed, over more than one lease", || {
            reader.valid_until().since(first) > TTL
        });
    }
    assert!(readers.iter().all(|guard| guard.is_valid()));
    for reader in readers {
        assert_busy(request(&one)).await;
        assert!(reader.release_everywhere().await.is_free());
    }
    let writer = request(&other).acquire().await.unwrap();
    assert_busy(request(&one).shared()).await;
    assert_busy(request(&other).shared()).await;
    assert!(writer.release_everywhere().await.is_free());
    assert!(read(&one).await.is_valid());
}

/// At any moment somebody reads, or wants to.
#[tokio::test]
async fn a_writer_has_the_lock_in_the_end_however_many_readers_come() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let [one, other] = two_clients(&nodes).await;
    let reading: Vec<_> = (0..3)
        .map(|_| {
            let one = one.clone();
            tokio::spawn(async move {
                loop {
                    let Ok(guard) = request(&one).shared().wait(Wait::Forever).acquire().await
                    else {
                        return;
                    };
                    tokio::time::sleep(Duration::from_millis(60)).await;
                    drop(guard);
                }
            })
        })
        .collect();
    let first = read(&one).await;
    drop(first);
    for _ in 0..3 {
        let writer = request(&other).acquire().await.unwrap();
        assert!(writer.release_everywhere().await.is_free());
    }
    reading.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_reader_notices_that_a_majority_has_dropped_it() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let redlock = listed(&nodes).build().unwrap();
    let [reader, other] = [read(&redlock).await, read(&redlock).await];
    for node in &nodes[..3] {
        let token = String::from_utf8(reader.token().as_bytes().to_vec()).unwrap();
        let reply = node.call(&["LOCK.FORCE-RELEASE", "a", &token]).await;
        assert_eq!(reply, ":1\r\n");
    }
    reader.lost().await;
    assert!(!reader.is_valid() && other.is_valid());
}

#[tokio::test]
async fn servers_without_shared_locks_are_named_and_no_reader_is_made_up() {
    let nodes: Vec<FakeNode> = ["a", "b", "c"].map(FakeNode::start).into();
    let redlock = crate::client(&nodes);
    let error = request(&redlock).shared().wait(Wait::None).acquire().await;
    let Err(AcquireError::NoQuorum { nodes, .. }) = &error else {
        panic!("{error:?}");
    };
    let without = NodeAnswer::Not(Cause::WithoutSharedLocks);
    let named = nodes.iter().filter(|report| report.answer == without);
    assert!(
        named.count() >= 2 && Cause::WithoutSharedLocks.is_permanent(),
        "{error:?}"
    );
    assert!(crate::acquire(&redlock, "a").await.is_valid());
}

#[tokio::test]
async fn what_cannot_be_shared_is_refused_before_anything_is_sent() {
    let nodes: Vec<FakeNode> = ["a"].map(FakeNode::start).into();
    let redlock = crate::client(&nodes);
    let shared = || request(&redlock).shared();
    let refused = [
        shared().fenced().acquire().await.err(),
        shared().owner("me").acquire().await.err(),
        shared().lock_delay(TTL).acquire().await.err(),
        shared().acquire_lease().await.err(),
        redlock.semaphore("a", 2).shared().acquire().await.err(),
    ];
    for error in refused {
        let Some(AcquireError::Invalid { reason }) = &error else {
            panic!("{error:?}");
        };
        assert!(reason.contains("cannot be held shared"), "{reason}");
    }
}
