//! What a fault does, as data: to which nodes, how it begins and how it ends. Engines carry it out, on processes or on simulated
//! nodes, and both put the same words on record.

use std::ops::Range;
use std::time::Duration;

use crate::cell::{Cell, Fault};
use crate::history::Occurrence;

/// What a fault does to each node that it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An orderly stop. The node starts again.
    Stop,
    /// `kill -9`: the page cache stays. The node starts again.
    Kill,
    /// The power goes, at any moment. The node starts again, in another boot.
    LosePower,
    /// The power goes, and takes everything that was not synced: the little that is not is what the fault is about.
    LoseUnsynced,
    /// The process stands still.
    Pause,
    /// The wall clock jumps.
    StepWall,
    /// Each sync takes longer.
    DelaySyncs,
    /// No space is left.
    FillDisk,
    /// Client A is cut off from a minority of the nodes.
    Partition,
    /// The primary ends, and its replica is promoted.
    FailOver,
    /// It is client A that stands still.
    None,
}

impl Fault {
    /// What it does.
    pub fn effect(self) -> Effect {
        match self {
            Fault::CleanRestart => Effect::Stop,
            Fault::ProcessKill => Effect::Kill,
            Fault::ExtensionLost | Fault::ReleaseLost => Effect::LoseUnsynced,
            Fault::PowerLossOne
            | Fault::PowerLossMajority
            | Fault::PowerLossAll
            | Fault::CapLowered
            | Fault::ModeChanged => Effect::LosePower,
            Fault::NodePause => Effect::Pause,
            Fault::WallClockStep => Effect::StepWall,
            Fault::SlowSync => Effect::DelaySyncs,
            Fault::DiskFull => Effect::FillDisk,
            Fault::Partition => Effect::Partition,
            Fault::Failover => Effect::FailOver,
            Fault::ClientPause => Effect::None,
        }
    }
}

impl Effect {
    /// What is on record of a node when it begins; `None` where it is not about a node.
    pub fn beginning(self) -> Option<Occurrence> {
        match self {
            Effect::Stop => Some(Occurrence::Stopped),
            Effect::Kill => Some(Occurrence::Killed),
            Effect::LosePower | Effect::LoseUnsynced => Some(Occurrence::PowerLost),
            Effect::Pause => Some(Occurrence::Paused),
            Effect::StepWall => Some(Occurrence::ClockStepped { ms: WALL_STEP_MS }),
            Effect::DelaySyncs => Some(Occurrence::SyncDelayed { ms: SLOW_SYNC_MS }),
            Effect::FillDisk => Some(Occurrence::DiskFull),
            Effect::Partition | Effect::FailOver | Effect::None => None,
        }
    }

    /// What is on record of a node when it is ended; `None` where it ends by itself.
    pub fn ending(self) -> Option<Occurrence> {
        match self {
            Effect::Pause => Some(Occurrence::Resumed),
            Effect::DelaySyncs => Some(Occurrence::SyncDelayed { ms: 0 }),
            Effect::FillDisk => Some(Occurrence::DiskFreed),
            _ => None,
        }
    }
}

impl Cell {
    /// The nodes that the fault strikes: the last ones of the first majority, so that a client that holds just these has its
    /// lock on one of them.
    pub fn struck(&self) -> Range<usize> {
        let quorum = usize::from(self.quorum());
        match usize::from(self.fault.restarted(self.nodes)) {
            0 | 1 => quorum - 1..quorum,
            several => 0..several,
        }
    }
}

/// A fault that does not end by itself lasts for so much longer than a lease.
pub const BEYOND: Duration = Duration::from_millis(300);
/// How far the wall clock jumps.
pub const WALL_STEP_MS: i64 = 3_600_000;
/// How much longer a sync takes.
pub const SLOW_SYNC_MS: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_start_again_after_what_ends_them_and_after_nothing_else() {
        for fault in Fault::ALL {
            let ends = [
                Effect::Stop,
                Effect::Kill,
                Effect::LosePower,
                Effect::LoseUnsynced,
            ];
            let effect = fault.effect();
            assert_eq!(fault.restarted(5) > 0, ends.contains(&effect), "{fault}");
            let loses_power = [Effect::LosePower, Effect::LoseUnsynced].contains(&effect);
            assert_eq!(fault.is_power_loss(), loses_power, "{fault}");
            let is_synced_before = effect == Effect::LoseUnsynced;
            assert_eq!(fault.strikes_after_sync(), is_synced_before, "{fault}");
        }
    }
}
