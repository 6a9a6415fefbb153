//! What a node owes whose log was repaired, because data is gone that was durable.

use super::*;

#[test]
fn a_repaired_node_waits_for_the_longest_ttl_that_may_be_gone() {
    let mut records = served(Durability::Always);
    records.push((4, Record::Shutdown(None)));
    records.push((4, Record::Lost(20 * SECOND)));
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
    records.push((4, Record::Lost(300 * SECOND)));
    records.push((4, Record::Lost(20 * SECOND)));
    assert!(delay_ns(&history(&records), &seen(5), &lower) >= 300 * SECOND);
    // Neither a trusted disk nor the same boot makes up for what was cut off, and a log of
    // nothing else is no new node.
    let trusting = Policy {
        trusts_fsync: true,
        vouches_for_first_start: true,
        first_start_waits: false,
        ..lower
    };
    let alone = history(&[(0, Record::Lost(7 * SECOND))]);
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
    records.push((4, Record::Lost(20 * SECOND)));
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
    records.push((9, Record::Shutdown(owed)));
    assert_eq!(history(&records).judge(&seen(10), &policy()).delay, owed);
    // A start that waits for nothing, as an experiment, does not settle it either.
    let mut experiment = records.clone();
    experiment.truncate(5);
    experiment.push((5, start(Durability::Everysec, None)));
    let judged = history(&experiment).judge(&seen(6), &policy());
    assert_eq!(judged.stop, Stop::Lost);
    // Served: settled.
    records.push((70, start(Durability::Everysec, owed)));
    records.push((70, Record::Serving));
    records.push((71, Record::Shutdown(None)));
    assert_eq!(history(&records).judge(&seen(72), &policy()).delay, None);
}
