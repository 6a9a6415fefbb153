//! Thousands of clients that wait, watch, track, listen and queue, and go at once: nothing of them is left.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorlock_server::clock::SettableClock;
use quorlock_server::{MemoryDisk, Node};
use quorlock_testkit::{Wire, eventually};

use super::builder;
use crate::machine::gate::{Gate, OpenAtEnd};
use crate::machine::run;

/// What each of them asks for, and the first words of the reply; none where it is blocked. `#` is its number.
const KINDS: [(&[&str], &[&str]); 11] = [
    (&["BLPOP list-# list 0"], &[]),
    (&["BZPOPMIN sorted-# sorted 1000"], &[]),
    (&["SET token-# a", "WAITAOF 1 0 0"], &["+OK"]),
    (
        &["WATCH key-# key", "MULTI", "SET key-# QUEUED"],
        &["+OK", "+OK", "+QUEUED"],
    ),
    (
        &["HELLO 3", "CLIENT TRACKING ON", "GET key-#", "GET key"],
        &["[", "+OK", "_", ""],
    ),
    (
        &[
            "HELLO 3",
            "CLIENT TRACKING ON BCAST PREFIX prefix-# PREFIX other",
        ],
        &["[", "+OK"],
    ),
    (&["SUBSCRIBE channel-# channel"], &["["]),
    (&["PSUBSCRIBE pattern-#* pattern*"], &["["]),
    (&["SSUBSCRIBE shard-# shard"], &["["]),
    (&["HELLO 3", "LOCK.WAIT key token-#"], &["[", ":"]),
    (&["MULTI", "EVAL while-#-end 0"], &["+OK", "+QUEUED"]),
];

/// So many of each kind.
const EACH: usize = 200;

/// What counts them, and what it says while they are here. The watcher is none of them.
const COUNTS: [(&str, usize); 16] = [
    ("connected_clients", KINDS.len() * EACH + 1),
    ("blocked_clients", 3 * EACH),
    ("total_blocking_keys", 2 * (EACH + 1)),
    ("watching_clients", EACH),
    ("total_watched_keys", EACH + 1),
    ("tracking_clients", 2 * EACH),
    ("tracking_total_keys", EACH + 1),
    ("tracking_total_items", 2 * EACH),
    ("tracking_total_prefixes", EACH + 1),
    ("pubsub_clients", 3 * EACH),
    ("pubsub_channels", EACH + 1),
    ("pubsub_patterns", EACH + 1),
    ("pubsubshard_channels", EACH + 1),
    ("quorlock_lock_waiters", EACH),
    ("quorlock_unauthenticated_clients", 0),
    ("rejected_connections", 0),
];

/// A node whose syncs end when the gate is open: until then WAITAOF waits.
async fn node(clock: &Arc<SettableClock>, gate: &Arc<Gate>) -> Node {
    let disk = Arc::new(MemoryDisk::default());
    let (passed, moved) = (Arc::clone(gate), Arc::clone(clock));
    // Only syncs that take long are left to the log thread.
    disk.on_sync(Arc::new(move || {
        moved.advance(Duration::from_millis(2));
        passed.pass();
    }));
    let directives: [(&str, &[&str]); 3] = [
        ("maxclients", &["10000"]),
        ("appendfsync", &["everysec"]),
        ("no-ttl-durability", &["as-mode"]),
    ];
    builder(clock, &directives)
        .disk(disk)
        .start()
        .await
        .unwrap()
}

#[test]
fn of_thousands_of_clients_that_vanish_at_once_nothing_is_left() {
    run(async {
        let (clock, gate) = (Arc::new(SettableClock::new()), Arc::new(Gate::default()));
        let node = node(&clock, &gate).await;
        let mut watcher = Wire::connect(node.address());
        for number in 1..=20 {
            assert_eq!(watcher.ask("INCR key"), format!(":{number}"));
            assert_eq!(watcher.ask("WAITAOF 1 0 0"), "[:1, :0]");
        }
        let memory =
            |watcher: &mut Wire| -> u64 { watcher.info("mem_clients_normal").parse().unwrap() };
        let alone = memory(&mut watcher);
        let _open = OpenAtEnd(Arc::clone(&gate));
        for round in 0..2 {
            gate.set_closed(true);
            let clients = 0..KINDS.len() * EACH;
            let clients = clients.map(|number| client(node.address(), number));
            let clients: Vec<Wire> = clients.collect();
            for (field, count) in COUNTS {
                watcher.await_info(field, &count.to_string());
            }
            let full = memory(&mut watcher);
            assert!(full > alone + 100_000, "round {round}: {alone} and {full}");
            clients.into_iter().for_each(Wire::reset);
            watcher.await_info("connected_clients", "1");
            for (field, _) in COUNTS.into_iter().skip(1) {
                watcher.await_info(field, "0");
            }
            eventually("their memory is counted off", || {
                memory(&mut watcher) <= alone + 4_096
            });
            assert_eq!(watcher.ask("CLIENT LIST").lines().count(), 1);
            assert_eq!(watcher.ask("PUBSUB CHANNELS"), "[]");
            gate.set_closed(false);
            assert_eq!(watcher.ask("INCR key"), format!(":{}", 21 + round));
            assert_eq!(watcher.ask("WAITAOF 1 0 0"), "[:1, :0]");
        }
        // Nobody of them gets what comes now.
        assert_eq!(watcher.ask("RPUSH list a b c"), ":3");
        assert_eq!(watcher.ask("LLEN list"), ":3");
        assert_eq!(watcher.ask("ZADD sorted 1 a"), ":1");
        assert_eq!(watcher.ask("ZCARD sorted"), ":1");
        assert_eq!(watcher.ask("PUBLISH channel message"), ":0");
    });
}

fn client(address: SocketAddr, number: usize) -> Wire {
    let mut client = Wire::connect(address);
    let (requests, replies) = KINDS[number % KINDS.len()];
    let number = (number / KINDS.len()).to_string();
    for request in requests {
        let words: Vec<String> = request
            .split(' ')
            .map(|word| word.replace('#', &number))
            .collect();
        client.send(format!("{}\r\n", words.join(" ")).as_bytes());
    }
    for reply in replies {
        let got = client.reply();
        assert!(
            got.starts_with(reply),
            "{requests:?}: {got} and not {reply}"
        );
    }
    client
}
