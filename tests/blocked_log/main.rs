//! A program whose log takes its time, or blocks: its locks go on. A program of its own, since a process has one subscriber.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::TcpListener;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use quorlock_client::{Redlock, Wait};
use quorlock_server::Node;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

/// A subscriber that takes no line before it is told to.
struct Blocks;

#[derive(Debug, Default)]
struct Seen {
    /// How many lines have come to it.
    lines: usize,
    is_open: bool,
}

static SEEN: (Mutex<Seen>, Condvar) = (
    Mutex::new(Seen {
        lines: 0,
        is_open: false,
    }),
    Condvar::new(),
);

impl Subscriber for Blocks {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("quorlock_client")
    }

    fn event(&self, _event: &Event<'_>) {
        let (seen, changed) = &SEEN;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.lines += 1;
        changed.notify_all();
        let _open = changed.wait_while(seen, |seen| !seen.is_open);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_renewed_while_the_programs_log_blocks() {
    subscriber::set_global_default(Blocks).unwrap();
    // A port where nobody listens: a line in the log for each connection that cannot be made.
    let refuses = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("redis://{}", refuses.local_addr().unwrap());
    drop(refuses);
    let mut nodes = Vec::new();
    for _ in 0..2 {
        nodes.push(Node::builder().ephemeral().start().await.unwrap());
    }
    let addresses = nodes.iter().map(Node::url).chain([nobody]);
    let redlock = Redlock::builder().nodes(addresses).build().unwrap();
    let request = redlock.lock("job").ttl(TTL).wait(Wait::For(TTL));
    let guard = tokio::time::timeout(PATIENCE, request.acquire()).await;
    let guard = guard.expect("the client's thread goes on").unwrap();
    blocked();
    for _ in 0..2 {
        let before = guard.valid_until();
        let renewed = async {
            while guard.valid_until() == before {
                assert!(guard.loss().is_none(), "it is lost");
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, renewed).await;
        in_time.expect("it is renewed");
    }
    assert!(guard.release().await.released());
    let (seen, changed) = &SEEN;
    seen.lock().unwrap().is_open = true;
    changed.notify_all();
}

/// Waits until a line has come to the subscriber, which keeps it.
fn blocked() {
    let (seen, changed) = &SEEN;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(seen, PATIENCE, |seen| seen.lines == 0);
    let (seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
    assert!(seen.lines > 0, "nothing was logged");
}

const TTL: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(10);
