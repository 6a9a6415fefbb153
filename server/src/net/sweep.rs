//! When a worker looks for clients that have been silent for longer than they may.

use std::time::Duration;

use crate::clock::Clock;
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
    pub(crate) fn pause(&self, clock: &dyn Clock) -> Option<Duration> {
        let left = |due_raw_ns: u64| due_raw_ns.saturating_sub(clock.raw_ns());
        self.due_raw_ns.map(left).map(Duration::from_nanos)
    }

    /// Whether it is time for one; the next comes later.
    pub(crate) fn takes_due(&mut self, clock: &dyn Clock) -> bool {
        let is_due = self.pause(clock).is_some_and(|left| left.is_zero());
        if is_due {
            self.due_raw_ns = Some(clock.raw_ns().saturating_add(EVERY_NS));
        }
        is_due
    }
}

/// `timeout` counts whole seconds.
const EVERY_NS: u64 = 500_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SettableClock;

    #[test]
    fn a_look_is_due_every_half_second_of_the_nodes_clock() {
        let clock = SettableClock::new();
        let mut config = Config::default();
        config.timeout = Some(Duration::from_secs(1));
        let mut sweep = Sweep::new(&config);
        assert!(sweep.takes_due(&clock), "the first at once");
        assert!(!sweep.takes_due(&clock));
        clock.advance(Duration::from_millis(499));
        assert_eq!(sweep.pause(&clock), Some(Duration::from_millis(1)));
        assert!(!sweep.takes_due(&clock));
        clock.advance(Duration::from_millis(1));
        assert!(sweep.takes_due(&clock));
        assert!(!sweep.takes_due(&clock));
        let mut never = Sweep::new(&Config::default());
        assert_eq!(never.pause(&clock), None);
        assert!(!never.takes_due(&clock));
    }
}
