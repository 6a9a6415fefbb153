//! The anchored wall clock: what TIME shows and what absolute expiries are measured with.
//!
//! Invariant: it is never stepped. It goes on with boot time, and where the real wall clock is
//! elsewhere it is slewed towards it, by at most the drift bound. Within one boot it goes on over
//! restarts from where the log left it.

use quorlock_engine::BootTime;
use quorlock_engine::control::{ControlRecord, Start};

use crate::clock::saturated;

/// A wall clock that is never stepped.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnchoredWall {
    now_us: u64,
    boottime: BootTime,
    drift_ppm: u64,
    /// Slew that is owed in millionths of a microsecond: small drift bounds give less than one
    /// microsecond per reading.
    slew_rest: u128,
    off_by_us: u64,
    is_told: bool,
    /// As the log has it.
    recorded: Anchor,
}

impl AnchoredWall {
    /// Stands at `wall_us` at this boot time.
    pub(super) fn new(wall_us: u64, boottime: BootTime, drift_ppm: u64) -> Self {
        Self {
            now_us: wall_us,
            boottime,
            drift_ppm,
            slew_rest: 0,
            off_by_us: 0,
            is_told: false,
            recorded: Anchor { wall_us, boottime },
        }
    }

    /// Microseconds since the epoch at the last reading.
    pub(super) fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Where it stands.
    pub(super) fn anchor(&self) -> Anchor {
        Anchor {
            wall_us: self.now_us,
            boottime: self.boottime,
        }
    }

    /// Whether the real wall clock was elsewhere at the last reading.
    pub(super) fn is_slewing(&self) -> bool {
        self.off_by_us >= OFF_RECORD_US_MIN
    }

    /// How far the real wall clock was elsewhere at the last reading, in microseconds, where that
    /// is worth telling and was not told yet.
    pub(super) fn take_step(&mut self) -> Option<u64> {
        self.is_told &= self.is_slewing();
        if self.is_told || self.off_by_us < TOLD_US_MIN {
            return None;
        }
        self.is_told = true;
        Some(self.off_by_us)
    }

    /// Goes on by the boot time that passed, and by at most the drift bound towards `real_us`.
    /// Where boot time went back, `node_ns` is what passed since the last reading.
    pub(super) fn read(&mut self, boottime: BootTime, real_us: u64, node_ns: u64) {
        if boottime < self.boottime {
            self.boottime = boottime.minus_nanos(node_ns);
        }
        let elapsed_us = boottime.nanos_since(self.boottime) / 1_000;
        // Whole microseconds only, so that no remainder is lost to rounding.
        self.boottime = self.boottime.plus_nanos(elapsed_us.saturating_mul(1_000));
        self.now_us = self.now_us.saturating_add(elapsed_us);
        let slew = u128::from(elapsed_us) * u128::from(self.drift_ppm) + self.slew_rest;
        let slew_us = saturated(slew / 1_000_000);
        self.slew_rest = slew % 1_000_000;
        self.now_us = if real_us > self.now_us {
            self.now_us.saturating_add(slew_us).min(real_us)
        } else {
            self.now_us.saturating_sub(slew_us).max(real_us)
        };
        self.off_by_us = real_us.abs_diff(self.now_us);
    }

    /// A record of where it stands, if the last one would have it elsewhere.
    pub(super) fn off_record(&mut self) -> Option<ControlRecord> {
        let since_us = self.boottime.nanos_since(self.recorded.boottime) / 1_000;
        let expected_us = self.recorded.wall_us.saturating_add(since_us);
        // One record for a second of slewing, and none for the noise of two readings.
        let worth_us = OFF_RECORD_US_MIN.max(self.drift_ppm);
        let went_back = self.boottime < self.recorded.boottime;
        if !went_back && expected_us.abs_diff(self.now_us) < worth_us {
            return None;
        }
        self.recorded = self.anchor();
        Some(ControlRecord::Wall {
            wall_us: self.now_us,
            boottime: self.boottime,
        })
    }
}

/// The wall clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// Microseconds since the epoch.
    pub(crate) wall_us: u64,
    /// The boot-time clock at that moment.
    pub(crate) boottime: BootTime,
}

/// The anchor of a start: in the same boot the wall clock goes on from where the last incarnation
/// left it, whatever the real one shows; otherwise it begins with the real one.
///
/// The time since the record only moves it on. Slewing it as well could make up, in one step, for
/// a real clock that was set a moment ago.
pub(crate) fn anchor(last: Option<&Start>, real_us: u64, boottime: BootTime) -> Anchor {
    let kept = last.and_then(|start| {
        if boottime < start.boottime {
            return None;
        }
        let since_us = boottime.nanos_since(start.boottime) / 1_000;
        let boottime = start.boottime.plus_nanos(since_us.saturating_mul(1_000));
        Some(Anchor {
            wall_us: start.wall_us.checked_add(since_us)?,
            boottime,
        })
    });
    kept.unwrap_or(Anchor {
        wall_us: real_us,
        boottime,
    })
}

/// Ten milliseconds: far more than passes between two clock readings.
const OFF_RECORD_US_MIN: u64 = 10_000;

/// A second: less is followed within minutes, and seen by nobody.
const TOLD_US_MIN: u64 = 1_000_000;
