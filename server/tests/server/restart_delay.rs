//! The restart delay by table: what a node was told before, how it ended, what it is told now, and
//! how long it therefore waits. On a disk in memory that loses what was not synced, and a clock
//! that tests move.

use crate::machine::said::{milliseconds_left, said};
use crate::machine::{Directives, Machine, run, wire};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Clean,
    /// The process dies.
    Crash,
    /// The process dies and the machine is started again, with all that was written.
    CrashAndReboot,
    /// The machine dies; only what was synced is left.
    PowerLoss,
    /// A clean stop, then another boot.
    CleanAndReboot,
}

use End::{Clean, CleanAndReboot, Crash, CrashAndReboot, PowerLoss};

struct Row {
    what: &'static str,
    before: Directives<'static>,
    end: End,
    after: Directives<'static>,
    stop: &'static str,
    delay_ms: u64,
    cause: &'static str,
}

const EVERYSEC: Directives<'static> = &[("appendfsync", "everysec")];
const ALWAYS: Directives<'static> = &[("appendfsync", "always")];
const NO: Directives<'static> = &[("appendfsync", "no")];
const NO_LOG: Directives<'static> = &[("appendonly", "no")];
const TRUSTING: Directives<'static> = &[("appendfsync", "always"), ("trust-fsync", "yes")];
const TRUSTING_EVERYSEC: Directives<'static> =
    &[("appendfsync", "everysec"), ("trust-fsync", "yes")];
const INSISTING: Directives<'static> = &[("appendfsync", "always"), ("restart-delay", "always")];
const INSISTING_TRUSTING: Directives<'static> = &[
    ("appendfsync", "always"),
    ("restart-delay", "always"),
    ("trust-fsync", "yes"),
];
const OFF: Directives<'static> = &[("restart-delay", "off")];
const FIVE_SECONDS: Directives<'static> = &[("restart-delay", "5s")];
const LOW_CAP: Directives<'static> = &[("restart-delay-max", "1s")];
const HIGH_CAP: Directives<'static> = &[("restart-delay-max", "1h")];
const FAST_CLOCKS: Directives<'static> = &[("clock-drift-percent", "10")];

/// The longest TTL is 10 s: 2 % and 10 ms more.
const P: u64 = 10_210;

/// The machine went down, and its disk is not trusted: the cap of 60 s with 2 % and 10 ms.
const CAP: u64 = 61_210;

const fn row(
    what: &'static str,
    (before, end, after): (Directives<'static>, End, Directives<'static>),
    (stop, delay_ms, cause): (&'static str, u64, &'static str),
) -> Row {
    Row {
        what,
        before,
        end,
        after,
        stop,
        delay_ms,
        cause,
    }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("a clean stop", (EVERYSEC, Clean, EVERYSEC), ("clean", 0, "none")),
    row("clean in any boot", (NO, CleanAndReboot, NO), ("clean", 0, "none")),
    row("clean, whatever the mode is now", (NO, Clean, ALWAYS), ("clean", 0, "none")),
    row("restart-delay always is for unclean stops", (ALWAYS, Clean, INSISTING), ("clean", 0, "none")),
    row("everysec", (EVERYSEC, Crash, EVERYSEC), ("unclean", P, "unclean")),
    row("no", (NO, Crash, NO), ("unclean", P, "unclean")),
    row("everysec, then another boot", (EVERYSEC, CrashAndReboot, EVERYSEC), ("unclean", CAP, "unclean")),
    row("everysec, power lost", (EVERYSEC, PowerLoss, EVERYSEC), ("unclean", CAP, "unclean")),
    row("no, power lost", (NO, PowerLoss, NO), ("unclean", CAP, "unclean")),
    row("the mode on record counts", (EVERYSEC, Crash, ALWAYS), ("unclean", P, "unclean")),
    row("also the stronger one", (ALWAYS, Crash, NO), ("complete", 0, "none")),
    row("always", (ALWAYS, Crash, ALWAYS), ("complete", 0, "none")),
    row("always, another boot", (ALWAYS, CrashAndReboot, ALWAYS), ("power-loss", CAP, "power-loss")),
    row("always, power lost", (ALWAYS, PowerLoss, ALWAYS), ("power-loss", CAP, "power-loss")),
    row("trust-fsync", (ALWAYS, PowerLoss, TRUSTING), ("power-loss", 0, "none")),
    row("trust-fsync, same boot", (ALWAYS, Crash, TRUSTING), ("complete", 0, "none")),
    row("trust-fsync is not for everysec", (EVERYSEC, PowerLoss, TRUSTING), ("unclean", P, "unclean")),
    row("nor in the same boot", (TRUSTING_EVERYSEC, Crash, TRUSTING_EVERYSEC), ("unclean", P, "unclean")),
    row("trust-fsync of the last run is over", (TRUSTING, PowerLoss, ALWAYS), ("power-loss", CAP, "power-loss")),
    row("restart-delay always", (ALWAYS, Crash, INSISTING), ("complete", P, "complete")),
    row("it beats trust-fsync", (ALWAYS, PowerLoss, INSISTING_TRUSTING), ("power-loss", P, "power-loss")),
    row("restart-delay off", (EVERYSEC, Crash, OFF), ("unclean", 0, "none")),
    row("a fixed delay", (EVERYSEC, Crash, FIVE_SECONDS), ("unclean", 5_000, "unclean")),
    row("a fixed delay needs a reason", (EVERYSEC, Clean, FIVE_SECONDS), ("clean", 0, "none")),
    row("cap lowered: P counts", (EVERYSEC, Crash, LOW_CAP), ("unclean", P, "unclean")),
    row("cap raised: P counts", (EVERYSEC, Crash, HIGH_CAP), ("unclean", P, "unclean")),
    row("more drift, more delay", (EVERYSEC, Crash, FAST_CLOCKS), ("unclean", 12_010, "unclean")),
    row("no log, process killed", (NO_LOG, Crash, NO_LOG), ("unclean", P, "unclean")),
    row("no log, power lost", (NO_LOG, PowerLoss, NO_LOG), ("unclean", CAP, "unclean")),
    row("no log, then one", (NO_LOG, Crash, ALWAYS), ("unclean", P, "unclean")),
    row("no log: the longest lock left", (NO_LOG, Clean, NO_LOG), ("clean", 10_000, "clean")),
    row("also with a log now", (NO_LOG, Clean, ALWAYS), ("clean", 10_000, "clean")),
    row("no log, clean, another boot", (NO_LOG, CleanAndReboot, NO_LOG), ("clean", 10_000, "clean")),
];

#[test]
fn how_a_run_ended_and_what_the_log_says_decide_how_long_the_next_one_waits() {
    run(async {
        for row in ROWS {
            let machine = machine_for(row.end);
            let node = machine
                .granting(row.before, "SET a token NX PX 10000")
                .await;
            end(&machine, node, row.end).await;
            let node = machine.start(row.after).await;
            let said = said(&node);
            assert_eq!(
                (said.stop.as_str(), said.left_ms, said.cause.as_str()),
                (row.stop, row.delay_ms, row.cause),
                "{}: {:?}, {:?}, {:?}",
                row.what,
                row.before,
                row.end,
                row.after
            );
            assert_eq!(said.length_ms, row.delay_ms, "{}", row.what);
            if row.delay_ms == 0 {
                continue;
            }
            machine.advance_ms(row.delay_ms - 1);
            assert_eq!(
                milliseconds_left(&wire(&node).ask("GET a")),
                1,
                "{}: not a millisecond early",
                row.what
            );
            machine.advance_ms(2);
            node.serving().await.unwrap();
            assert_eq!(
                wire(&node).ask("SET b other NX PX 10"),
                "+OK",
                "{}",
                row.what
            );
            assert_eq!(wire(&node).info("restart_delay_left_ms"), "0");
        }
    });
}

fn machine_for(end: End) -> Machine {
    if end == PowerLoss {
        Machine::with_power_loss()
    } else {
        Machine::new()
    }
}

async fn end(machine: &Machine, node: quorlock_server::Node, end: End) {
    match end {
        Clean => node.stop().await.unwrap(),
        CleanAndReboot => {
            node.stop().await.unwrap();
            machine.reboot();
        }
        Crash => node.crash().await,
        CrashAndReboot => {
            node.crash().await;
            machine.reboot();
        }
        PowerLoss => {
            node.crash().await;
            machine.lose_power();
        }
    }
}

/// The reply to a grant leaves after the TTL bound that covers it is durable: whatever instant the
/// power fails at, what is on the disk says at least this TTL.
#[test]
fn the_ttl_bound_is_raised_before_the_grant_and_lowered_by_the_next_start() {
    run(async {
        for mode in [EVERYSEC, NO, NO_LOG, ALWAYS] {
            let machine = Machine::with_power_loss();
            let node = machine.start(mode).await;
            let mut client = wire(&node);
            for ttl_ms in [100, 101, 1_000, 1_001, 30_000, 5_000, 60_000] {
                let key = format!("SET k{ttl_ms} token NX PX {ttl_ms}");
                assert_eq!(client.ask(&key), "+OK");
                let left = machine.disk().after_power_loss(false, |_, _| false);
                let later = Machine::rebooted_on(left).start(INSISTING_TRUSTING).await;
                let length_ms = said(&later).length_ms;
                assert!(
                    length_ms >= ttl_ms + ttl_ms * 2 / 100 + 10,
                    "{mode:?}: {ttl_ms} ms granted, {length_ms} ms waited"
                );
            }
            node.stop().await.unwrap();
            if mode == NO_LOG {
                continue;
            }
            // A clean start has nothing to forget; what it grants counts from zero.
            let node = machine.start(mode).await;
            assert_eq!(wire(&node).info("ttl_bound_ms"), "0");
            assert_eq!(wire(&node).ask("SET b token NX PX 700"), "+OK");
            assert_eq!(wire(&node).info("ttl_bound_ms"), "700");
            node.crash().await;
            machine.reboot();
            let trusting = [mode[0], ("trust-fsync", "yes"), ("restart-delay", "always")];
            let node = machine.start(&trusting).await;
            assert_eq!(said(&node).length_ms, 724, "{mode:?}");
            assert_eq!(wire(&node).info("restart_ttl_bound_ms"), "700");
            assert_eq!(wire(&node).info("restart_weakest_mode"), mode[0].1);
        }
    });
}

#[test]
fn a_crash_loop_ends_when_the_first_crash_said_and_another_boot_begins_anew() {
    run(async {
        for later_end in [Crash, Clean, PowerLoss] {
            let machine = machine_for(later_end);
            let node = machine.granting(EVERYSEC, "SET a token NX PX 10000").await;
            node.crash().await;
            let mut left_ms = P;
            for round in 0..8 {
                // The first crash is what is looked at, not what further power losses may cost.
                let node = machine.start(TRUSTING).await;
                let said = said(&node);
                assert_eq!(said.left_ms, left_ms, "{later_end:?} in round {round}");
                assert_eq!(said.length_ms, P, "the whole delay is always the same");
                assert_eq!(said.cause, "unclean", "what made it necessary");
                end(&machine, node, later_end).await;
                machine.advance_ms(1_000);
                left_ms = if later_end == PowerLoss {
                    P
                } else {
                    left_ms - 1_000
                };
            }
        }
    });
}

/// The delay is over, but SERVING is not on record yet: that is not having served.
#[test]
fn a_delay_that_ran_out_while_the_node_was_down_is_over() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(EVERYSEC, "SET a token NX PX 10000").await;
        node.crash().await;
        machine.start(EVERYSEC).await.crash().await;
        machine.advance_ms(P);
        let node = machine.start(EVERYSEC).await;
        let said = said(&node);
        assert_eq!((said.stop.as_str(), said.left_ms), ("never-served", 0));
        assert_eq!(
            wire(&node).ask("SET a other NX PX 10000"),
            "+OK",
            "it has expired"
        );
    });
}
