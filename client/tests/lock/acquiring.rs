//! Acquiring and releasing over sockets.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use quorlock_client::{AcquireError, Cause, ExtendError, Loss, NodeAnswer, Token, Wait};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{TTL, acquire, builder, client, holders, most_asked, refused, timeless};

#[tokio::test]
async fn a_lock_is_taken_on_all_nodes_and_freed_on_all() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    assert!(guard.is_valid());
    assert!(guard.remaining() <= Duration::from_millis(9_898));
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    assert_eq!(nodes[0].holder("a").unwrap(), guard.token().to_string());
    let release = guard.release().await;
    assert!(release.released() && release.is_free(), "{release}");
    eventually("all nodes are free", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn a_busy_lock_names_its_holder_and_its_time_and_leaves_nothing() {
    let nodes = FakeNode::five();
    for node in &nodes[..3] {
        node.hold("a", "somebody", 4_000);
    }
    let redlock = client(&nodes);
    let request = redlock.lock("a").ttl(TTL);
    let short = request.clone().wait(Wait::For(Duration::from_millis(100)));
    let error = short.acquire().await.unwrap_err();
    let AcquireError::Busy {
        holder, time_left, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*holder, Some(Token::from("somebody")));
    let left = time_left.unwrap();
    let told = Duration::from_secs(4);
    assert!(left <= told && left > told / 2, "{left:?}");
    assert!(error.to_string().contains("unless renewed"), "{error}");
    // What was asked at the end of the wait may still be on its way.
    redlock.probe().await;
    // One attempt is over with its votes: nothing more is asked.
    let asked = nodes[0].count("PTTL");
    let error = request.wait(Wait::None).acquire().await.unwrap_err();
    assert!(matches!(
        error,
        AcquireError::Busy {
            time_left: None,
            ..
        }
    ));
    redlock.probe().await;
    assert_eq!(nodes[0].count("PTTL"), asked);
    eventually("the minority is released", || holders(&nodes, "a") == 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_caller_gets_the_lock_when_it_is_released() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    let waiting = redlock.lock("a").ttl(TTL).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    eventually("the second caller has asked", || {
        most_asked(&nodes, "a") >= 2
    });
    assert!(guard.release().await.released());
    let second = waiting.await.unwrap().unwrap();
    assert!(second.is_valid());
}

#[tokio::test]
async fn every_attempt_has_a_token_of_its_own_and_is_released_before_the_next() {
    let nodes = FakeNode::five();
    for node in &nodes[..3] {
        node.hold("a", "somebody", 60_000);
    }
    let redlock = client(&nodes);
    // Connected to all, so that no request is dropped unsent.
    redlock.probe().await;
    let wait = Wait::For(Duration::from_millis(150));
    redlock
        .lock("a")
        .ttl(TTL)
        .wait(wait)
        .acquire()
        .await
        .unwrap_err();
    eventually("the last attempt is released", || {
        nodes[4].holder("a").is_none() && nodes[0].count("EVALSHA") == nodes[0].count("SET a")
    });
    // A free node is left alone once a majority has refused.
    assert_eq!(nodes[4].count("SET a"), 1);
    let log = nodes[0].state().log.clone();
    // These nodes have no lines, which the client asks for once.
    let is_locking = |line: &&String| line.contains(" a ") && !line.starts_with("LOCK.WAIT");
    let locking: Vec<_> = log.iter().filter(is_locking).collect();
    assert!(locking.len() >= 4, "{locking:?}");
    let mut tokens = Vec::new();
    for pair in locking.chunks(2) {
        let token = pair[0].split(' ').nth(2).unwrap();
        assert!(
            pair[0].starts_with("SET a") && pair[1].contains(token),
            "{pair:?}"
        );
        assert!(!tokens.contains(&token), "a token was used again");
        tokens.push(token);
    }
}

#[tokio::test]
async fn nodes_that_refuse_say_why_at_once() {
    let nodes = FakeNode::five();
    let delayed = "RESTARTDELAY 5000 ab this node is in its restart delay (unclean stop)";
    nodes[0].set_mood(Mood::Refuses(delayed));
    nodes[1].set_mood(Mood::Refuses(
        "LOADING Redis is loading the dataset in memory",
    ));
    nodes[2].set_mood(Mood::Refuses("MISCONF no space"));
    let redlock = client(&nodes);
    let error = refused(&redlock, "a").await;
    let AcquireError::NoQuorum {
        nodes: reports,
        needed: 3,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    let left = Duration::from_secs(5);
    assert!(matches!(&reports[0].answer,
        NodeAnswer::Not(Cause::Delayed { left: told, .. }) if *told == left));
    assert!(matches!(
        reports[1].answer,
        NodeAnswer::Not(Cause::Refused(_))
    ));
    assert!(error.to_string().contains("LOADING"), "{error}");
    // A delayed node costs nothing once known.
    let asked = nodes[0].count("SET");
    refused(&redlock, "b").await;
    assert_eq!(nodes[0].count("SET"), asked);
}

#[tokio::test]
async fn a_node_without_set_get_is_asked_without_it() {
    let nodes = FakeNode::five();
    for node in &nodes {
        node.state().knows_get = false;
    }
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    let error = redlock
        .lock("a")
        .wait(Wait::None)
        .acquire()
        .await
        .unwrap_err();
    assert!(
        matches!(error, AcquireError::Busy { holder: None, .. }),
        "{error}"
    );
    assert_eq!(nodes[0].count("GET"), 1 + 2, "two scripts and one try");
    drop(guard);
}

#[tokio::test]
async fn a_node_that_lost_its_scripts_gets_their_text() {
    let nodes = FakeNode::five();
    for node in &nodes {
        node.state().has_scripts = false;
    }
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    guard.extend().await.unwrap();
    assert!(guard.release().await.released());
    eventually("all nodes are free", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn a_lease_is_extended_and_released_by_its_token() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let lease = redlock.lock("a").ttl(TTL).acquire_lease().await.unwrap();
    eventually("all nodes hold it", || holders(&nodes, "a") == 5);
    let longer = redlock
        .extend("a", lease.token(), Duration::from_secs(20))
        .await
        .unwrap();
    assert!(longer.remaining() > TTL);
    // A shorter one changes nothing.
    redlock
        .extend("a", lease.token(), Duration::from_secs(1))
        .await
        .unwrap();
    eventually("the ttl stays", || {
        nodes.iter().all(|node| node.state().keys["a"].1 == 20_000)
    });
    let error = redlock
        .extend("a", &Token::from("not it"), TTL)
        .await
        .unwrap_err();
    assert_eq!(error, ExtendError::Lost(Loss::BelowMajority));
    assert!(
        !redlock
            .release("a", &Token::from("not it"))
            .await
            .released()
    );
    assert_eq!(holders(&nodes, "a"), 5);
    assert!(redlock.release("a", lease.token()).await.released());
    redlock.settle().await;
    assert_eq!(holders(&nodes, "a"), 0);
}

#[tokio::test]
async fn a_majority_that_comes_after_the_validity_is_not_a_lock() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    // The client is stopped, or its machine suspended, between sending and receiving.
    nodes[0].on_set(move || clock.suspend(TTL));
    nodes[1].set_mood(Mood::Refuses("ERR no"));
    nodes[2].set_mood(Mood::Refuses("ERR no"));
    let error = refused(&redlock, "a").await;
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error}");
    eventually("it is released", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn twenty_callers_share_one_connection_per_node() {
    let nodes = FakeNode::five();
    let (redlock, _clock) = timeless(&nodes);
    let callers = (0..20).map(|caller| {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                let guard = acquire(&redlock, &format!("name{caller}")).await;
                assert!(guard.release().await.released());
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    redlock.settle().await;
    assert!(nodes.iter().all(|node| node.state().connections == 1));
    assert!(nodes.iter().all(|node| node.state().keys.is_empty()));
}

#[tokio::test]
async fn probe_tells_who_votes_and_who_does_not() {
    let mut nodes = FakeNode::five();
    drop(nodes.pop());
    nodes[1].state().info =
        "quorlock_node_id:ab\r\nquorlock_incarnation:7\r\nrestart_delay_remaining_ms:900\r\n"
            .into();
    let redlock = builder(&nodes)
        .node("redis://127.78.0.1:1")
        .build()
        .unwrap();
    let statuses = redlock.probe().await;
    assert!(statuses[0].votes() && statuses[0].round_trip.is_some());
    assert_eq!(statuses[1].identity.as_ref().unwrap().incarnation, 7);
    assert!(
        statuses[1]
            .to_string()
            .contains("restart delay for another 900 ms")
    );
    assert!(
        statuses[4].to_string().contains("unreachable"),
        "{}",
        statuses[4]
    );
}

#[tokio::test]
async fn a_probe_ends_although_nodes_never_answer() {
    let nodes = FakeNode::five();
    // The kernel accepts this one's connection; nobody reads it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let redlock = builder(&nodes[..4])
        .node(format!("redis://{}", silent.local_addr().unwrap()))
        .node_deadline(Duration::from_millis(400))
        .build()
        .unwrap();
    redlock.probe().await;
    // This one is connected, and the question waits behind a request that hangs.
    nodes[3].set_mood(Mood::Hangs);
    let guard = acquire(&redlock, "a").await;
    eventually("it was asked", || nodes[3].count("SET") > 0);
    let statuses = tokio::time::timeout(TTL / 2, redlock.probe())
        .await
        .expect("nobody is waited for as long as a lease");
    assert!(statuses[..3].iter().all(|status| status.votes()));
    for status in &statuses[3..] {
        assert!(!status.votes() && status.round_trip.is_none(), "{status}");
    }
    nodes[3].set_mood(Mood::Serves);
    assert!(guard.release().await.released());
}

#[tokio::test]
async fn a_lock_that_is_taken_in_hand_too_late_is_not_handed_out() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    redlock.probe().await;
    for (slept, least) in [(TTL, Duration::ZERO), (TTL / 2, TTL * 2 / 3)] {
        // The order is sent, and the caller is not polled again for a while.
        let acquiring = loop {
            let lock = redlock.lock("a").ttl(TTL).min_validity(least);
            // A renewal would make it valid again.
            let mut acquiring = Box::pin(lock.max_lifetime(TTL).acquire());
            match poll_fn(|context| Poll::Ready(acquiring.as_mut().poll(context))).await {
                Poll::Pending => break acquiring,
                // The nodes were faster than this thread: once more.
                Poll::Ready(held) => assert!(held.unwrap().release().await.released()),
            };
        };
        eventually("all nodes hold it", || holders(&nodes, "a") == 5);
        // All answers are in when later ones are.
        redlock.probe().await;
        clock.advance(slept);
        let error = acquiring.await.unwrap_err();
        assert!(matches!(error, AcquireError::TimedOut { .. }), "{error}");
        eventually("it is released", || holders(&nodes, "a") == 0);
    }
}

#[tokio::test]
async fn a_holders_token_is_not_shown_whole() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    let token = guard.token().to_string();
    let error = redlock.lock("a").ttl(TTL).wait(Wait::None).acquire();
    let error = error.await.unwrap_err();
    assert!(matches!(&error, AcquireError::Busy { holder: Some(h), .. } if h == guard.token()));
    let text = error.to_string();
    assert!(
        text.contains(&token[..6]) && !text.contains(&token[..7]),
        "{text}"
    );
    let answer = NodeAnswer::Busy {
        holder: Some(guard.token().clone()),
    };
    assert!(!answer.to_string().contains(&token[..7]), "{answer}");
}

#[tokio::test]
async fn a_slow_node_without_set_get_is_not_asked_behind_the_release() {
    let nodes = FakeNode::five();
    nodes[4].state().knows_get = false;
    // However long the test takes: no node is silent for long enough to be called again.
    let (redlock, _clock) = timeless(&nodes);
    redlock.probe().await;
    nodes[4].set_mood(Mood::Hangs);
    let guard = acquire(&redlock, "a").await;
    // A majority may be quicker than one of these four, which would then hang before it has the lock.
    eventually("four nodes hold it", || holders(&nodes, "a") == 4);
    // It answers while the others still sit on the release, and the task waits for them.
    for node in &nodes[..4] {
        node.set_mood(Mood::Hangs);
    }
    let mut releasing = pin!(guard.release());
    let first = poll_fn(|context| Poll::Ready(releasing.as_mut().poll(context).is_pending()));
    assert!(first.await);
    eventually("the release is sent", || nodes[0].count("EVALSHA") == 1);
    nodes[4].set_mood(Mood::Serves);
    eventually("the release has come", || nodes[4].count("EVALSHA") == 1);
    for node in &nodes[..4] {
        node.set_mood(Mood::Serves);
    }
    assert!(releasing.await.released());
    redlock.settle().await;
    redlock.probe().await;
    assert_eq!(holders(&nodes, "a"), 0);
    assert_eq!(nodes[4].count("SET a"), 1);
}

#[tokio::test]
async fn a_wait_that_ends_on_far_nodes_still_says_busy() {
    let nodes = FakeNode::five();
    for node in &nodes {
        let held = ("somebody".to_owned(), 60_000);
        node.state().keys.insert("a".into(), held);
        // A round trip is longer than the least a round is given at the end of a wait.
        node.on_set(|| std::thread::park_timeout(Duration::from_millis(60)));
    }
    let redlock = client(&nodes);
    for wait in [1, 30, 200, 250] {
        let wait = Wait::For(Duration::from_millis(wait));
        let error = redlock.lock("a").ttl(TTL).wait(wait).acquire().await;
        let error = error.unwrap_err();
        assert!(matches!(error, AcquireError::Busy { .. }), "{error}");
    }
}

#[tokio::test]
async fn whoever_released_a_lock_that_others_want_lets_them_ask_first() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    // Nobody else wants it as far as is known: at once.
    let _released = acquire(&redlock, "a").await.release().await;
    let guard = acquire(&redlock, "a").await;
    let _released = guard.release().await;
    for node in &nodes {
        node.hold("a", "somebody", 60_000);
    }
    refused(&redlock, "a").await;
    for node in &nodes {
        node.state().keys.clear();
    }
    let guard = acquire(&redlock, "a").await;
    let _released = guard.release().await;
    // Its slowest node has heard of all that.
    redlock.settle().await;
    let asked = nodes[0].count("SET a");
    let other = redlock.clone();
    let waiting = tokio::spawn(async move { acquire(&other, "a").await });
    tokio::task::yield_now().await;
    // The client has done other work since.
    let _released = acquire(&redlock, "b").await.release().await;
    assert_eq!(nodes[0].count("SET a"), asked);
    // Whoever does not wait asks at once, as ever.
    let now = redlock.lock("a").ttl(TTL).wait(Wait::None);
    let _released = now.acquire().await.unwrap().release().await;
    clock.advance(Duration::from_secs(1));
    assert!(waiting.await.unwrap().is_valid());
}

#[tokio::test]
async fn an_extension_that_does_not_shorten_tells_how_long_the_nodes_keep_the_lock() {
    let nodes = FakeNode::five();
    for (node, left_ms) in nodes.iter().zip([60_000, 1_000, 40_000, 50_000, 2_000]) {
        node.hold("a", "token", left_ms);
    }
    nodes[4].set_mood(Mood::Refuses("ERR broken"));
    let (redlock, clock) = timeless(&nodes);
    let token = Token::from("token");
    let lease = redlock.extend("a", &token, TTL).await.unwrap();
    assert_eq!(lease.remaining(), Duration::from_millis(9_898));
    // Two keep it for longer still, but they are no majority.
    assert_eq!(lease.kept(), Some(Duration::from_secs(40)));
    clock.advance(Duration::from_secs(15));
    assert!(!lease.is_valid());
    assert_eq!(lease.kept(), Some(Duration::from_secs(25)));
    let lease = redlock.lock("b").ttl(TTL).acquire_lease().await.unwrap();
    assert_eq!(lease.kept(), None);
}
