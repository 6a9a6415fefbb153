//! The ends of every number: TTLs, absolute times, and clocks where no clock should be.

use quorlock_server::Node;
use quorlock_server::clock::Clock;

use super::machine::{End, Machine, number, run, time_us, wire};

/// Every way to give a time, with the key as `k`.
const FORMS: [&str; 11] = [
    "SET k v EX",
    "SET k v PX",
    "SET k v EXAT",
    "SET k v PXAT",
    "SETEX k",
    "PSETEX k",
    "EXPIRE k",
    "PEXPIRE k",
    "EXPIREAT k",
    "PEXPIREAT k",
    "EXPIRE k GT",
];

/// Edges of the types and units on the way: i64, u64, nanoseconds in u64, years 2262 and 9999.
fn edges() -> Vec<i128> {
    let around: [i128; 16] = [
        0,
        i128::from(i32::MAX),
        i128::from(u32::MAX),
        9_223_372_036,
        9_223_372_036_854,
        9_223_372_036_854_775,
        18_446_744_073,
        18_446_744_073_709,
        18_446_744_073_709_551,
        i128::from(i64::MAX) / 1_000,
        i128::from(i64::MAX),
        i128::from(i64::MIN),
        i128::from(u64::MAX),
        253_402_300_799,
        1_790_000_000,
        1_790_000_000_000,
    ];
    let near = |edge: &i128| [edge - 1, *edge, edge + 1];
    let numbers = around.iter().flat_map(near);
    numbers.flat_map(|number| [number, -number]).collect()
}

/// The time left that such an argument means, however large.
fn meant_ms(form: &str, count: i128, wall_ms: i128) -> i128 {
    let words: Vec<&str> = form.split(' ').collect();
    let unit = match words[0] {
        "SET" => words[3],
        command => command,
    };
    let ms = if unit.starts_with('P') {
        count
    } else {
        count * 1_000
    };
    if unit.ends_with("AT") {
        ms - wall_ms
    } else {
        ms
    }
}

/// Gives every form every edge; what is accepted must be a deadline that holds.
fn try_all(node: &Node, node_ms: i128, context: &str) {
    let mut client = wire(node);
    for form in FORMS {
        for edge in edges() {
            client.ask("SET k v EX 1000");
            let command = match form {
                "EXPIRE k GT" => format!("EXPIRE k {edge} GT"),
                "SETEX k" | "PSETEX k" => format!("{form} {edge} v"),
                form => format!("{form} {edge}"),
            };
            let wall_ms = time_us(&mut client) / 1_000;
            // No deadline is later than Redis's last one, counted from the node's start of time.
            let meant = meant_ms(form, edge, wall_ms).min(LAST_DEADLINE_MS - node_ms);
            let reply = client.ask(&command);
            let left = number(&client.ask("PTTL k"));
            let shown = number(&client.ask("PEXPIRETIME k"));
            let context = format!("{context}: {command}: {reply}, {left} ms left");
            if reply.starts_with('-') {
                let is_expected = reply.contains("invalid expire") || reply.contains("integer");
                assert!(is_expected, "{context}");
                assert!(meant <= 0 || meant > FIVE_HUNDRED_YEARS_MS, "{context}");
            }
            if reply.starts_with('-') || reply == ":0" {
                assert_eq!(left, 1_000_000, "{context}: refused, and done");
            } else if meant <= 0 {
                assert_eq!(left, -2, "{context}");
            } else {
                assert!(
                    (left - meant).abs() <= 1,
                    "{context}, {meant} ms were meant"
                );
            }
            let expected = if left > 0 { wall_ms + left } else { left };
            assert!((shown - expected).abs() <= 1, "{context}: {shown}");
        }
    }
}

#[test]
fn no_time_wraps_whatever_the_clocks_show() {
    run(async {
        let years_us = |years: u64| years * 31_557_600_000_000;
        let walls_us = [
            ("1970", 0),
            ("1970, 1 us", 1),
            ("2026", 1_790_000_000_000_000),
            ("2262", years_us(292)),
            ("2263", years_us(293)),
            ("2600", years_us(630)),
            ("9999", years_us(8_029)),
        ];
        for (name, wall_us) in walls_us {
            let machine = Machine::new();
            machine.clock.set_wall(wall_us);
            let node = machine.start_mode("no").await;
            assert_eq!(time_us(&mut wire(&node)), i128::from(wall_us));
            let node_ms = Clock::raw(&*machine.clock).as_nanos() / 1_000_000;
            try_all(&node, node_ms.into(), name);
        }
    });
}

#[test]
fn a_node_starts_serves_and_restarts_with_clocks_at_their_ends() {
    run(async {
        for raw_ns in [0, 1, u64::MAX / 2, u64::MAX - 3_600_000_000_000] {
            for wall_us in [0, 1, u64::MAX / 2, u64::MAX] {
                let machine = Machine::new();
                machine
                    .clock
                    .reboot(std::time::Duration::from_nanos(raw_ns));
                machine.clock.set_wall(wall_us);
                let mut node = machine.start_mode("everysec").await;
                let mut client = wire(&node);
                assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
                let shown = time_us(&mut client);
                assert_eq!(shown, i128::from(wall_us), "{raw_ns}");
                assert!(number(&client.ask("PEXPIRETIME a")) > 0);
                machine.advance_ms(1_000);
                assert!(time_us(&mut client) >= shown);
                for end in [End::Stopped, End::Killed] {
                    machine.end(node, end).await;
                    machine
                        .clock
                        .reboot(std::time::Duration::from_nanos(raw_ns));
                    node = machine.start_mode("everysec").await;
                    let reply = wire(&node).ask("PTTL a");
                    assert!(
                        reply == ":19000" || reply.starts_with("-RESTARTDELAY"),
                        "{raw_ns} {wall_us}: {reply}"
                    );
                }
            }
        }
    });
}

#[test]
fn deadlines_beyond_the_last_seconds_of_node_time_hold_and_do_not_wrap() {
    run(async {
        let machine = Machine::new();
        machine
            .clock
            .reboot(std::time::Duration::from_nanos(u64::MAX - 5_000_000_000));
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 4000"), "+OK");
        assert_eq!(client.ask("SET b token NX PX 6000"), "+OK");
        assert_eq!(client.ask("PTTL b"), ":6000");
        // So far away deadlines are whole milliseconds, rounded up.
        machine.advance_ms(4_001);
        assert_eq!(client.ask("GET a"), "nil");
        let left = number(&client.ask("PTTL b"));
        assert!((1_999..=2_000).contains(&left), "{left}");
        assert_eq!(client.ask("SET c token NX PX 1001"), "+OK");
        assert_eq!(client.ask("PING"), "+PONG");
        machine.end(node, End::Stopped).await;
    });
}

/// The last deadline, in milliseconds of node time.
const LAST_DEADLINE_MS: i128 = (1 << 63) - 2;

/// Node time holds 584 years.
const FIVE_HUNDRED_YEARS_MS: i128 = 500 * 31_557_600_000;
