//! What a client counts.

use std::time::Duration;

use quorlock_client::{Loss, Wait};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{TTL, acquire, holders, refused, timeless};

#[tokio::test]
async fn what_becomes_of_calls_is_counted() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let fresh = redlock.statistics().await;
    assert_eq!((fresh.acquired, fresh.nodes.len()), (0, 5));
    let guard = acquire(&redlock, "a").await;
    refused(&redlock, "a").await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    guard.extend().await.unwrap();
    assert_eq!(redlock.statistics().await.held, 1);
    clock.advance(TTL);
    assert_eq!(guard.lost().await, Loss::Expired);
    for node in &nodes[..3] {
        node.set_mood(Mood::Refuses("ERR broken"));
    }
    refused(&redlock, "b").await;
    let waiting = redlock.lock("c").ttl(TTL).wait(Wait::Forever).acquire();
    assert!(
        tokio::time::timeout(Duration::from_millis(1), waiting)
            .await
            .is_err()
    );
    let counted = redlock.statistics().await;
    assert_eq!((counted.acquired, counted.busy), (1, 1));
    assert_eq!((counted.no_quorum, counted.timed_out), (1, 0));
    assert_eq!((counted.renewals, counted.lost, counted.held), (1, 1, 0));
    assert_eq!(counted.cancelled, 1);
}

#[tokio::test]
async fn each_nodes_part_is_counted() {
    let mut nodes = FakeNode::five();
    nodes.truncate(4);
    // Nobody listens there.
    let away = "redis://127.78.0.2:1";
    let redlock = crate::builder(&nodes).node(away).build().unwrap();
    nodes[0].set_mood(Mood::Refuses("ERR broken"));
    let wait = Wait::For(Duration::from_millis(100));
    nodes[1].set_mood(Mood::Refuses("ERR broken"));
    nodes[2].set_mood(Mood::Refuses("ERR broken"));
    // A call is over as soon as three nodes have refused, whatever the others do.
    let counting = async {
        loop {
            let lock = redlock.lock("a").ttl(TTL).wait(wait);
            lock.acquire().await.unwrap_err();
            let counted = redlock.statistics().await;
            if counted.nodes[3].answers > 0 && counted.nodes[4].failures > 0 {
                return counted;
            }
        }
    };
    let counted = tokio::time::timeout(TTL, counting).await.unwrap();
    assert!(counted.retries > 0);
    let [broken, .., well, away] = &counted.nodes[..] else {
        panic!("five nodes")
    };
    assert!(broken.failures > 0 && broken.answers == 0, "{broken:?}");
    assert!(well.answers > 0 && well.round_trip.is_some(), "{well:?}");
    assert_eq!((well.connects, well.connections), (1, 1));
    assert!(away.connects > 0 && away.connections == 0, "{away:?}");
    assert!(away.failures > 0 && away.round_trip.is_none(), "{away:?}");
}
