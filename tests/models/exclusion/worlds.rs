//! The small worlds that the scopes begin with.

use quorlock_engine::control::Durability;
use quorlock_engine::restart::RestartDelay;

use super::scope::{Asker, Budget, Configuration, Pace, Scope, Sight, TICK_NS};

/// The same after earlier locks, where each client reaches the second node and one of the others.
pub(super) fn meeting(name: &'static str, about: &'static str) -> Scope {
    let mut scope = plain(name, about);
    scope.askers[0].unheard = Some(2);
    scope.askers[1].unheard = Some(0);
    scope.first_bound_ns = 2 * TICK_NS;
    scope
}

/// Two clients, three nodes of which the second may fail, everysec, and nothing else.
pub(super) fn plain(name: &'static str, about: &'static str) -> Scope {
    Scope {
        name,
        about,
        node_paces: vec![TICK_NS; 3],
        askers: vec![asker(3), asker(3)],
        ticks: 3,
        configurations: vec![configuration(Durability::Everysec)],
        live: Vec::new(),
        restart_delay: RestartDelay::Auto,
        // What the model's disks acknowledge they keep, but where a scope is about liars.
        trusts_fsync: true,
        first_bound_ns: 0,
        failing: vec![1],
        budget: Budget::default(),
        has_late_requests: false,
        has_late_replies: false,
        sights: vec![Sight::Granted],
    }
}

/// A client that acquires once, with a clock as slow as the bound allows.
pub(super) fn asker(nodes: u8) -> Asker {
    Asker {
        addresses: (0..nodes).collect(),
        spare_votes: 0,
        unheard: None,
        ttl_ns: 2 * TICK_NS,
        extension_ns: 2 * TICK_NS,
        attempts: 1,
        extensions: 0,
        may_cancel: false,
        may_release: false,
        has_releases: false,
        paces: vec![SLOW],
        lead_ns: 0,
    }
}

pub(super) fn configuration(mode: Durability) -> Configuration {
    Configuration {
        mode,
        cap_ns: 4 * TICK_NS,
    }
}

pub(super) const SLOW_NS: u64 = TICK_NS / 5 * 4;
pub(super) const STEADY: Pace = pace(TICK_NS, TICK_NS, TICK_NS);
pub(super) const SLOW: Pace = pace(SLOW_NS, SLOW_NS, SLOW_NS);
/// The machine sleeps: only the boot clock goes on.
pub(super) const SUSPENDED: Pace = pace(TICK_NS, 0, 0);
/// A time daemon holds the steered clocks back, far beyond the drift bound.
pub(super) const SLEWED: Pace = pace(TICK_NS / 4, TICK_NS / 4, TICK_NS);

const fn pace(boot_ns: u64, monotonic_ns: u64, raw_ns: u64) -> Pace {
    Pace {
        boot_ns,
        monotonic_ns,
        raw_ns,
    }
}
