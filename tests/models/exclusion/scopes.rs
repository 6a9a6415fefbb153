//! The scopes that are checked, and where each mutant has to be caught.

use quorlock_engine::control::Durability;
use quorlock_engine::restart::RestartDelay;

use super::mutant::Mutant;
use super::scope::{Asker, Budget, Configuration, Scope, Sight, TICK_NS};
use super::worlds::{SLEWED, SLOW_NS, STEADY, SUSPENDED, asker, configuration, meeting, plain};

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Enough for every mutant to be caught: part of `cargo test`.
    Small,
    /// More ticks, more failures, more nodes that fail.
    Full,
}

/// Every scope at this size.
pub(crate) fn scopes(size: Size) -> Vec<Scope> {
    vec![
        clocks(size),
        suspend(size),
        retry(size),
        two_names(size),
        spare_vote(size),
        extension(size),
        short_extension(size),
        amnesia(size),
        first_grant(size),
        crash_loop(size),
        clean_stop(size),
        lost_extension(size),
        checkpoint(size),
        modes(size),
        no_log(size),
        log_dropped(size),
        lying_disk(size),
        caps(size),
        beyond_cap(size),
        repair(size),
    ]
}

/// Each mutant, and the scope that is about the rule it breaks.
pub(crate) fn mutants() -> Vec<(Mutant, Scope)> {
    let small = Size::Small;
    vec![
        (Mutant::DelayOneTickShort, amnesia(small)),
        (Mutant::NoDelay, amnesia(small)),
        (Mutant::BoundNotDurable, first_grant(small)),
        (Mutant::CleanStopErasesDelay, clean_stop(small)),
        (Mutant::ShutdownSticks, no_log(small)),
        (Mutant::DeadlinesNotRebased, clean_stop(small)),
        (Mutant::NoLogStopWithoutDelay, no_log(small)),
        (Mutant::ModeFromConfiguration, modes(small)),
        (Mutant::WeakerModeNotDurable, modes(small)),
        (Mutant::BoundLoweredAhead, checkpoint(small)),
        (Mutant::CapLimitsBound, caps(small)),
        (Mutant::RecoveredCappedByToday, log_dropped(small)),
        (Mutant::DiskTrusted, lying_disk(small)),
        (Mutant::UncoveredNotSynced, beyond_cap(small)),
        (Mutant::RepairKeepsBound, repair(small)),
        (Mutant::DelayForgottenByCrash, crash_loop(small)),
        (Mutant::DelayOfOtherBootPassed, crash_loop(small)),
        (Mutant::DelayBeginsAnew, crash_loop(small)),
        (Mutant::ExtensionNotCovered, lost_extension(small)),
        (Mutant::ExtensionShortens, short_extension(small)),
        (Mutant::ExtensionCreates, extension(small)),
        (Mutant::ReleaseWithoutOwner, retry(small)),
        (Mutant::TokenReused, retry(small)),
        (Mutant::NowCached, clocks(small)),
        (Mutant::StartedAfterReplies, clocks(small)),
        (Mutant::NoDriftAllowance, clocks(small)),
        (Mutant::NodeCountedTwice, two_names(small)),
        (Mutant::NoSpareVote, spare_vote(small)),
        (Mutant::ClockTotals, suspend(small)),
        (Mutant::SuspendNotAdded, suspend(small)),
    ]
}

/// Five nodes, everything allowed at once: too large to be explored completely.
pub(crate) fn everything() -> Scope {
    let asker = Asker {
        attempts: 2,
        extensions: 2,
        may_cancel: true,
        may_release: true,
        has_releases: true,
        extension_ns: 3 * TICK_NS,
        ..asker(5)
    };
    Scope {
        node_paces: vec![TICK_NS; 5],
        askers: vec![asker.clone(), asker],
        ticks: 12,
        configurations: vec![
            configuration(Durability::Everysec),
            configuration(Durability::Always),
        ],
        live: [Durability::Always, Durability::Everysec, Durability::No]
            .map(configuration)
            .to_vec(),
        failing: vec![0, 1, 2, 3, 4],
        has_late_requests: true,
        has_late_replies: true,
        budget: Budget {
            kills: 2,
            power_losses: 3,
            stops: 2,
            changes: 2,
            checkpoints: 2,
            repairs: 0,
            lies: 0,
        },
        ..plain("five nodes", "everything at once, by random walks")
    }
}

fn clocks(size: Size) -> Scope {
    let mut scope = plain("clocks", "clocks as far apart as the drift bound allows");
    scope.sights.push(Sight::HeldInTurn);
    scope.has_late_replies = true;
    if size == Size::Full {
        scope.ticks = 3;
        scope.node_paces = vec![TICK_NS, SLOW_NS, TICK_NS / 10 * 9];
        scope.askers[1].paces = vec![STEADY];
    } else {
        scope.ticks = 2;
    }
    scope
}

fn suspend(size: Size) -> Scope {
    let mut scope = plain(
        "suspend",
        "a client that sleeps, and one whose clock is slewed",
    );
    scope.askers[0].paces = vec![STEADY, SUSPENDED, SLEWED];
    scope.askers[0].lead_ns = 10 * TICK_NS;
    scope.askers[1].paces = vec![STEADY];
    scope.ticks = if size == Size::Full { 5 } else { 3 };
    scope.askers[0].unheard = Some(1);
    scope.askers[1].unheard = Some(1);
    scope
}

fn retry(size: Size) -> Scope {
    let mut scope = plain(
        "retry",
        "an attempt that is given up, and its late requests",
    );
    scope.askers[0].attempts = 2;
    scope.askers[0].may_cancel = true;
    scope.askers[0].has_releases = true;
    scope.has_late_requests = true;
    scope.askers[0].unheard = Some(2);
    scope.askers[1].unheard = Some(0);
    scope.ticks = if size == Size::Full { 1 } else { 0 };
    scope
}

fn two_names(size: Size) -> Scope {
    let mut scope = plain("two names", "a client that lists one node twice");
    scope.askers[0].addresses = vec![0, 0, 1];
    scope.ticks = if size == Size::Full { 4 } else { 2 };
    scope
}

/// A node forgets what it granted and serves at once, as one that was emptied does. The other client asks for a bare majority.
fn spare_vote(size: Size) -> Scope {
    let mut scope = plain(
        "spare vote",
        "a node that forgets and does not wait, and a caller with a vote more than a majority",
    );
    scope.restart_delay = RestartDelay::Off;
    scope.first_bound_ns = 2 * TICK_NS;
    scope.budget.power_losses = 1;
    scope.ticks = 2;
    scope.askers[0].spare_votes = 1;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    if size == Size::Full {
        scope.askers[0].extensions = 1;
        scope.ticks = 3;
    }
    scope
}

fn extension(size: Size) -> Scope {
    let mut scope = plain("extension", "extensions, healing and loss");
    scope.askers[0].extensions = 1;
    scope.ticks = if size == Size::Full { 3 } else { 2 };
    scope.sights.push(Sight::Extended);
    if size == Size::Full {
        scope.askers[0].may_release = true;
        scope.askers[0].has_releases = true;
    }
    scope
}

fn short_extension(size: Size) -> Scope {
    let mut scope = plain("short extension", "an extension shorter than the lease");
    scope.askers[0].ttl_ns = 3 * TICK_NS;
    scope.askers[0].extension_ns = TICK_NS;
    scope.askers[0].extensions = 1;
    scope.ticks = if size == Size::Full { 3 } else { 2 };
    if size == Size::Small {
        scope.askers[0].unheard = Some(2);
        scope.askers[1].unheard = Some(0);
    }
    scope
}

fn amnesia(size: Size) -> Scope {
    let mut scope = meeting("amnesia", "power losses that take grants");
    scope.budget.power_losses = 1;
    scope.ticks = 3;
    scope.sights = vec![
        Sight::Granted,
        Sight::HeldInTurn,
        Sight::LostGrant,
        Sight::WaitedDelay,
    ];
    if size == Size::Full {
        scope.budget.kills = 1;
        scope.ticks = 4;
    }
    scope
}

fn first_grant(size: Size) -> Scope {
    let mut scope = amnesia(size);
    scope.name = "first grant";
    scope.about = "power losses around the grant that raises P";
    scope.first_bound_ns = 0;
    scope.budget.kills = 0;
    scope.askers[0].extensions = u8::from(size == Size::Full);
    scope
}

fn crash_loop(size: Size) -> Scope {
    let mut scope = meeting(
        "crash loop",
        "crashes inside the restart delay, in the same boot and another",
    );
    scope.budget.power_losses = 2;
    scope.budget.kills = 1;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    scope.ticks = 1;
    if size == Size::Full {
        scope.sights.push(Sight::WaitedDelay);
        scope.ticks = 3;
    }
    scope
}

fn clean_stop(size: Size) -> Scope {
    let mut scope = meeting(
        "clean stop",
        "clean stops before, inside and after the restart delay, and reboots",
    );
    scope.budget.power_losses = 1;
    scope.budget.stops = 1;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    scope.ticks = 1;
    if size == Size::Full {
        scope.sights.push(Sight::WaitedDelay);
        scope.budget.stops = 2;
        scope.ticks = 3;
    }
    scope
}

fn lost_extension(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "lost extension";
    scope.about = "a power loss that takes an extension longer than the lease";
    scope.askers[0].ttl_ns = TICK_NS;
    scope.askers[0].extension_ns = 4 * TICK_NS;
    scope.askers[0].extensions = 1;
    scope.askers[1].ttl_ns = TICK_NS;
    scope.first_bound_ns = TICK_NS;
    scope.sights = vec![Sight::Granted, Sight::Extended, Sight::LostGrant];
    scope.ticks = if size == Size::Full { 4 } else { 2 };
    scope
}

fn checkpoint(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "checkpoint";
    scope.about = "P sinks in a checkpoint that is or is not complete after a power loss";
    scope.budget.checkpoints = 2;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    scope.ticks = 1;
    if size == Size::Full {
        scope.askers[0].extensions = 1;
        scope.ticks = 2;
    }
    scope
}

fn modes(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "modes";
    scope.about = "the mode changes live and in the configuration; trust-fsync yes";
    scope.configurations = vec![
        configuration(Durability::Always),
        configuration(Durability::Everysec),
    ];
    scope.live = scope.configurations.clone();
    scope.budget.changes = if size == Size::Full { 2 } else { 1 };
    scope.ticks = if size == Size::Full { 2 } else { 1 };
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    scope
}

fn no_log(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "no log";
    scope.about = "appendonly no: every stop forgets";
    scope.configurations = vec![configuration(Durability::Volatile)];
    scope.budget = Budget {
        stops: 1,
        kills: 1,
        ..Budget::default()
    };
    scope.ticks = 2;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    if size == Size::Full {
        scope.ticks = 3;
        scope
            .configurations
            .push(configuration(Durability::Everysec));
        scope.budget.stops = 2;
    }
    scope
}

fn log_dropped(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "log dropped";
    scope.about = "a clean stop, then runs without a log and under a lower cap, which crash";
    scope.configurations = vec![
        configuration(Durability::Always),
        Configuration {
            mode: Durability::Volatile,
            cap_ns: TICK_NS,
        },
    ];
    for asker in &mut scope.askers {
        asker.ttl_ns = 3 * TICK_NS;
        asker.extension_ns = 3 * TICK_NS;
    }
    scope.first_bound_ns = 3 * TICK_NS;
    scope.budget = Budget {
        stops: 1,
        kills: 1,
        // Only a checkpoint takes the recovered keys out of the log.
        checkpoints: 1,
        ..Budget::default()
    };
    scope.ticks = 2;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    if size == Size::Full {
        scope.ticks = 3;
    }
    scope
}

fn lying_disk(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "lying disk";
    scope.about = "a machine goes down, and its disk has lost what it acknowledged in that run";
    scope.trusts_fsync = false;
    scope.first_bound_ns = 0;
    scope.budget = Budget {
        lies: 1,
        ..Budget::default()
    };
    scope.ticks = 2;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    if size == Size::Full {
        scope.budget.kills = 1;
        scope.ticks = 3;
    }
    scope
}

fn caps(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "caps";
    scope.about = "the cap is lowered in the configuration between crash and start";
    scope.configurations.push(Configuration {
        mode: Durability::Everysec,
        cap_ns: TICK_NS,
    });
    for asker in &mut scope.askers {
        asker.ttl_ns = 3 * TICK_NS;
        asker.extension_ns = 3 * TICK_NS;
    }
    scope.first_bound_ns = 3 * TICK_NS;
    scope.live = vec![scope.configurations[1]];
    scope.budget.changes = u8::from(size == Size::Full);
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    scope.ticks = if size == Size::Full { 4 } else { 2 };
    scope
}

fn beyond_cap(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "beyond the cap";
    scope.about = "a TTL that no delay covers is synced itself";
    scope.configurations[0].cap_ns = TICK_NS;
    scope.first_bound_ns = 0;
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    scope.ticks = if size == Size::Full { 3 } else { 2 };
    scope
}

fn repair(size: Size) -> Scope {
    let mut scope = amnesia(Size::Small);
    scope.name = "repair";
    scope.about = "durable records are lost to the disk, and the log is repaired";
    scope.configurations[0].cap_ns = 2 * TICK_NS;
    scope.first_bound_ns = 0;
    scope.budget = Budget {
        kills: 1,
        repairs: 1,
        ..Budget::default()
    };
    scope.ticks = if size == Size::Full { 4 } else { 1 };
    scope.sights = vec![Sight::Granted, Sight::LostGrant];
    scope
}
