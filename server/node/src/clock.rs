//! The clocks that a node reads. Nothing here asks the machine for the time: `SystemClock` of `quorlock-server` does.
//!
//! Node time is based on the raw monotonic clock, which no time daemon steers. The boot-time and
//! wall clocks serve TIME and absolute expiries only. [`SettableClock`] is the twin for tests:
//! it moves when told to.

mod settable;

use std::pin::Pin;
use std::time::Duration;

pub use quorlock_engine::control::Boot;
pub use quorlock_engine::{BootTime, RawTime};

pub use settable::SettableClock;

/// Readings of the machine's clocks.
pub trait Clock: Send + Sync + 'static {
    /// `CLOCK_MONOTONIC_RAW`: not steered, stops while the machine is suspended.
    fn raw(&self) -> RawTime;
    /// Measures how long a piece of work takes, for statistics alone: a clock of a test need not have it.
    fn stopwatch(&self) -> RawTime {
        RawTime::ZERO
    }
    /// `CLOCK_BOOTTIME`: goes on while the machine is suspended.
    fn boottime(&self) -> BootTime;
    /// The wall clock, in microseconds since the epoch.
    fn wall_us(&self) -> u64;
    /// Which boot, and which time namespace, these readings belong to.
    fn boot(&self) -> Boot;
    /// Resolves when [`Clock::raw`] has about this reading: a timer for maintenance, not for
    /// validity. To be called with a reading that was taken before what it depends on.
    ///
    /// `None` where time passes by itself: then the node's own timer waits.
    fn pause_until(&self, _raw: RawTime) -> Pause<'_> {
        None
    }
    /// Has this called each time a test has moved the clock: whoever sleeps for so long by the machine's time looks again.
    /// A clock that time alone moves never calls it.
    fn when_moved(&self, _look_again: LookAgain) {}
}

/// The clocks at one moment, and the boot that they belong to.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub(crate) boot: Boot,
    pub(crate) raw: RawTime,
    pub(crate) boottime: BootTime,
}

impl Reading {
    /// Reads them now.
    pub fn now(clock: &dyn Clock) -> Self {
        Self {
            boot: clock.boot(),
            raw: clock.raw(),
            boottime: clock.boottime(),
        }
    }
}

/// What [`Clock::when_moved`] calls. It returns whether somebody still looks; else it is dropped.
pub type LookAgain = Box<dyn Fn() -> bool + Send + Sync>;

/// The length of a duration in nanoseconds. One of more than 584 years is longer than a node lives:
/// it becomes the longest that 64 bits can count, which stands for "without end".
pub fn saturated_nanos(duration: Duration) -> u64 {
    saturated(duration.as_nanos())
}

/// A length or a count that is compared with others or shown to people: the largest number of 64
/// bits stands for anything above it.
pub(crate) fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// What [`Clock::pause_until`] returns.
pub type Pause<'a> = Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>;
