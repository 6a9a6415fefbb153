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

/// The moment of a question to another machine, which says in its answer what its wall clock shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    at: Duration,
    wall: Duration,
}

impl Asked {
    /// The question is sent at this moment.
    pub(crate) fn at_once() -> Self {
        Self {
            at: now(),
            wall: wall(),
        }
    }

    /// The time since then, at the moment of the answer.
    pub(crate) fn round_trip(self) -> Duration {
        now().saturating_sub(self.at)
    }

    /// How far the other wall clock is ahead of this machine's, in milliseconds, give or take half the round trip.
    pub(crate) fn ahead_ms(self, there: Duration, round_trip: Duration) -> i128 {
        millis(there) - millis(self.wall.saturating_add(round_trip / 2))
    }
}

fn millis(time: Duration) -> i128 {
    i128::try_from(time.as_millis()).expect("a Duration has fewer milliseconds")
}

/// Blocks this thread; only for code that runs outside the async runtime.
///
/// # Panics
/// When asked for more than 292 billion years.
pub(crate) fn block_for(duration: Duration) {
    let seconds = i64::try_from(duration.as_secs()).expect("steps are short");
    let _ended_early = nanosleep(&Timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(duration.subsec_nanos()),
    });
}

/// A clock that shows a time before its zero stands at zero until that is over.
fn as_duration(time: Timespec) -> Duration {
    let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds are below a second");
    let seconds = u64::try_from(time.tv_sec);
    seconds.map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_round_trip() {
        let ms = Duration::from_millis;
        let asked = Asked {
            at: ms(5),
            wall: ms(10_000),
        };
        assert_eq!(asked.ahead_ms(ms(10_020), ms(40)), 0);
        assert_eq!(asked.ahead_ms(ms(41_020), ms(40)), 31_000);
        assert_eq!(asked.ahead_ms(ms(9_000), ms(40)), -1_020);
    }

    #[test]
    fn a_time_before_zero_is_zero() {
        let at = |tv_sec, tv_nsec| as_duration(Timespec { tv_sec, tv_nsec });
        assert_eq!(at(-1, 750_000_000), Duration::ZERO);
        assert_eq!(at(0, 0), Duration::ZERO);
        assert_eq!(at(1, 999_999_999), Duration::new(1, 999_999_999));
    }
}
