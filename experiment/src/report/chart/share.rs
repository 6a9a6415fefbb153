//! Which share of the delay that is needed a node waited, where it lost what it had not synced.

use std::fmt;

use crate::cell::{Cell, Delay};

/// Sorts from no delay to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Share {
    /// In hundredths; 0 is no delay.
    Percent(u32),
    /// The product's default.
    Auto,
}

impl Share {
    /// `None` where the delay decides nothing, because nothing that was acknowledged can be forgotten.
    pub(super) fn of(cell: &Cell) -> Option<Share> {
        if !cell.forgets() || !cell.fault.is_power_loss() {
            return None;
        }
        match cell.delay {
            Delay::Off => Some(Share::Percent(0)),
            Delay::Percent(percent) => Some(Share::Percent(percent)),
            Delay::Auto => Some(Share::Auto),
            Delay::TrustFsync => None,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Share::Percent(0) => formatter.write_str("no delay"),
            Share::Percent(percent) => write!(formatter, "{percent} % of it"),
            Share::Auto => formatter.write_str("auto"),
        }
    }
}
