//! What a program is told of calls and of locks, with their times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_client::{AcquireError, LockEvent, Loss, Redlock, SettableClock};

use crate::fake_node::FakeNode;
use crate::{TTL, acquire, builder, refused};

type Told = Arc<Mutex<Vec<String>>>;

/// A client whose time stands still until it is moved, and its events as lines.
fn observed(nodes: &[FakeNode]) -> (Redlock, Arc<SettableClock>, Told) {
    let clock = Arc::new(SettableClock::new());
    let told = Told::default();
    let lines = Arc::clone(&told);
    let redlock = builder(nodes).clock(clock.clone()).on_event(move |event| {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let line = match event {
            LockEvent::Acquired { name, waited, .. } => {
                format!("{} acquired after {waited:?}", shown(name))
            }
            LockEvent::Failed {
                name,
                waited,
                error: AcquireError::Busy { .. },
                ..
            } => format!("{} busy after {waited:?}", shown(name)),
            LockEvent::Ended {
                name, held, loss, ..
            } => format!("{} held for {held:?}, {loss:?}", shown(name)),
            other => format!("{other:?}"),
        };
        lines.lock().unwrap().push(line);
    });
    (redlock.build().unwrap(), clock, told)
}

#[tokio::test]
async fn each_call_and_each_lock_is_told_with_its_times_and_its_end() {
    let nodes = FakeNode::five();
    let (redlock, clock, told) = observed(&nodes);
    let guard = acquire(&redlock, "a").await;
    refused(&redlock, "a").await;
    clock.advance(Duration::from_secs(3));
    assert!(!guard.release().await.was_lost());

    let passes = async { clock.advance(Duration::from_millis(20)) };
    let (guard, ()) = tokio::join!(acquire(&redlock, "b"), passes);
    drop(guard);

    let guard = acquire(&redlock, "c").await;
    let validity = guard.remaining();
    clock.advance(TTL);
    assert_eq!(guard.lost().await, Loss::Expired);
    clock.advance(TTL);
    // A request that was on its way when time moved has ended its connection, and the next one is made after a pause.
    let mut release = std::pin::pin!(guard.release());
    let released = loop {
        match tokio::time::timeout(Duration::from_millis(10), &mut release).await {
            Ok(released) => break released,
            Err(_) => clock.advance(TTL),
        }
    };
    assert!(released.was_lost());

    let lease = redlock.lock("d").ttl(TTL).acquire_lease().await.unwrap();
    drop(lease);
    let guard = acquire(&redlock, "e").await;
    clock.advance(Duration::from_secs(1));
    drop(guard.into_lease());
    redlock.lock("").acquire().await.unwrap_err();
    assert_eq!(
        *told.lock().unwrap(),
        [
            "a acquired after 0ns",
            "a busy after 0ns",
            "a held for 3s, None",
            "b acquired after 20ms",
            "b held for 0ns, None",
            "c acquired after 0ns",
            &*format!("c held for {validity:?}, Some(Expired)"),
            "d acquired after 0ns",
            "e acquired after 0ns",
            "e held for 1s, None",
        ]
    );
}
