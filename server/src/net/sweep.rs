//! When a worker looks for clients that have been silent for longer than they may.

use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::config::Config;

/// The next look, where any client may ever have to go: otherwise an idle worker needs no timer.
#[derive(Debug)]
pub(crate) struct Sweep {
    due_raw_ns: Option<u64>,
}

impl Sweep {
    pub(crate) fn new(config: &Config) -> Self {
        let may_tire = config.timeout.is_some() || config.requirepass.is_some();
        Self {
            due_raw_ns: may_tire.then_some(0),
        }
    }

    /// How long until the next look.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let left = |due_raw_ns: u64| due_raw_ns.saturating_sub(SystemClock.raw_ns());
        self.due_raw_ns.map(left).map(Duration::from_nanos)
    }

    /// Whether it is time for one; the next comes later.
    pub(crate) fn takes_due(&mut self) -> bool {
        let is_due = self.pause().is_some_and(|left| left.is_zero());
        if is_due {
            self.due_raw_ns = Some(SystemClock.raw_ns().saturating_add(EVERY_NS));
        }
        is_due
    }
}

/// `timeout` counts whole seconds.
const EVERY_NS: u64 = 500_000_000;
