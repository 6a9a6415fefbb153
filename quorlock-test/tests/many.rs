//! Many clusters at once, and what is left of them: nothing.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(
    clippy::disallowed_methods,
    reason = "how long it takes, and threads that end by themselves: no lock depends on it"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quorlock_test::TestCluster;

/// One test of a user's: a lock survives the loss of a minority, and is free at the end.
async fn one(seed: u64) {
    let cluster = TestCluster::builder().seed(seed).start().await;
    let redlock = cluster.client();
    let lock = redlock.lock("job").ttl(Duration::from_secs(10));
    let guard = lock.acquire().await.unwrap();
    cluster.kill(0).await;
    cluster.pause(1).await;
    cluster.advance(Duration::from_secs(30)).await;
    assert!(guard.is_valid(), "{}", cluster.history());
    cluster.resume(1).await;
    cluster.restart(0).await;
    let _released = tokio::join!(
        guard.release_everywhere(),
        cluster.advance(Duration::from_secs(70))
    );
    cluster.assert_free("job").await;
    cluster.assert_at_most_one_holder().await;
}

fn entries(folder: impl AsRef<Path>) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// The threads of clusters, nodes and clients: all are called after the project.
fn threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    // One may end between the list and its name.
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(entry.unwrap().path().join("comm")).ok()
    };
    let names = threads.filter_map(name);
    names.filter(|name| name.starts_with("quorlock")).count()
}

fn descriptors() -> usize {
    entries("/proc/self/fd")
}

/// Runs a test of this file in a process of its own, whose folder for temporary files is empty and stays so.
fn alone(test: &str, body: impl FnOnce()) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    if std::env::temp_dir() == folder {
        return body();
    }
    let _absent = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args([test, "--exact", "--include-ignored", "--nocapture"]);
    let status = process.env("TMPDIR", &folder).status().unwrap();
    assert!(status.success(), "{test}: {status}");
    assert_eq!(entries(&folder), 0, "temporary files are left");
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn run(clusters: usize, at_once: usize) {
    // What the first one starts for the process stays.
    runtime().block_on(one(0));
    wait_for_threads();
    let before = descriptors();
    let (next, most) = (AtomicUsize::new(0), Mutex::new([0; 2]));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= clusters {
                        return;
                    }
                    runtime().block_on(one(u64::try_from(number).unwrap()));
                    let mut most = most.lock().unwrap();
                    *most = [most[0].max(threads()), most[1].max(descriptors())];
                }
            });
        }
    });
    let took = began.elapsed();
    wait_for_threads();
    let after = descriptors();
    eprintln!(
        "{clusters} clusters, {at_once} at once, in {took:?}; threads and descriptors: at most {:?}; descriptors: {before} before, \
         {after} after",
        most.lock().unwrap()
    );
    assert!(after <= before, "{after} descriptors, {before} before");
}

/// Clients' threads end by themselves.
fn wait_for_threads() {
    wait_until(|| threads() == 0, "threads of clusters are left");
}

fn wait_until(is_so: impl Fn() -> bool, otherwise: &str) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{otherwise}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sixty_clusters_leave_nothing_behind() {
    alone("sixty_clusters_leave_nothing_behind", || run(60, 6));
}

#[test]
#[ignore = "a measurement: a thousand clusters, 20 at once, take minutes"]
fn a_thousand_clusters_leave_nothing_behind() {
    alone("a_thousand_clusters_leave_nothing_behind", || {
        run(1_000, 20)
    });
}

#[test]
fn clients_that_leave_a_paused_node_keep_no_descriptors() {
    alone(
        "clients_that_leave_a_paused_node_keep_no_descriptors",
        || runtime().block_on(paused()),
    );
}

/// Clients of a paused node that send a command and close: the node has the commands once it goes on.
async fn paused() {
    let cluster = TestCluster::of(1).await;
    let connect = || TcpStream::connect(cluster.url(0).strip_prefix("redis://").unwrap()).unwrap();
    let set = |key: usize| format!("*3\r\n$3\r\nSET\r\n$2\r\n{key:02}\r\n$1\r\nx\r\n");
    cluster.pause(0).await;
    let before = descriptors();
    for key in 0..KEYS {
        connect().write_all(set(key).as_bytes()).unwrap();
    }
    wait_until(
        || descriptors() <= before,
        "closed connections keep descriptors",
    );
    cluster.resume(0).await;
    let has_all = || {
        let mut socket = connect();
        socket.write_all(b"*1\r\n$6\r\nDBSIZE\r\n").unwrap();
        let mut reply = [0; 5];
        socket.read_exact(&mut reply).unwrap();
        &reply == b":40\r\n"
    };
    wait_until(has_all, "commands of closed connections are lost");
}

const KEYS: usize = 40;
