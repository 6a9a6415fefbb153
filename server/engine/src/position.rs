//! Positions of the log, which the engine compares and keeps, and the node gives.

/// Where in the log a group of mutations lies, or will lie. `LogPosition::ZERO` lies before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(u64);

impl LogPosition {
    /// Before everything.
    pub const ZERO: LogPosition = LogPosition(0);

    /// The position with this number.
    pub const fn from_raw(number: u64) -> LogPosition {
        LogPosition(number)
    }

    /// The number of this position.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position before this one; `ZERO` has none before it.
    pub(crate) const fn previous(self) -> LogPosition {
        LogPosition(self.0.saturating_sub(1))
    }
}
