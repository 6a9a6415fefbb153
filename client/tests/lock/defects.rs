//! The defects seen in other Redlock libraries, each with the test that it is not repeated here.
//! Those that are matters of pure rules are tested beside the rules.

use std::io::ErrorKind;
use std::time::Duration;

use quorlock_client::{AcquireError, Cause, Loss, NodeAnswer, Wait};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{TTL, acquire, builder, client, holders, most_asked, refused, timeless};

#[tokio::test(flavor = "multi_thread")]
async fn node_redlock_kept_split_votes_the_failed_attempt_is_released_at_once() {
    let nodes = FakeNode::five();
    for (node, other) in nodes.iter().zip(["x", "x", "y", "y"]) {
        node.hold("a", other, 60_000);
    }
    let redlock = client(&nodes);
    let waiting = redlock.lock("a").ttl(TTL).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    // Between its attempts nothing of ours is left on the fifth node.
    eventually("it has tried twice", || most_asked(&nodes, "a") >= 2);
    eventually("it has released", || {
        nodes[4].count("EVALSHA") >= nodes[4].count("SET a").max(1)
    });
    waiting.abort();
    redlock.settle().await;
    eventually("nothing is left", || nodes[4].holder("a").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn redsync_leaked_what_a_cancelled_caller_had_taken() {
    let nodes = FakeNode::five();
    for node in &nodes[2..] {
        node.set_mood(Mood::Hangs);
    }
    let redlock = client(&nodes);
    let waiting = redlock.lock("a").ttl(TTL).wait(Wait::None);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    eventually("all nodes are asked", || {
        nodes.iter().all(|node| node.count("SET a") == 1)
    });
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    eventually("the nodes that answered are free", || {
        holders(&nodes, "a") == 0
    });
    // Those that hung take the lock late, and free it behind that on the same connection.
    for node in &nodes[2..] {
        node.set_mood(Mood::Serves);
    }
    eventually("all were released", || {
        nodes.iter().all(|node| node.count("EVALSHA") >= 1)
    });
    redlock.settle().await;
    assert_eq!(holders(&nodes, "a"), 0);
}

#[tokio::test]
async fn redsync_cancelled_stragglers_a_late_yes_is_a_healing_vote() {
    let nodes = FakeNode::five();
    nodes[3].set_mood(Mood::Hangs);
    nodes[4].set_mood(Mood::Hangs);
    let guard = acquire(&client(&nodes), "a").await;
    assert_eq!(holders(&nodes, "a"), 3);
    nodes[3].set_mood(Mood::Serves);
    nodes[4].set_mood(Mood::Serves);
    eventually("five of five hold it", || holders(&nodes, "a") == 5);
    assert!(guard.is_valid());
}

#[tokio::test]
async fn redis_semaphore_and_rslock_waited_for_the_slowest_node() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    redlock.probe().await;
    nodes[1].set_mood(Mood::Hangs);
    nodes[3].set_mood(Mood::Hangs);
    // No answer of the hung nodes is needed, so none is waited for, however often.
    for round in 0..20 {
        let guard = acquire(&redlock, &format!("a{round}")).await;
        assert!(guard.release().await.released());
    }
    assert!(holders(&nodes, "a0") == 0);
}

#[tokio::test]
async fn redis_semaphore_noticed_no_loss_while_a_renewal_hung() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    let lost = [guard.watch(), guard.watch()];
    for node in &nodes {
        node.set_mood(Mood::Hangs);
    }
    clock.advance(Duration::from_millis(9_800));
    for waiter in &lost {
        assert_eq!(waiter.lost().await, Loss::Expired);
    }
    // Told while the lock was still valid by the clock, and no longer valid since.
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
}

#[tokio::test]
async fn rslock_called_a_refused_connection_not_found() {
    // Nobody listens there.
    let urls: Vec<_> = (1..=5)
        .map(|port| format!("redis://127.78.0.1:{port}"))
        .collect();
    let redlock = quorlock_client::Redlock::builder()
        .nodes(urls)
        .build()
        .unwrap();
    let error = refused(&redlock, "a").await;
    let AcquireError::NoQuorum { nodes: reports, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(reports.len(), 5);
    assert!(error.to_string().contains("Connection refused"), "{error}");
    let refused = Some(ErrorKind::ConnectionRefused);
    let of_kind = reports.iter().filter(|one| io_kind(&one.answer) == refused);
    assert!(of_kind.count() >= 3, "{error}");
}

/// The kind of the system's error that kept a node from answering.
fn io_kind(answer: &NodeAnswer) -> Option<ErrorKind> {
    match answer {
        NodeAnswer::Not(Cause::Unreachable(error)) => error.kind(),
        _ => None,
    }
}

#[tokio::test]
async fn an_error_of_the_system_is_told_by_its_kind_and_one_without_it_in_words() {
    let nodes = FakeNode::five();
    for node in &nodes {
        node.set_mood(Mood::Drops);
    }
    let error = refused(&client(&nodes), "a").await;
    let AcquireError::NoQuorum { nodes: reports, .. } = &error else {
        panic!("{error}")
    };
    let ended = Some(ErrorKind::UnexpectedEof);
    assert!(
        reports.iter().any(|one| io_kind(&one.answer) == ended),
        "{error}"
    );
    assert!(
        error.to_string().contains("closed the connection"),
        "{error}"
    );
    let nodes = FakeNode::five();
    for node in &nodes {
        node.set_mood(Mood::Babbles(b"nonsense\r\n".to_vec()));
    }
    let error = refused(&client(&nodes), "a").await;
    let AcquireError::NoQuorum { nodes: reports, .. } = &error else {
        panic!("{error}")
    };
    let is_babble = |answer: &NodeAnswer| match answer {
        NodeAnswer::Not(cause @ Cause::Unreachable(error)) => {
            error.kind().is_none() && cause.to_string().contains("protocol error")
        }
        _ => false,
    };
    assert!(reports.iter().any(|one| is_babble(&one.answer)), "{error}");
}

#[tokio::test]
async fn rslock_swallowed_all_errors_for_ever_a_wait_ends() {
    let nodes = FakeNode::five();
    for node in &nodes {
        node.set_mood(Mood::Refuses("ERR broken"));
    }
    let wait = Wait::For(Duration::from_millis(100));
    let error = client(&nodes)
        .lock("a")
        .ttl(TTL)
        .wait(wait)
        .acquire()
        .await
        .unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    assert!(nodes[0].count("SET a") >= 2, "it has tried again");
}

#[tokio::test]
async fn rslock_guard_did_not_release_under_tokio() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    drop(acquire(&redlock, "a").await);
    eventually("a dropped guard has released", || holders(&nodes, "a") == 0);
}

#[test]
fn a_guard_that_outlives_its_runtime_still_releases() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let guard = runtime.block_on(acquire(&redlock, "a"));
    drop(runtime);
    assert!(guard.is_valid());
    // Not even the client's handle is needed.
    drop(redlock);
    drop(guard);
    eventually("it is released", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn redlock_py_raised_while_holding() {
    let nodes = FakeNode::five();
    nodes[0].set_mood(Mood::Refuses("ERR broken"));
    nodes[1].set_mood(Mood::Drops);
    let guard = acquire(&client(&nodes), "a").await;
    assert!(guard.is_valid());
}

#[tokio::test]
async fn aioredlock_swallowed_renewal_errors_they_end_in_a_loss() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    for node in &nodes {
        node.set_mood(Mood::Refuses("ERR broken"));
    }
    clock.advance(Duration::from_secs(5));
    let error = guard.extend().await.unwrap_err();
    assert!(error.to_string().contains("ERR broken"), "{error}");
    assert!(guard.is_valid(), "until its end the lock is held");
    clock.advance(Duration::from_secs(5));
    assert_eq!(guard.lost().await, Loss::Expired);
}

#[tokio::test]
async fn red_lock_net_re_created_a_vanished_key_and_went_on_after_a_conflict() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    for node in &nodes[..3] {
        node.state().keys.clear();
    }
    guard.extend().await.unwrap_err();
    assert_eq!(guard.lost().await, Loss::BelowMajority);
    eventually("the rest is released", || holders(&nodes, "a") == 0);
    assert_eq!(
        nodes[0].count("SET a"),
        1,
        "a vanished key was created again"
    );
}

#[tokio::test]
async fn etcdctl_went_on_after_the_loss_run_drops_the_work() {
    struct Dropped(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let guard = acquire(&redlock, "a").await;
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let is_dropped = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let work = Dropped(is_dropped.clone());
    clock.advance(TTL);
    let result = guard
        .run(async move {
            let _work = work;
            std::future::pending::<()>().await;
        })
        .await;
    assert_eq!(result, Err(Loss::Expired));
    assert!(is_dropped.load(std::sync::atomic::Ordering::SeqCst));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_one_nodes_no() {
    let mut nodes = FakeNode::five();
    nodes.truncate(4);
    let redlock = builder(&nodes)
        .node("redis://no-such-host.invalid:7001")
        .build()
        .unwrap();
    assert!(acquire(&redlock, "a").await.is_valid());
}
