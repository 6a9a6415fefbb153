//! Time as the engine sees it: always an argument, never read here.
//!
//! Node time is a count of nanoseconds on a clock that never goes back and is never steered; key
//! deadlines live on it. The wall clock appears only where a command names an absolute time.

use std::time::Duration;

/// A point on the node's own clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTime(u64);

impl NodeTime {
    /// The start of the clock.
    pub const ZERO: NodeTime = NodeTime(0);

    /// Later than every deadline: the stored deadline of a key that has none.
    pub(crate) const NEVER: NodeTime = NodeTime(u64::MAX);

    /// The point that many nanoseconds after the start of the clock.
    pub const fn from_nanos(nanos: u64) -> NodeTime {
        NodeTime(nanos)
    }

    /// Nanoseconds since the start of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point moved into the future, or the end of the clock if that is nearer.
    pub fn saturating_add(self, duration: Duration) -> NodeTime {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        NodeTime(self.0.saturating_add(nanos))
    }

    /// This point moved into the future; `None` beyond the last deadline that can be stored.
    pub(crate) fn checked_add_nanos(self, nanos: u64) -> Option<NodeTime> {
        self.0
            .checked_add(nanos)
            .filter(|&sum| sum < u64::MAX)
            .map(NodeTime)
    }

    /// The time from `earlier` to this point, zero if `earlier` is not earlier.
    pub const fn saturating_since(self, earlier: NodeTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This point as an optional deadline: `None` for [`NodeTime::NEVER`].
    pub(crate) fn deadline(self) -> Option<NodeTime> {
        (self != NodeTime::NEVER).then_some(self)
    }
}

/// The time at which a command runs. Frozen while a command or a script runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The node's clock: what deadlines are compared with.
    pub node: NodeTime,
    /// The anchored wall clock, in microseconds since the epoch.
    pub wall_us: u64,
}
