//! Absolute times: converted once, on receipt, with the wall clock that TIME shows.

use super::machine::{End, Machine, assert_ends_after, delay_left_ms, number, run, time_us, wire};

const HOUR_US: i64 = 3_600_000_000;

#[test]
fn every_absolute_form_means_what_time_shows() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        // What the wall clock shows is not what TIME shows, and what TIME shows counts.
        machine.clock.step_wall(HOUR_US);
        machine.advance_ms(1_000);
        let now_ms = time_us(&mut client) / 1_000;
        assert_eq!(now_ms, 1_790_000_000_000 + 1_010);
        let at_ms = now_ms + 20_990;
        assert_eq!(at_ms % 1_000, 0);
        let at = at_ms / 1_000;
        assert_eq!(client.ask("SET c t"), "+OK");
        assert_eq!(client.ask("SET d t"), "+OK");
        for (key, command) in [
            ("a", format!("SET a t EXAT {at}")),
            ("b", format!("SET b t PXAT {at_ms}")),
            ("c", format!("EXPIREAT c {at}")),
            ("d", format!("PEXPIREAT d {at_ms}")),
        ] {
            assert!(!client.ask(&command).starts_with('-'), "{command}");
            assert_eq!(client.ask(&format!("PTTL {key}")), ":20990", "{command}");
            assert_eq!(
                client.ask(&format!("PEXPIRETIME {key}")),
                format!(":{at_ms}")
            );
            assert_eq!(client.ask(&format!("EXPIRETIME {key}")), format!(":{at}"));
        }
        machine.clock.step_wall(-9 * HOUR_US);
        assert_ends_after(&machine, &mut client, "a", 20_990_000_000);
        for key in ["b", "c", "d"] {
            assert_eq!(client.ask(&format!("GET {key}")), "nil");
        }
    });
}

#[test]
fn an_absolute_time_that_time_has_passed_deletes_and_does_not_wrap() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        let now_ms = time_us(&mut client) / 1_000;
        for at_ms in [0, 1, now_ms - 1, now_ms] {
            assert_eq!(client.ask("SET a t"), "+OK");
            assert_eq!(client.ask(&format!("PEXPIREAT a {at_ms}")), ":1");
            assert_eq!(client.ask("GET a"), "nil", "{at_ms}");
        }
        assert_eq!(client.ask("SET a t"), "+OK");
        assert_eq!(client.ask(&format!("PEXPIREAT a {}", now_ms + 1)), ":1");
        assert_ends_after(&machine, &mut client, "a", 1_000_000);
    });
}

#[test]
fn an_absolute_expiry_survives_a_restart_as_node_time() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        let at_ms = time_us(&mut client) / 1_000 + 60_000;
        assert_eq!(client.ask(&format!("SET a t PXAT {at_ms}")), "+OK");
        machine.advance_ms(10_000);
        machine.end(node, End::Stopped).await;
        machine.clock.step_wall(HOUR_US);
        machine.advance_ms(10_000);
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        assert_eq!(delay_left_ms(&mut client), 0);
        assert_eq!(client.ask("PTTL a"), ":40000");
        let shown_ms = number(&client.ask("PEXPIRETIME a"));
        assert!((shown_ms - at_ms).abs() <= 1, "{shown_ms} {at_ms}");
        assert_ends_after(&machine, &mut client, "a", 40_000_000_000);
    });
}
