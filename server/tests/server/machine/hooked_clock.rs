//! A clock that does something whenever a thread of the node reads it.

use quorlock_engine::control::Boot;
use quorlock_engine::{BootTime, RawTime};
use quorlock_server::clock::{Clock, LookAgain, Pause, SettableClock};

/// A settable clock with a hook before each reading of its raw time.
pub(crate) struct HookedClock {
    pub(crate) settable: SettableClock,
    before_reading: Box<dyn Fn(&SettableClock) + Send + Sync>,
}

impl HookedClock {
    pub(crate) fn new(before_reading: impl Fn(&SettableClock) + Send + Sync + 'static) -> Self {
        Self {
            settable: SettableClock::new(),
            before_reading: Box::new(before_reading),
        }
    }
}

impl Clock for HookedClock {
    fn raw(&self) -> RawTime {
        (self.before_reading)(&self.settable);
        self.settable.raw()
    }
    fn boottime(&self) -> BootTime {
        self.settable.boottime()
    }
    fn wall_us(&self) -> u64 {
        self.settable.wall_us()
    }
    fn boot(&self) -> Boot {
        self.settable.boot()
    }
    fn when_moved(&self, look_again: LookAgain) {
        self.settable.when_moved(look_again);
    }
    fn pause_until(&self, raw: RawTime) -> Pause<'_> {
        self.settable.pause_until(raw)
    }
}
