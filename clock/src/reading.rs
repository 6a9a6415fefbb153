//! Readings of single clocks, and which boot they belong to. A type each, so that no two clocks are compared.

use std::time::Duration;

/// A reading of the raw clock, `CLOCK_MONOTONIC_RAW`, in nanoseconds: no time daemon steers it, and it stops while the
/// machine is suspended.
///
/// Two readings can be compared only within one boot and one time namespace
/// ([`Boot`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RawTime(u64);

impl RawTime {
    /// The clock's zero.
    pub const ZERO: RawTime = RawTime(0);

    /// The reading that is so many nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: u64) -> RawTime {
        RawTime(nanos)
    }

    /// Nanoseconds since the clock's zero: for what stores or shows a reading.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The reading so many nanoseconds later, or the last one if that is nearer.
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> RawTime {
        RawTime(self.0.saturating_add(nanos))
    }

    /// Nanoseconds from `earlier` to this reading, zero if `earlier` is not earlier.
    pub const fn nanos_since(self, earlier: RawTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same as a duration.
    pub const fn saturating_since(self, earlier: RawTime) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

/// A reading of the boot-time clock, `CLOCK_BOOTTIME`, in nanoseconds: time daemons steer it, and it goes on while the
/// machine is suspended. Comparable as [`RawTime`] is, and with nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BootTime(u64);

impl BootTime {
    /// The clock's zero.
    pub const ZERO: BootTime = BootTime(0);

    /// The reading that is so many nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: u64) -> BootTime {
        BootTime(nanos)
    }

    /// Nanoseconds since the clock's zero: for what stores or shows a reading.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The reading so many nanoseconds later, or the last one if that is nearer.
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> BootTime {
        BootTime(self.0.saturating_add(nanos))
    }

    /// The reading so many nanoseconds earlier, or the clock's zero if that is nearer.
    #[must_use]
    pub const fn minus_nanos(self, nanos: u64) -> BootTime {
        BootTime(self.0.saturating_sub(nanos))
    }

    /// Nanoseconds from `earlier` to this reading, zero if `earlier` is not earlier.
    pub const fn nanos_since(self, earlier: BootTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The machine's boot as one value: boot id and time namespace. Equal values share one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Boot(pub [u8; 16]);
