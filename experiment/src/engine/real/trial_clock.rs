//! True time: one clock of this machine that no node and no client under test reads or sets.

use rustix::time::{ClockId, clock_gettime};

/// Time since the beginning of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrialClock {
    start_ns: u64,
}

impl TrialClock {
    /// Begins now.
    pub(super) fn begin() -> TrialClock {
        TrialClock { start_ns: raw_ns() }
    }

    /// So much time has passed.
    pub(super) fn now_ns(self) -> u64 {
        raw_ns().saturating_sub(self.start_ns)
    }
}

fn raw_ns() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
