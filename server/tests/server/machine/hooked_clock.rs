//! A clock that does something whenever a thread of the node reads it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock_engine::control::Boot;
use quorlock_engine::{BootTime, RawTime};
use quorlock_server::clock::{ClientInstant, Clock, LookAgain, Pause, SettableClock};

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

    /// A clock that moves on by these nanoseconds, none at first, before each reading of the first worker. Were others to
    /// move it as well, each move would wake them for the next one.
    pub(crate) fn stepping() -> (Arc<Self>, Arc<AtomicU64>) {
        let step_ns = Arc::<AtomicU64>::default();
        let step = Arc::clone(&step_ns);
        let clock = Self::new(move |clock| {
            if std::thread::current().name() == Some("quorlock-0") {
                clock.advance(Duration::from_nanos(step.load(Ordering::Relaxed)));
            }
        });
        (Arc::new(clock), step_ns)
    }
}

impl Clock for HookedClock {
    fn now(&self) -> ClientInstant {
        self.settable.now()
    }
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

impl fmt::Debug for HookedClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HookedClock({:?})", self.settable)
    }
}
