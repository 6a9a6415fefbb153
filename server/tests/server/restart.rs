//! Nodes that stop and start again, on a memory disk and a clock that tests move: what they keep,
//! what they wait for, and what they say about it.

use std::time::Duration;

use crate::machine::said::milliseconds_left;
use crate::machine::{Directives, Machine, run, wire};

const EVERYSEC: Directives<'static> = &[("appendfsync", "everysec")];
const ALWAYS: Directives<'static> = &[("appendfsync", "always")];
const NO_LOG: Directives<'static> = &[("appendonly", "no")];

#[test]
fn a_lock_survives_shutdown_and_restart_with_its_remaining_time() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(EVERYSEC, "SET a token NX PX 20000").await;
        node.stop().await.unwrap();
        machine.advance_ms(5_000);
        let node = machine.start(EVERYSEC).await;
        let mut client = wire(&node);
        assert_eq!(client.ask("GET a"), "token");
        assert_eq!(client.ask("PTTL a"), ":15000");
        assert_eq!(client.ask("SET a other NX PX 20000"), "nil");
        machine.advance_ms(15_000);
        assert_eq!(client.ask("SET a other NX PX 20000"), "+OK");
    });
}

#[test]
fn wall_steps_change_no_ttl_also_across_a_restart() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(EVERYSEC).await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
        for step_us in [
            3_600_000_000,
            -7_200_000_000,
            315_360_000_000_000,
            -1_000_000,
        ] {
            machine.clock.step_wall(step_us);
            assert_eq!(client.ask("PTTL a"), ":20000");
        }
        node.stop().await.unwrap();
        machine.clock.step_wall(-3_600_000_000);
        let node = machine.start(EVERYSEC).await;
        assert_eq!(wire(&node).ask("PTTL a"), ":20000");
    });
}

#[test]
fn after_a_crash_everysec_waits_and_always_serves() {
    run(async {
        for (mode, waits) in [(EVERYSEC, true), (ALWAYS, false)] {
            let machine = Machine::new();
            let node = machine.granting(mode, "SET a token NX PX 10000").await;
            node.crash().await;
            let node = machine.start(mode).await;
            let mut client = wire(&node);
            let reply = client.ask("GET a");
            if waits {
                let rest = reply.strip_prefix("-RESTARTDELAY 10210 ").unwrap();
                let (id, sentence) = rest.split_once(' ').unwrap();
                assert_eq!(id, client.info("quorlock_node_id"));
                assert_eq!(
                    sentence,
                    "this node is in its restart delay and serves no locks for another 10.2 s \
                     (unclean stop)"
                );
                assert_eq!(
                    milliseconds_left(&reply),
                    10_210,
                    "10 s, 2 % of drift, 10 ms"
                );
                assert_eq!(client.info("restart_delay"), "1");
                assert_eq!(client.info("restart_delay_remaining_ms"), "10210");
                assert_eq!(client.info("loading"), "0");
                assert_eq!(client.ask("PING"), "+PONG");
                assert!(client.ask("SCRIPT LOAD return").len() == 40);
                assert!(
                    client.ask("EVAL return 0").starts_with("-"),
                    "scripts wait as well"
                );
                machine.advance_ms(10_209);
                assert!(client.ask("GET a").starts_with("-RESTARTDELAY"));
                machine.advance_ms(2);
                node.serving().await.unwrap();
            }
            assert_eq!(client.ask("SET b token NX PX 1000"), "+OK");
            assert_eq!(client.info("restart_delay"), "0");
        }
    });
}

#[test]
fn neither_a_clean_stop_nor_a_crash_ends_or_prolongs_the_delay() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(EVERYSEC, "SET a token NX PX 10000").await;
        node.crash().await;
        machine.start(EVERYSEC).await.stop().await.unwrap();
        machine.advance_ms(3_000);
        machine.start(EVERYSEC).await.crash().await;
        machine.advance_ms(3_000);
        let node = machine.start(EVERYSEC).await;
        let reply = wire(&node).ask("GET a");
        assert_eq!(milliseconds_left(&reply), 4_210, "{reply}");
        machine.advance_ms(5_000);
        node.serving().await.unwrap();
        node.stop().await.unwrap();
        assert!(
            machine.start(EVERYSEC).await.is_serving(),
            "served and stopped cleanly"
        );
    });
}

#[test]
fn a_clean_stop_without_a_log_waits_out_the_longest_lock() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(NO_LOG).await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
        assert_eq!(client.ask("SET b token NX PX 5000"), "+OK");
        machine.advance_ms(1_000);
        node.stop().await.unwrap();
        let node = machine.start(NO_LOG).await;
        let reply = wire(&node).ask("SET a other NX PX 20000");
        assert_eq!(milliseconds_left(&reply), 19_000, "{reply}");
        machine.advance_ms(19_001);
        node.serving().await.unwrap();
        assert_eq!(wire(&node).ask("SET a other NX PX 20000"), "+OK");
    });
}

#[test]
fn in_another_boot_a_ttl_is_rebased_never_shortened() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(EVERYSEC, "SET a token NX PX 20000").await;
        node.stop().await.unwrap();
        machine.clock.reboot(Duration::from_secs(3));
        machine.advance_ms(10_000);
        let node = machine.start(EVERYSEC).await;
        assert!(node.is_serving(), "a clean stop is clean in any boot");
        assert_eq!(wire(&node).ask("PTTL a"), ":20000");
    });
}

#[test]
fn always_waits_after_the_machine_went_down_unless_fsync_is_trusted() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(ALWAYS, "SET a token NX PX 10000").await;
        node.crash().await;
        machine.clock.reboot(Duration::from_secs(3));
        let trusting = &[("appendfsync", "always"), ("trust-fsync", "yes")];
        let node = machine.start(ALWAYS).await;
        assert!(!node.is_serving());
        // One that is dropped may still be stopping when the next one starts.
        node.stop().await.unwrap();
        machine.advance_ms(62_000);
        let node = machine.start(trusting).await;
        node.serving().await.unwrap();
        assert_eq!(wire(&node).ask("SET c token NX PX 10000"), "+OK");
        node.crash().await;
        machine.clock.reboot(Duration::from_secs(3));
        assert!(machine.start(trusting).await.is_serving());
    });
}

/// The reason why a killed process of a mode weaker than always waits: a file system that is shut down by force and
/// mounted again, or whose write-back failed, has lost what was not synced. The boot is the same, the directory is the
/// same, the log is followed by zeros. (On ext4, by EXT4_IOC_SHUTDOWN and another mount, it came out so.)
#[test]
fn a_killed_process_cannot_be_told_from_a_file_system_that_lost_its_last_writes() {
    run(async {
        for mode in ["everysec", "no"] {
            let mut found = Vec::new();
            for loses_unsynced in [false, true] {
                let machine = Machine::with_power_loss();
                let first = "SET first token NX PX 30000";
                let node = machine.granting(&[("appendfsync", mode)], first).await;
                assert_eq!(wire(&node).ask("SET last token NX PX 30000"), "+OK");
                if loses_unsynced {
                    machine.lose_power_except(true, |_, _| false);
                } else {
                    machine.kill();
                }
                node.crash().await;
                let copied = machine.look().await;
                let mut copy = wire(&copied);
                assert_eq!(copy.ask("GET first"), "token", "{mode}");
                let is_lost = copy.ask("GET last") == "nil";
                assert_eq!(is_lost, loses_unsynced, "{mode}");
                let node = machine.start(&[("appendfsync", mode)]).await;
                let mut client = wire(&node);
                let fields = [
                    "restart_same_boot",
                    "restart_same_directory",
                    "restart_log_whole",
                    "restart_last_stop",
                    "restart_delay_length_ms",
                ];
                found.push(fields.map(|field| client.info(field)));
            }
            assert_eq!(found[0], found[1], "{mode}: a start sees no difference");
            assert_eq!(found[1], ["1", "1", "1", "unclean", "30610"], "{mode}");
        }
    });
}

#[test]
fn the_first_start_of_an_unknown_directory_waits_where_it_is_told_to() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[("first-start", "wait")]).await;
        let reply = wire(&node).ask("SET a token NX PX 1000");
        assert!(reply.contains("empty data directory"), "{reply}");
        assert!(reply.contains("quorlock node init"), "{reply}");
        machine.advance_ms(61_210);
        node.serving().await.unwrap();
        assert_eq!(wire(&node).ask("SET a token NX PX 1000"), "+OK");
    });
}

#[test]
fn a_node_keeps_its_identity_and_counts_its_starts() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(ALWAYS, "SET a token NX PX 10000").await;
        let id = node.id();
        node.stop().await.unwrap();
        let node = machine.start(ALWAYS).await;
        assert_eq!(node.id(), id, "one node over its restarts");
        assert_eq!(node.incarnation(), 2);
        assert_eq!(node.last_stop(), "clean stop");
    });
}
