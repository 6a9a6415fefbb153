//! Counters for INFO. Relaxed atomics: they are read by people, not by rules.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the node counted since it started.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) commands: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) errors: AtomicU64,
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
        for counter in [&self.commands, &self.bytes_in, &self.rejected, &self.errors] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
