//! Programs that end with locks in hand, with and without a runtime.

use std::time::Duration;

use quorlock_client::{BuildError, Clock as _, Redlock, SystemClock};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{acquire, client, holders};

/// Nodes that answer a release only after a while.
fn slow(nodes: &[FakeNode]) {
    for node in nodes {
        node.set_mood(Mood::Delays(Duration::from_millis(30)));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_guard_dropped_at_the_end_of_a_thread_that_runs_a_runtime_is_released() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    std::thread::scope(|scope| {
        let main = scope.spawn(|| {
            runtime().block_on(async {
                let guard = acquire(&redlock, "a").await;
                eventually("all nodes hold it", || holders(&nodes, "a") == 5);
                slow(&nodes);
                drop(guard);
            });
        });
        main.join().unwrap();
        assert_eq!(holders(&nodes, "a"), 0);
    });
}

#[test]
fn the_last_handle_that_is_dropped_outside_a_runtime_waits_for_the_release() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = runtime().block_on(acquire(&redlock, "a"));
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    slow(&nodes);
    drop(redlock);
    drop(guard);
    assert_eq!(holders(&nodes, "a"), 0);
}

#[test]
fn nodes_that_hang_hold_up_the_end_for_a_moment_only() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = runtime().block_on(acquire(&redlock, "a"));
    for node in &nodes {
        node.set_mood(Mood::Hangs);
    }
    drop(redlock);
    let began = SystemClock.now();
    drop(guard);
    let took = SystemClock.now().since(began);
    assert!(took >= Duration::from_millis(190), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_drop_on_a_runtimes_thread_waits_for_nothing() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    for node in &nodes {
        node.set_mood(Mood::Hangs);
    }
    drop(redlock);
    let began = SystemClock.now();
    drop(guard);
    let took = SystemClock.now().since(began);
    assert!(took < Duration::from_millis(150), "{took:?}");
    for node in &nodes {
        node.set_mood(Mood::Serves);
    }
}

#[tokio::test]
async fn closing_waits_for_what_was_dropped() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    slow(&nodes);
    drop(guard);
    redlock.close().await;
    assert_eq!(holders(&nodes, "a"), 0);
}

/// A client that is built where the system starts no thread any more: in a process of its own.
#[test]
fn a_client_without_a_thread_is_an_error_also_in_a_task() {
    const INSIDE: &str = "QUORLOCK_TEST_WITHOUT_THREADS";
    let this = "ending::a_client_without_a_thread_is_an_error_also_in_a_task";
    if std::env::var_os(INSIDE).is_some() {
        let built = runtime().block_on(async { Redlock::builder().node("redis://h").build() });
        assert!(matches!(built, Err(BuildError::Thread(_))), "{built:?}");
        return;
    }
    let mut inside = std::process::Command::new(std::env::current_exe().unwrap());
    inside.args(["--exact", this, "--test-threads=1"]);
    // More than there is room for: the stack of no thread can be mapped.
    inside.env("RUST_MIN_STACK", (1_u64 << 47).to_string());
    let output = inside.env(INSIDE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
