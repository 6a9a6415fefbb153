//! How durable a running node's replies are, and what a change of that has to wait for.
//!
//! Invariants:
//! 1. Nothing that was written after a MODE record is revealed before that record is synced. So
//!    when a weaker reply leaves, the log that a crash leaves says that replies were weaker.
//! 2. What was written under a stronger mode is revealed only once it is synced, also to a request
//!    that comes after the change.
//! 3. After a change to `always`, the log says so only once everything that a weaker mode may
//!    have revealed is synced. Until then the weaker mode counts for the next start.
//!
//! It relies on one property of the log: what a crash leaves is a prefix. It is plain data, so
//! that a model can run the code of production.

use crate::control::{Control, Durability, Mode, Start};
use crate::position::LogPosition;

/// The mode in force. Positions are those of the log's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveMode {
    durability: Durability,
    cap_ns: u64,
    cap_largest_ns: u64,
    weakest: Durability,
    /// The position of the last MODE record; 0 if there was none since the start.
    changed_at: LogPosition,
}

/// How far the log must have come before a reply may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DurabilityNeed {
    /// Written up to this position: a killed process loses none of it.
    pub written: LogPosition,
    /// Synced up to this position: a power loss loses none of it.
    pub synced: LogPosition,
}

impl LiveMode {
    /// The mode an incarnation starts with.
    pub fn new(start: &Start) -> Self {
        Self {
            durability: start.durability,
            cap_ns: start.cap_ns,
            cap_largest_ns: start.cap_ns,
            weakest: start.durability,
            changed_at: LogPosition::ZERO,
        }
    }

    /// The durability of replies to what is executed from now on.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// `restart-delay-max` in force, in nanoseconds.
    pub fn cap_ns(&self) -> u64 {
        self.cap_ns
    }

    /// Whether keys are in the log at all. It never changes while a node runs.
    pub fn is_logged(&self) -> bool {
        self.durability != Durability::Volatile
    }

    /// What a reply has to wait for that reveals effects up to `position`.
    pub fn reach(&self, position: LogPosition) -> DurabilityNeed {
        let mut reach = DurabilityNeed {
            written: LogPosition::ZERO,
            synced: position.min(self.changed_at),
        };
        match self.durability {
            Durability::Volatile => {}
            Durability::Always => reach.synced = position,
            Durability::No | Durability::Everysec => reach.written = position,
        }
        reach
    }

    /// Changes mode and cap. The record returned goes into the log at `position`, which is the
    /// next one, before anything else is executed.
    ///
    /// # Panics
    /// If keys would be logged from here on, or no longer: that is decided at start.
    pub fn change(&mut self, durability: Durability, cap_ns: u64, position: LogPosition) -> Mode {
        assert_eq!(
            durability == Durability::Volatile,
            !self.is_logged(),
            "whether keys are logged is decided at start"
        );
        self.durability = durability;
        self.cap_ns = cap_ns;
        self.cap_largest_ns = self.cap_largest_ns.max(cap_ns);
        self.weakest = self.weakest.min(durability);
        self.changed_at = position;
        Mode {
            durability,
            cap_ns,
            is_complete: false,
        }
    }

    /// Whether the record is still missing that all effects of a weaker mode are synced.
    pub fn is_incomplete(&self) -> bool {
        self.weakest < self.durability
    }

    /// Once everything that a weaker mode may have revealed is synced: the record that says so,
    /// to be appended now.
    pub fn complete(&mut self, synced: LogPosition) -> Option<Mode> {
        // Everything executed since the change waits for its own sync under the mode in force.
        if !self.is_incomplete() || synced < self.changed_at {
            return None;
        }
        self.weakest = self.durability;
        Some(Mode {
            durability: self.durability,
            cap_ns: self.cap_ns,
            is_complete: true,
        })
    }

    /// What a checkpoint says of it, so that every earlier record can go.
    pub fn control(&self, start: &Start, serving: bool, ttl_bound_ns: u64) -> Control {
        Control {
            start: Start {
                cap_ns: self.cap_largest_ns,
                ..*start
            },
            serving,
            weakest: self.weakest,
            ttl_bound_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Boot, Ceiling};
    use crate::time::{BootTime, NodeTime, RawTime};

    fn at(position: u64) -> LogPosition {
        LogPosition::from_raw(position)
    }

    fn start(durability: Durability) -> Start {
        Start {
            incarnation: 1,
            boot: Boot::default(),
            fingerprint: 1,
            durability,
            base: NodeTime::ZERO,
            raw: RawTime::ZERO,
            wall_us: 0,
            boottime: BootTime::ZERO,
            pending: None,
            cap_ns: 60,
            ceiling: Ceiling::NONE,
        }
    }

    #[test]
    fn a_reply_waits_for_what_its_mode_says() {
        let reach = |written, synced| DurabilityNeed {
            written: at(written),
            synced: at(synced),
        };
        for (durability, is_logged, expected) in [
            (Durability::Volatile, false, reach(0, 0)),
            (Durability::No, true, reach(7, 0)),
            (Durability::Everysec, true, reach(7, 0)),
            (Durability::Always, true, reach(0, 7)),
        ] {
            let mode = LiveMode::new(&start(durability));
            assert_eq!((mode.durability(), mode.cap_ns()), (durability, 60));
            assert_eq!(mode.is_logged(), is_logged, "{durability:?}");
            assert_eq!(mode.reach(at(7)), expected, "{durability:?}");
        }
    }

    #[test]
    fn a_weaker_mode_counts_until_its_effects_are_synced() {
        let start = start(Durability::Always);
        let mut mode = LiveMode::new(&start);
        mode.change(Durability::No, 90, at(5));
        assert!(!mode.is_incomplete(), "no stronger mode is in force");
        assert_eq!(mode.complete(at(100)), None);
        mode.change(Durability::Always, 30, at(8));
        assert!(mode.is_incomplete());
        let control = mode.control(&start, true, 3);
        assert_eq!(
            (control.start.cap_ns, control.weakest),
            (90, Durability::No)
        );
        assert_eq!((control.serving, control.ttl_bound_ns), (true, 3));
        assert_eq!(mode.complete(at(7)), None);
        let complete = Mode {
            durability: Durability::Always,
            cap_ns: 30,
            is_complete: true,
        };
        assert_eq!(mode.complete(at(8)), Some(complete));
        assert!(!mode.is_incomplete());
        assert_eq!(mode.complete(at(9)), None);
        assert_eq!(mode.control(&start, true, 3).weakest, Durability::Always);
    }
}
