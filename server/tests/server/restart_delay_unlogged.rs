//! Keys that were recovered by a run without a log of keys, and machines that went down: what the
//! next start owes. On a disk in memory, and a clock that tests move.

use quorlock_testkit::eventually;

use crate::machine::said::said;
use crate::machine::{Directives, Machine, run, wire};

const ALWAYS: Directives<'static> = &[("appendfsync", "always")];
const UNLOGGED: Directives<'static> = &[("appendonly", "no"), ("restart-delay-max", "5s")];

/// A holds a lock for 50 s under a cap of 60 s. The node stops in order, runs on without a log and
/// under a cap of 5 s, and crashes: nobody may have the lock before A's time is over.
#[test]
fn a_cap_lowered_together_with_the_log_shortens_no_lock() {
    for third in [ALWAYS, UNLOGGED, &[("restart-delay-max", "1s")]] {
        run(async {
            let machine = Machine::new();
            let node = machine.granting(ALWAYS, "SET lock A NX PX 50000").await;
            node.stop().await.unwrap();
            let node = machine.start(UNLOGGED).await;
            assert!(node.is_serving(), "it knows the lock");
            assert_eq!(wire(&node).ask("SET lock B NX PX 4000"), "nil");
            machine.advance_ms(20_000);
            node.crash().await;
            let node = machine.start(third).await;
            assert_eq!(said(&node).left_ms, 30_000, "{third:?}");
            machine.advance_ms(29_999);
            let reply = wire(&node).ask("SET lock B NX PX 4000");
            assert!(reply.starts_with("-RESTARTDELAY"), "{reply}");
            machine.advance_ms(2);
            node.serving().await.unwrap();
            assert_eq!(wire(&node).ask("SET lock B NX PX 4000"), "+OK");
        });
    }
}

/// The debt survives a checkpoint, further crashes, another boot and a clean stop inside the delay.
#[test]
fn what_was_recovered_without_a_log_stays_owed_until_it_has_ended() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.granting(ALWAYS, "SET lock A NX PX 50000").await;
        node.stop().await.unwrap();
        let node = machine.start(UNLOGGED).await;
        // Without a log the first checkpoint drops the recovered keys: wait until it is through.
        let mut client = wire(&node);
        eventually("the checkpoint is through", || {
            client.info("aof_rewrites") != "0"
        });
        machine.advance_ms(10_000);
        node.crash().await;
        let node = machine.start(UNLOGGED).await;
        assert_eq!(said(&node).left_ms, 40_000);
        machine.advance_ms(10_000);
        node.stop().await.unwrap();
        let node = machine.start(ALWAYS).await;
        assert_eq!(said(&node).left_ms, 30_000, "a stop inside the delay");
        node.crash().await;
        machine.lose_power();
        let node = machine.start(ALWAYS).await;
        let said = said(&node);
        assert!(said.left_ms >= 40_000, "in full in another boot: {said:?}");
    });
}

/// Releases and clean stops do not have to be waited for.
#[test]
fn a_run_without_a_log_owes_nothing_for_what_it_does_not_hold() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(ALWAYS, "SET lock A NX PX 50000").await;
        node.stop().await.unwrap();
        let node = machine.start(UNLOGGED).await;
        assert_eq!(wire(&node).ask("DEL lock"), ":1");
        node.stop().await.unwrap();
        let node = machine.start(ALWAYS).await;
        assert_eq!(said(&node).left_ms, 0, "it was released before the stop");
        node.stop().await.unwrap();

        // Ended before the run without a log began.
        let machine = Machine::new();
        let node = machine.granting(ALWAYS, "SET lock A NX PX 5000").await;
        node.stop().await.unwrap();
        machine.advance_ms(5_000);
        let node = machine.start(UNLOGGED).await;
        node.crash().await;
        assert_eq!(said(&machine.start(ALWAYS).await).left_ms, 10);
    });
}

/// The disk has acknowledged the bound on TTLs, and then did not keep it.
#[test]
fn another_boot_after_an_unclean_stop_waits_the_cap_unless_the_disk_is_trusted() {
    let promised_ms = 5_000 * 102 / 100 + 10;
    for mode in ["always", "everysec", "no"] {
        run(async {
            let start: Directives<'_> = &[("appendfsync", mode)];
            let trusting: Directives<'_> = &[("appendfsync", mode), ("trust-fsync", "yes")];
            let lower: Directives<'_> = &[("appendfsync", mode), ("restart-delay-max", "1s")];
            let higher: Directives<'_> = &[("appendfsync", mode), ("restart-delay-max", "90s")];
            let rows = [
                (start, 61_210),
                (lower, 61_210),
                (higher, 91_810),
                (trusting, if mode == "always" { 0 } else { promised_ms }),
            ];
            for (directives, length_ms) in rows {
                let machine = Machine::new();
                let node = machine.granting(start, "SET lock A NX PX 5000").await;
                node.crash().await;
                machine.reboot();
                let node = machine.start(directives).await;
                assert_eq!(said(&node).length_ms, length_ms, "{directives:?}");
            }
        });
    }
}

/// A container whose boot id is another one at each start pays only for unclean stops.
#[test]
fn a_boot_id_that_changes_with_each_start_costs_a_clean_stop_nothing() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(ALWAYS, "SET lock A NX PX 50000").await;
        for _ in 0..3 {
            machine.reboot();
        }
        node.stop().await.unwrap();
        for _ in 0..3 {
            machine.reboot();
            let node = machine.start(ALWAYS).await;
            assert_eq!(said(&node).length_ms, 0);
            assert_eq!(wire(&node).ask("GET lock"), "A");
            node.stop().await.unwrap();
        }
    });
}

/// Caps at the ends of what can be configured.
#[test]
fn a_cap_of_a_millisecond_and_of_a_day_delays_by_just_that_and_others_are_refused() {
    for (cap, length_ms) in [("1ms", 12), ("24h", 86_400_000 * 102 / 100 + 10)] {
        run(async {
            let machine = Machine::new();
            let node = machine
                .granting(&[("restart-delay-max", cap)], "SET forever token")
                .await;
            node.crash().await;
            machine.reboot();
            let node = machine.start(&[("restart-delay-max", cap)]).await;
            assert_eq!(said(&node).length_ms, length_ms, "{cap}");
        });
    }
    for cap in ["0", "0ms", "36500d", "-1s", "18446744073709551616"] {
        run(async {
            let refused = Machine::new()
                .try_start(&[("restart-delay-max", cap)])
                .await;
            let text = refused.expect_err(cap).to_string();
            assert!(text.contains("restart-delay-max"), "{text}");
        });
    }
}
