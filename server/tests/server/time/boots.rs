//! Other boots, other time namespaces, and clocks that go back within one boot: node time resumes
//! at the newest time on record, and a delay is waited in full.

use std::time::Duration;

use quorlock_engine::control::Boot;
use quorlock_server::clock::SettableClock;

use super::machine::{End, MODES, Machine, assert_ends_after, delay_left_ms, number, run, wire};

const NAMESPACE: Boot = Boot([9; 16]);
const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;

/// A name, and what happens to the clocks while the node is down.
type Change = (&'static str, fn(&SettableClock));

/// Ways for the clocks to be others at the next start.
const CHANGES: [Change; 12] = [
    ("boot, uptime 0", |clock| clock.reboot(Duration::ZERO)),
    ("boot, uptime 1 ns", |clock| {
        clock.reboot(Duration::from_nanos(1))
    }),
    ("boot, same uptime", |clock| {
        clock.reboot(Duration::from_secs(1_000));
    }),
    ("boot, uptime a day", |clock| {
        clock.reboot(Duration::from_secs(86_400));
    }),
    ("boot, uptime 40 years", |clock| {
        clock.reboot(Duration::from_secs(40 * 365 * 86_400));
    }),
    ("namespace, same clocks", |clock| {
        clock.enter_namespace(NAMESPACE, 0, 0);
    }),
    ("namespace, a day ahead", |clock| {
        clock.enter_namespace(NAMESPACE, DAY_NS, DAY_NS);
    }),
    ("namespace, a day behind", |clock| {
        clock.enter_namespace(NAMESPACE, -DAY_NS, -DAY_NS);
    }),
    ("raw clock back to 0", |clock| clock.step_raw(i64::MIN)),
    ("raw clock 10 s back", |clock| {
        clock.step_raw(-10 * SECOND_NS)
    }),
    ("boot time back to 0", |clock| clock.step_boottime(i64::MIN)),
    ("boot time a day back, raw clock a day ahead", |clock| {
        clock.step_boottime(-DAY_NS);
        clock.step_raw(DAY_NS);
    }),
];

#[test]
fn ttls_are_rebased_and_never_end_early() {
    run(async {
        for mode in MODES {
            for (name, change) in CHANGES {
                let machine = Machine::new();
                let node = machine.start_mode(mode).await;
                let mut client = wire(&node);
                assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
                machine.advance_ms(4_000);
                machine.end(node, End::Stopped).await;
                change(&machine.clock);
                machine.advance_ms(3_000);
                let node = machine.start_mode(mode).await;
                let mut client = wire(&node);
                assert!(node.is_serving(), "{mode}, {name}: a clean stop is clean");
                // SHUTDOWN was at 4 s. The 3 s while the node was down are given back.
                assert_eq!(client.ask("PTTL a"), ":16000", "{mode}, {name}");
                assert_eq!(client.ask("SET a other NX PX 1"), "nil");
                machine.clock.step_wall(-3_600_000_000);
                assert_ends_after(&machine, &mut client, "a", 16_000_000_000);
            }
        }
    });
}

#[test]
fn after_an_unclean_stop_the_whole_delay_is_waited() {
    let trusting: &[_] = &[("trust-fsync", "yes"), ("restart-delay", "always")];
    run(async {
        for mode in ["always", "everysec"] {
            for (name, change) in CHANGES {
                for (directives, due_ms) in [(trusting, 20_410), (&[], 61_210)] {
                    let machine = Machine::new();
                    let node = machine.start_mode(mode).await;
                    assert_eq!(wire(&node).ask("SET a token NX PX 20000"), "+OK");
                    machine.advance_ms(4_000);
                    machine.end(node, End::Killed).await;
                    change(&machine.clock);
                    machine.advance_ms(3_000);
                    let node = machine.start_mode_with(mode, directives).await;
                    let mut client = wire(&node);
                    assert_eq!(delay_left_ms(&mut client), due_ms, "{mode}, {name}");
                    machine.advance_ms(due_ms - 1);
                    assert_eq!(delay_left_ms(&mut client), 1, "{mode}, {name}");
                }
            }
        }
    });
}

#[test]
fn a_delay_is_waited_anew_in_another_boot_and_not_in_the_same() {
    run(async {
        for (name, change) in CHANGES {
            for end in [End::Stopped, End::Killed] {
                let machine = Machine::new();
                let node = machine.start_mode("everysec").await;
                assert_eq!(wire(&node).ask("SET a token NX PX 20000"), "+OK");
                machine.end(node, End::Killed).await;
                let node = machine.start_mode("everysec").await;
                machine.advance_ms(15_000);
                assert_eq!(delay_left_ms(&mut wire(&node)), 5_410);
                machine.end(node, end).await;
                let node = machine.start_mode("everysec").await;
                assert_eq!(delay_left_ms(&mut wire(&node)), 5_410, "the same boot");
                machine.end(node, end).await;
                change(&machine.clock);
                let node = machine.start_mode("everysec").await;
                // A machine that went down under a run may have lost what that run had promised.
                let due_ms = if end == End::Stopped { 20_410 } else { 61_210 };
                assert_eq!(delay_left_ms(&mut wire(&node)), due_ms, "{name}, {end:?}");
                machine.end(node, end).await;
            }
        }
    });
}

#[test]
fn back_in_the_old_namespace_is_another_clock_again() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_mode("everysec").await;
        assert_eq!(wire(&node).ask("SET a token NX PX 20000"), "+OK");
        let mut node = node;
        let home = quorlock_server::clock::Clock::boot(&*machine.clock);
        for (boot, by_ns) in [
            (NAMESPACE, DAY_NS),
            (home, -DAY_NS),
            (NAMESPACE, -SECOND_NS),
        ] {
            machine.end(node, End::Stopped).await;
            machine.advance_ms(5_000);
            machine.clock.enter_namespace(boot, by_ns, by_ns);
            node = machine.start_mode("everysec").await;
            assert!(node.is_serving());
            assert_eq!(wire(&node).ask("PTTL a"), ":20000", "{by_ns}");
        }
    });
}

#[test]
fn a_clock_that_goes_back_under_a_running_node_ends_nothing_early() {
    run(async {
        for mode in MODES {
            let machine = Machine::new();
            let node = machine.start_mode(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET a token NX PX 20000"), "+OK");
            machine.advance_ms(5_000);
            assert_eq!(client.ask("PTTL a"), ":15000");
            machine.clock.step_raw(-7 * SECOND_NS);
            machine.clock.step_boottime(-7 * SECOND_NS);
            machine.advance_ms(6_000);
            assert_eq!(client.ask("PTTL a"), ":15000", "node time stands still");
            machine.advance_ms(2_000);
            assert_eq!(client.ask("PTTL a"), ":14000", "and goes on");
            // The log knows a newer time than this clock would have it.
            machine.clock.step_raw(-7 * SECOND_NS);
            machine.end(node, End::Stopped).await;
            let node = machine.start_mode(mode).await;
            assert_eq!(wire(&node).ask("PTTL a"), ":14000", "{mode}");
        }
    });
}

#[test]
fn a_node_without_a_log_waits_for_what_it_forgot_on_any_clock() {
    run(async {
        for (name, change) in CHANGES {
            for end in [End::Stopped, End::Killed] {
                let machine = Machine::new();
                let node = machine.start_mode("off").await;
                assert_eq!(wire(&node).ask("SET a token NX PX 20000"), "+OK");
                machine.advance_ms(4_000);
                machine.end(node, end).await;
                change(&machine.clock);
                let node = machine.start_mode("off").await;
                let left_ms = delay_left_ms(&mut wire(&node));
                let due_ms = if end == End::Stopped { 16_000 } else { 61_210 };
                assert_eq!(left_ms, due_ms, "{name}, {end:?}");
            }
        }
    });
}

#[test]
fn power_loss_in_another_boot_gives_back_what_no_record_shows() {
    run(async {
        for mode in MODES {
            let machine = Machine::with_power_loss();
            let node = machine.start_mode(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET short token NX PX 10000"), "+OK");
            assert_eq!(client.ask("SET long token NX PX 600000"), "+OK");
            machine.advance_ms(3_000);
            node.crash().await;
            machine.lose_power_except(true, |_, _| false);
            machine.advance_ms(60_000);
            machine.clock.reboot(Duration::from_secs(5));
            let node = machine.start_mode(mode).await;
            let mut client = wire(&node);
            let left_ms = delay_left_ms(&mut client);
            assert_eq!(left_ms, 61_210, "{mode}");
            machine.advance_ms(left_ms);
            node.serving().await.unwrap();
            let left = number(&client.ask("PTTL long"));
            // At most what it was given, less the delay; at least what was left in truth.
            assert!(
                (597_000 - 61_210..=600_000 - 61_210).contains(&left),
                "{mode} {left}"
            );
        }
    });
}
