//! Who holds a lock, where nodes and guards agree and where they do not.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use quorlock_client::Wait;
use quorlock_test::TestCluster;

async fn is_free(cluster: &TestCluster) -> bool {
    let cluster = cluster.clone();
    tokio::spawn(async move { cluster.assert_free("job").await })
        .await
        .is_ok()
}

#[tokio::test]
async fn a_lock_is_free_when_neither_nodes_nor_guards_have_it() {
    let cluster = TestCluster::three().await;
    assert!(is_free(&cluster).await);
    let redlock = cluster.client();
    let guard = redlock.lock("job").acquire().await.unwrap();
    assert!(!is_free(&cluster).await);
    // The nodes have it no longer; the guard does not know.
    cluster.steal("job").await;
    assert!(guard.is_valid() && !is_free(&cluster).await);
    drop(guard);
    assert!(is_free(&cluster).await, "{}", cluster.history());
    // The nodes have it, and no guard does.
    let lease = redlock.lock("job").acquire_lease().await.unwrap();
    let holder = cluster.holder("job").await.unwrap();
    assert_eq!(
        (holder.client, holder.token),
        (None, lease.token().to_string())
    );
    assert!(!is_free(&cluster).await);
}

#[tokio::test]
async fn a_minority_is_no_holder() {
    let cluster = TestCluster::five().await;
    let redlock = cluster.client();
    let guard = redlock.lock("job").acquire().await.unwrap();
    for node in 0..3 {
        cluster.kill(node).await;
    }
    assert_eq!(cluster.holder("job").await, None);
    assert!(guard.is_valid() && !is_free(&cluster).await);
}

#[tokio::test]
async fn a_guard_beside_anothers_majority_is_two_holders() {
    let cluster = TestCluster::three().await;
    let (first, second) = (cluster.client(), cluster.client());
    let guard = first.lock("job").acquire().await.unwrap();
    cluster.assert_at_most_one_holder().await;
    cluster.steal("job").await;
    // A lease has no guard: only the nodes know of it.
    let lease = second.lock("job").wait(Wait::None).acquire_lease().await;
    assert!(lease.is_ok() && guard.is_valid());
    let checked = cluster.clone();
    let checked = tokio::spawn(async move { checked.assert_at_most_one_holder().await });
    let panic = checked.await.unwrap_err().into_panic();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("the guard of client 0 for 'job' is valid"),
        "{message}"
    );
}

#[tokio::test]
async fn the_history_says_who_had_the_lock_when() {
    let cluster = TestCluster::three().await;
    let redlock = cluster.client();
    let guard = redlock.lock(b"a\xffb").acquire().await.unwrap();
    cluster.advance(Duration::from_millis(1_500)).await;
    cluster.kill(2).await;
    assert!(guard.release().await.released());
    let history = cluster.history();
    let lines: Vec<&str> = history.lines().collect();
    assert_eq!(lines.len(), 3, "{history}");
    assert!(
        lines[0].contains("0.000 s  client 0 has acquired 'a\\xffb' (token "),
        "{history}"
    );
    assert!(lines[1].contains("1.500 s  node 2 is killed"), "{history}");
    assert!(
        lines[2].contains("client 0 has no longer 'a\\xffb'"),
        "{history}"
    );
}
