//! Node time and the anchored wall clock, from raw readings to the [`Moment`] a command sees.
//!
//! `clock/system.rs` of `quorlock-server` reads the raw clock when `core/state.rs` has locked the engine. Here the reading becomes node time,
//! and carries the wall clock along. Both are the `Moment` that the executor hands to the engine, and that every command
//! and every call of a script sees.
//!
//! Node time never goes back, not even if the machine's clock does. The wall clock is that of
//! `wall`: a stepped wall clock changes no TTL and moves TIME only gently.

mod wall;

use quorlock_engine::control::{ControlRecord, Start};
use quorlock_engine::{Moment, NodeTime, RawTime, restart};

use crate::clock::WallReading;
use crate::core::time::wall::AnchoredWall;
pub(crate) use crate::core::time::wall::anchor;

/// Turns clock readings into moments. Lives under the engine's lock.
#[derive(Debug)]
pub struct Timekeeper {
    base: NodeTime,
    base_raw: RawTime,
    newest: NodeTime,
    /// The raw clock's last reading.
    pub(crate) raw: RawTime,
    wall: AnchoredWall,
    wall_read_at: Option<NodeTime>,
    newest_wall_us: u64,
}

impl Timekeeper {
    /// Continues the time that `start` established.
    pub(crate) fn new(start: &Start, drift_ppm: u64) -> Self {
        Self {
            base: start.base,
            base_raw: start.raw,
            newest: start.base,
            raw: start.raw,
            wall: AnchoredWall::new(start.wall_us, start.boottime, drift_ppm),
            wall_read_at: None,
            newest_wall_us: 0,
        }
    }

    /// Never gives a time before this one.
    pub(crate) fn not_before(&mut self, newest: NodeTime) {
        self.newest = self.newest.max(newest);
    }

    /// The moment now; nothing else in what decides dates anything by the clocks. `raw` is to be read behind the engine's
    /// lock: a reading from before it would be older than what the holder before has done. The other clocks are read where
    /// that is due.
    pub fn now(&mut self, raw: RawTime, read_wall: impl FnOnce() -> WallReading) -> Moment {
        self.raw = raw;
        let reading = restart::node_time(self.base, self.base_raw, self.raw);
        self.newest = reading.map_or(self.newest, |time| time.max(self.newest));
        let node = self.newest;
        // TIME needs no better than a millisecond, and two more clock readings per request
        // would be seen in the profile.
        let since_ns = self.wall_read_at.map_or(u64::MAX, |read_at| {
            node.as_nanos().saturating_sub(read_at.as_nanos())
        });
        let carried_us = if since_ns >= WALL_READING_NS {
            let node_ns = self.wall_read_at.map_or(0, |_| since_ns);
            let wall = read_wall();
            self.wall.read(wall.boottime, wall.wall_us, node_ns);
            self.wall_read_at = Some(node);
            0
        } else {
            since_ns / 1_000
        };
        let wall_us = self.wall.now_us().saturating_add(carried_us);
        // What was carried forward on node time may have been a little too much: boot time is
        // steered, node time is not.
        self.newest_wall_us = self.newest_wall_us.max(wall_us);
        Moment {
            node,
            wall_us: self.newest_wall_us,
        }
    }

    /// The record of where the anchored wall clock stands, if the log would have a restarted node
    /// go on elsewhere. Due after a step of the real one, while it is followed.
    pub(crate) fn wall_off_record(&mut self) -> Option<ControlRecord> {
        self.wall.off_record()
    }

    /// `start` with the anchored wall clock as it stands now.
    pub(crate) fn with_wall_now(&self, start: Start) -> Start {
        let anchor = self.wall.anchor();
        Start {
            wall_us: anchor.wall_us,
            boottime: anchor.boottime,
            ..start
        }
    }

    /// Whether the anchored wall clock is on its way to the real one.
    pub(crate) fn is_slewing(&self) -> bool {
        self.wall.is_slewing()
    }

    /// How far the real wall clock is off TIME, in microseconds, once for each large step.
    pub(crate) fn take_wall_step(&mut self) -> Option<u64> {
        self.wall.take_step()
    }
}

/// How long a wall-clock reading is carried forward on node time.
const WALL_READING_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests;
