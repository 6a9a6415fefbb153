//! Counters for INFO and the metrics. Relaxed atomics: they are read by people, not by rules.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What the node counted since it started.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) commands: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Clients that wait for a sync (WAITAOF) right now.
    pub(crate) blocked: AtomicUsize,
    /// Clock reading in nanoseconds and count of commands when the rate was last asked for.
    rate: Mutex<(u64, u64)>,
}

impl Statistics {
    /// Commands per second since the last time this was asked: no timer runs for a rate that
    /// nobody reads.
    pub(crate) fn commands_per_second(&self, now_raw_ns: u64) -> u64 {
        let count = self.commands.load(Ordering::Relaxed);
        let mut last = self.rate.lock().expect("no holder of the rate can panic");
        let elapsed_ns = now_raw_ns.saturating_sub(last.0);
        let commands = count.saturating_sub(last.1);
        *last = (now_raw_ns, count);
        u64::try_from(u128::from(commands) * 1_000_000_000 / u128::from(elapsed_ns.max(1)))
            .unwrap_or(u64::MAX)
    }

    /// Counts from zero again (CONFIG RESETSTAT).
    pub(crate) fn reset(&self) {
        for counter in [
            &self.commands,
            &self.bytes_in,
            &self.bytes_out,
            &self.rejected,
            &self.errors,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// How long syncs took, in buckets. Two relaxed additions per sync, beside which they are nothing.
#[derive(Debug, Default)]
pub(crate) struct SyncDurations {
    sum_ns: AtomicU64,
    /// One more than there are bounds: the last is for what is longer than all of them.
    counts: [AtomicU64; SYNC_BOUNDS_NS.len() + 1],
}

impl SyncDurations {
    pub(crate) fn note(&self, took_ns: u64) {
        let bucket = SYNC_BOUNDS_NS.partition_point(|bound| *bound < took_ns);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    /// The sum in nanoseconds, and how many fell into each bucket.
    pub(crate) fn read(&self) -> (u64, [u64; SYNC_BOUNDS_NS.len() + 1]) {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed));
        (self.sum_ns.load(Ordering::Relaxed), counts)
    }
}

/// Upper bounds of the buckets, in nanoseconds: from a fast flash disk to one that hangs.
pub(crate) const SYNC_BOUNDS_NS: [u64; 15] = [
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_falls_into_the_first_bucket_that_holds_it() {
        let syncs = SyncDurations::default();
        for took_ns in [0, 50_000, 50_001, 5_000_000_000, 5_000_000_001] {
            syncs.note(took_ns);
        }
        let (sum_ns, counts) = syncs.read();
        assert_eq!(sum_ns, 10_000_100_002);
        assert_eq!((counts[0], counts[1], counts[14], counts[15]), (2, 1, 1, 1));
        assert_eq!(counts.iter().sum::<u64>(), 5);
    }
}
