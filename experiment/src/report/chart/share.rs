//! Which share of the delay that is needed a node waited, where it lost what it had not synced.

use std::fmt;

use crate::cell::{Cell, Delay};

/// Sorts from no delay to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DelayShare {
    /// In hundredths; 0 is no delay.
    Percent(u32),
    /// The product's default.
    Auto,
}

impl DelayShare {
    /// `None` where the delay decides nothing, because nothing that was acknowledged can be forgotten.
    pub(super) fn of(cell: &Cell) -> Option<DelayShare> {
        if !cell.forgets() || !cell.fault.is_power_loss() {
            return None;
        }
        match cell.delay {
            Delay::Off => Some(DelayShare::Percent(0)),
            Delay::Percent(percent) => Some(DelayShare::Percent(percent)),
            Delay::Auto => Some(DelayShare::Auto),
            Delay::TrustFsync => None,
        }
    }
}

impl fmt::Display for DelayShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelayShare::Percent(0) => formatter.write_str("no delay"),
            DelayShare::Percent(percent) => write!(formatter, "{percent} % of it"),
            DelayShare::Auto => formatter.write_str("auto"),
        }
    }
}
