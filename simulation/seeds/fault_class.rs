//! Which kinds of faults a seed has.

use super::faults::Fault;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultClass {
    /// Nothing.
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
    pub(super) fn kinds(self) -> &'static [Fault] {
        match self {
            FaultClass::None => &[],
            FaultClass::Pauses => &[Fault::Pause],
            FaultClass::Silence => &[Fault::Silence],
            FaultClass::Crashes => CRASHES,
            FaultClass::Network => NETWORK,
            FaultClass::Answers => &[Fault::Errors, Fault::Lies, Fault::Garbage],
            FaultClass::Disks => &[Fault::SlowSync, Fault::FullDisk],
            FaultClass::Clocks => &[Fault::Suspend, Fault::WallClock],
            FaultClass::CutOff => CUT_OFF,
            FaultClass::Entries => &[Fault::Replaced, Fault::Stranger],
            FaultClass::Emptied => &[Fault::Emptied, Fault::Pause],
            FaultClass::RolledBack => &[Fault::RolledBack],
            FaultClass::StoppedClocks => &[Fault::StoppedClocks],
            FaultClass::All => ALL,
        }
    }
}

const CUT_OFF: &[Fault] = &[
    Fault::Unheard,
    Fault::Deaf,
    Fault::CutOff,
    Fault::Late,
    Fault::Late,
];

const CRASHES: &[Fault] = &[
    Fault::Kill,
    Fault::Kill,
    Fault::Kill,
    Fault::Kill,
    Fault::PowerLoss,
    Fault::PowerLoss,
    Fault::Blackout,
];

const NETWORK: &[Fault] = &[
    Fault::Closed,
    Fault::HalfOpen,
    Fault::ToNode,
    Fault::ToClient,
    Fault::Refused,
    Fault::Slow,
    Fault::Trickle,
];

const ALL: &[Fault] = &[
    Fault::Pause,
    Fault::Silence,
    Fault::Kill,
    Fault::PowerLoss,
    Fault::Closed,
    Fault::HalfOpen,
    Fault::ToNode,
    Fault::ToClient,
    Fault::Refused,
    Fault::Slow,
    Fault::Trickle,
    Fault::Errors,
    Fault::Lies,
    Fault::Garbage,
    Fault::SlowSync,
    Fault::FullDisk,
    Fault::Suspend,
    Fault::WallClock,
    Fault::Unheard,
    Fault::Deaf,
    Fault::CutOff,
    Fault::Late,
    Fault::Stranger,
];
