//! The clocks of the simulated machine, and the true time that no reboot and no step moves.

use std::sync::Mutex;

use quorlock_engine::control::Boot;
use quorlock_engine::{BootTime, RawTime};
use quorlock_node::clock::{ClientInstant, Clock};

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
    /// How much faster than true time the raw clock runs, in parts per million.
    rate_ppm: i32,
}

impl WorldClock {
    pub(crate) fn new() -> WorldClock {
        WorldClock {
            readings: Mutex::new(Readings {
                true_ns: HOUR_NS,
                raw_ns: HOUR_NS,
                wall_us: 1_790_000_000_000_000,
                boot: 1,
                rate_ppm: 0,
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
            readings.raw_ns += at_rate(by_ns, readings.rate_ppm);
            readings.wall_us += by_ns / 1_000;
        });
    }

    /// The machine went down, came up again and has counted a minute since, with a clock of this rate.
    pub(crate) fn reboot(&self, rate_ppm: i32) {
        self.change(|readings| {
            readings.rate_ppm = rate_ppm;
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

    pub(crate) fn is_exact(&self) -> bool {
        self.read().rate_ppm == 0
    }

    /// Advances until the raw clock has counted so many nanoseconds.
    pub(crate) fn advance_raw(&self, by_ns: u64) {
        let rate = u128::from(1_000_000_u32.saturating_add_signed(self.read().rate_ppm));
        let true_ns = (u128::from(by_ns) * 1_000_000).div_ceil(rate);
        self.advance(u64::try_from(true_ns).unwrap_or(u64::MAX));
    }

    /// How long the raw clock takes for so many nanoseconds, in true time, rounded down.
    pub(crate) fn true_for_raw(&self, raw_ns: u64) -> u64 {
        let rate = u128::from(1_000_000_u32.saturating_add_signed(self.read().rate_ppm));
        let true_ns = u128::from(raw_ns) * 1_000_000 / rate;
        u64::try_from(true_ns).unwrap_or(u64::MAX)
    }

    pub(crate) fn raw_ns(&self) -> u64 {
        self.read().raw_ns
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
    fn now(&self) -> ClientInstant {
        ClientInstant::from_nanos(self.raw_ns(), self.raw_ns())
    }

    fn raw(&self) -> RawTime {
        RawTime::from_nanos(self.raw_ns())
    }

    fn boottime(&self) -> BootTime {
        BootTime::from_nanos(self.raw_ns())
    }

    fn wall_us(&self) -> u64 {
        self.read().wall_us
    }

    fn boot(&self) -> Boot {
        Boot([self.read().boot; 16])
    }
}

fn at_rate(by_ns: u64, rate_ppm: i32) -> u64 {
    let rate = u128::from(1_000_000_u32.saturating_add_signed(rate_ppm));
    u64::try_from(u128::from(by_ns) * rate / 1_000_000).unwrap_or(u64::MAX)
}

const HOUR_NS: u64 = 3_600_000_000_000;
