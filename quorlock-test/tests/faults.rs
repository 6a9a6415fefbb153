//! What each fault does to a lock, as a client sees it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use quorlock_client::{AcquireError, Guard, Redlock, Wait};
use quorlock_test::{Fsync, TestCluster};

const SECOND: Duration = Duration::from_secs(1);
/// Of a restart with the longest ttl of 60 s.
const DELAY: Duration = Duration::from_secs(70);

/// One attempt, while five seconds go by.
async fn attempt(cluster: &TestCluster, redlock: &Redlock) -> Result<Guard, AcquireError> {
    let lock = redlock.lock("job").ttl(30 * SECOND).wait(Wait::None);
    let (acquired, ()) = tokio::join!(lock.acquire(), cluster.advance(5 * SECOND));
    acquired
}

/// Whether an attempt has the lock, which is released again.
async fn can_lock(cluster: &TestCluster, redlock: &Redlock) -> bool {
    match attempt(cluster, redlock).await {
        Ok(guard) => {
            let _released = tokio::join!(guard.release_everywhere(), cluster.advance(5 * SECOND));
            true
        }
        Err(_) => false,
    }
}

async fn has_two_holders(cluster: &TestCluster) -> bool {
    let cluster = cluster.clone();
    let checked = tokio::spawn(async move { cluster.assert_at_most_one_holder().await });
    checked.await.is_err()
}

#[tokio::test]
async fn killed_nodes_do_not_vote_until_they_are_restarted() {
    let cluster = TestCluster::five().await;
    let redlock = cluster.client();
    cluster.kill(0).await;
    cluster.kill(1).await;
    assert!(can_lock(&cluster, &redlock).await);
    cluster.kill(2).await;
    assert!(!can_lock(&cluster, &redlock).await);
    cluster.restart(2).await;
    cluster.advance(DELAY).await;
    assert!(cluster.is_serving(2) && can_lock(&cluster, &redlock).await);
}

#[tokio::test]
async fn a_node_that_lost_power_waits_for_its_restart_delay_if_it_has_one() {
    let cluster = TestCluster::three().await;
    let redlock = cluster.client();
    cluster.lose_power(0).await;
    cluster.lose_power(1).await;
    assert!(!cluster.is_up(0) && !can_lock(&cluster, &redlock).await);
    cluster.restart(0).await;
    assert!(cluster.is_up(0) && !cluster.is_serving(0));
    assert!(!can_lock(&cluster, &redlock).await);
    cluster.advance(DELAY).await;
    assert!(cluster.is_serving(0) && can_lock(&cluster, &redlock).await);
    cluster.restart_without_delay(1).await;
    assert!(cluster.is_serving(1));
}

/// Whether a second client gets a lock whose nodes have lost power.
async fn is_granted_twice(seed: u64, has_delay: bool) -> bool {
    let builder = TestCluster::builder().nodes(3).fsync(Fsync::No);
    let cluster = builder.seed(seed).start().await;
    let (first, second) = (cluster.client(), cluster.client());
    // A node syncs what is on record of its mode with its first write.
    let _other = first.lock("other").acquire().await.unwrap();
    let guard = first.lock("job").ttl(30 * SECOND).acquire().await.unwrap();
    // Else it takes the lock again on nodes that have forgotten it.
    cluster.cut_off(0).await;
    for node in [0, 1] {
        cluster.lose_power(node).await;
        match has_delay {
            true => cluster.restart(node).await,
            false => cluster.restart_without_delay(node).await,
        }
    }
    let second = attempt(&cluster, &second).await;
    let has_two = has_two_holders(&cluster).await;
    assert_eq!(
        second.is_ok() && guard.is_valid(),
        has_two,
        "{}",
        cluster.history()
    );
    has_two
}

#[tokio::test]
async fn the_restart_delay_keeps_a_lock_that_was_not_synced_from_a_second_holder() {
    let mut granted_twice = 0;
    for seed in 0..12 {
        assert!(!is_granted_twice(seed, true).await);
        granted_twice += u32::from(is_granted_twice(seed, false).await);
    }
    assert!(
        granted_twice > 0,
        "no seed takes a lock's record from two disks"
    );
}

#[tokio::test]
async fn a_paused_node_does_not_answer_until_it_goes_on() {
    let cluster = TestCluster::five().await;
    let redlock = cluster.client();
    assert!(can_lock(&cluster, &redlock).await);
    for node in 0..3 {
        cluster.pause(node).await;
    }
    assert!(!can_lock(&cluster, &redlock).await);
    assert!(cluster.is_up(0));
    cluster.resume(0).await;
    cluster.advance(10 * SECOND).await;
    assert!(can_lock(&cluster, &redlock).await);
}

#[tokio::test]
async fn a_cut_concerns_one_client_and_what_it_sent_arrives_later() {
    let cluster = TestCluster::three().await;
    let (first, second) = (cluster.client(), cluster.client());
    cluster.cut(0, 0).await;
    cluster.cut(0, 1).await;
    assert!(!can_lock(&cluster, &first).await);
    assert!(can_lock(&cluster, &second).await);
    cluster.heal(0, 0).await;
    cluster.advance(10 * SECOND).await;
    assert!(can_lock(&cluster, &first).await);
    cluster.cut_off(0).await;
    assert!(!can_lock(&cluster, &first).await);
    cluster.reconnect(0).await;
    cluster.advance(10 * SECOND).await;
    assert!(can_lock(&cluster, &first).await);
}

#[tokio::test]
async fn a_holder_that_is_cut_off_loses_its_lock_before_another_has_it() {
    let cluster = TestCluster::five().await;
    let (first, second) = (cluster.client(), cluster.client());
    let guard = attempt(&cluster, &first).await.unwrap();
    cluster.cut_off(0).await;
    cluster.advance(10 * SECOND).await;
    assert!(guard.is_valid() && attempt(&cluster, &second).await.is_err());
    cluster.advance(20 * SECOND).await;
    assert!(!guard.is_valid());
    let second = attempt(&cluster, &second).await.unwrap();
    assert!(second.is_valid());
    cluster.assert_at_most_one_holder().await;
}

#[tokio::test]
async fn slow_nodes_answer_later_by_the_clusters_time() {
    let cluster = TestCluster::three().await;
    let redlock = cluster.client();
    let took = async || {
        let began = cluster.now();
        let acquired = async {
            let lock = redlock.lock("job").wait(Wait::For(5 * SECOND));
            let guard = lock.acquire().await.unwrap();
            let took = cluster.now() - began;
            let _released = guard.release_everywhere().await;
            took
        };
        tokio::join!(acquired, cluster.advance(10 * SECOND)).0
    };
    assert_eq!(took().await, Duration::ZERO);
    let late = Duration::from_millis(40);
    for node in 0..3 {
        cluster.slow(node, late).await;
    }
    let slow = took().await;
    assert!(slow >= late && slow < SECOND, "{slow:?}");
    for node in 0..3 {
        cluster.slow(node, Duration::ZERO).await;
    }
    assert_eq!(took().await, Duration::ZERO);
}

#[tokio::test]
async fn a_full_disk_and_a_failed_sync_end_their_nodes() {
    for is_full in [true, false] {
        let builder = TestCluster::builder().nodes(3).fsync(Fsync::Always);
        let cluster = builder.start().await;
        let redlock = cluster.client();
        assert!(can_lock(&cluster, &redlock).await);
        for node in [0, 1] {
            match is_full {
                true => cluster.disk_full(node).await,
                false => cluster.fail_sync(node).await,
            }
        }
        // Its log's thread may have written meanwhile: a node need not be up still.
        assert!(!can_lock(&cluster, &redlock).await, "{}", cluster.history());
        assert!(!cluster.is_up(0) && !cluster.is_up(1) && cluster.is_up(2));
        cluster.restart(0).await;
        cluster.advance(DELAY).await;
        assert!(can_lock(&cluster, &redlock).await, "{}", cluster.history());
    }
}

#[tokio::test]
async fn nodes_that_are_rolled_back_have_forgotten_the_lock() {
    let cluster = TestCluster::three().await;
    let (first, second) = (cluster.client(), cluster.client());
    let guard = attempt(&cluster, &first).await.unwrap();
    // Else it takes the lock again on nodes that have forgotten it.
    cluster.cut_off(0).await;
    cluster.roll_back(0).await;
    assert!(attempt(&cluster, &second).await.is_err());
    cluster.roll_back(1).await;
    // Not by the second client, which has seen these nodes in a later state.
    let third = attempt(&cluster, &cluster.client()).await;
    assert!(
        guard.is_valid() && third.is_ok(),
        "{third:?} {}",
        cluster.history()
    );
    assert!(has_two_holders(&cluster).await);
}

#[tokio::test]
async fn an_image_that_has_the_lock_gives_it_to_nobody_else() {
    let cluster = TestCluster::three().await;
    let (first, second) = (cluster.client(), cluster.client());
    let _guard = attempt(&cluster, &first).await.unwrap();
    for node in 0..3 {
        cluster.save_image(node).await;
        cluster.roll_back(node).await;
    }
    assert!(attempt(&cluster, &second).await.is_err());
    cluster.assert_at_most_one_holder().await;
}

#[tokio::test]
async fn a_stolen_lock_has_two_holders_until_its_next_renewal() {
    let cluster = TestCluster::five().await;
    let (first, second) = (cluster.client(), cluster.client());
    let guard = first.lock("job").ttl(30 * SECOND).acquire().await.unwrap();
    cluster.steal("job").await;
    assert_eq!(cluster.holder("job").await, None);
    assert!(guard.is_valid());
    let other = second.lock("job").wait(Wait::None).acquire().await.unwrap();
    assert_eq!(cluster.holder("job").await.unwrap().client, Some(1));
    assert!(has_two_holders(&cluster).await);
    cluster.advance(11 * SECOND).await;
    assert!(!guard.is_valid() && other.is_valid());
}
