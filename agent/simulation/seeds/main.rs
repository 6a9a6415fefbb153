//! `agent-seeds`: runs callers of lock libraries in front of agents and a whole cluster from seeds.
//!
//! Invariant: no rule is mirrored here. Agents, clients and nodes are those that are shipped; callers send what libraries send. What
//! is checked is what callers were told, against true time and what nodes store.
//!
//! Its last line is `N passed, N failed, N skipped`; a seed is one check.

#![allow(clippy::print_stdout, reason = "this is a command")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;

use self::plan::Plan;
use self::world::{Report, run};

mod caller;
mod checks;
mod faults;
mod library;
mod listeners;
mod open;
mod plan;
mod session;
#[cfg(test)]
mod tests;
mod world;

/// Simulates lock libraries in front of agents, and what goes wrong behind them.
#[derive(Debug, Parser)]
#[command(name = "agent-seeds")]
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
    /// Stop at the first seed that fails.
    #[arg(long)]
    first_failure: bool,
    /// Threads that run seeds.
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (first, seeds) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.first, arguments.seeds),
    };
    let end = first.saturating_add(seeds);
    let next = AtomicU64::new(first);
    let totals = Mutex::new((Report::default(), 0, 0));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.clamp(1, seeds.max(1)) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let outcome = run(&Plan::of(seed), arguments.seed.is_some());
                    let Ok(mut totals) = totals.lock() else {
                        break;
                    };
                    match outcome {
                        Ok(report) => {
                            totals.0.add(&report);
                            totals.1 += 1;
                        }
                        Err(violation) => {
                            println!("FAILED seed {seed}: {violation}");
                            totals.2 += 1;
                            if arguments.first_failure {
                                next.store(end, Ordering::Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    let (report, passed, failed) = totals.into_inner().unwrap_or_default();
    println!("{report:?}");
    println!("{passed} passed, {failed} failed, 0 skipped");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
