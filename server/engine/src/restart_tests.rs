//! Traces of the restart rules: log in, verdict out. Each test names the rule it would catch
//! being broken.

use super::*;

const SECOND: u64 = 1_000_000_000;
const BOOT: Boot = Boot([1; 16]);

fn at(seconds: u64) -> NodeTime {
    NodeTime::from_nanos(seconds * SECOND)
}

fn start(durability: Durability, pending: Option<Pending>) -> Record {
    Record::Start(Start {
        incarnation: 1,
        boot: BOOT,
        place: 1,
        durability,
        base: at(0),
        raw_ns: 0,
        wall_us: 0,
        boottime_ns: 0,
        pending,
    })
}

fn history(records: &[(u64, Record)]) -> History {
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
        is_same_place: true,
        has_identity: true,
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

fn served(durability: Durability) -> Vec<(u64, Record)> {
    vec![
        (1, start(durability, None)),
        (1, Record::Serving),
        (2, Record::Promise(10 * SECOND)),
        (3, Record::Tick),
    ]
}

fn delay_ns(history: &History, seen: &Seen, policy: &Policy) -> u64 {
    let delay = history.judge(seen, policy).delay;
    delay.map_or(0, |pending| pending.until.as_nanos() - seen.now.as_nanos())
}

#[test]
fn a_clean_stop_needs_no_delay_and_anything_behind_it_does() {
    let mut records = served(Durability::Everysec);
    records.push((4, Record::Shutdown(None)));
    assert_eq!(history(&records).judge(&seen(5), &policy()).delay, None);
    records.push((4, Record::Tick));
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
        Verdict {
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
        mixed.push((4, Record::Mode(weaker)));
        mixed.push((5, Record::Mode(Durability::Always)));
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
    records.push((8, Record::Shutdown(first)));
    assert_eq!(history(&records).judge(&seen(9), &policy()).delay, first);
    // In another boot it is waited in full again.
    let other_boot = Seen {
        is_same_boot: false,
        ..seen(9)
    };
    assert!(delay_ns(&history(&records), &other_boot, &policy()) >= 10 * SECOND);
    // Served: gone.
    records.push((16, start(Durability::Everysec, first)));
    records.push((16, Record::Serving));
    records.push((17, Record::Shutdown(None)));
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
    records.push((4, Record::Shutdown(Some(left))));
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
    let created = history(&[(0, Record::Init)]);
    assert_eq!(
        created.judge(&seen(1), &policy()),
        Verdict {
            stop: Stop::NeverRan,
            delay: None
        }
    );
}

#[test]
fn a_moved_directory_waits_the_cap_even_after_a_clean_stop() {
    let mut records = served(Durability::Always);
    records.push((4, Record::Shutdown(None)));
    let moved = Seen {
        is_same_place: false,
        ..seen(5)
    };
    assert_eq!(history(&records).judge(&moved, &policy()).stop, Stop::Moved);
    assert!(delay_ns(&history(&records), &moved, &policy()) >= 60 * SECOND);
}

#[test]
fn a_recovered_promise_above_the_cap_is_waited_in_full() {
    let mut records = served(Durability::Everysec);
    records.push((3, Record::Promise(300 * SECOND)));
    assert!(delay_ns(&history(&records), &seen(5), &policy()) >= 300 * SECOND);
}

#[test]
fn time_goes_on_in_the_same_boot_and_resumes_in_another() {
    let history = history(&served(Durability::Always));
    assert_eq!(history.rebase(BOOT, 9 * SECOND), (true, at(0), 0));
    // Another boot, a clock that went back: node time resumes at the newest time on record.
    assert_eq!(
        history.rebase(Boot([2; 16]), 9 * SECOND),
        (false, at(3), 9 * SECOND)
    );
    assert_eq!(history.rebase(BOOT, SECOND), (false, at(3), SECOND));
}

#[test]
fn the_promise_rises_in_steps_and_sinks_to_what_was_granted_lately() {
    let mut promise = Promise::default();
    assert_eq!(promise.grant(10 * SECOND), Some(10 * SECOND));
    assert_eq!(promise.grant(9_500_000_000), None);
    assert_eq!(promise.grant(10 * SECOND + 1), Some(11 * SECOND));
    assert_eq!(
        promise.sink(),
        None,
        "the longest grant since is still 11 s"
    );
    promise.grant(250_000_000);
    assert_eq!(promise.sink(), Some(300_000_000));
    assert_eq!(promise.on_record_ns, 300_000_000);
    assert_eq!(promise.grant(u64::MAX), Some(u64::MAX));
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
            (2, Record::Shutdown(pending)),
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
