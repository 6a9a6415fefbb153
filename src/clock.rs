//! The command's clocks: the only place that reads time.
//!
//! Waiting is measured on the boot clock, which neither steps nor stops in suspend. The wall clock
//! is for people only. Whether a lock still holds is decided by the client's own clock, never here.

use std::time::Duration;

use rustix::thread::nanosleep;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Time since the machine was started.
pub(crate) fn now() -> Duration {
    as_duration(clock_gettime(ClockId::Boottime))
}

/// Time since 1970, in UTC.
pub(crate) fn wall() -> Duration {
    as_duration(clock_gettime(ClockId::Realtime))
}

/// Blocks this thread; only for code that runs outside the async runtime.
pub(crate) fn block_for(duration: Duration) {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let _ended_early = nanosleep(&Timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(duration.subsec_nanos()),
    });
}

fn as_duration(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos))
}
