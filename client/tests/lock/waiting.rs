//! What a call tells while it waits, and the place it keeps.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_client::{
    LockRequest, NodeStatus, Redlock, RetryDelay, Token, Wait, Waiting, blocking,
};
use quorlock_testkit::{Wire, eventually, observed_now};

use crate::fake_node::{FakeNode, Mood};
use crate::several::Redis;
use crate::{TTL, acquire, client, probes, timeless};

/// What was told, in order.
type Told = Arc<Mutex<Vec<Waiting>>>;

/// The request, and what it will tell; it waits without end.
fn told(request: LockRequest) -> (LockRequest, Told) {
    let told = Told::default();
    let sink = Arc::clone(&told);
    let request = request.ttl(TTL).wait(Wait::Forever);
    let request = request.on_wait(move |waiting| sink.lock().unwrap().push(waiting.clone()));
    (request, told)
}

fn hold(nodes: &[FakeNode]) {
    for node in nodes {
        node.hold("a", "somebody", 4_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_tells_after_each_attempt_who_holds_the_lock_and_how_long_still() {
    let nodes = FakeNode::five();
    hold(&nodes);
    let (redlock, clock) = timeless(&nodes);
    let (request, told) = told(redlock.lock("a"));
    let waiting = tokio::spawn(request.acquire());
    eventually("it tells", || !told.lock().unwrap().is_empty());
    let first = told.lock().unwrap()[0].clone();
    let Waiting::Busy {
        holder, time_left, ..
    } = &first
    else {
        panic!("{first}")
    };
    assert_eq!(*holder, Some(Token::from("somebody")));
    assert_eq!(*time_left, Some(Duration::from_secs(4)));
    assert_eq!(
        first.to_string(),
        "held by another owner (token so...) for another 4 s unless it is renewed"
    );
    // As long as no time passes it asks nobody, and tells nothing.
    redlock.probe().await;
    assert_eq!(told.lock().unwrap().len(), 1);
    clock.advance(Duration::from_millis(500));
    eventually("it tells again", || told.lock().unwrap().len() == 2);
    // All that was asked has been answered when time moves on.
    redlock.probe().await;
    for node in &nodes {
        node.state().keys.clear();
    }
    clock.advance(Duration::from_millis(500));
    assert!(waiting.await.unwrap().unwrap().is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_tells_at_once_that_no_quorum_answers_and_why() {
    let nodes = FakeNode::five();
    for node in &nodes[2..] {
        node.set_mood(Mood::Refuses("ERR broken"));
    }
    // Time stands still: nothing is waited for.
    let (redlock, clock) = timeless(&nodes);
    let (request, told) = told(redlock.lock("a"));
    let waiting = tokio::spawn(request.acquire());
    eventually("it tells", || !told.lock().unwrap().is_empty());
    let first = told.lock().unwrap()[0].clone();
    let Waiting::NoQuorum {
        needed, nodes: all, ..
    } = &first
    else {
        panic!("{first}")
    };
    assert_eq!((*needed, all.len()), (3, 5));
    assert_eq!(
        first.to_string().matches("ERR broken").count(),
        3,
        "{first}"
    );
    redlock.probe().await;
    for node in &nodes {
        node.set_mood(Mood::Serves);
    }
    clock.advance(Duration::from_millis(500));
    assert!(waiting.await.unwrap().unwrap().is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_keep_their_place_behind_one_another() {
    let nodes = FakeNode::five();
    let redlock = client(&nodes);
    let guard = acquire(&redlock, "a").await;
    let (first, told_first) = told(redlock.lock("a"));
    let first = tokio::spawn(first.acquire());
    eventually("the first tells", || !told_first.lock().unwrap().is_empty());
    let (second, told_second) = told(redlock.lock("a"));
    let second = tokio::spawn(second.acquire());
    eventually("so does the second", || {
        !told_second.lock().unwrap().is_empty()
    });
    assert!(guard.release().await.released());
    let guard = first.await.unwrap().unwrap();
    let queued = told_second.lock().unwrap()[0].clone();
    assert!(
        matches!(queued, Waiting::Queued { ahead: 1, .. }),
        "{queued}"
    );
    assert!(guard.release().await.released());
    assert!(second.await.unwrap().unwrap().is_valid());
    let told = told_first.lock().unwrap();
    assert!(
        told.iter().all(|told| matches!(told, Waiting::Busy { .. })),
        "{told:?}"
    );
}

#[test]
fn a_call_that_blocks_tells_on_its_own_thread() {
    let nodes = Arc::new(FakeNode::five());
    hold(&nodes);
    let redlock = blocking::Redlock::from(client(&nodes));
    let (freed, caller) = (Arc::clone(&nodes), std::thread::current().id());
    let request = redlock.lock("a").ttl(TTL).wait(Wait::For(TTL));
    let guard = request
        .on_wait(move |waiting| {
            assert!(matches!(waiting, Waiting::Busy { .. }), "{waiting}");
            assert_eq!(std::thread::current().id(), caller);
            freed.iter().for_each(|node| node.state().keys.clear());
        })
        .acquire()
        .unwrap();
    assert!(guard.is_valid());
}

/// How many commands the servers have executed, with one of this for each of them.
fn executed(servers: &[Redis]) -> u64 {
    let counts = servers.iter().map(|server| {
        let count = Wire::connect_unix(&server.socket).info("total_commands_processed");
        count.parse::<u64>().unwrap()
    });
    counts.sum()
}

/// Redis has no lines, and tells of changes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs redis-server"]
async fn who_waits_on_redis_is_told_of_the_release_and_asks_next_to_nothing_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [0, 1, 2, 3, 4].map(|number| Redis::start(&folder, number));
    let urls = servers.each_ref().map(|server| server.url.clone());
    // A call that polls has pauses of several seconds in the end.
    let pauses = RetryDelay::new(Duration::from_millis(10), Duration::from_secs(60));
    let client = || {
        let builder = Redlock::builder().nodes(&urls);
        builder.retry_delay(pauses).build().unwrap()
    };
    let (holder, waiter) = (client(), client());
    for redlock in [&holder, &waiter] {
        probes(redlock, |nodes| nodes.iter().all(NodeStatus::votes)).await;
    }
    let hour = Duration::from_secs(3_600);
    let guard = holder.lock("a").ttl(hour).acquire().await.unwrap();
    let waiting = waiter.lock("a").ttl(hour).wait(Wait::For(6 * TTL));
    let waiting = tokio::spawn(waiting.acquire());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = executed(&servers);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let during = executed(&servers) - before - servers.len() as u64;
    // Two looks at one server with a script, whose commands count too, and at another one with EXISTS.
    assert!(during <= 15, "{during} commands in five seconds");
    assert!(!waiting.is_finished());
    let released = observed_now();
    assert!(guard.release().await.released());
    let next = waiting.await.unwrap().unwrap();
    let took = observed_now() - released;
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert!(next.release_everywhere().await.is_free());
}
