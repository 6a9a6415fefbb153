//! The clocks that a node reads. Nothing here asks the machine for the time: `SystemClock` of `quorlock-system-clock` does.
//!
//! Node time is based on the raw monotonic clock, which no time daemon steers. The boot-time and
//! wall clocks serve TIME and absolute expiries only.

pub use quorlock_clock::{
    Boot, BootTime, ClientInstant, Clock, LookAgain, Pause, RawTime, SettableClock, saturated_nanos,
};

pub(crate) use quorlock_clock::saturated;

/// The clocks at one moment, and the boot that they belong to.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub(crate) boot: Boot,
    pub(crate) raw: RawTime,
    pub(crate) boottime: BootTime,
}

/// What TIME goes by, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct WallReading {
    pub(crate) boottime: BootTime,
    pub(crate) wall_us: u64,
}

impl WallReading {
    /// Reads it now.
    pub fn now(clock: &dyn Clock) -> Self {
        Self {
            boottime: clock.boottime(),
            wall_us: clock.wall_us(),
        }
    }
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
