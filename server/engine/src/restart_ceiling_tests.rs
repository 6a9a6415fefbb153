//! Where the fences of a run begin.

use super::*;

/// A row for each way in which fences may have been lost, and for those in which they were not.
#[test]
fn fences_go_on_where_no_durable_data_can_be_lost() {
    let on_record = Ceiling::Known(7);
    let history = History {
        ceiling: on_record,
        ..History::default()
    };
    let uncertain = Ceiling::Uncertain(7);
    let ceiling = |stop, same_boot, whole, trusts_fsync, vouches| {
        let seen = Seen {
            is_same_boot: same_boot,
            is_whole: whole,
            ..seen(1)
        };
        let policy = Policy {
            trusts_fsync,
            vouches_for_first_start: vouches,
            ..policy()
        };
        history.ceiling(stop, &seen, &policy)
    };
    for stop in [Stop::Emptied, Stop::Lost, Stop::Moved] {
        assert_eq!(ceiling(stop, true, true, true, true), uncertain, "{stop:?}");
    }
    assert_eq!(ceiling(Stop::Unknown, true, true, true, false), uncertain);
    assert_eq!(
        ceiling(Stop::Unknown, true, true, false, true),
        Ceiling::NONE
    );
    assert_eq!(
        ceiling(Stop::NeverRan, true, true, false, false),
        Ceiling::NONE
    );
    for stop in [Stop::Clean, Stop::NeverServed] {
        assert_eq!(
            ceiling(stop, false, false, false, false),
            on_record,
            "{stop:?}"
        );
    }
    for stop in [Stop::Complete, Stop::PowerLoss, Stop::Unclean] {
        assert_eq!(ceiling(stop, true, true, false, false), on_record);
        assert_eq!(ceiling(stop, false, true, false, false), uncertain);
        assert_eq!(ceiling(stop, true, false, false, false), uncertain);
        assert_eq!(ceiling(stop, false, false, true, false), on_record);
    }
}
