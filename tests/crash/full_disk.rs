//! A node on a small disk that is full of live locks: it starts however often it is killed, serves what it has, and grants again
//! once they have expired.

use std::sync::Arc;
use std::time::Duration;

use quorlock_node::clock::SettableClock;
use quorlock_node::simulation::{Node, Setup};
use quorlock_persistence::{LogOptions, MemoryDisk};

use super::setup;

struct Small {
    disk: MemoryDisk,
    clock: Arc<SettableClock>,
    setup: Setup,
}

impl Small {
    /// A volume of 8 MiB.
    fn new() -> Self {
        let disk = MemoryDisk::new();
        disk.set_capacity(Some(8 << 20));
        let mut setup = setup(&[("appendfsync", "always")]);
        setup.sizes = LogOptions {
            segment_bytes: 3 << 20,
            frame_bytes_max: 1 << 20,
            ..LogOptions::default()
        };
        Self {
            disk,
            clock: Arc::new(SettableClock::new()),
            setup,
        }
    }

    fn start(&self) -> Node {
        let disk = Arc::new(self.disk.clone());
        let mut node = Node::start(disk, self.clock.clone(), &self.setup).expect("it starts");
        work(&mut node);
        node
    }
}

/// What the node's own threads would do by now.
fn work(node: &mut Node) {
    for _ in 0..20 {
        node.work_on_log().expect("the disk works");
        let _ = node.serve_if_due().expect("the disk works");
        node.maintain().expect("the disk works");
    }
}

fn grant(node: &mut Node, key: &str) -> Vec<u8> {
    let value = [b'x'; 900];
    node.execute(&[b"SET", key.as_bytes(), &value, b"PX", b"60000"])
}

fn is_refused(reply: &[u8]) -> bool {
    reply.starts_with(b"-MISCONF the log has no room")
}

#[test]
fn a_disk_full_of_live_locks_is_started_on_and_grants_again_once_they_end() {
    let small = Small::new();
    let mut node = small.start();
    let mut granted = 0;
    for start in 0..30 {
        while !is_refused(&grant(&mut node, &format!("lock:{granted}"))) {
            granted += 1;
            work(&mut node);
        }
        assert_eq!(node.execute(&[b"PING"]), b"+PONG\r\n");
        let last = format!("lock:{}", granted - 1 - start);
        assert_eq!(node.execute(&[b"EXISTS", last.as_bytes()]), b":1\r\n");
        assert_eq!(
            node.execute(&[b"DEL", last.as_bytes()]),
            b":1\r\n",
            "{last}"
        );
        drop(node);
        node = small.start();
        assert!(node.is_serving(), "start {start}");
        assert_eq!(
            node.execute(&[b"EXISTS", last.as_bytes()]),
            b":0\r\n",
            "{last}"
        );
        assert_eq!(node.execute(&[b"EXISTS", b"lock:0"]), b":1\r\n");
    }
    assert!(granted > 5_000, "{granted} locks");
    // Ahead of the last bytes a checkpoint of the few locks that live frees the segments of those that have ended.
    small.clock.advance(Duration::from_secs(61));
    for _ in 0..200 {
        small.clock.advance(Duration::from_millis(200));
        work(&mut node);
        let _ = node.compact();
    }
    assert_eq!(grant(&mut node, "another"), b"+OK\r\n");
    drop(node);
    let mut node = small.start();
    assert_eq!(node.execute(&[b"EXISTS", b"another"]), b":1\r\n");
}
