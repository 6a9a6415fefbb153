//! The mode and the cap changed while a node runs, under load and across crashes. The disk loses
//! everything that was not synced, or only some of it; the clock moves where a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock_engine::control::{ControlRecord, kind};
use quorlock_server::Node;
use quorlock_testkit::{Wire, eventually};

use crate::machine::{Directives, MODES, Machine, run, wire};

/// Writes of one client under load; checking them costs as much again.
const WRITES_MAX: usize = 1_000;

/// How many changes of the mode the log holds.
fn modes_on_record(machine: &Machine) -> usize {
    let log = machine.log();
    let frames = log.frames().collect().unwrap();
    frames
        .iter()
        .filter(|frame| frame.kind == kind::MODE)
        .count()
}

/// The next start on what is left, after its delay; and why it had to wait, if it had to.
async fn restart(machine: &Machine, directives: Directives<'_>) -> (Node, String, u64) {
    let mut builder = machine.node(&[("appendfsync", "everysec")]);
    for (name, value) in directives {
        builder = builder.directive(name, &[value]);
    }
    let node = builder.start().await.unwrap();
    let mut client = wire(&node);
    let why = client.info("last_stop");
    let left_ms = client.info("restart_delay_remaining_ms").parse().unwrap();
    machine.advance_ms(left_ms);
    node.serving().await.unwrap();
    (node, why, left_ms)
}

/// Clients that write as fast as they can, each its own keys, until told to stop; each returns how
/// many of its writes were acknowledged.
struct Load {
    is_over: Arc<AtomicBool>,
    clients: Vec<std::thread::JoinHandle<usize>>,
}

impl Load {
    fn start(node: &Node, clients: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let address = node.address();
        let clients = (0..clients)
            .map(|client| {
                let mut wire = Wire::connect(address);
                let is_over = Arc::clone(&is_over);
                std::thread::spawn(move || {
                    let mut acknowledged = 0;
                    while !is_over.load(Ordering::Acquire) && acknowledged < WRITES_MAX {
                        let set = format!("SET {client}:{acknowledged} token NX PX 50000");
                        if wire.ask(&set) != "+OK" {
                            break;
                        }
                        acknowledged += 1;
                    }
                    acknowledged
                })
            })
            .collect();
        Self { is_over, clients }
    }

    fn stop(self) -> Vec<usize> {
        self.is_over.store(true, Ordering::Release);
        self.clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    }
}

/// Waits until there are so many keys more.
fn grow(client: &mut Wire, keys: u64) {
    let mut count = || client.ask("DBSIZE")[1..].parse::<u64>().unwrap();
    let enough = count() + keys;
    for _ in 0..10_000 {
        if count() >= enough {
            return;
        }
    }
    panic!("the load does not grow");
}

/// How many of the acknowledged writes are not there.
fn missing(client: &mut Wire, acknowledged: &[usize]) -> usize {
    let mut missing = 0;
    for (owner, count) in acknowledged.iter().enumerate() {
        for number in 0..*count {
            missing += usize::from(client.ask(&format!("EXISTS {owner}:{number}")) != ":1");
        }
    }
    missing
}

#[test]
fn every_change_of_mode_under_load_keeps_what_the_modes_promise_over_a_power_loss() {
    run(async {
        let changes = MODES.iter().flat_map(|from| MODES.map(|to| (*from, to)));
        for (from, to) in changes.filter(|(from, to)| from != to || *to == "always") {
            let machine = Machine::with_power_loss();
            let node = machine.start_in(from).await;
            let load = Load::start(&node, 2);
            let mut operator = wire(&node);
            grow(&mut operator, 20);
            let set = format!("CONFIG SET appendfsync {to}");
            assert_eq!(operator.ask(&set), "+OK");
            assert_eq!(operator.info("quorlock_appendfsync"), to);
            grow(&mut operator, 20);
            let acknowledged = load.stop();
            machine.lose_power();
            node.crash().await;
            let looking = machine.look().await;
            let mut client = wire(&looking);
            let lost = missing(&mut client, &acknowledged);
            let trusting = [("trust-fsync", "yes")];
            let (_node, why, left_ms) = restart(&machine, &trusting).await;
            if from == "always" && to == "always" {
                assert_eq!((lost, left_ms), (0, 0), "{from} to {to}: {why}");
            }
            // What a weaker mode had acknowledged is on disk with the record of the change.
            if to == "always" {
                assert_eq!(lost, 0, "{from} to {to}: {why}");
            }
            assert!(
                lost == 0 || left_ms >= 50_000,
                "{from} to {to}: {lost} lost and {left_ms} ms waited ({why})"
            );
        }
    });
}

#[test]
fn a_weaker_reply_never_outlives_the_record_of_its_mode() {
    run(async {
        // Whatever part of the unsynced sectors survives, the node knows that replies were weaker.
        for kept in 0..4 {
            let machine = Machine::with_power_loss();
            let node = machine.start_in("always").await;
            let mut client = wire(&node);
            client.send(
                b"CONFIG SET appendfsync no\r\nSET a token NX PX 20000\r\n\
                  SET b token NX PX 20000\r\n",
            );
            assert_eq!(client.reply(), "+OK");
            assert_eq!(client.reply(), "+OK");
            assert_eq!(client.reply(), "+OK");
            assert_eq!(client.ask("SET c token NX PX 20000"), "+OK");
            machine.lose_power_except(false, |_, sector| sector % 4 < kept);
            machine.reboot();
            node.crash().await;
            let (node, why, left_ms) = restart(&machine, &[("trust-fsync", "yes")]).await;
            assert_eq!(why, "unclean stop", "{kept}");
            assert!(left_ms >= 20_000, "{left_ms}");
            drop(node);
        }
    });
}

#[test]
fn after_a_change_to_always_the_log_counts_as_complete_once_all_is_synced() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("no").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
        assert_eq!(client.ask("CONFIG SET appendfsync always"), "+OK");
        assert_eq!(client.ask("SET b token PX 20000"), "+OK");
        // The record that completes it follows without being asked for.
        eventually("the mode is completed", || modes_on_record(&machine) == 2);
        machine.kill();
        node.crash().await;
        let (node, why, left_ms) = restart(&machine, &[]).await;
        assert_eq!(why, "unclean stop; log complete");
        assert_eq!(left_ms, 0);
        let mut client = wire(&node);
        assert_eq!(client.ask("GET a"), "token");
        assert_eq!(client.ask("GET b"), "token");
    });
}

#[test]
fn a_change_to_always_syncs_what_was_acknowledged_before_it() {
    run(async {
        for from in ["everysec", "no"] {
            let machine = Machine::with_power_loss();
            let node = machine.start_in(from).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
            assert_eq!(client.ask("SET b token NX PX 20000"), "+OK");
            assert_eq!(client.ask("CONFIG SET appendfsync always"), "+OK");
            machine.lose_power();
            node.crash().await;
            let looking = machine.look().await;
            let mut client = wire(&looking);
            assert_eq!(client.ask("GET b"), "token", "{from}");
        }
    });
}

#[test]
fn a_checkpoint_keeps_what_earlier_records_said_of_mode_and_cap() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("always").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("CONFIG SET appendfsync no"), "+OK");
        assert_eq!(client.ask("CONFIG SET restart-delay-max 200s"), "+OK");
        assert_eq!(client.ask("CONFIG SET restart-delay-max 10s"), "+OK");
        assert_eq!(client.ask("SET a token NX PX 9000"), "+OK");
        // Everything before it is removed, the records of both changes with it.
        assert!(client.ask("BGREWRITEAOF").starts_with('+'));
        client.await_info("aof_rewrites", "1");
        // The bound of all TTLs has fallen with the segments that the changes began; this raises it again.
        assert_eq!(client.ask("SET b token NX PX 9000"), "+OK");
        machine.kill();
        node.crash().await;
        let today = [("appendfsync", "always"), ("restart-delay-max", "10s")];
        // Read before the next start: that has a cap of its own, and may write a checkpoint at once.
        let records = machine.log();
        let (_node, why, left_ms) = restart(&machine, &today).await;
        assert_eq!(why, "unclean stop", "the weaker mode is still known");
        assert!((9_000..10_000).contains(&left_ms), "{left_ms}");
        // A directory that was moved waits for the cap: for the largest that was in force.
        let mut frames = records.frames().collect().unwrap().into_iter();
        let control = frames.find(|frame| frame.kind == kind::CONTROL);
        let control = ControlRecord::decode(kind::CONTROL, &control.unwrap().payload).unwrap();
        let ControlRecord::Control(control) = control else {
            panic!("{control:?}");
        };
        assert_eq!(control.start.cap_ns, 200_000_000_000);
    });
}

#[test]
fn a_configuration_changed_between_crash_and_start_excuses_nothing() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 40000"), "+OK");
        machine.kill();
        node.crash().await;
        let today = [("appendfsync", "always"), ("restart-delay-max", "5s")];
        let (_node, why, left_ms) = restart(&machine, &today).await;
        assert_eq!(why, "unclean stop");
        assert!(left_ms >= 40_000, "{left_ms}");
    });
}

#[test]
fn a_cap_changed_live_covers_or_syncs_what_is_granted_under_it() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("CONFIG SET restart-delay-max 10s"), "+OK");
        assert_eq!(
            client.ask("CONFIG GET restart-delay-max"),
            "[restart-delay-max, 10000]"
        );
        // Beyond the cap: synced, and no delay promised for it.
        assert_eq!(client.ask("SET beyond token NX PX 30000"), "+OK");
        assert_eq!(client.ask("SET within token NX PX 9000"), "+OK");
        let lost = machine.twin();
        lost.lose_power();
        // Raised: now a delay covers it, as long as it takes.
        assert_eq!(client.ask("CONFIG SET restart-delay-max 100s"), "+OK");
        assert_eq!(client.ask("SET covered token NX PX 90000"), "+OK");
        machine.lose_power();
        node.crash().await;
        let (node, _, left_ms) = restart(&lost, &[("trust-fsync", "yes")]).await;
        assert!((9_000..10_000).contains(&left_ms), "{left_ms}");
        assert_eq!(wire(&node).ask("GET beyond"), "token");
        node.stop().await.unwrap();
        let (_node, _, left_ms) = restart(&machine, &[("restart-delay-max", "1s")]).await;
        assert!(left_ms >= 90_000, "{left_ms}");
    });
}

#[test]
fn nothing_is_changed_by_a_refused_config_set() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        for (command, reply) in [
            (
                "CONFIG SET appendfsync always appendfsync no",
                "-ERR CONFIG SET failed (possibly related to argument 'appendfsync') - duplicate parameter",
            ),
            (
                "CONFIG SET appendfsync always port 1",
                "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config: a node listens from \
                 its start on where clients expect it; change the configuration and restart the node",
            ),
            (
                "CONFIG SET appendfsync always nosuch 1",
                "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
            ),
            (
                "CONFIG SET appendfsync",
                "-ERR wrong number of arguments for 'config|set' command",
            ),
            ("CONFIG SET appendfsync always port", "-ERR syntax error"),
        ] {
            assert_eq!(client.ask(command), reply);
        }
        let refused = client.ask("CONFIG SET appendfsync always appendonly no");
        assert!(refused.contains("decided at start"), "{refused}");
        let refused = client.ask("CONFIG SET appendfsync sometimes");
        assert!(refused.contains("everysec, always, no"), "{refused}");
        assert_eq!(client.info("quorlock_appendfsync"), "everysec");
        assert_eq!(
            client.ask("CONFIG SET appendonly yes save "),
            "+OK",
            "it is so already"
        );
        assert_eq!(client.ask("CONFIG SET appendonly yes maxmemory 0"), "+OK");
        let both = "CONFIG SET require-ttl yes appendfsync always";
        assert_eq!(client.ask(both), "+OK");
        assert_eq!(client.info("quorlock_appendfsync"), "always");
        assert!(
            client.ask("SET k v").starts_with("-"),
            "require-ttl is in force"
        );
    });
}

#[test]
fn the_ttl_bound_is_lowered_when_the_log_rotates() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("no").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET long token NX PX 50000"), "+OK");
        // One segment further everything granted in the one before is followed by what says so;
        // two further nothing of 50 s was granted since.
        let value = "v".repeat(1_000_000);
        for _ in 0..40 {
            assert_eq!(client.ask(&format!("SET k {value} PX 2000")), "+OK");
        }
        machine.kill();
        node.crash().await;
        let (node, why, left_ms) = restart(&machine, &[]).await;
        assert_eq!(why, "unclean stop");
        assert!((2_000..2_100).contains(&left_ms), "{left_ms}");
        assert_eq!(wire(&node).ask("GET long"), "token");
    });
}
