//! Which kinds of faults a seed has.

use super::faults::PlannedFault;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FaultClass {
    /// Nothing.
    #[default]
    None,
    /// One node at a time is stopped for longer than a lease.
    Pauses,
    /// The connections to one node, or to all, swallow everything, and new ones work.
    Silence,
    /// One node at a time is killed or loses power, or all lose power at once, and they are started again.
    Crashes,
    /// The way to one node at a time: closed, half open, one-way, refused, slow, a few bytes at a time.
    Network,
    /// The answers of one node at a time are errors, or garbage.
    Answers,
    /// Syncs that take long and full disks, one node at a time.
    Disks,
    /// Machines of clients that sleep, and wall clocks that are set.
    Clocks,
    /// What one client at a time sends reaches no node, or what nodes send does not reach it, or both, or all of it comes late.
    CutOff,
    /// One address at a time leads to another node than before: an empty one, or one of another cluster.
    Entries,
    /// One node at a time has forgotten everything and serves at once, which nodes promise not to do, or is stopped.
    Emptied,
    /// An image of one running node at a time is put back.
    RolledBack,
    /// Machines of clients stand still, and their clocks with them.
    StoppedClocks,
    /// All of it, at any number of nodes.
    All,
}

impl FaultClass {
    /// What may go wrong.
    pub(super) fn kinds(self) -> &'static [PlannedFault] {
        match self {
            FaultClass::None => &[],
            FaultClass::Pauses => &[PlannedFault::Pause],
            FaultClass::Silence => &[PlannedFault::Silence],
            FaultClass::Crashes => CRASHES,
            FaultClass::Network => NETWORK,
            FaultClass::Answers => &[
                PlannedFault::Errors,
                PlannedFault::Lies,
                PlannedFault::Garbage,
            ],
            FaultClass::Disks => &[PlannedFault::SlowSync, PlannedFault::FullDisk],
            FaultClass::Clocks => &[PlannedFault::Suspend, PlannedFault::WallClock],
            FaultClass::CutOff => CUT_OFF,
            FaultClass::Entries => &[PlannedFault::Replaced, PlannedFault::Stranger],
            FaultClass::Emptied => &[PlannedFault::Emptied, PlannedFault::Pause],
            FaultClass::RolledBack => &[PlannedFault::RolledBack],
            FaultClass::StoppedClocks => &[PlannedFault::StoppedClocks],
            FaultClass::All => ALL,
        }
    }
}

const CUT_OFF: &[PlannedFault] = &[
    PlannedFault::Unheard,
    PlannedFault::Deaf,
    PlannedFault::CutOff,
    PlannedFault::Late,
    PlannedFault::Late,
];

const CRASHES: &[PlannedFault] = &[
    PlannedFault::Kill,
    PlannedFault::Kill,
    PlannedFault::Kill,
    PlannedFault::Kill,
    PlannedFault::PowerLoss,
    PlannedFault::PowerLoss,
    PlannedFault::Blackout,
];

const NETWORK: &[PlannedFault] = &[
    PlannedFault::Closed,
    PlannedFault::HalfOpen,
    PlannedFault::ToNode,
    PlannedFault::ToClient,
    PlannedFault::Refused,
    PlannedFault::Slow,
    PlannedFault::Trickle,
];

const ALL: &[PlannedFault] = &[
    PlannedFault::Pause,
    PlannedFault::Silence,
    PlannedFault::Kill,
    PlannedFault::PowerLoss,
    PlannedFault::Closed,
    PlannedFault::HalfOpen,
    PlannedFault::ToNode,
    PlannedFault::ToClient,
    PlannedFault::Refused,
    PlannedFault::Slow,
    PlannedFault::Trickle,
    PlannedFault::Errors,
    PlannedFault::Lies,
    PlannedFault::Garbage,
    PlannedFault::SlowSync,
    PlannedFault::FullDisk,
    PlannedFault::Suspend,
    PlannedFault::WallClock,
    PlannedFault::Unheard,
    PlannedFault::Deaf,
    PlannedFault::CutOff,
    PlannedFault::Late,
    PlannedFault::Stranger,
];
