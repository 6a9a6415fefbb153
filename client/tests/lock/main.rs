//! The client against nodes that misbehave, over real sockets on the loopback.
//!
//! Time that decides about a lock is a settable clock; where a test waits for something to
//! happen it asks again until it has, and fails after twenty seconds.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod acquiring;
mod bad_input;
mod blocking;
mod defects;
mod elections;
mod ending;
mod events;
mod fake_node;
mod fences;
mod holding;
mod in_process;
mod membership;
mod mixed;
mod owners;
mod permits;
mod readers;
mod rights;
mod secrets;
mod several;
mod sharded;
mod statistics;
mod threads;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use quorlock_client::{
    AcquireError, Guard, NodeStatus, Redlock, RedlockBuilder, SettableClock, Wait,
};

use self::fake_node::FakeNode;

fn builder(nodes: &[FakeNode]) -> RedlockBuilder {
    Redlock::builder().nodes(nodes.iter().map(FakeNode::url))
}

fn client(nodes: &[FakeNode]) -> Redlock {
    builder(nodes).build().unwrap()
}

/// A client whose time stands still until it is moved.
fn timeless(nodes: &[FakeNode]) -> (Redlock, Arc<SettableClock>) {
    let clock = Arc::new(SettableClock::new());
    (builder(nodes).clock(clock.clone()).build().unwrap(), clock)
}

async fn acquire(redlock: &Redlock, name: &str) -> Guard {
    redlock
        .lock(name)
        .ttl(TTL)
        .wait(Wait::For(TTL))
        .acquire()
        .await
        .unwrap()
}

/// Tries once to acquire the lock, which must fail.
async fn refused(redlock: &Redlock, name: &str) -> AcquireError {
    redlock
        .lock(name)
        .ttl(TTL)
        .wait(Wait::None)
        .acquire()
        .await
        .unwrap_err()
}

/// Probes the nodes, at their own pace, until what they say is so.
async fn probes(redlock: &Redlock, is_so: impl Fn(&[NodeStatus]) -> bool) {
    let probing = async { while !is_so(&redlock.probe().await) {} };
    let in_time = tokio::time::timeout(TTL, probing).await;
    in_time.expect("the nodes say it within ten seconds");
}

/// How often the node that was asked for the lock most often was: later attempts need not ask all.
fn most_asked(nodes: &[FakeNode], name: &str) -> usize {
    let asked = nodes.iter().map(|node| node.count(&format!("SET {name} ")));
    asked.max().unwrap_or(0)
}

fn holders(nodes: &[FakeNode], name: &str) -> usize {
    nodes
        .iter()
        .filter(|node| node.holder(name).is_some())
        .count()
}

const TTL: Duration = Duration::from_secs(10);
