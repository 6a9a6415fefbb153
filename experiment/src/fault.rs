//! What goes wrong in a trial.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// What goes wrong.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fault or "fault: {all}" {
        /// `kill -9` of one node, which starts again: the page cache stays.
        ProcessKill = "process-kill",
        /// One node loses power: what was not synced is gone, and the start is in another boot.
        PowerLossOne = "power-loss-one",
        /// A majority of the nodes loses power at once.
        PowerLossMajority = "power-loss-majority",
        /// All nodes lose power at once.
        PowerLossAll = "power-loss-all",
        /// One node is stopped in an orderly way and starts again.
        CleanRestart = "clean-restart",
        /// One node stands still for longer than a lease.
        NodePause = "node-pause",
        /// The holder stands still for longer than its lease, and then goes on working.
        ClientPause = "client-pause",
        /// The wall clock of one node jumps.
        WallClockStep = "wall-clock-step",
        /// A client is cut off from a minority of the nodes.
        Partition = "partition",
        /// Each sync of one node takes much longer.
        SlowSync = "slow-sync",
        /// The disk of one node is full for a while.
        DiskFull = "disk-full",
        /// One node loses power right after a lock was extended: the grant was synced, the extension was not.
        ExtensionLost = "extension-lost",
        /// A majority of the nodes loses power right after a lock was released: the grant was synced, the release was not.
        ReleaseLost = "release-lost",
        /// One node loses power, and is started again with a much lower `restart-delay-max`.
        CapLowered = "cap-lowered",
        /// One node loses power, and is started again with another fsync mode: with `always` and `trust-fsync yes` where it
        /// was weaker, with `no` where it was `always`.
        ModeChanged = "mode-changed",
        /// The primary fails before its asynchronous replica has the lock, and the replica is promoted by hand.
        Failover = "failover",
    }
}

impl Fault {
    /// How many of the nodes start again because of it.
    pub fn restarted(self, nodes: u8) -> u8 {
        match self {
            Fault::ProcessKill
            | Fault::PowerLossOne
            | Fault::CleanRestart
            | Fault::ExtensionLost
            | Fault::CapLowered
            | Fault::ModeChanged => 1,
            Fault::PowerLossMajority | Fault::ReleaseLost => nodes / 2 + 1,
            Fault::PowerLossAll => nodes,
            _ => 0,
        }
    }

    /// Whether nodes of our own run on the [machine](crate::machine::MachineControls) of the experiment for it: what a power cut
    /// takes, and what happens to a disk and a clock, is not to be had from the machine of every day.
    pub fn needs_machine(self) -> bool {
        let others = [Fault::SlowSync, Fault::DiskFull, Fault::WallClockStep];
        self.is_power_loss() || others.contains(&self)
    }

    /// Whether it takes what was not synced.
    pub fn is_power_loss(self) -> bool {
        matches!(
            self,
            Fault::PowerLossOne
                | Fault::PowerLossMajority
                | Fault::PowerLossAll
                | Fault::ExtensionLost
                | Fault::ReleaseLost
                | Fault::CapLowered
                | Fault::ModeChanged
        )
    }

    /// Whether client A holds its lock on a bare majority, with the node that is struck in it, and is cut off from the
    /// others: the worst case, in which client B needs just one node that no longer keeps A's lock.
    pub fn leaves_bare_majority(self) -> bool {
        matches!(
            self,
            Fault::ProcessKill
                | Fault::PowerLossOne
                | Fault::CleanRestart
                | Fault::WallClockStep
                | Fault::ExtensionLost
                | Fault::CapLowered
                | Fault::ModeChanged
        )
    }

    /// Whether the grant is synced before it strikes (WAITAOF): what is lost is what came after.
    pub fn strikes_after_sync(self) -> bool {
        matches!(self, Fault::ExtensionLost | Fault::ReleaseLost)
    }
}
