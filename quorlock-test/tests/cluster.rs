//! A cluster's beginning, its time and its end.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(
    clippy::disallowed_methods,
    reason = "how long it takes, and threads that end by themselves: no lock depends on it"
)]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use quorlock_client::{AcquireError, Loss, Wait};
use quorlock_test::TestCluster;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_lock_is_renewed_as_long_as_the_time_is_moved() {
    let cluster = TestCluster::five().await;
    let redlock = cluster.client();
    let lock = redlock.lock("job").ttl(10 * SECOND);
    let guard = lock.acquire().await.unwrap();
    cluster.advance(600 * SECOND).await;
    assert_eq!(cluster.now(), 600 * SECOND);
    assert!(guard.is_valid(), "{}", cluster.history());
    let holder = cluster.holder("job").await.unwrap();
    assert_eq!((holder.client, holder.nodes.len()), (Some(0), 5));
    assert!(guard.release().await.released());
    cluster.assert_free("job").await;
}

/// Also where the nodes are built without scripts: what the client sends about several names needs no interpreter.
#[tokio::test]
async fn a_lock_is_renewed_and_released_with_all_its_names() {
    let cluster = TestCluster::five().await;
    let redlock = cluster.client();
    let locks = redlock.locks(["from", "to"]).ttl(10 * SECOND);
    let guard = locks.acquire().await.unwrap();
    cluster.advance(600 * SECOND).await;
    assert!(guard.is_valid(), "{}", cluster.history());
    for name in ["from", "to"] {
        let holder = cluster.holder(name).await.unwrap();
        assert_eq!((holder.client, holder.nodes.len()), (Some(0), 5));
    }
    let other = cluster.client();
    let busy = other
        .locks(["to", "third"])
        .wait(Wait::None)
        .acquire()
        .await;
    assert!(matches!(busy, Err(AcquireError::Busy { .. })), "{busy:?}");
    cluster.assert_at_most_one_holder().await;
    assert!(guard.release().await.released());
    for name in ["from", "to", "third"] {
        cluster.assert_free(name).await;
    }
}

#[tokio::test]
async fn a_waiter_gets_the_lock_while_the_time_is_moved() {
    let cluster = TestCluster::three().await;
    let (first, second) = (cluster.client(), cluster.client());
    let lease = first.lock("job").ttl(20 * SECOND).acquire_lease().await;
    assert!(lease.unwrap().is_valid());
    let lock = second.lock("job").wait(Wait::For(10 * SECOND));
    let busy = async {
        let busy = lock.clone().acquire().await;
        (busy, cluster.now())
    };
    let ((busy, at), ()) = tokio::join!(busy, cluster.advance(15 * SECOND));
    assert!(matches!(busy, Err(AcquireError::Busy { .. })), "{busy:?}");
    assert!((10 * SECOND..12 * SECOND).contains(&at), "{at:?}");
    let (acquired, ()) = tokio::join!(lock.acquire(), cluster.advance(15 * SECOND));
    assert!(acquired.unwrap().is_valid());
    cluster.assert_at_most_one_holder().await;
}

#[tokio::test]
async fn the_end_of_time_is_reached_at_once_and_takes_all_locks() {
    let cluster = TestCluster::three().await;
    let redlock = cluster.client();
    let guard = redlock.lock("job").acquire().await.unwrap();
    let other = cluster.client();
    let waiting = other.lock("job").wait(Wait::Forever);
    let waiting = tokio::spawn(waiting.acquire());
    let began = Instant::now();
    cluster.kill(0).await;
    cluster.kill(1).await;
    cluster.advance(Duration::MAX).await;
    cluster.advance(Duration::MAX).await;
    let history = cluster.history();
    assert!(history.contains("more than 5000 steps"), "{history}");
    assert!(!guard.is_valid());
    waiting.abort();
    assert!(began.elapsed() < 120 * SECOND);
}

#[tokio::test]
async fn any_client_finds_a_node_by_the_same_address_after_a_restart() {
    let cluster = TestCluster::of(1).await;
    let address = cluster.url(0).strip_prefix("redis://").unwrap();
    let ping = || {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
        let mut reply = [0; 7];
        socket.read_exact(&mut reply).map(|()| reply)
    };
    assert_eq!(&ping().unwrap(), b"+PONG\r\n");
    cluster.kill(0).await;
    assert!(ping().is_err());
    cluster.restart(0).await;
    assert_eq!(&ping().unwrap(), b"+PONG\r\n");
}

#[tokio::test]
async fn a_fault_of_a_node_that_is_down_changes_nothing() {
    let cluster = TestCluster::three().await;
    cluster.kill(0).await;
    cluster.kill(0).await;
    cluster.lose_power(0).await;
    cluster.pause(0).await;
    cluster.disk_full(0).await;
    cluster.fail_sync(0).await;
    cluster.slow(0, SECOND).await;
    cluster.steal("job").await;
    assert!(!cluster.is_up(0));
    let redlock = cluster.client();
    let guard = redlock.lock("job").acquire().await.unwrap();
    assert_eq!(cluster.holder("job").await.unwrap().nodes, [1, 2]);
    drop(guard);
}

#[tokio::test]
#[should_panic(expected = "there is no node 3 in a cluster of 3")]
async fn a_node_that_does_not_exist_is_named() {
    TestCluster::three().await.kill(3).await;
}

#[tokio::test]
async fn a_cluster_may_be_dropped_before_its_clients_and_guards() {
    let cluster = TestCluster::three().await;
    let redlock = cluster.client();
    let guard = redlock.lock("job").acquire().await.unwrap();
    let asleep = cluster.sleep(3_600 * SECOND);
    let lost = tokio::spawn({
        let watch = guard.watch();
        async move { watch.lost().await }
    });
    drop(cluster);
    asleep.await;
    assert!(!guard.is_valid());
    assert!(!matches!(lost.await.unwrap(), Loss::Released));
    drop((guard, redlock));
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_its_change_done() {
    let cluster = TestCluster::three().await;
    cluster.kill(0).await;
    let mut restart = Box::pin(cluster.restart(0));
    // Polled once, then dropped.
    tokio::select! {
        biased;
        () = &mut restart => {}
        () = std::future::ready(()) => {}
    }
    drop(restart);
    cluster.kill(1).await; // takes its turn behind the restart
    assert!(cluster.is_up(0));
    let mut start = Box::pin(TestCluster::three());
    tokio::select! {
        biased;
        _ = &mut start => {}
        () = std::future::ready(()) => {}
    }
}

#[test]
fn a_cluster_outlives_the_runtime_that_has_started_it() {
    static CLUSTER: OnceLock<TestCluster> = OnceLock::new();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let started = runtime().block_on(TestCluster::three());
    let cluster = CLUSTER.get_or_init(|| started);
    let redlock = cluster.client();
    let guard = runtime().block_on(redlock.lock("job").acquire()).unwrap();
    runtime().block_on(cluster.advance(60 * SECOND));
    assert!(guard.is_valid());
}

#[test]
fn a_panic_ends_the_cluster_with_it() {
    let (address, addresses) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let cluster = TestCluster::three().await;
            let redlock = cluster.client();
            let _guard = redlock.lock("job").acquire().await.unwrap();
            cluster.kill(0).await;
            let node = cluster.url(1).strip_prefix("redis://").unwrap();
            TcpStream::connect(node).unwrap();
            address.send(node.to_owned()).unwrap();
            panic!("as an assertion of a test does");
        });
    });
    assert!(panicked.join().is_err());
    let refused = TcpStream::connect(addresses.recv().unwrap());
    assert_eq!(
        refused.map_err(|error| error.kind()).err(),
        Some(ErrorKind::ConnectionRefused)
    );
}

#[tokio::test]
#[ignore = "a part of other tests, which run it"]
async fn a_test_that_fails() {
    let cluster = TestCluster::three().await;
    let redlock = cluster.client();
    let _guard = redlock.lock("job").acquire().await.unwrap();
    cluster.kill(0).await;
    panic!("as an assertion of a test does");
}

#[test]
fn a_failure_prints_what_happened_before() {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args([
        "a_test_that_fails",
        "--exact",
        "--include-ignored",
        "--nocapture",
    ]);
    let output = process.output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    let history = errors
        .split("What happened in the cluster until the panic")
        .nth(1);
    let history = history.unwrap_or_else(|| panic!("no history in: {errors}"));
    for part in ["client 0 has acquired 'job'", "node 0 is killed"] {
        assert!(history.contains(part), "{history}");
    }
}

#[tokio::test]
async fn a_lock_that_is_renewed_goes_to_a_waiter_in_the_same_advance() {
    let cluster = TestCluster::three().await;
    let (first, second) = (cluster.client(), cluster.client());
    let guard = first.lock("job").ttl(10 * SECOND).acquire().await.unwrap();
    let lock = second.lock("job").wait(Wait::For(120 * SECOND));
    let release = async {
        cluster.sleep(60 * SECOND).await;
        assert!(guard.is_valid(), "{}", cluster.history());
        assert!(guard.release().await.released());
    };
    let (acquired, (), ()) = tokio::join!(lock.acquire(), release, cluster.advance(90 * SECOND));
    assert!(acquired.unwrap().is_valid(), "{}", cluster.history());
    cluster.assert_at_most_one_holder().await;
}
