//! Lists in which nodes stand beside servers that know no `LOCK` command, as earlier versions and Redis do: what a majority
//! knows is to be had, and the rest is refused with its name.

use std::time::Duration;

use quorlock_client::{AcquireError, Cause, LockRequest, NodeAnswer, Redlock, Wait};

use crate::fake_node::FakeNode;
use crate::in_process::{Embedded, listed, listed_behind};
use crate::{TTL, acquire};

/// So many nodes, and servers beside them: five in all.
async fn mixed(folder: &tempfile::TempDir, nodes: usize) -> (Vec<Embedded>, Vec<FakeNode>) {
    let mut both = (Embedded::five(folder).await, FakeNode::five());
    both.0.truncate(nodes);
    both.1.truncate(5 - nodes);
    both
}

fn client(nodes: &[Embedded], servers: &[FakeNode]) -> Redlock {
    let urls = servers.iter().map(FakeNode::url);
    listed(nodes).nodes(urls).build().unwrap()
}

fn request(redlock: &Redlock) -> LockRequest {
    let lock = redlock.lock("a").ttl(LASTS);
    lock.wait(Wait::For(TTL))
}

/// The nodes cover no longer lock.
const LASTS: Duration = Duration::from_millis(900);

/// How many servers are said to be the reason of a refusal.
async fn named(request: LockRequest, cause: &Cause) -> usize {
    let error = request.wait(Wait::None).acquire().await.unwrap_err();
    let AcquireError::NoQuorum { nodes, .. } = &error else {
        panic!("{error}");
    };
    let is_it = |answer: &NodeAnswer| matches!(answer, NodeAnswer::Not(it) if it == cause);
    nodes.iter().filter(|node| is_it(&node.answer)).count()
}

#[tokio::test]
async fn fences_come_from_a_majority_that_has_them_and_are_refused_by_name_without() {
    let folder = tempfile::tempdir().unwrap();
    let (nodes, servers) = mixed(&folder, 3).await;
    let [one, other] = [(); 2].map(|()| client(&nodes, &servers));
    let mut last = 0;
    for redlock in [&one, &other, &one] {
        let guard = request(redlock).fenced().acquire().await.unwrap();
        let fence = guard.fence().expect("a majority has fences");
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        assert!(!guard.release_everywhere().await.was_lost());
    }
    let folder = tempfile::tempdir().unwrap();
    let (nodes, servers) = mixed(&folder, 2).await;
    let redlock = client(&nodes, &servers);
    assert_eq!(
        named(request(&redlock).fenced(), &Cause::WithoutFences).await,
        3
    );
    // Locks without a fence are as ever, and none is made up.
    assert_eq!(acquire(&redlock, "a").await.fence(), None);
}

#[tokio::test]
async fn readers_are_let_in_by_a_majority_that_knows_them_and_are_refused_by_name_without() {
    let folder = tempfile::tempdir().unwrap();
    let (nodes, servers) = mixed(&folder, 3).await;
    let [one, other] = [(); 2].map(|()| client(&nodes, &servers));
    let readers = [
        request(&one).shared().acquire().await.unwrap(),
        request(&other).shared().acquire().await.unwrap(),
    ];
    let writer = request(&one).wait(Wait::None).acquire().await;
    assert!(writer.is_err(), "{writer:?}");
    for reader in readers {
        assert!(reader.is_valid());
        assert!(!reader.release_everywhere().await.was_lost());
    }
    // A key of a reader would keep all others out there.
    for server in &servers {
        assert_eq!(server.holder("a"), None);
    }
    assert!(acquire(&other, "a").await.is_valid());
    let folder = tempfile::tempdir().unwrap();
    let (nodes, servers) = mixed(&folder, 2).await;
    let redlock = client(&nodes, &servers);
    assert_eq!(
        named(request(&redlock).shared(), &Cause::WithoutSharedLocks).await,
        3
    );
    assert!(acquire(&redlock, "a").await.is_valid());
}

/// The servers without lines come first in the list.
#[tokio::test]
async fn who_waits_stands_in_line_at_the_first_node_that_has_lines() {
    for count in [3, 1] {
        let folder = tempfile::tempdir().unwrap();
        let (nodes, servers) = mixed(&folder, count).await;
        let [one, other] = [(); 2].map(|()| {
            let urls = servers.iter().map(FakeNode::url);
            let builder = Redlock::builder().nodes(urls);
            listed_behind(builder, &nodes).build().unwrap()
        });
        // A node that is not connected yet has no line for it.
        other.probe().await;
        let guard = acquire(&one, "a").await;
        let waiting = tokio::spawn(request(&other).acquire());
        let in_line = async {
            while nodes[0].count("lock.wait").await == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TTL, in_line)
            .await
            .expect("it stands in line");
        for node in &nodes[1..] {
            assert_eq!(node.count("lock.wait").await, 0);
        }
        assert!(!guard.release_everywhere().await.was_lost());
        assert!(waiting.await.unwrap().unwrap().is_valid());
    }
}
