//! The clocks of the simulated machine, and the true time that no reboot and no step moves.

use std::sync::Mutex;

use quorlock_engine::control::Boot;
use quorlock_server::clock::Clock;

/// One machine's clocks.
#[derive(Debug)]
pub(crate) struct WorldClock {
    readings: Mutex<Readings>,
}

#[derive(Clone, Copy, Debug)]
struct Readings {
    /// What an observer outside of the machine reads.
    true_ns: u64,
    raw_ns: u64,
    wall_us: u64,
    boot: u8,
}

impl WorldClock {
    pub(crate) fn new() -> WorldClock {
        WorldClock {
            readings: Mutex::new(Readings {
                true_ns: HOUR_NS,
                raw_ns: HOUR_NS,
                wall_us: 1_790_000_000_000_000,
                boot: 1,
            }),
        }
    }

    /// The same clocks, which go on by themselves.
    pub(crate) fn fork(&self) -> WorldClock {
        WorldClock {
            readings: Mutex::new(self.read()),
        }
    }

    pub(crate) fn advance(&self, by_ns: u64) {
        self.change(|readings| {
            readings.true_ns += by_ns;
            readings.raw_ns += by_ns;
            readings.wall_us += by_ns / 1_000;
        });
    }

    /// The machine went down, came up again and has counted a minute since.
    pub(crate) fn reboot(&self) {
        self.change(|readings| {
            readings.raw_ns = HOUR_NS / 60;
            readings.boot = readings.boot.wrapping_add(1);
        });
    }

    pub(crate) fn step_wall(&self, by_us: i64) {
        self.change(|readings| readings.wall_us = readings.wall_us.saturating_add_signed(by_us));
    }

    pub(crate) fn true_ns(&self) -> u64 {
        self.read().true_ns
    }

    fn change(&self, change: impl FnOnce(&mut Readings)) {
        let mut readings = self
            .readings
            .lock()
            .expect("no holder of the readings can panic");
        change(&mut readings);
    }

    fn read(&self) -> Readings {
        *self
            .readings
            .lock()
            .expect("no holder of the readings can panic")
    }
}

impl Clock for WorldClock {
    fn raw_ns(&self) -> u64 {
        self.read().raw_ns
    }

    fn boottime_ns(&self) -> u64 {
        self.read().raw_ns
    }

    fn wall_us(&self) -> u64 {
        self.read().wall_us
    }

    fn boot(&self) -> Boot {
        Boot([self.read().boot; 16])
    }
}

const HOUR_NS: u64 = 3_600_000_000_000;
