//! How much of the world a run of the model explores.
//!
//! A scope is a small world with everything in it that one group of rules is about: who asks, with
//! which clocks, which nodes may fail and how often. Within its bounds it is explored completely.

use std::time::Duration;

use quorlock_client_rules::settings::Drift;
use quorlock_engine::control::Durability;
use quorlock_engine::restart::{Policy, RestartDelay};

/// One step of true time.
pub(crate) const TICK_NS: u64 = 100_000_000;

/// What a start of a node may find configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Configuration {
    pub(crate) mode: Durability,
    /// `restart-delay-max` in nanoseconds.
    pub(crate) cap_ns: u64,
}

/// How often things may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) kills: u8,
    pub(crate) power_losses: u8,
    pub(crate) stops: u8,
    pub(crate) changes: u8,
    pub(crate) checkpoints: u8,
    pub(crate) repairs: u8,
    /// Power losses after which a disk has kept less than it had acknowledged.
    pub(crate) lies: u8,
}

/// How far the clocks of a client's machine go in one tick of true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pace {
    pub(crate) boot_ns: u64,
    pub(crate) monotonic_ns: u64,
    pub(crate) raw_ns: u64,
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    /// The node behind each address of its list.
    pub(crate) addresses: Vec<u8>,
    /// How many nodes must agree besides a majority.
    pub(crate) spare_votes: usize,
    /// What it sends to this address is lost. Of two clients that have to meet at the one node that
    /// fails, each needs only one of the others: what it does at the third node helps nobody.
    pub(crate) unheard: Option<u8>,
    pub(crate) ttl_ns: u64,
    /// The lease its extensions ask for.
    pub(crate) extension_ns: u64,
    pub(crate) attempts: u8,
    pub(crate) extensions: u8,
    /// It may give an attempt up at any time.
    pub(crate) may_cancel: bool,
    /// It may release what it holds before the end.
    pub(crate) may_release: bool,
    /// Its releases are delivered, also those after an attempt that failed or a lease that ended.
    /// Else all of them are lost, and its keys end by their deadlines.
    pub(crate) has_releases: bool,
    /// How its clocks may go; one is chosen at each tick.
    pub(crate) paces: Vec<Pace>,
    /// By how much its boot clock is ahead of the others from the beginning: a past suspend.
    pub(crate) lead_ns: u64,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) name: &'static str,
    /// What it is about, for people.
    pub(crate) about: &'static str,
    /// Nanoseconds of each node's raw clock in one tick.
    pub(crate) node_paces: Vec<u64>,
    pub(crate) askers: Vec<Asker>,
    /// True time ends after so many ticks.
    pub(crate) ticks: u8,
    /// What starts may find; the first one is how the nodes begin.
    pub(crate) configurations: Vec<Configuration>,
    /// What a running node may be switched to.
    pub(crate) live: Vec<Configuration>,
    pub(crate) restart_delay: RestartDelay,
    pub(crate) trusts_fsync: bool,
    /// P as earlier locks have left it, in nanoseconds. A lock that raises P is durable with it,
    /// so only one that does not can be lost.
    pub(crate) first_bound_ns: u64,
    /// The nodes that may fail or stop.
    pub(crate) failing: Vec<u8>,
    pub(crate) budget: Budget,
    /// Takes and extensions of an attempt that is over are still delivered.
    pub(crate) has_late_requests: bool,
    /// Replies take their time as well. Else a reply arrives with the request, or with the sync it
    /// waits for: a client that hears earlier believes earlier and not shorter, so that no overlap
    /// is left out.
    pub(crate) has_late_replies: bool,
    /// What must be seen to happen in it.
    pub(crate) sights: Vec<Sight>,
}

/// Something that has to be possible, or the scope is about nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sight {
    Granted,
    HeldInTurn,
    Extended,
    LostGrant,
    WaitedDelay,
}

impl Scope {
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            restart_delay: self.restart_delay,
            trusts_fsync: self.trusts_fsync,
            cap_ns: self.configurations[0].cap_ns,
            drift_ppm: u64::from(DRIFT_PPM),
            first_start_waits: true,
            vouches_for_first_start: false,
        }
    }

    pub(crate) fn keeps_log(&self) -> bool {
        self.budget.repairs > 0 || self.budget.lies > 0
    }
}

/// Drift of clients: the bound, and no constant, because the model's clocks do not round.
pub(crate) const DRIFT: Drift = Drift {
    rate_ppm: DRIFT_PPM,
    constant: Duration::ZERO,
};

/// A fifth, so that it shows within a few ticks: the slowest clock goes 4 where the fastest goes 5.
const DRIFT_PPM: u32 = 200_000;
