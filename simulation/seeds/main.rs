//! `cluster-seeds`: runs whole clusters from seeds, or one with all that happens in it.
//!
//! A run is one thread: the nodes' own simulation and the client's own rules, joined by a simulated network.
//!
//! Invariant: no rule is mirrored here. Nodes and clients exchange bytes; time, latency, faults and callers come from
//! the seed. What is checked is what callers were told, against true time.
//!
//! Its last line is `N passed, N failed, N skipped`; a seed is one check.

#![allow(clippy::print_stdout, reason = "this is a command")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use clap::Parser;

use self::ledger::Ledger;
use self::plan::Plan;
use self::world::run;

mod caller;
mod calls;
mod checks;
mod delays;
mod far;
mod fault_class;
mod faults;
mod fences;
mod forced;
mod forgetting;
mod ledger;
mod leftovers;
mod listeners;
mod machine;
mod members;
mod observers;
mod outcomes;
mod owners;
mod plan;
mod readers;
mod silent_writers;
mod step;
#[cfg(test)]
mod tests;
mod tokens;
mod world;

/// Simulates whole clusters: nodes, clients, callers, network, faults.
#[derive(Debug, Parser)]
#[command(name = "cluster-seeds")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run this seed alone, and print what happens in it if it fails.
    #[arg(long)]
    seed: Option<u64>,
    /// Nodes that forget everything and serve at once, one at a time, and callers with so many spare votes.
    #[arg(long, value_name = "SPARE_VOTES")]
    forgetful: Option<usize>,
    /// Nodes that are put back to an image of themselves, one at a time.
    #[arg(long, conflicts_with = "forgetful")]
    rolled_back: bool,
    /// Clients whose clocks stand still.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back"])]
    stopped_clocks: bool,
    /// Three nodes far away, and connections that swallow everything.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks"])]
    silence: bool,
    /// Locks with a lock delay, and holders that die.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence"])]
    lock_delay: bool,
    /// Locks with fences.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay"])]
    fences: bool,
    /// A semaphore of so many permits, and more callers than permits.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_024), conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay"])]
    permits: Option<u32>,
    /// Callers that want several locks at once, and some of them one alone.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits"])]
    several: bool,
    /// Callers of three clients that stand in line for one lock.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several"])]
    waiters: bool,
    /// The same at nodes that have no lines, and tell of changes alone.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several", "waiters", "readers"])]
    told: bool,
    /// Callers that stand in line for one lock, those of one client far away from the nodes.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several", "waiters"])]
    far: bool,
    /// Callers that read beside each other, and writers.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several", "waiters", "far"])]
    readers: bool,
    /// A reader behind a writer in line that stays, is stopped, or is cut off.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several", "waiters", "told", "far", "readers", "owners", "forced", "election", "members"])]
    silent_writers: bool,
    /// Callers that take locks for an owner, whose callers hold one together.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several", "waiters", "told", "far", "readers", "forced", "election", "members"])]
    owners: bool,
    /// An operator who ends locks while callers hold them; with others of these options, such locks.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "several"])]
    forced: bool,
    /// Candidates of an election, and an observer in each client.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several", "waiters", "readers"])]
    election: bool,
    /// Clients with lists of three lengths, and an operator who adds two members one after the other.
    #[arg(long, conflicts_with_all = ["forgetful", "rolled_back", "stopped_clocks", "silence", "lock_delay", "fences", "permits", "several", "waiters", "readers", "forced", "election"])]
    members: bool,
    /// Stop at the first seed that fails.
    #[arg(long)]
    first_failure: bool,
    /// Go on where this file says that an earlier call ended, and add to it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["first", "seed"])]
    resume: Option<PathBuf>,
    /// Threads that run seeds.
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

impl Arguments {
    /// The plan of a seed, as the options want it.
    fn plan(&self, seed: u64) -> Plan {
        let plan = match (self.forgetful, self.permits) {
            (Some(spare_votes), _) => Plan::forgetful(seed, spare_votes),
            _ if self.rolled_back => Plan::rolled_back(seed),
            _ if self.stopped_clocks => Plan::stopped_clocks(seed),
            _ if self.silence => Plan::silence(seed),
            _ if self.lock_delay => Plan::of(seed).delayed(),
            _ if self.several => Plan::of(seed).of_several(),
            _ if self.fences => Plan::of(seed).fenced(),
            _ if self.readers => Plan::of(seed).with_readers(),
            _ if self.owners => Plan::of(seed).owned(),
            _ if self.election => Plan::of(seed).electing(),
            _ if self.waiters => Plan::of(seed).waiting(),
            _ if self.told => Plan::of(seed).waiting_for_word(),
            _ if self.members => Plan::of(seed).with_changing_members(),
            _ if self.far => Plan::far(seed),
            (None, Some(permits)) => Plan::of(seed).of_permits(permits),
            (None, None) => Plan::of(seed),
        };
        match self.forced {
            true => plan.with_forced_releases(),
            false => plan,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match check(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn check(arguments: &Arguments) -> Result<bool, String> {
    let mut ledger = match &arguments.resume {
        Some(path) => Ledger::read(path)?,
        None => Ledger::default(),
    };
    let (first, seeds) = match (arguments.seed, &arguments.resume) {
        (Some(seed), _) => (seed, 1),
        (None, Some(_)) => (ledger.next_seed, arguments.seeds),
        (None, None) => (arguments.first, arguments.seeds),
    };
    let is_shown = arguments.seed.is_some();
    let end = first.saturating_add(seeds);
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        let (done, outcomes) = mpsc::channel();
        for _ in 0..arguments.threads.clamp(1, seeds.max(1)) {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let outcome = match arguments.silent_writers {
                        true => silent_writers::run(seed, is_shown),
                        false => run(&arguments.plan(seed), is_shown),
                    };
                    if done.send((seed, outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        // In order, however they end.
        let mut waiting = BTreeMap::new();
        for (seed, outcome) in outcomes {
            waiting.insert(seed, outcome);
            let mut at = first + ledger_count(&ledger, first);
            while let Some(outcome) = waiting.remove(&at) {
                match &outcome {
                    Ok(report) if is_shown => println!("{report:?}"),
                    Ok(_) => {}
                    Err(violation) => println!("FAILED seed {at}: {violation}"),
                }
                ledger.add(at, &outcome);
                at += 1;
                save(&ledger, arguments.resume.as_deref(), at.is_multiple_of(100))?;
            }
            if arguments.first_failure && !ledger.failed.is_empty() {
                next.store(end, Ordering::Relaxed);
            }
        }
        Ok::<(), String>(())
    })?;
    save(&ledger, arguments.resume.as_deref(), true)?;
    println!("{}", ledger.lines());
    println!(
        "{} passed, {} failed, 0 skipped",
        ledger.passed,
        ledger.failed.len()
    );
    Ok(ledger.failed.is_empty())
}

/// How many seeds of this call are in the ledger.
fn ledger_count(ledger: &Ledger, first: u64) -> u64 {
    ledger.next_seed.saturating_sub(first)
}

fn save(ledger: &Ledger, path: Option<&Path>, is_time: bool) -> Result<(), String> {
    path.filter(|_| is_time)
        .map_or(Ok(()), |path| ledger.write(path))
}
