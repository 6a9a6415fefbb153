//! The monotonic clock of the harness: the only place here that reads time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since an arbitrary moment, for differences only.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::MonotonicRaw);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}
