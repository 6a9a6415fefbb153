//! What a release and an adoption mean for a restart.

use super::*;
use crate::relocation::Adoption;

const DIGEST: [u8; 32] = [9; 32];

fn adopted(is_proven: bool) -> ControlRecord {
    ControlRecord::Adopted(Adoption {
        incarnation: 44,
        fingerprint: 5,
        is_proven,
    })
}

/// A run that waits in no delay, or in this one, stops cleanly, and is released.
fn released(pending: Option<Pending>) -> Vec<(u64, ControlRecord)> {
    let mut records = served(Durability::Everysec);
    records.push((4, ControlRecord::Shutdown(pending)));
    records.push((4, ControlRecord::Released(DIGEST)));
    records
}

#[test]
fn an_adoption_with_its_receipt_is_a_clean_stop_in_the_new_place() {
    let mut records = released(None);
    records.push((4, adopted(true)));
    let moved = history(&records);
    let start = moved.start.expect("it has run");
    assert_eq!((start.incarnation, start.fingerprint), (44, 5));
    let away = Seen {
        is_same_boot: false,
        ..seen(5)
    };
    let verdict = moved.judge(&away, &policy());
    assert_eq!((verdict.stop, verdict.delay), (Stop::Clean, None));
    assert_eq!(
        moved.ceiling(verdict.stop, &away, &policy()),
        Ceiling::NONE,
        "no fence was lost"
    );
    // A copy of the adopted directory is one as any other.
    let copied = Seen {
        is_same_directory: false,
        ..away
    };
    assert_eq!(moved.judge(&copied, &policy()).stop, Stop::Moved);
    // Behind it anything is as ever.
    records.push((5, ControlRecord::Tick));
    assert_eq!(
        history(&records).judge(&away, &policy()).stop,
        Stop::Unclean
    );
}

#[test]
fn without_its_receipt_an_adoption_waits_until_it_has_served() {
    let mut records = released(None);
    records.push((4, adopted(false)));
    let unproven = history(&records);
    assert_eq!(unproven.judge(&seen(5), &policy()).stop, Stop::Moved);
    assert!(delay_ns(&unproven, &seen(5), &policy()) >= 60 * SECOND);
    records.push((6, start(Durability::Everysec, None)));
    records.push((6, ControlRecord::Serving));
    records.push((7, ControlRecord::Shutdown(None)));
    assert_eq!(
        history(&records).judge(&seen(8), &policy()).stop,
        Stop::Clean
    );
}

#[test]
fn a_release_that_nobody_has_adopted_is_no_clean_stop_whatever_follows() {
    let mut records = released(None);
    for more in [None, Some(start(Durability::Always, None))] {
        records.extend(more.map(|record| (6, record)));
        let history = history(&records);
        assert_eq!(history.relocation, Relocation::Released(DIGEST));
        assert_eq!(history.judge(&seen(7), &policy()).stop, Stop::Moved);
    }
}

/// By chance another machine's clocks may continue those of the first.
#[test]
fn no_time_passes_in_a_move_whatever_the_clocks_say() {
    let mut records = released(None);
    records.push((4, adopted(true)));
    let moved = history(&records);
    let raw = RawTime::from_nanos(900 * SECOND);
    let rebased = Rebased {
        is_same_boot: false,
        base: at(4),
        raw,
    };
    assert_eq!(moved.rebase(BOOT, raw, BootTime::ZERO), rebased);
}

/// A node that was stopped inside its delay waits it out where it was moved to, from its beginning.
#[test]
fn a_pending_delay_moves_with_the_directory() {
    let pending = Pending {
        until: at(20),
        length_ns: 30 * SECOND,
        cause: Stop::Unclean,
    };
    let mut records = released(Some(pending));
    records.push((4, adopted(true)));
    let away = Seen {
        is_same_boot: false,
        ..seen(5)
    };
    assert_eq!(delay_ns(&history(&records), &away, &policy()), 30 * SECOND);
}
