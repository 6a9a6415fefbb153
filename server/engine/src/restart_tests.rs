//! Traces of the restart rules: log in, verdict out. Each test names the rule it would catch
//! being broken.

use super::*;
use crate::control::{Control, Mode};

#[path = "restart_ceiling_tests.rs"]
mod ceiling;
#[path = "restart_owed_tests.rs"]
mod owed;
#[path = "restart_relocation_tests.rs"]
mod relocation;

const SECOND: u64 = 1_000_000_000;
const BOOT: Boot = Boot([1; 16]);

fn at(seconds: u64) -> NodeTime {
    NodeTime::from_nanos(seconds * SECOND)
}

fn start(durability: Durability, pending: Option<Pending>) -> ControlRecord {
    ControlRecord::Start(facts(durability, pending))
}

fn facts(durability: Durability, pending: Option<Pending>) -> Start {
    Start {
        incarnation: 1,
        boot: BOOT,
        fingerprint: 1,
        durability,
        base: at(0),
        raw: RawTime::ZERO,
        wall_us: 0,
        boottime: BootTime::ZERO,
        pending,
        cap_ns: 60 * SECOND,
        ceiling: Ceiling::NONE,
    }
}

fn mode(durability: Durability) -> ControlRecord {
    ControlRecord::Mode(Mode {
        durability,
        cap_ns: 60 * SECOND,
        is_complete: false,
    })
}

fn history(records: &[(u64, ControlRecord)]) -> History {
    let mut history = History::default();
    for (seconds, record) in records {
        history.record(at(*seconds), record);
    }
    history
}

fn seen(now: u64) -> Seen {
    Seen {
        now: at(now),
        is_same_boot: true,
        is_whole: true,
        is_same_directory: true,
        has_identity: true,
        has_marker: false,
    }
}

fn policy() -> Policy {
    Policy {
        restart_delay: RestartDelay::Auto,
        trusts_fsync: false,
        cap_ns: 60 * SECOND,
        drift_ppm: 10_000,
        first_start_waits: true,
        vouches_for_first_start: false,
    }
}

fn served(durability: Durability) -> Vec<(u64, ControlRecord)> {
    vec![
        (1, start(durability, None)),
        (1, ControlRecord::Serving),
        (2, ControlRecord::Promise(10 * SECOND)),
        (3, ControlRecord::Tick),
    ]
}

fn delay_ns(history: &History, seen: &Seen, policy: &Policy) -> u64 {
    let delay = history.judge(seen, policy).delay;
    delay.map_or(0, |pending| pending.until.as_nanos() - seen.now.as_nanos())
}

#[test]
fn a_clean_stop_needs_no_delay_and_anything_behind_it_does() {
    let mut records = served(Durability::Everysec);
    records.push((4, ControlRecord::Shutdown(None)));
    assert_eq!(history(&records).judge(&seen(5), &policy()).delay, None);
    records.push((4, ControlRecord::Tick));
    assert_eq!(
        delay_ns(&history(&records), &seen(5), &policy()),
        10 * SECOND * 102 / 100 + 10_000_000
    );
    records.pop();
    let torn = Seen {
        is_whole: false,
        ..seen(5)
    };
    assert_eq!(
        history(&records).judge(&torn, &policy()).stop,
        Stop::Unclean
    );
}

#[test]
fn only_always_in_the_same_boot_serves_at_once_after_a_crash() {
    let always = history(&served(Durability::Always));
    assert_eq!(
        always.judge(&seen(5), &policy()),
        RestartVerdict {
            stop: Stop::Complete,
            delay: None
        }
    );
    let insist = Policy {
        restart_delay: RestartDelay::Always,
        ..policy()
    };
    assert!(always.judge(&seen(5), &insist).delay.is_some());

    let other_boot = Seen {
        is_same_boot: false,
        ..seen(5)
    };
    assert_eq!(always.judge(&other_boot, &policy()).stop, Stop::PowerLoss);
    assert!(always.judge(&other_boot, &policy()).delay.is_some());
    let trusting = Policy {
        trusts_fsync: true,
        ..policy()
    };
    assert_eq!(always.judge(&other_boot, &trusting).delay, None);

    for weaker in [Durability::Everysec, Durability::No, Durability::Volatile] {
        assert!(
            history(&served(weaker))
                .judge(&seen(5), &policy())
                .delay
                .is_some()
        );
        let mut mixed = served(Durability::Always);
        mixed.push((4, mode(weaker)));
        mixed.push((5, mode(Durability::Always)));
        assert!(
            history(&mixed).judge(&seen(6), &policy()).delay.is_some(),
            "{weaker:?}"
        );
    }
}

#[test]
fn a_pending_delay_survives_a_clean_stop_and_a_crash_loop_without_growing() {
    let first = history(&served(Durability::Everysec))
        .judge(&seen(5), &policy())
        .delay;
    let mut records = served(Durability::Everysec);
    records.push((5, start(Durability::Everysec, first)));
    // A crash inside the delay.
    assert_eq!(history(&records).judge(&seen(8), &policy()).delay, first);
    // A clean stop inside the delay.
    records.push((8, ControlRecord::Shutdown(first)));
    assert_eq!(history(&records).judge(&seen(9), &policy()).delay, first);
    // In another boot it is waited in full again.
    let other_boot = Seen {
        is_same_boot: false,
        ..seen(9)
    };
    assert!(delay_ns(&history(&records), &other_boot, &policy()) >= 10 * SECOND);
    // Served: gone.
    records.push((16, start(Durability::Everysec, first)));
    records.push((16, ControlRecord::Serving));
    records.push((17, ControlRecord::Shutdown(None)));
    assert_eq!(history(&records).judge(&seen(18), &policy()).delay, None);
}

#[test]
fn a_clean_stop_without_a_log_waits_for_what_it_forgot() {
    let mut records = served(Durability::Volatile);
    let left = Pending {
        until: at(24),
        length_ns: 20 * SECOND,
        cause: Stop::Clean,
    };
    records.push((4, ControlRecord::Shutdown(Some(left))));
    assert_eq!(
        delay_ns(&history(&records), &seen(5), &policy()),
        19 * SECOND
    );
    assert_eq!(history(&records).judge(&seen(24), &policy()).delay, None);
}

#[test]
fn an_empty_directory_is_an_unknown_past_unless_initialised() {
    let empty = History::default();
    let nothing = Seen {
        has_identity: false,
        ..seen(1)
    };
    assert_eq!(empty.judge(&nothing, &policy()).stop, Stop::Unknown);
    assert!(delay_ns(&empty, &nothing, &policy()) >= 60 * SECOND);
    let serves = Policy {
        first_start_waits: false,
        vouches_for_first_start: true,
        ..policy()
    };
    assert_eq!(empty.judge(&nothing, &serves).delay, None);
    // An identity whose log is gone waits whatever first-start says.
    assert!(delay_ns(&empty, &seen(1), &serves) >= 60 * SECOND);
    let created = history(&[(0, ControlRecord::Init)]);
    assert_eq!(
        created.judge(&seen(1), &policy()),
        RestartVerdict {
            stop: Stop::NeverRan,
            delay: None
        }
    );
}

#[test]
fn a_log_back_at_its_beginning_is_no_new_node_where_something_ran() {
    let created = history(&[(0, ControlRecord::Init)]);
    for (has_identity, is_whole) in [(true, true), (true, false), (false, true)] {
        let ran = Seen {
            has_identity,
            is_whole,
            has_marker: true,
            ..seen(1)
        };
        assert_eq!(created.judge(&ran, &policy()).stop, Stop::Emptied);
        assert!(delay_ns(&created, &ran, &policy()) >= 60 * SECOND);
    }
}

#[test]
fn a_moved_directory_waits_the_cap_even_after_a_clean_stop() {
    let mut records = served(Durability::Always);
    records.push((4, ControlRecord::Shutdown(None)));
    let moved = Seen {
        is_same_directory: false,
        ..seen(5)
    };
    assert_eq!(history(&records).judge(&moved, &policy()).stop, Stop::Moved);
    assert!(delay_ns(&history(&records), &moved, &policy()) >= 60 * SECOND);
}

#[test]
fn a_recovered_ttl_bound_above_the_cap_is_waited_in_full() {
    let mut records = served(Durability::Everysec);
    records.push((3, ControlRecord::Promise(300 * SECOND)));
    assert!(delay_ns(&history(&records), &seen(5), &policy()) >= 300 * SECOND);
}

#[test]
fn time_goes_on_in_the_same_boot_and_resumes_in_another() {
    let history = history(&served(Durability::Always));
    let raw = |second| RawTime::from_nanos(second * SECOND);
    let rebased = |is_same_boot, base, raw| Rebased {
        is_same_boot,
        base,
        raw,
    };
    assert_eq!(
        history.rebase(BOOT, raw(9), BootTime::ZERO),
        rebased(true, at(0), raw(0))
    );
    // Another boot, a clock that went back: node time resumes at the newest time on record.
    assert_eq!(
        history.rebase(Boot([2; 16]), raw(9), BootTime::ZERO),
        rebased(false, at(3), raw(9))
    );
    assert_eq!(
        history.rebase(BOOT, raw(1), BootTime::ZERO),
        rebased(false, at(3), raw(1))
    );
}

#[test]
fn the_ttl_bound_rises_in_steps_and_is_lowered_to_what_was_granted_lately() {
    let mut promise = TtlBound::default();
    assert_eq!(promise.raise(10 * SECOND), Some(10 * SECOND));
    assert_eq!(promise.raise(9_500_000_000), None);
    assert_eq!(promise.raise(10 * SECOND + 1), Some(11 * SECOND));
    assert_eq!(
        promise.lower(),
        None,
        "the longest grant since is still 11 s"
    );
    promise.raise(250_000_000);
    assert_eq!(promise.lower(), Some(300_000_000));
    assert_eq!(promise.on_record_ns, 300_000_000);
    assert_eq!(promise.raise(u64::MAX), Some(u64::MAX));
}

#[test]
fn a_delay_keeps_its_cause_over_stops_and_ends_when_the_operator_vouches_for_an_unknown_past() {
    let nothing = Seen {
        has_identity: false,
        ..seen(1)
    };
    let unknown = History::default().judge(&nothing, &policy()).delay;
    let vouching = Policy {
        first_start_waits: false,
        vouches_for_first_start: true,
        ..policy()
    };
    let stopped = |pending| {
        history(&[
            (1, start(Durability::Everysec, pending)),
            (2, ControlRecord::Shutdown(pending)),
        ])
    };
    let again = stopped(unknown).judge(&seen(3), &policy());
    assert_eq!(again.stop, Stop::Clean);
    assert_eq!(again.delay, unknown, "a clean stop does not end it");
    assert_eq!(again.delay.map(|delay| delay.cause), Some(Stop::Unknown));
    assert_eq!(stopped(unknown).judge(&seen(3), &vouching).delay, None);
    // `auto` on a loopback address serves an empty directory, but vouches for nothing.
    let loopback = Policy {
        first_start_waits: false,
        ..policy()
    };
    assert_eq!(stopped(unknown).judge(&seen(3), &loopback).delay, unknown);
    // Nobody can vouch for a node that did run.
    let unclean = history(&served(Durability::Everysec))
        .judge(&seen(5), &policy())
        .delay;
    assert_eq!(stopped(unclean).judge(&seen(6), &vouching).delay, unclean);
}

#[test]
fn a_weaker_mode_counts_until_a_record_says_that_all_it_revealed_is_synced() {
    let complete = |durability| {
        ControlRecord::Mode(Mode {
            durability,
            cap_ns: 60 * SECOND,
            is_complete: true,
        })
    };
    let mut records = served(Durability::Everysec);
    records.push((4, mode(Durability::Always)));
    let raised = history(&records);
    assert_eq!(raised.judge(&seen(6), &policy()).stop, Stop::Unclean);
    records.push((5, complete(Durability::Always)));
    let synced = history(&records);
    assert_eq!(synced.judge(&seen(6), &policy()).stop, Stop::Complete);
    // And it sinks again.
    records.push((5, mode(Durability::No)));
    let lowered = history(&records);
    assert_eq!(lowered.judge(&seen(6), &policy()).stop, Stop::Unclean);
    // A complete sync of a mode that syncs too late proves nothing.
    records.push((6, complete(Durability::Everysec)));
    let weak = history(&records);
    assert_eq!(weak.judge(&seen(7), &policy()).stop, Stop::Unclean);
}

#[test]
fn a_cap_lowered_in_the_configuration_does_not_shorten_what_a_moved_node_waits() {
    let moved = Seen {
        is_same_directory: false,
        ..seen(5)
    };
    let lower = Policy {
        cap_ns: 10 * SECOND,
        ..policy()
    };
    let served = served(Durability::Always);
    assert!(delay_ns(&history(&served), &moved, &lower) >= 60 * SECOND);
    // Raised while it ran, lowered again: the largest since the start counts.
    let mut raised = served.clone();
    for cap in [300, 5] {
        raised.push((
            4,
            ControlRecord::Mode(Mode {
                durability: Durability::Always,
                cap_ns: cap * SECOND,
                is_complete: true,
            }),
        ));
    }
    assert!(delay_ns(&history(&raised), &moved, &lower) >= 300 * SECOND);
    // So does a cap raised between crash and start, and a checkpoint keeps it.
    let higher = Policy {
        cap_ns: 600 * SECOND,
        ..policy()
    };
    assert!(delay_ns(&history(&raised), &moved, &higher) >= 600 * SECOND);
    raised.push((
        5,
        ControlRecord::Control(Control {
            start: Start {
                cap_ns: 300 * SECOND,
                ..facts(Durability::Always, None)
            },
            serving: true,
            weakest: Durability::Always,
            ttl_bound_ns: 0,
        }),
    ));
    assert!(delay_ns(&history(&raised), &moved, &lower) >= 300 * SECOND);
    // A log of a version that did not record the cap leaves it to the configuration.
    let mut old = served;
    old[0].1 = ControlRecord::Start(Start {
        cap_ns: 0,
        ..facts(Durability::Always, None)
    });
    let wait = delay_ns(&history(&old), &moved, &lower);
    assert_eq!(wait, lower.stretch(10 * SECOND));
}

#[test]
fn a_repaired_node_waits_for_the_longest_ttl_that_may_be_gone() {
    let mut records = served(Durability::Always);
    records.push((4, ControlRecord::Shutdown(None)));
    records.push((4, ControlRecord::Lost(20 * SECOND)));
    let repaired = history(&records);
    let verdict = repaired.judge(&seen(5), &policy());
    assert_eq!(verdict.stop, Stop::Lost);
    // The cap in force was longer than what the repair could read.
    assert_eq!(
        delay_ns(&repaired, &seen(5), &policy()),
        policy().stretch(60 * SECOND)
    );
    let lower = Policy {
        cap_ns: SECOND,
        ..policy()
    };
    assert!(delay_ns(&repaired, &seen(5), &lower) >= 60 * SECOND);
    records.push((4, ControlRecord::Lost(300 * SECOND)));
    records.push((4, ControlRecord::Lost(20 * SECOND)));
    assert!(delay_ns(&history(&records), &seen(5), &lower) >= 300 * SECOND);
    // Neither a trusted disk nor the same boot makes up for what was cut off, and a log of
    // nothing else is no new node.
    let trusting = Policy {
        trusts_fsync: true,
        vouches_for_first_start: true,
        first_start_waits: false,
        ..lower
    };
    let alone = history(&[(0, ControlRecord::Lost(7 * SECOND))]);
    let nothing = Seen {
        has_identity: false,
        ..seen(1)
    };
    assert_eq!(alone.judge(&nothing, &trusting).stop, Stop::Lost);
    assert!(delay_ns(&alone, &nothing, &trusting) >= 7 * SECOND);
}

#[test]
fn a_loss_is_owed_over_crashes_and_clean_stops_until_the_node_serves() {
    let mut records = served(Durability::Always);
    records.push((4, ControlRecord::Lost(20 * SECOND)));
    let owed = history(&records).judge(&seen(5), &policy()).delay;
    assert_eq!(owed.map(|delay| delay.cause), Some(Stop::Lost));
    records.push((5, start(Durability::Everysec, owed)));
    // A crash inside the delay neither ends nor renews it.
    let crashed = history(&records);
    assert_eq!(crashed.judge(&seen(9), &policy()).delay, owed);
    // A crash of the machine has it waited in full, and the reason stays.
    let other_boot = Seen {
        is_same_boot: false,
        ..seen(9)
    };
    let again = crashed.judge(&other_boot, &policy());
    assert_eq!(again.delay.map(|delay| delay.cause), Some(Stop::Lost));
    assert!(delay_ns(&crashed, &other_boot, &policy()) >= 60 * SECOND);
    // Also where something else makes it longer.
    let elsewhere = Seen {
        is_same_directory: false,
        ..other_boot
    };
    let higher = Policy {
        cap_ns: 600 * SECOND,
        ..policy()
    };
    let longer = crashed.judge(&elsewhere, &higher).delay;
    assert_eq!(longer.map(|delay| delay.cause), Some(Stop::Lost));
    assert!(delay_ns(&crashed, &elsewhere, &higher) >= 600 * SECOND);
    // Nor does a clean stop.
    records.push((9, ControlRecord::Shutdown(owed)));
    assert_eq!(history(&records).judge(&seen(10), &policy()).delay, owed);
    // A start that waits for nothing, as an experiment, does not settle it either.
    let mut experiment = records.clone();
    experiment.truncate(5);
    experiment.push((5, start(Durability::Everysec, None)));
    let judged = history(&experiment).judge(&seen(6), &policy());
    assert_eq!(judged.stop, Stop::Lost);
    // Served: settled.
    records.push((70, start(Durability::Everysec, owed)));
    records.push((70, ControlRecord::Serving));
    records.push((71, ControlRecord::Shutdown(None)));
    assert_eq!(history(&records).judge(&seen(72), &policy()).delay, None);
}
