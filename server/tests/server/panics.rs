//! A thread of a node that panics ends the node, and the error names it: a node that goes on
//! without one of its threads would wait for ever, or spin, or forget to tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorlock_server::{Node, RunState};

use crate::machine::hooked_clock::HookedClock;
use crate::machine::{Machine, run, wire};

/// Panics, once it is armed, in the thread of this name.
#[derive(Debug)]
struct Trap {
    thread: &'static str,
    is_armed: AtomicBool,
}

impl Trap {
    fn in_thread(thread: &'static str) -> Arc<Self> {
        let is_armed = AtomicBool::new(false);
        Arc::new(Self { thread, is_armed })
    }

    fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    fn step(&self) {
        let is_here = std::thread::current().name() == Some(self.thread);
        assert!(!is_here || !self.is_armed.load(Ordering::SeqCst), "planted");
    }
}

/// What is armed before the node starts, or by a test afterwards.
struct Planted {
    in_sync: Arc<Trap>,
    in_clock: Arc<Trap>,
    /// Each sync takes a second of the node's time.
    is_slow: Arc<AtomicBool>,
    clock: Arc<HookedClock>,
}

impl Planted {
    fn new() -> Self {
        let in_clock = Trap::in_thread("quorlock-node");
        let trap = Arc::clone(&in_clock);
        Self {
            in_sync: Trap::in_thread("quorlock-log"),
            clock: Arc::new(HookedClock::new(move |_| trap.step())),
            is_slow: Arc::default(),
            in_clock,
        }
    }

    async fn start(&self, mode: &str) -> Node {
        let machine = Machine::new();
        let (in_sync, is_slow) = (Arc::clone(&self.in_sync), Arc::clone(&self.is_slow));
        let clock = Arc::clone(&self.clock);
        machine.disk().on_sync(Arc::new(move || {
            in_sync.step();
            if is_slow.load(Ordering::SeqCst) {
                clock.settable.advance(Duration::from_secs(1));
            }
        }));
        let node = machine.node(&[("appendfsync", mode)]);
        node.clock(self.clock.clone()).start().await.unwrap()
    }
}

/// The node ends, says why, and answers nobody any more.
async fn ends(node: Node, why: &str) {
    let stopped = tokio::time::timeout(Duration::from_secs(10), node.stopped()).await;
    let failure = stopped.expect("the node goes on").unwrap_err().to_string();
    assert!(failure.contains(why), "{failure}");
    assert!(!node.is_serving());
    assert!(
        matches!(node.state(), RunState::Failed(_)),
        "{:?}",
        node.state()
    );
    assert!(node.serving().await.unwrap_err().to_string().contains(why));
    let (address, watch) = (node.address(), node.watch());
    drop(node);
    assert!(watch.state().is_final() && !watch.state().is_serving());
    assert!(std::net::TcpStream::connect(address).is_err());
}

const PANICKED: &str = "the log thread panicked";

#[test]
fn a_log_thread_that_panics_in_a_sync_ends_the_node() {
    run(async {
        for mode in ["everysec", "no"] {
            let planted = Planted::new();
            let node = planted.start(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
            planted.in_sync.arm();
            client.send(b"SET b token NX PX 30000\r\nWAITAOF 1 0 0\r\n");
            ends(node, PANICKED).await;
        }
    });
}

/// A worker that had asked for a sync asked again each time the job was dropped, and took a core.
#[test]
fn a_log_thread_that_panics_under_a_workers_sync_withholds_the_reply() {
    run(async {
        let planted = Planted::new();
        let node = planted.start("always").await;
        let mut client = wire(&node);
        planted.is_slow.store(true, Ordering::SeqCst);
        assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
        planted.in_sync.arm();
        // The first sync was slow, so this one is for the log thread.
        let reply = client.ask("SET b token NX PX 30000");
        // The sync of a tick may come before this one; then the node is stopping already.
        let is_withheld =
            reply.starts_with("-MISCONF") && reply.contains("the log thread panicked");
        let is_refused = reply.starts_with("-ERR") && reply.ends_with("it is stopping");
        assert!(is_withheld || is_refused, "{reply}");
        ends(node, PANICKED).await;
    });
}

#[test]
fn a_log_thread_that_panics_while_it_makes_a_segment_ends_the_node() {
    run(async {
        let planted = Planted::new();
        // Nothing is synced but the segment that is made ahead.
        let node = planted.start("no").await;
        planted.in_sync.arm();
        let value = "x".repeat(300_000);
        let reply = wire(&node).ask(&format!("SET a {value} PX 60000"));
        // The thread may come before the reply.
        assert!(reply == "+OK" || reply.contains(PANICKED), "{reply}");
        ends(node, PANICKED).await;
    });
}

#[test]
fn a_node_thread_that_panics_ends_the_node() {
    run(async {
        let planted = Planted::new();
        let node = planted.start("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
        planted.in_clock.arm();
        planted.clock.settable.advance(Duration::from_secs(2));
        ends(node, "panicked").await;
        let after = client.ask("GET a");
        assert_eq!(after, "<closed>");
    });
}
