//! The client without a runtime.

use std::time::Duration;

use quorlock_client::blocking::Redlock;
use quorlock_client::{AcquireError, ExtendError, Loss, Token, Wait};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{TTL, client, holders, most_asked, timeless};

#[test]
fn a_lock_is_acquired_extended_and_released_without_a_runtime() {
    let nodes = FakeNode::five();
    let redlock = Redlock::from(client(&nodes));
    let guard = redlock.lock("a").ttl(TTL).acquire().unwrap();
    assert!(guard.is_valid() && guard.loss().is_none());
    assert_eq!((guard.name(), redlock.quorum()), (&b"a"[..], 3));
    guard.extend().unwrap();
    let busy = redlock.lock("a").ttl(TTL).wait(Wait::None).acquire();
    assert!(matches!(busy, Err(AcquireError::Busy { .. })));
    let watch = guard.watch();
    assert!(guard.release().released());
    assert_eq!(watch.loss(), Some(Loss::Released));
    assert!(redlock.probe().iter().all(|status| status.votes()));
    assert_eq!(redlock.statistics().acquired, 1);
    redlock.close();
    assert_eq!(holders(&nodes, "a"), 0);
}

#[test]
fn a_lease_is_handed_on_by_its_token() {
    let nodes = FakeNode::five();
    let redlock = Redlock::from(client(&nodes));
    let lease = redlock.lock("a").ttl(TTL).acquire_lease().unwrap();
    let longer = redlock.extend("a", lease.token(), 2 * TTL).unwrap();
    assert!(longer.remaining() > TTL);
    let foreign = redlock.extend("a", &Token::from("foreign"), TTL);
    assert!(matches!(
        foreign,
        Err(ExtendError::Lost(Loss::BelowMajority))
    ));
    assert_eq!(redlock.release("a", lease.token()).freed(), 5);
}

#[test]
fn work_whose_lock_is_lost_meanwhile_is_not_called_done() {
    let nodes = FakeNode::five();
    let (redlock, clock) = timeless(&nodes);
    let redlock = Redlock::from(redlock);
    let guard = redlock.lock("a").ttl(TTL).acquire().unwrap();
    assert_eq!(guard.run(|lease| lease.is_valid()), Ok(true));
    let late = guard.run(|lease| {
        clock.suspend(TTL);
        lease.is_valid()
    });
    assert_eq!(late, Err(Loss::Expired));
    let mut has_begun = false;
    assert!(guard.run(|_| has_begun = true).is_err());
    assert!(!has_begun);
    assert_eq!(guard.lost(), Loss::Expired);
}

#[test]
fn a_wait_ends_when_the_holder_releases_and_when_its_time_is_over() {
    let nodes = FakeNode::five();
    let redlock = Redlock::from(client(&nodes));
    let guard = redlock.lock("a").ttl(TTL).acquire().unwrap();
    let short = Wait::For(Duration::from_millis(30));
    redlock
        .lock("a")
        .ttl(TTL)
        .wait(short)
        .acquire()
        .unwrap_err();
    let asked = most_asked(&nodes, "a");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| redlock.lock("a").ttl(TTL).wait(Wait::Forever).acquire());
        eventually("it has asked", || most_asked(&nodes, "a") > asked);
        assert!(guard.release().released());
        assert!(waiting.join().unwrap().unwrap().is_valid());
    });
}

#[tokio::test]
async fn a_call_on_a_runtimes_thread_ends_however_much_its_task_has_done() {
    let nodes = FakeNode::five();
    nodes[0].set_mood(Mood::Delays(Duration::from_millis(1)));
    let redlock = Redlock::from(client(&nodes));
    // More operations than a task has in its budget, without giving the runtime its turn.
    for round in 0..200 {
        let guard = redlock
            .lock(format!("a{round}"))
            .ttl(TTL)
            .acquire()
            .unwrap();
        assert!(guard.release().released());
    }
}

#[test]
fn a_guard_that_ends_as_a_lease_leaves_its_lock_to_the_token() {
    let nodes = FakeNode::five();
    let redlock = Redlock::from(client(&nodes));
    let guard = redlock.lock("a").ttl(TTL).acquire().unwrap();
    let lease = guard.into_lease();
    assert!(lease.is_valid() && lease.ttl() == TTL);
    assert!(redlock.extend("a", lease.token(), 2 * TTL).is_ok());
    assert!(redlock.release("a", lease.token()).released());
    // What was lost before is no valid lease.
    let guard = redlock.lock("a").ttl(TTL).acquire().unwrap();
    assert!(redlock.release("a", guard.token()).released());
    assert!(guard.extend().is_err());
    assert!(!guard.into_lease().is_valid());
}
