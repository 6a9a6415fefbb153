//! Clocks that run wrong: steered by a time daemon, detuned by their crystal, stopped by suspend.

use std::time::Duration;

use super::machine::{
    End, MODES, Machine, assert_ends_after, delay_left_ms, number, run, time_us, wire,
};

/// What chrony steers by at most.
const STEERED_PPM: i32 = 83_333;

#[test]
fn steering_that_changes_its_sign_changes_no_ttl() {
    run(async {
        for mode in MODES {
            let machine = Machine::new();
            let node = machine.start_mode(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET a token NX PX 50000"), "+OK");
            for round in 1..=40_i128 {
                let sign = if round % 2 == 0 { 1 } else { -1 };
                machine.clock.steer(sign * STEERED_PPM);
                machine.advance_ms(1_000);
                assert_eq!(number(&client.ask("PTTL a")), 50_000 - round * 1_000);
            }
            assert_ends_after(&machine, &mut client, "a", 10_000_000_000);
        }
    });
}

#[test]
fn steering_across_a_restart_changes_neither_ttl_nor_delay() {
    run(async {
        for ppm in [STEERED_PPM, -STEERED_PPM] {
            for end in [End::Stopped, End::Killed] {
                let machine = Machine::new();
                machine.clock.steer(ppm);
                let node = machine.start_mode("everysec").await;
                let mut client = wire(&node);
                assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
                assert_eq!(client.ask("SET long token NX PX 600000"), "+OK");
                machine.advance_ms(5_000);
                machine.end(node, end).await;
                machine.clock.steer(-ppm);
                machine.advance_ms(5_000);
                let node = machine.start_mode("everysec").await;
                let mut client = wire(&node);
                let due_ms = if end == End::Killed { 20_410 } else { 0 };
                assert_eq!(delay_left_ms(&mut client), due_ms);
                machine.clock.steer(ppm);
                machine.advance_ms(due_ms);
                node.serving().await.unwrap();
                let left = 590_000 - due_ms;
                assert_eq!(client.ask("PTTL long"), format!(":{left}"));
            }
        }
    });
}

#[test]
fn a_suspended_node_keeps_locks_longer_also_when_steered_afterwards() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
        let before_us = time_us(&mut client);
        machine.clock.suspend(Duration::from_secs(3_600));
        machine.clock.steer(STEERED_PPM);
        machine.advance_ms(6_000);
        machine.clock.suspend(Duration::from_secs(1));
        machine.clock.steer(-STEERED_PPM);
        machine.advance_ms(6_000);
        assert_eq!(client.ask("PTTL a"), ":8000");
        let passed_us = time_us(&mut client) - before_us;
        assert_eq!(passed_us, 3_613_000_000, "TIME counts what was slept");
        machine.end(node, End::Stopped).await;
        machine.clock.suspend(Duration::from_secs(60));
        let node = machine.start_mode("everysec").await;
        assert_ends_after(&machine, &mut wire(&node), "a", 8_000_000_000);
    });
}

#[test]
fn a_delay_outlasts_forgotten_locks_on_clocks_within_the_drift_bound() {
    run(async {
        for ppm in [10_000, 0, -10_000] {
            let machine = Machine::new();
            let node = machine.start_mode("everysec").await;
            machine.clock.detune_raw(ppm);
            let granted = machine.clock.true_time();
            assert_eq!(wire(&node).ask("SET a token NX PX 50000"), "+OK");
            machine.end(node, End::Killed).await;
            machine.clock.reboot(Duration::from_secs(9));
            let node = machine.start_mode("everysec").await;
            let mut client = wire(&node);
            while delay_left_ms(&mut client) > 0 {
                machine.advance_ms(10);
            }
            let waited = machine.clock.true_time() - granted;
            assert!(waited > Duration::from_secs(50), "{ppm}: {waited:?}");
        }
    });
}

#[test]
fn on_a_clock_that_stands_still_nothing_ends() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 1000"), "+OK");
        machine.clock.detune_raw(-1_000_000);
        machine.advance_ms(3_600_000);
        assert_eq!(client.ask("PTTL a"), ":1000");
        machine.end(node, End::Killed).await;
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        machine.advance_ms(3_600_000);
        assert_eq!(delay_left_ms(&mut client), 1_030);
        machine.clock.detune_raw(0);
        machine.advance_ms(1_030);
        node.serving().await.unwrap();
        assert_eq!(client.ask("GET a"), "nil");
    });
}
