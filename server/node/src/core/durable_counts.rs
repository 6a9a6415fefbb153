//! How many keys INFO and the metrics may show: a count reveals writes, and waits for nothing.
//!
//! Invariant: what is shown was the size of the databases at one moment, and everything that had
//! been executed by then may be revealed. So a key is never counted before its own OK may leave.
//!
//! It is plain data. A sample is taken with each batch of the log that is written, so a request
//! costs nothing; a sync makes the last sample before it durable.

use quorlock_engine::{DATABASES, DatabaseCount};
use quorlock_persistence::Position;

use crate::core::wait::DurabilityWait;

/// The sizes of all databases.
pub type Counts = [DatabaseCount; DATABASES as usize];

/// The databases at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) counts: Counts,
    /// The last frame by then that changed a key.
    pub(crate) position: Position,
    /// What a reply would wait for that revealed it then.
    pub(crate) wait: DurabilityWait,
}

/// The samples that may be shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DurableCounts {
    /// The newest one of which all that it reveals was as durable as its mode asked for.
    released: Sample,
    /// The newest one of which all is synced, as every mode allows.
    synced: Sample,
}

impl DurableCounts {
    /// What this sample reveals is as durable as replies need.
    pub(crate) fn note_released(&mut self, sample: &Sample) {
        if sample.position >= self.released.position {
            self.released = *sample;
        }
    }

    /// What this sample reveals is synced. Syncs may end in any order.
    pub(crate) fn note_synced(&mut self, sample: &Sample) {
        if sample.position >= self.synced.position {
            self.synced = *sample;
        }
        // Where it is the same position, the released one is not older.
        if sample.position > self.released.position {
            self.released = *sample;
        }
    }

    /// What may be shown. `is_met` says it of a sample under the mode in force, which may have
    /// become stronger since the sample was released.
    pub(crate) fn shown(&self, is_met: impl FnOnce(&Sample) -> bool) -> &Counts {
        if is_met(&self.released) {
            &self.released.counts
        } else {
            &self.synced.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(keys: u64, position: u64) -> Sample {
        let mut sample = Sample {
            position: Position::from_raw(position),
            ..Sample::default()
        };
        sample.counts[0].keys = keys;
        sample
    }

    fn keys(counts: &DurableCounts) -> u64 {
        counts.shown(|_| true)[0].keys
    }

    #[test]
    fn what_is_shown_never_goes_back_in_the_log() {
        let mut counts = DurableCounts::default();
        assert_eq!(keys(&counts), 0);
        counts.note_released(&sample(5, 5));
        counts.note_synced(&sample(3, 3));
        assert_eq!(keys(&counts), 5, "the sync was begun before it");
        counts.note_synced(&sample(7, 7));
        assert_eq!(keys(&counts), 7);
        counts.note_synced(&sample(6, 6));
        assert_eq!(keys(&counts), 7, "a sync that ended late");
        counts.note_released(&sample(6, 6));
        assert_eq!(keys(&counts), 7);
    }

    #[test]
    fn keys_that_expire_are_no_frame_of_the_log_and_the_newest_sample_counts() {
        let mut counts = DurableCounts::default();
        counts.note_released(&sample(2, 4));
        counts.note_released(&sample(1, 4));
        counts.note_synced(&sample(2, 4));
        assert_eq!(keys(&counts), 1);
    }

    #[test]
    fn under_a_stronger_mode_only_what_is_synced_is_shown() {
        let mut counts = DurableCounts::default();
        counts.note_synced(&sample(3, 3));
        counts.note_released(&sample(5, 5));
        assert_eq!(
            counts.shown(|released| released.position.get() <= 3)[0].keys,
            3
        );
        assert_eq!(
            counts.shown(|released| released.position.get() <= 5)[0].keys,
            5
        );
    }
}
