//! What goes wrong in a trial.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// `kill -9` of one node, which starts again: the page cache stays.
    ProcessKill,
    /// One node loses power: what was not synced is gone, and the start is in another boot.
    PowerLossOne,
    /// A majority of the nodes loses power at once.
    PowerLossMajority,
    /// All nodes lose power at once.
    PowerLossAll,
    /// One node is stopped in an orderly way and starts again.
    CleanRestart,
    /// One node stands still for longer than a lease.
    NodePause,
    /// The holder stands still for longer than its lease, and then goes on working.
    ClientPause,
    /// The wall clock of one node jumps.
    WallClockStep,
    /// A client is cut off from a minority of the nodes.
    Partition,
    /// Each sync of one node takes much longer.
    SlowSync,
    /// The disk of one node is full for a while.
    DiskFull,
    /// One node loses power right after a lock was extended: the grant was synced, the extension was not.
    ExtensionLost,
    /// A majority of the nodes loses power right after a lock was released: the grant was synced, the release was not.
    ReleaseLost,
    /// One node loses power, and is started again with a much lower `restart-delay-max`.
    CapLowered,
    /// One node loses power, and is started again with another fsync mode: with `always` and `trust-fsync yes` where it
    /// was weaker, with `no` where it was `always`.
    ModeChanged,
    /// The primary fails before its asynchronous replica has the lock, and the replica is promoted by hand.
    Failover,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 16] = [
        Fault::ProcessKill,
        Fault::PowerLossOne,
        Fault::PowerLossMajority,
        Fault::PowerLossAll,
        Fault::CleanRestart,
        Fault::NodePause,
        Fault::ClientPause,
        Fault::WallClockStep,
        Fault::Partition,
        Fault::SlowSync,
        Fault::DiskFull,
        Fault::ExtensionLost,
        Fault::ReleaseLost,
        Fault::CapLowered,
        Fault::ModeChanged,
        Fault::Failover,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Fault::ProcessKill => "process-kill",
            Fault::PowerLossOne => "power-loss-one",
            Fault::PowerLossMajority => "power-loss-majority",
            Fault::PowerLossAll => "power-loss-all",
            Fault::CleanRestart => "clean-restart",
            Fault::NodePause => "node-pause",
            Fault::ClientPause => "client-pause",
            Fault::WallClockStep => "wall-clock-step",
            Fault::Partition => "partition",
            Fault::SlowSync => "slow-sync",
            Fault::DiskFull => "disk-full",
            Fault::ExtensionLost => "extension-lost",
            Fault::ReleaseLost => "release-lost",
            Fault::CapLowered => "cap-lowered",
            Fault::ModeChanged => "mode-changed",
            Fault::Failover => "failover",
        }
    }

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

    /// Whether nodes of our own run on the [machine](crate::machine::Machine) of the experiment for it: what a power cut
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let found = Fault::ALL.into_iter().find(|fault| fault.word() == text);
        found.ok_or_else(|| {
            let words: Vec<&str> = Fault::ALL.iter().map(|fault| fault.word()).collect();
            format!("'{text}' is no fault: {}", words.join(", "))
        })
    }
}
