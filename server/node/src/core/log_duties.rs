//! What the log thread has to do, so that however many ask for it, it is one job: the sync of every
//! second, and the segments made ahead.
//!
//! Workers ask after each write, without a lock; the log thread says when it begins. Nothing here
//! writes, syncs or wakes anybody.

use quorlock_engine::control::Durability;

use crate::core::commit::Commit;
use crate::sync::atomic::{AtomicBool, Ordering};

/// What is asked for and has not begun.
#[derive(Debug, Default)]
pub(crate) struct LogDuties {
    sync_is_due: AtomicBool,
    /// A segment is being made, or could not be: then maintenance asks again, not every write.
    is_preparing: AtomicBool,
}

/// What a write makes necessary, where nobody has asked for it yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AfterWrite {
    /// Make the next segment.
    pub(crate) prepares: bool,
    /// Sync within a second.
    pub(crate) syncs_soon: bool,
}

impl LogDuties {
    /// What is to be asked for after a write, at this durability of replies.
    pub(crate) fn after_write(&self, commit: &Commit, durability: Durability) -> AfterWrite {
        let is_synced = commit.synced() >= commit.written();
        AfterWrite {
            prepares: commit.take_segment_request()
                && !self.is_preparing.swap(true, Ordering::AcqRel),
            syncs_soon: durability != Durability::No
                && !is_synced
                && !self.sync_is_due.swap(true, Ordering::AcqRel),
        }
    }

    /// The sync of this second begins: the next write asks for the next one.
    pub(crate) fn begin_sync_of_second(&self) {
        self.sync_is_due.store(false, Ordering::Release);
    }

    /// The segment that was asked for is made; whoever makes them looks afterwards whether another one is
    /// needed. Where the disk had no room for it, nobody asks again but the maintenance, once a second.
    pub(crate) fn note_prepared(&self, has_space: bool) {
        if has_space {
            // A swap, so that what was written before somebody did not ask is seen.
            self.is_preparing.swap(false, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorlock_engine::RawTime;
    use quorlock_persistence::Position;

    use super::*;
    use crate::core::durable_counts::Sample;
    use crate::core::rewrites::LogSize;

    fn at(position: u64) -> Position {
        Position::from_raw(position)
    }

    /// A log that is written up to this position and synced up to 1.
    fn commit(written: u64) -> Commit {
        let commit = Commit::new(at(1), at(1), LogSize::default(), RawTime::ZERO);
        commit.note_written(at(written), &Sample::default());
        commit
    }

    #[test]
    fn a_write_that_is_not_synced_asks_once_for_the_sync_of_its_second() {
        let asks = |duties: &LogDuties, written, durability| {
            duties.after_write(&commit(written), durability).syncs_soon
        };
        let duties = LogDuties::default();
        assert!(!asks(&duties, 1, Durability::Everysec), "all is synced");
        assert!(!asks(&duties, 2, Durability::No), "nobody wants it");
        assert!(asks(&duties, 2, Durability::Everysec));
        assert!(!asks(&duties, 3, Durability::Everysec));
        duties.begin_sync_of_second();
        assert!(asks(&duties, 3, Durability::Everysec));
    }

    #[test]
    fn on_a_full_disk_no_write_asks_for_a_segment_until_one_was_made() {
        let (duties, commit) = (LogDuties::default(), commit(1));
        let asks = || {
            commit.want_segment();
            duties.after_write(&commit, Durability::No).prepares
        };
        assert!(asks());
        assert!(!asks(), "one is being made");
        duties.note_prepared(false);
        assert!(!asks(), "there was no room for it");
        duties.note_prepared(true);
        assert!(asks());
    }
}
