//! What is owed beside the bound on record: after another boot, for keys that were not logged, and where
//! two delays meet.

use super::*;

#[test]
fn of_two_delays_the_one_that_ends_last_is_the_reason() {
    let pending = |seconds, cause| Pending {
        until: at(seconds),
        length_ns: seconds * SECOND,
        cause,
    };
    for (earlier, latest, cause) in [
        (20, 10, Stop::Unclean),
        (10, 20, Stop::Moved),
        (20, 20, Stop::Moved),
    ] {
        let both = later(
            Some(pending(earlier, Stop::Unclean)),
            Some(pending(latest, Stop::Moved)),
        );
        assert_eq!(both, Some(pending(20, cause)));
    }
}

/// The disk of a machine that went down may have lied about that run, its bound on TTLs included.
#[test]
fn another_boot_after_an_unclean_stop_covers_the_cap_unless_the_disk_is_trusted() {
    let other_boot = Seen {
        is_same_boot: false,
        ..seen(5)
    };
    let trusting = Policy {
        trusts_fsync: true,
        ..policy()
    };
    let unclean = history(&served(Durability::Everysec));
    let [cap, promise] = [60, 10].map(|seconds| policy().stretch(seconds * SECOND));
    assert_eq!(delay_ns(&unclean, &seen(5), &policy()), promise);
    assert_eq!(delay_ns(&unclean, &other_boot, &policy()), cap);
    assert_eq!(delay_ns(&unclean, &other_boot, &trusting), promise);
}

#[test]
fn recovered_keys_that_were_not_logged_are_waited_out_to_their_end() {
    let mut records = served(Durability::Volatile);
    records.push((3, ControlRecord::Owed(at(500))));
    let owing = history(&records);
    let copied = Seen {
        is_same_directory: false,
        ..seen(5)
    };
    let other_boot = Seen {
        is_same_boot: false,
        ..seen(5)
    };
    for seen in [seen(5), copied, other_boot] {
        let delay = owing.judge(&seen, &policy()).delay;
        assert_eq!(
            delay.map(|pending| pending.until),
            Some(at(500)),
            "{seen:?}"
        );
    }
    let shorter = policy().stretch(10 * SECOND);
    assert_eq!(delay_ns(&owing, &seen(495), &policy()), shorter);
}
