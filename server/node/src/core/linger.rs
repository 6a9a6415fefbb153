//! Lingering between two long syncs: when the next one begins, so that clients that wait for each reply before
//! they ask again share it.
//!
//! When a sync ends, its clients are answered and come back within microseconds. If the next sync has begun by
//! then, they wait for two: clients fall into two halves, each of which waits for the other's sync. So the next
//! one begins when those just answered are back. The first of them is waited for half a sync at the most, since all replies
//! are sent before one more request is read. A quarter of a sync after the first the next sync begins all the same unless a
//! third are back: clients that ask at times of their own do not come back so soon, and are not waited for again for a while.
//! Else it waits on for as long as somebody comes back every eighth of a sync, and for one sync at the most (ADR 10).
//! PostgreSQL's `commit_delay` (with `commit_siblings`) is the same idea with a fixed time.

use quorlock_engine::RawTime;

use crate::core::back_off::BackOff;

/// What the log thread waits for before it begins the next commit, counted over all workers.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    wait: Option<LingerWindow>,
    /// From waiting for nothing.
    back_off: BackOff,
}

/// Raw-clock readings at which the first and the last of some replies were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedRaw {
    pub(crate) first: RawTime,
    pub(crate) last: RawTime,
}

#[derive(Debug)]
struct LingerWindow {
    /// How many writers the last sync answered.
    answered: usize,
    /// How many waited for the next one before those.
    ahead: usize,
    /// How many are back, and when the first and the last of them came.
    returned: usize,
    returned_raw: Option<AskedRaw>,
    ended_raw: RawTime,
    sync_ns: u64,
}

impl LingerWindow {
    fn is_worthwhile(&self) -> bool {
        self.returned.saturating_mul(WORTHWHILE_PART) >= self.answered
    }

    /// When the next sync begins unless somebody comes back before.
    fn until_raw(&self) -> RawTime {
        let Some(returned) = self.returned_raw else {
            return self.ended_raw.plus_nanos(self.sync_ns / 2);
        };
        let quarter = returned.first.plus_nanos(self.sync_ns / 4);
        let until = if self.is_worthwhile() {
            quarter.max(returned.last.plus_nanos(self.sync_ns / 8))
        } else {
            quarter
        };
        until.min(self.latest_raw())
    }

    fn latest_raw(&self) -> RawTime {
        self.ended_raw.plus_nanos(self.sync_ns)
    }
}

impl Linger {
    /// A sync that takes so long has ended then. It answered so many writers, and so many others wait for the next.
    pub(crate) fn begin(
        &mut self,
        answered: usize,
        ahead: usize,
        ended_raw: RawTime,
        sync_ns: u64,
    ) {
        self.wait = None;
        if answered < ANSWERED_MIN || self.back_off.passes_over() {
            return;
        }
        self.wait = Some(LingerWindow {
            answered,
            ahead,
            returned: 0,
            returned_raw: None,
            ended_raw,
            sync_ns,
        });
    }

    /// For how many nanoseconds the next sync is put off, with so many writers waiting for it now, those that
    /// came since the last one ended at `asked`; `None` where it is to begin. Then it is not put off again before [`Linger::begin`].
    pub(crate) fn left_ns(
        &mut self,
        waiting: usize,
        asked: Option<AskedRaw>,
        now_raw: RawTime,
    ) -> Option<u64> {
        let wait = self.wait.as_mut()?;
        let returned = waiting.saturating_sub(wait.ahead);
        if returned > wait.returned {
            (wait.returned, wait.returned_raw) = (returned, asked);
        }
        let left_ns = wait.until_raw().nanos_since(now_raw);
        if returned < wait.answered && left_ns > 0 {
            return Some(left_ns);
        }
        if wait.is_worthwhile() {
            self.back_off.note_success();
        } else {
            self.back_off.note_failure();
        }
        self.wait = None;
        None
    }

    /// When the next sync begins, whatever has come; `None` where it is not put off.
    pub(crate) fn latest_raw(&self) -> Option<RawTime> {
        self.wait.as_ref().map(LingerWindow::latest_raw)
    }

    /// How many writers wait for the next sync when it is time to look again: once the first of those who were answered
    /// is back, and once all are; `None` where nobody waits for them.
    pub(crate) fn expected_replies(&self) -> Option<usize> {
        let wait = self.wait.as_ref()?;
        let returned = match wait.returned_raw {
            None => 1,
            Some(_) => wait.answered,
        };
        Some(wait.ahead.saturating_add(returned))
    }

    /// The next sync is not put off.
    pub(crate) fn end(&mut self) {
        self.wait = None;
    }
}

/// A lone writer has nobody to share with.
const ANSWERED_MIN: usize = 2;

/// Of clients that ask at times of their own a quarter come back in a quarter of a sync.
const WORTHWHILE_PART: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC_NS: u64 = 4_000_000;

    /// A sync ends when the raw clock stands at its zero.
    fn begin(linger: &mut Linger, answered: usize, ahead: usize) {
        linger.begin(answered, ahead, RawTime::ZERO, SYNC_NS);
    }

    /// So long after it, the last of those who wait has just come. Nobody came unseen before.
    fn left_ns(linger: &mut Linger, waiting: usize, after_ns: u64) -> Option<u64> {
        let now = RawTime::from_nanos(after_ns);
        let seen = linger.wait.as_ref().and_then(|wait| wait.returned_raw);
        let first = seen.map_or(now, |returned| returned.first);
        linger.left_ns(waiting, Some(AskedRaw { first, last: now }), now)
    }

    #[test]
    fn the_next_sync_waits_for_those_just_answered() {
        let mut linger = Linger::default();
        assert_eq!(
            (linger.latest_raw(), linger.expected_replies()),
            (None, None)
        );
        begin(&mut linger, 10, 3);
        assert_eq!(linger.latest_raw(), Some(RawTime::from_nanos(SYNC_NS)));
        assert_eq!(linger.expected_replies(), Some(4), "the first");
        assert_eq!(left_ns(&mut linger, 3, 0), Some(2_000_000));
        assert_eq!(
            left_ns(&mut linger, 12, 400_000),
            Some(1_000_000),
            "one is missing"
        );
        assert_eq!(linger.expected_replies(), Some(13));
        assert_eq!(left_ns(&mut linger, 13, 500_000), None, "all are back");
        assert_eq!(left_ns(&mut linger, 1, 500_000), None, "once per sync");
    }

    #[test]
    fn the_first_is_waited_for_half_a_sync() {
        let mut linger = Linger::default();
        begin(&mut linger, 9, 3);
        assert_eq!(left_ns(&mut linger, 3, 1_999_999), Some(1));
        assert_eq!(left_ns(&mut linger, 3, 2_000_000), None, "none of nine");
    }

    #[test]
    fn a_quarter_after_the_first_it_waits_only_where_a_third_are_back() {
        let mut linger = Linger::default();
        begin(&mut linger, 9, 3);
        assert_eq!(left_ns(&mut linger, 4, 700_000), Some(1_000_000));
        assert_eq!(left_ns(&mut linger, 5, 1_699_999), Some(1));
        assert_eq!(left_ns(&mut linger, 5, 1_700_000), None, "two of nine");
        begin(&mut linger, 9, 3);
        assert_eq!(left_ns(&mut linger, 4, 700_000), Some(1_000_000));
        assert_eq!(
            left_ns(&mut linger, 6, 1_699_999),
            Some(500_000),
            "three of nine"
        );
    }

    #[test]
    fn it_waits_while_somebody_comes_back_every_eighth_and_for_one_sync_at_the_most() {
        let mut linger = Linger::default();
        begin(&mut linger, 30, 0);
        assert_eq!(left_ns(&mut linger, 1, 0), Some(1_000_000));
        assert_eq!(left_ns(&mut linger, 10, 900_000), Some(500_000));
        assert_eq!(left_ns(&mut linger, 10, 1_399_999), Some(1));
        assert_eq!(left_ns(&mut linger, 11, 1_399_999), Some(500_000));
        assert_eq!(
            left_ns(&mut linger, 11, 1_899_999),
            None,
            "nobody for an eighth"
        );
        begin(&mut linger, 30, 0);
        assert_eq!(left_ns(&mut linger, 9, 0), Some(1_000_000));
        for (returned, eighth) in (10..17).zip(1..) {
            assert!(left_ns(&mut linger, returned, eighth * 499_999).is_some());
        }
        assert_eq!(left_ns(&mut linger, 17, 3_999_999), Some(1));
        assert_eq!(left_ns(&mut linger, 18, 4_000_000), None, "a whole sync");
    }

    #[test]
    fn a_lone_writer_is_not_put_off_and_two_are() {
        let mut linger = Linger::default();
        begin(&mut linger, 2, 0);
        assert!(left_ns(&mut linger, 1, 0).is_some());
        begin(&mut linger, 1, 0);
        assert_eq!(left_ns(&mut linger, 1, 0), None);
        begin(&mut linger, 1, 7);
        assert_eq!(left_ns(&mut linger, 7, 0), None);
    }

    /// How many syncs begin at once before one is put off again.
    fn passed_over(linger: &mut Linger) -> u32 {
        (0..)
            .find(|_| {
                begin(linger, 10, 0);
                left_ns(linger, 1, 0).is_some()
            })
            .expect("it is put off again at some time")
    }

    #[test]
    fn those_who_do_not_come_back_are_waited_for_ever_more_rarely() {
        let mut linger = Linger::default();
        for expected in [0, 0, 1, 3, 7, 15, 31, 63, 63] {
            assert_eq!(passed_over(&mut linger), expected);
            assert_eq!(
                left_ns(&mut linger, 3, SYNC_NS),
                None,
                "fewer than a third are back"
            );
        }
    }

    #[test]
    fn four_waits_that_were_worth_it_make_up_for_one_that_was_not() {
        let mut linger = Linger::default();
        for _ in 0..10 {
            assert_eq!(passed_over(&mut linger), 0);
            assert_eq!(left_ns(&mut linger, 3, SYNC_NS), None);
            for _ in 0..4 {
                passed_over(&mut linger);
                assert_eq!(left_ns(&mut linger, 4, SYNC_NS), None, "a third are back");
            }
        }
    }

    #[test]
    fn what_cannot_wait_ends_it() {
        let mut linger = Linger::default();
        begin(&mut linger, 10, 0);
        linger.end();
        assert_eq!(
            (linger.latest_raw(), linger.expected_replies()),
            (None, None)
        );
        assert_eq!(left_ns(&mut linger, 1, 0), None);
    }
}
