//! One clock of a machine that tests set. It stops at its ends, and loses no part of a unit.

use crate::saturated;

/// One clock: what it shows, how fast it runs, and the part of a unit it has not shown yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    pub(crate) reading: u64,
    unit_ns: u64,
    pub(crate) rate_ppm: i32,
    rest: u128,
}

impl Hand {
    pub(crate) fn new(reading: u64, unit_ns: u64) -> Self {
        Self {
            reading,
            unit_ns,
            rate_ppm: 0,
            rest: 0,
        }
    }

    /// True time goes on, and the clock at its rate.
    pub(crate) fn run(&mut self, nanos: u64) {
        self.pass(nanos, self.rate_ppm);
    }

    /// The same at another rate.
    pub(crate) fn pass(&mut self, nanos: u64, rate_ppm: i32) {
        let rate = u32::try_from(i64::from(rate_ppm) + 1_000_000)
            .expect("a clock stops at worst, it does not run backwards");
        let parts = u128::from(nanos) * u128::from(rate) + self.rest;
        let unit = u128::from(self.unit_ns) * 1_000_000;
        self.rest = parts % unit;
        let moved = saturated(parts / unit);
        self.reading = self.reading.saturating_add(moved);
    }

    pub(crate) fn set_by(&mut self, by: i64) {
        self.reading = self.reading.saturating_add_signed(by);
    }
}
