//! While a sync, or a write past the page cache, is slow: what reveals a write waits for it, and what people and probes
//! ask does not.

use std::net::SocketAddr;

use quorlock_engine::control::kind;
use quorlock_server::Node;
use quorlock_testkit::{Wire, eventually};

use crate::machine::gate::GatedNode;
use crate::machine::run;

/// A node with a worker for each of two connections, whose syncs pass a gate.
async fn gated(mode: &str) -> GatedNode {
    GatedNode::start(&[
        ("appendfsync", mode),
        ("workers", "2"),
        ("metrics-port", "0"),
    ])
    .await
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut client = Wire::connect(address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes());
    let answer = String::from_utf8(client.rest()).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// The keys of database 0 as INFO counts them.
fn keys(client: &mut Wire) -> u64 {
    let text = client.ask("INFO keyspace");
    let line = text.lines().find_map(|line| line.strip_prefix("db0:keys="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

fn keys_in_metrics(node: &Node) -> u64 {
    metric(node, "redis_db_keys{db=\"db0\"}").parse().unwrap()
}

fn metric(node: &Node, series: &str) -> String {
    let (_, text) = get(node.metrics_address().unwrap(), "/metrics");
    let value = |line: &str| Some(line.strip_prefix(series)?.trim_start().to_owned());
    text.lines().find_map(value).unwrap()
}

/// It showed a key for as long as its own OK waited.
#[test]
fn info_counts_a_key_only_when_its_own_reply_may_leave() {
    run(async {
        for (mode, set) in [
            ("always", "SET b token NX PX 30000"),
            ("everysec", "SET b token NX"),
            ("no", "SET b token NX PX 3600000"),
        ] {
            let slow = gated(mode).await;
            let (mut client, mut other) = slow.wires();
            assert_eq!(client.ask("SET a token NX"), "+OK");
            assert_eq!(keys(&mut other), 1, "{mode}");
            // The sync of this second may be due: then the log thread's is the one.
            slow.hold(&mut client, set, "quorlock-");
            assert_eq!(keys(&mut other), 1, "{mode}: its OK has not left");
            assert_eq!(keys_in_metrics(&slow.node), 1, "{mode}");
            assert!(client.is_silent(), "{mode}");
            slow.let_go(&mut client);
            assert_eq!(keys(&mut other), 2, "{mode}");
            assert_eq!(keys_in_metrics(&slow.node), 2, "{mode}");
            // A deletion as well.
            slow.hold(&mut client, "DEL b", "quorlock-");
            assert_eq!(keys(&mut other), 2, "{mode}: it is not deleted for sure");
            slow.gate.set_closed(false);
            assert_eq!(client.reply(), ":1");
            assert_eq!(keys(&mut other), 1, "{mode}");
        }
    });
}

/// INFO behind a write of the same pipeline waits with it anyway, and shows it.
#[test]
fn info_counts_what_its_own_pipeline_has_written() {
    run(async {
        for mode in ["always", "everysec", "no"] {
            let slow = gated(mode).await;
            let (mut client, _) = slow.wires();
            client.send(b"SET a token NX PX 30000\r\nINFO keyspace\r\nDEL a\r\nINFO keyspace\r\n");
            assert_eq!(client.reply(), "+OK");
            assert_eq!(
                client.reply(),
                "# Keyspace\r\ndb0:keys=1,expires=1,avg_ttl=0\r\n",
                "{mode}"
            );
            assert_eq!(client.reply(), ":1");
            assert_eq!(client.reply(), "# Keyspace\r\n", "{mode}");
        }
    });
}

/// A worker with one write behind another's slow sync waited for that in its commit.
#[test]
fn a_worker_with_a_write_is_not_held_by_the_sync_of_another() {
    run(async {
        let slow = gated("always").await;
        let (mut client, mut other) = slow.wires();
        let (_third, mut fourth) = slow.wires();
        slow.hold(&mut client, "SET a token NX PX 30000", "quorlock-1");
        other.send(b"SET b token NX PX 30000\r\n");
        // The write is committed before one of the later ones is answered.
        for _ in 0..50 {
            assert_eq!(fourth.ask("PING"), "+PONG");
        }
        assert!(other.is_silent());
        slow.gate.set_closed(false);
        assert_eq!(
            (client.reply(), other.reply()),
            ("+OK".into(), "+OK".into())
        );
    });
}

/// The tick of a second writes, and the thread that ticks accepts as well.
#[test]
fn new_clients_are_served_while_a_worker_is_held_by_a_sync() {
    run(async {
        let slow = gated("always").await;
        let (mut client, _other) = slow.wires();
        assert_eq!(client.ask("SET z token PX 3000000"), "+OK");
        slow.hold(&mut client, "SET a token NX PX 30000", "quorlock-1");
        for _ in 0..10 {
            slow.machine.advance_ms(2_000);
            // Of two connections one is the other worker's.
            let mut new = [slow.node.address(); 2].map(Wire::connect);
            new.iter_mut().for_each(|wire| wire.send(b"PING\r\n"));
            eventually("somebody is accepted and answered", || {
                !new.iter_mut().all(Wire::is_silent)
            });
        }
        slow.let_go(&mut client);
    });
}

/// The worker that syncs is held by its first slow sync, with its connections. Nobody else is.
#[test]
fn while_a_worker_is_held_by_a_sync_info_and_probes_answer() {
    run(async {
        let slow = gated("always").await;
        let (mut client, mut other) = slow.wires();
        slow.hold(&mut client, "SET a token NX PX 30000", "quorlock-1");
        assert_eq!(other.ask("PING"), "+PONG");
        assert_eq!(other.info("connected_clients"), "2");
        let address = slow.node.metrics_address().unwrap();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(get(address, path).0, 200, "{path}");
        }
        slow.let_go(&mut client);
    });
}

/// Once a sync has been slow the log thread does them, and no probe waits for one.
#[test]
fn while_the_log_thread_is_held_by_a_sync_info_answers_on_every_worker() {
    run(async {
        let slow = gated("always").await;
        let (mut client, mut other) = slow.wires();
        slow.hold(&mut client, "SET a token NX PX 30000", "quorlock-1");
        slow.machine.advance_ms(8_000);
        slow.let_go(&mut client);
        let (mut third, _) = slow.wires();
        slow.hold(&mut client, "SET b token NX PX 30000", "quorlock-log");
        for wire in [&mut other, &mut third] {
            assert_eq!(wire.ask("PING"), "+PONG");
            assert_eq!(keys(wire), 1);
        }
        assert_eq!(get(slow.node.metrics_address().unwrap(), "/healthz").0, 200);
        slow.let_go(&mut client);
    });
}

/// A node with two workers whose direct writes pass a gate.
async fn gated_direct() -> GatedNode {
    let directives = [
        ("appendfsync", "always"),
        ("workers", "2"),
        ("metrics-port", "0"),
    ];
    GatedNode::start_direct(&directives).await
}

/// INFO, the probes, reads and new clients; nothing of what is written is shown.
fn assert_others_are_served(slow: &GatedNode, other: &mut Wire) {
    assert_eq!(other.ask("PING"), "+PONG");
    assert_eq!(keys(other), 1);
    assert_eq!(other.ask("GET never"), "nil");
    let address = slow.node.metrics_address().unwrap();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(address, path).0, 200, "{path}");
    }
    assert_eq!(keys_in_metrics(&slow.node), 1);
    for _ in 0..5 {
        // The tick of a second writes, and the thread that ticks accepts as well.
        slow.machine.advance_ms(2_000);
        let mut new = [slow.node.address(); 2].map(Wire::connect);
        new.iter_mut().for_each(|wire| wire.send(b"PING\r\n"));
        eventually("somebody is accepted and answered", || {
            !new.iter_mut().all(Wire::is_silent)
        });
    }
}

/// An alert goes by it: where the disk hangs, no counter of the metrics moves.
#[test]
fn the_metrics_have_the_time_that_a_disk_which_hangs_has_taken() {
    run(async {
        for slow in [gated("always").await, gated_direct().await] {
            let seconds = || -> f64 {
                let value = metric(&slow.node, "quorlock_log_wait_seconds");
                value.parse().unwrap()
            };
            let (mut client, _other) = slow.wires();
            assert_eq!(client.ask("SET z token PX 3000000"), "+OK");
            eventually("nothing is under way", || seconds() == 0.0);
            slow.hold(&mut client, "SET a token PX 3000000", "quorlock-");
            slow.machine.advance_ms(20_000);
            let waited = seconds();
            assert!((20.0..60.0).contains(&waited), "{waited}");
            slow.let_go(&mut client);
            eventually("the disk has done it", || seconds() == 0.0);
        }
    });
}

/// The first slow one is the worker's own, and holds the connections of that worker. Others do not wait for it, also
/// where they write.
#[test]
fn a_slow_direct_write_holds_only_the_worker_that_makes_it() {
    run(async {
        let slow = gated_direct().await;
        let (mut client, mut other) = slow.wires();
        let (mut same_worker, mut fourth) = slow.wires();
        assert_eq!(other.ask("SET z token PX 3000000"), "+OK");
        // The first deadline is followed by a tick, which must not come to the gate first.
        eventually("the tick is written", || {
            slow.machine.frames_of(kind::TICK) > 0
        });
        slow.hold(&mut client, "SET a token NX PX 30000", "quorlock-1");
        same_worker.send(b"PING\r\n");
        assert_others_are_served(&slow, &mut other);
        other.send(b"SET b token NX PX 30000\r\n");
        // The write is committed before one of the later ones is answered.
        for _ in 0..50 {
            assert_eq!(fourth.ask("PING"), "+PONG");
        }
        assert!(other.is_silent() && client.is_silent() && same_worker.is_silent());
        slow.gate.set_closed(false);
        assert_eq!(same_worker.reply(), "+PONG");
        assert_eq!([client.reply(), other.reply()], ["+OK", "+OK"]);
        assert_eq!(keys(&mut other), 3);
    });
}

/// Once one has been slow the log thread makes them, and no worker is held.
#[test]
fn after_a_slow_direct_write_the_log_thread_makes_them_and_every_worker_answers() {
    run(async {
        let slow = gated_direct().await;
        let (mut client, mut other) = slow.wires();
        let (mut same_worker, _fourth) = slow.wires();
        // Without a deadline, so that no tick is written beside it.
        slow.hold(&mut client, "SET a token NX", "quorlock-1");
        slow.machine.advance_ms(8_000);
        slow.let_go(&mut client);
        slow.hold(&mut client, "SET b token NX PX 30000", "quorlock-log");
        assert_others_are_served(&slow, &mut same_worker);
        assert_others_are_served(&slow, &mut other);
        assert!(client.is_silent());
        slow.let_go(&mut client);
        assert_eq!(keys(&mut other), 2);
    });
}

/// Planted: what the last request of a pipeline waits for counts alone.
#[test]
fn no_reply_of_a_pipeline_leaves_before_what_its_first_request_waits_for() {
    run(async {
        let slow = gated("always").await;
        let (mut client, _) = slow.wires();
        slow.hold(
            &mut client,
            "SET a token NX PX 30000\r\nGET never\r\nPING",
            "quorlock-1",
        );
        assert!(client.is_silent());
        slow.let_go(&mut client);
        assert_eq!([client.reply(), client.reply()], ["nil", "+PONG"]);
    });
}

/// Planted: a session remembers only what its last command depended on.
#[test]
fn waitaof_covers_a_write_that_a_later_command_does_not_depend_on() {
    run(async {
        let slow = gated("everysec").await;
        let (mut client, mut other) = slow.wires();
        assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
        assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1, :0]");
        slow.gate.set_closed(true);
        assert_eq!(client.ask("SET b token NX PX 30000"), "+OK");
        assert_eq!(client.ask("GET never"), "nil");
        client.send(b"WAITAOF 1 0 500\r\n");
        slow.gate.await_thread("quorlock-log");
        other.await_info("blocked_clients", "1");
        assert!(client.is_silent(), "nothing of b is synced");
        slow.machine.advance_ms(500);
        assert_eq!(client.reply(), "[:0, :0]");
    });
}
