//! The wall clock stepped before, while and after a node is down.

use std::time::Duration;

use quorlock_server::Node;

use super::machine::{
    End, MODES, Machine, assert_ends_after, delay_left_ms, in_microseconds, number, run, time_us,
    wire,
};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;
const TEN_YEARS_US: i64 = 87_660 * HOUR_US;
const STEPS_US: [i64; 6] = [
    SECOND_US,
    -SECOND_US,
    HOUR_US,
    -HOUR_US,
    TEN_YEARS_US,
    -TEN_YEARS_US,
];

/// When the wall clock is stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    Before,
    During,
    After,
    Always,
}

/// Every step at all moments together, and the largest at each moment alone.
fn steps() -> impl Iterator<Item = (When, i64)> {
    let together = STEPS_US.map(|step_us| (When::Always, step_us));
    let alone = [When::Before, When::During, When::After]
        .into_iter()
        .flat_map(|when| [TEN_YEARS_US, -TEN_YEARS_US].map(|step_us| (when, step_us)));
    together.into_iter().chain(alone)
}

/// What a client sees of one restart: the delay in ms, and what is left of the long lock then.
async fn restart(mode: &str, end: End, step_us: i64, when: When) -> (u64, i128) {
    let machine = Machine::new();
    let step = |now: When| {
        if when == now || when == When::Always && now != When::Never {
            machine.clock.step_wall(step_us);
        }
    };
    let node = machine.start_mode(mode).await;
    let mut client = wire(&node);
    assert_eq!(client.ask("SET short token NX PX 30000"), "+OK");
    // Longer than any delay covers, so it is synced in every mode and can be seen afterwards.
    assert_eq!(client.ask("SET long token NX PX 600000"), "+OK");
    step(When::Before);
    machine.advance_ms(1_000);
    assert_eq!(client.ask("PTTL short"), ":29000");
    machine.end(node, end).await;
    step(When::During);
    machine.advance_ms(2_000);
    let node = machine.start_mode(mode).await;
    step(When::After);
    let mut client = wire(&node);
    let delay_ms = delay_left_ms(&mut client);
    if delay_ms == 0 {
        assert_eq!(client.ask("PTTL short"), ":27000", "3 s have passed");
        assert_eq!(client.ask("SET short other NX PX 1"), "nil");
    }
    machine.advance_ms(delay_ms);
    node.serving().await.unwrap();
    let left_ms = number(&client.ask("PTTL long"));
    assert_expiretime_fits(&node);
    assert_ends_after(
        &machine,
        &mut client,
        "long",
        u64::try_from(left_ms).unwrap() * 1_000_000,
    );
    (delay_ms, left_ms)
}

/// EXPIRETIME is what TIME will show when the key ends.
fn assert_expiretime_fits(node: &Node) {
    let mut client = wire(node);
    let expected_ms = time_us(&mut client) / 1_000 + number(&client.ask("PTTL long"));
    let shown_ms = number(&client.ask("PEXPIRETIME long"));
    assert!(
        (shown_ms - expected_ms).abs() <= 2,
        "{shown_ms} {expected_ms}"
    );
    let shown = number(&client.ask("EXPIRETIME long"));
    assert!((shown * 1_000 - expected_ms).abs() <= 502, "{shown}");
}

#[test]
fn wall_steps_change_neither_ttl_nor_delay_in_any_mode() {
    run(async {
        for mode in MODES {
            for end in [End::Stopped, End::Killed] {
                let waits = end == End::Killed && mode != "always";
                let delay_ms = if waits { 30_610 } else { 0 };
                let expected = (delay_ms, 597_000 - i128::from(delay_ms));
                let never = restart(mode, end, 0, When::Never).await;
                assert_eq!(never, expected, "{mode} {end:?}");
                for (when, step_us) in steps() {
                    let seen = restart(mode, end, step_us, when).await;
                    assert_eq!(seen, expected, "{mode} {end:?} {step_us} {when:?}");
                }
            }
        }
    });
}

#[test]
fn a_strobing_wall_clock_changes_no_ttl_and_hardly_moves_time() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 100000"), "+OK");
        let before_us = time_us(&mut client);
        machine.clock.strobe_wall(TEN_YEARS_US);
        for round in 1..=50_i128 {
            machine.advance_ms(1_000);
            assert_eq!(number(&client.ask("PTTL a")), 100_000 - round * 1_000);
            let passed_us = time_us(&mut client) - before_us;
            assert!(
                (passed_us - round * 1_000_000).abs() <= round * 10_000,
                "{round}: {passed_us}"
            );
        }
    });
}

/// TIME between two moments: within the drift bound of true time. Over a restart it may be off by
/// what two seconds of slewing come to.
fn assert_goes_on(before_us: i128, after_us: i128, passed: Duration, context: &str) {
    let passed_us = i128::try_from(passed.as_micros()).unwrap();
    let off_us = (after_us - before_us - passed_us).abs();
    let bound_us = passed_us / 100 + 20_000;
    assert!(off_us <= bound_us, "{context}: off by {off_us} us");
    assert!(after_us >= before_us, "{context}: TIME went back");
}

#[test]
fn time_goes_on_over_restarts_of_one_boot_whatever_the_wall_clock_does() {
    run(async {
        for end in [End::Stopped, End::Killed] {
            for step_us in STEPS_US {
                let context = format!("{end:?} {step_us}");
                let machine = Machine::new();
                let node = machine.start_mode("always").await;
                // A machine that has been up for long could follow a step in no time, if what it
                // may follow were counted from its boot.
                machine.advance_ms(30 * 86_400_000);
                let mut last_us = time_us(&mut wire(&node));
                let mut last = machine.clock.true_time();
                machine.end(node, end).await;
                machine.clock.step_wall(step_us);
                let mut goes_on = |time_us: i128, machine: &Machine| {
                    let now = machine.clock.true_time();
                    assert_goes_on(last_us, time_us, now - last, &context);
                    (last_us, last) = (time_us, now);
                };
                machine.advance_ms(500);
                let node = machine.start_mode("always").await;
                goes_on(time_us(&mut wire(&node)), &machine);
                // It follows by one percent, and on from there after the next restart.
                machine.advance_ms(5_000_000);
                goes_on(time_us(&mut wire(&node)), &machine);
                // A write wakes an idle node, which then looks at its clocks.
                assert_eq!(wire(&node).ask("SET any token NX PX 1000"), "+OK");
                machine.await_frames("the wall clock is on record", |frames| {
                    frames.iter().any(|&(kind, _)| kind == WALL)
                });
                machine.end(node, end).await;
                machine.advance_ms(500);
                let node = machine.start_mode("always").await;
                goes_on(time_us(&mut wire(&node)), &machine);
                machine.end(node, end).await;
            }
        }
    });
}

#[test]
fn in_another_boot_time_begins_with_the_wall_clock() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("always").await;
        machine.advance_ms(1_000);
        machine.end(node, End::Stopped).await;
        machine.clock.step_wall(-HOUR_US);
        machine.clock.reboot(Duration::from_secs(3));
        let node = machine.start_mode("always").await;
        let expected_us = 1_790_000_000_000_000 + 1_000_000 - i128::from(HOUR_US);
        assert_eq!(time_us(&mut wire(&node)), expected_us);
        machine.end(node, End::Stopped).await;
    });
}

const WALL: u8 = quorlock_engine::control::kind::WALL;

#[test]
fn times_in_one_pipeline_differ_and_stay_near_the_clock() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        let mut client = wire(&node);
        let before_us = time_us(&mut client);
        let pipeline = "TIME\r\nMULTI\r\nTIME\r\nTIME\r\nEXEC\r\n".repeat(100);
        client.send(pipeline.as_bytes());
        let mut seen = Vec::new();
        for _ in 0..100 {
            let first = client.reply();
            let _queued: [String; 3] = std::array::from_fn(|_| client.reply());
            let both = client.reply();
            let (left, right) = both.trim_matches(['[', ']']).split_once("], [").unwrap();
            seen.extend([&first, left, right].map(in_microseconds));
        }
        assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
        assert_eq!(seen[299], before_us + 300, "one for each question");
        machine.clock.step_wall(-HOUR_US);
        machine.advance_ms(1);
        let after_us = time_us(&mut client);
        assert!(
            after_us > seen[299] && after_us < before_us + 2_000,
            "{after_us}"
        );
    });
}
