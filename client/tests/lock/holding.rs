//! A lock that is held, over sockets: renewal, healing, loss, and connections that break.

use std::sync::Arc;
use std::time::Duration;

use quorlock_client::{ExtendError, Loss, NodeStatus, Wait};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{TTL, acquire, builder, client, holders, probes, refused, timeless};

#[tokio::test]
async fn a_guard_renews_itself_at_a_third_of_the_lease() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    let before = guard.valid_until();
    clock.advance(Duration::from_millis(3_300));
    assert_eq!(nodes[0].count("EVALSHA eee"), 0);
    clock.advance(Duration::from_millis(50));
    eventually("it is renewed", || guard.valid_until() != before);
    // A node whose last reply is still on its way when time is moved seems silent.
    assert!(
        nodes
            .iter()
            .filter(|node| node.count("EVALSHA eee") == 1)
            .count()
            >= 3
    );
    assert!(guard.remaining() > Duration::from_millis(9_800));
}

#[tokio::test]
async fn a_suspended_machine_has_lost_its_lock() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    clock.suspend(TTL);
    // At the first look, before any task has run.
    assert!(!guard.is_valid());
    assert_eq!(guard.loss(), Some(Loss::Expired));
    assert_eq!(guard.lost().await, Loss::Expired);
    let error = guard.extend().await.unwrap_err();
    assert_eq!(error, ExtendError::Lost(Loss::Expired));
}

#[tokio::test]
async fn renewals_that_fail_are_told_before_the_loss_and_again_when_they_succeed() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    assert!(!guard.is_renewal_failing());
    for node in &nodes[..3] {
        node.set_mood(Mood::Refuses("ERR broken"));
    }
    let watch = guard.watch();
    let failing = tokio::spawn(async move { watch.renewal_failing().await });
    assert!(!failing.is_finished());
    clock.advance(Duration::from_millis(3_400));
    let in_time = tokio::time::timeout(TTL, failing).await;
    in_time.expect("it is told").unwrap();
    assert!(guard.is_valid() && guard.is_renewal_failing());
    assert_eq!(guard.loss(), None);
    let watch = guard.watch();
    let recovered = tokio::spawn(async move { watch.renewal_recovered().await });
    tokio::task::yield_now().await;
    assert!(!recovered.is_finished());
    for node in &nodes {
        node.set_mood(Mood::Serves);
    }
    guard.extend().await.unwrap();
    assert!(!guard.is_renewal_failing());
    let in_time = tokio::time::timeout(TTL, recovered).await;
    in_time.expect("it is told").unwrap();
    // A loss is a failed renewal too, so that who waits for that alone is not left waiting.
    clock.suspend(TTL);
    guard.renewal_failing().await;
    assert!(guard.is_renewal_failing());
}

#[tokio::test]
async fn a_node_that_was_down_is_healed_at_the_next_renewal() {
    let nodes = FakeNode::five();
    nodes[4].set_mood(Mood::Refuses("LOADING"));
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    eventually("four hold it", || holders(&nodes, "a") == 4);
    nodes[4].set_mood(Mood::Serves);
    guard.extend().await.unwrap();
    eventually("five of five hold it", || holders(&nodes, "a") == 5);
}

#[tokio::test]
async fn a_node_that_restarted_empty_is_taken_again_when_what_it_forgot_has_expired() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    {
        let mut state = nodes[2].state();
        state.keys.clear();
        state.info = "run_id:another-life\r\n".into();
    }
    nodes[2].cut();
    let is_replaced = |node: &NodeStatus| {
        let id = node.identity.as_ref().map(|identity| &*identity.id);
        id == Some("another-life") && node.votes()
    };
    // Connections are made again as time passes.
    probes(&redlock, |nodes| {
        clock.advance(Duration::from_millis(10));
        is_replaced(&nodes[2])
    })
    .await;
    for _ in 0..3 {
        guard.extend().await.unwrap();
        assert_eq!(nodes[2].holder("a"), None);
        clock.advance(Duration::from_secs(3));
    }
    guard.extend().await.unwrap();
    clock.advance(Duration::from_millis(1_200));
    probes(&redlock, |nodes| nodes.iter().all(NodeStatus::votes)).await;
    guard.extend().await.unwrap();
    eventually("it is taken again", || holders(&nodes, "a") == 5);
    assert!(guard.is_valid());
}

#[tokio::test]
async fn no_renewal_follows_a_release() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    let lost = guard.watch();
    assert!(guard.release().await.released());
    assert_eq!(lost.lost().await, Loss::Released);
    redlock.settle().await;
    clock.advance(Duration::from_secs(4));
    // Another lock makes the thread do its work once more.
    assert!(acquire(&redlock, "b").await.release().await.released());
    assert!(nodes.iter().all(|node| node.count("EVALSHA eee") == 0));
}

#[tokio::test]
async fn the_loss_signal_of_a_dropped_guard_says_that_it_was_released() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    let lost = guard.watch();
    drop(guard);
    assert_eq!(lost.lost().await, Loss::Released);
    assert_eq!(lost.loss(), Some(Loss::Released));
}

#[tokio::test]
async fn late_replies_are_swallowed_and_never_taken_for_another_request() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    redlock.probe().await;
    for node in &nodes {
        node.set_mood(Mood::Hangs);
    }
    // The callers give up at different moments; their replies are still to come.
    for name in ["a", "b", "c"] {
        let lock = redlock.lock(name).ttl(TTL).wait(Wait::None);
        let waiting = tokio::time::timeout(Duration::from_millis(5), lock.acquire());
        assert!(!matches!(waiting.await, Ok(Ok(_))));
    }
    for node in &nodes {
        node.hold("d", "somebody", 60_000);
        node.set_mood(Mood::Serves);
    }
    // Were a late "granted" of "a" taken for the answer about "d", this would succeed.
    let wait = Wait::For(Duration::from_millis(300));
    redlock
        .lock("d")
        .ttl(TTL)
        .wait(wait)
        .acquire()
        .await
        .unwrap_err();
    redlock.settle().await;
    for name in ["a", "b", "c"] {
        assert_eq!(holders(&nodes, name), 0, "{name} was left behind");
    }
    assert_eq!(holders(&nodes, "d"), 5);
    assert!(
        nodes.iter().all(|node| node.state().connections == 1),
        "a connection was given up"
    );
}

#[tokio::test]
async fn what_a_broken_connection_left_behind_is_released_after_reconnecting() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    redlock.probe().await;
    for node in &nodes[..3] {
        node.set_mood(Mood::Drops);
    }
    // Three nodes take the lock, and close instead of answering.
    refused(&redlock, "a").await;
    for node in &nodes[..3] {
        node.set_mood(Mood::Serves);
    }
    eventually("it is released behind the new connection", || {
        holders(&nodes, "a") == 0
    });
}

#[tokio::test]
async fn an_outage_of_all_nodes_is_recovered_from() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    for node in &nodes {
        node.set_mood(Mood::Drops);
    }
    refused(&redlock, "a").await;
    let waiting = redlock.lock("a").ttl(TTL).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    for node in &nodes {
        node.set_mood(Mood::Serves);
        node.state().keys.clear();
    }
    assert!(waiting.await.unwrap().unwrap().is_valid());
}

#[tokio::test]
async fn the_longest_lifetime_ends_a_lock_that_could_be_renewed() {
    let nodes = FakeNode::five();
    let clock = Arc::new(quorlock_client::SettableClock::new());
    let lifetime = Duration::from_secs(5);
    let redlock = builder(&nodes)
        .clock(clock.clone())
        .max_lifetime(lifetime)
        .build()
        .unwrap();
    let guard = acquire(&redlock, "a").await;
    assert!(guard.remaining() <= lifetime);
    clock.advance(lifetime);
    assert_eq!(guard.lost().await, Loss::MaxLifetime);
    eventually("it is released", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn work_that_ends_after_the_deadline_is_not_called_done() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    // The machine sleeps while the work is at its last step.
    let late = guard.run(async { clock.suspend(TTL) }).await;
    assert_eq!(late, Err(Loss::Expired));
    // And before its first one.
    let guard = acquire(&redlock, "b").await;
    clock.suspend(TTL);
    let mut has_begun = false;
    let late = guard.run(async { has_begun = true }).await;
    assert_eq!((late, has_begun), (Err(Loss::Expired), false));
}

#[tokio::test]
async fn a_release_that_a_loading_node_refused_is_made_up_for() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    nodes[3].set_mood(Mood::Refuses("LOADING Redis is loading"));
    nodes[4].set_mood(Mood::Refuses(
        "RESTARTDELAY 300 ab this node is in its restart delay (unclean stop)",
    ));
    assert!(guard.release().await.released());
    eventually("both have refused", || {
        nodes[3].count("EVALSHA ddd") == 1 && nodes[4].count("EVALSHA ddd") == 1
    });
    nodes[3].set_mood(Mood::Serves);
    nodes[4].set_mood(Mood::Serves);
    eventually("all nodes are free", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn a_release_by_token_is_owed_to_nodes_that_are_away() {
    let nodes = FakeNode::five();
    let elsewhere = client(&nodes);
    let lease = elsewhere.lock("a").ttl(TTL).acquire_lease().await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    let redlock = client(&nodes);
    redlock.probe().await;
    // Its connection breaks, and the release with it.
    nodes[4].set_mood(Mood::Babbles(b"?\r\n".to_vec()));
    let lease = lease.unwrap();
    assert!(redlock.release("a", lease.token()).await.released());
    eventually("it was asked", || nodes[4].count("EVALSHA") == 1);
    nodes[4].set_mood(Mood::Serves);
    eventually("all nodes are free", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn a_lock_with_a_lock_delay_that_was_lost_stays_on_the_nodes() {
    let nodes = FakeNode::five();
    for delay in [Duration::ZERO, TTL / 2] {
        let (redlock, clock) = timeless(&nodes);
        let lock = redlock.lock("a").ttl(TTL).lock_delay(delay);
        let guard = lock.acquire().await.unwrap();
        eventually("all nodes hold it", || holders(&nodes, "a") == 5);
        clock.suspend(TTL);
        assert_eq!(guard.lost().await, Loss::Expired);
        let release = guard.release().await;
        assert_eq!(release.is_free(), delay.is_zero(), "{release}");
        let left = if delay.is_zero() { 0 } else { 5 };
        eventually("they keep it or not", || holders(&nodes, "a") == left);
    }
}

#[tokio::test]
async fn a_lock_that_was_never_handed_out_is_free_at_once_in_spite_of_its_lock_delay() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    // Its longest lifetime is over before it is taken.
    for node in &nodes {
        let clock = Arc::clone(&clock);
        node.on_set(move || clock.advance(Duration::from_millis(50)));
    }
    let lock = redlock.lock("a").ttl(TTL).lock_delay(TTL);
    let lock = lock.max_lifetime(Duration::from_millis(50));
    assert!(lock.acquire().await.is_err());
    eventually("it is free", || holders(&nodes, "a") == 0);
}
