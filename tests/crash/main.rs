//! `crash-states`: explores what a node makes of crashes, for a number of states or for hours.
//!
//! Its last line is `N passed, N failed, N skipped`; a workload is one check. What a failure prints brings exactly
//! that state back.

#![allow(clippy::print_stdout, reason = "this is a command")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use quorlock_server::clock::{Clock, SystemClock};
use quorlock_tests::crash::ledger::Ledger;
use quorlock_tests::crash::run::{Outcome, run};
use quorlock_tests::crash::{Budget, Statistics, Vary, explore};

/// Explores the states that crashes may leave a node's disk in.
#[derive(Debug, Parser)]
#[command(name = "crash-states")]
struct Arguments {
    /// Stop after about so many states.
    #[arg(long, default_value_t = 200_000)]
    states: u64,
    /// The first workload's seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Look at this state of the seed's workload only.
    #[arg(long, requires = "seed")]
    only: Option<u64>,
    /// Images per point of crash in short workloads: all subsets where there are no more.
    #[arg(long, default_value_t = 4096)]
    short: u64,
    /// Images per point of crash in long workloads.
    #[arg(long, default_value_t = 12)]
    long: u64,
    /// Run for so many hours, go on where the ledger ends, and add to it.
    #[arg(long)]
    hours: Option<u32>,
    /// The ledger of the runs with --hours.
    #[arg(long, default_value = "crash-states.json")]
    ledger: PathBuf,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print the steps of the seed's workload instead.
    #[arg(long, requires = "seed")]
    steps: bool,
    /// Stop at the first failure.
    #[arg(long)]
    first_failure: bool,
    /// Let nothing but the mode and restart-delay-max change between starts.
    #[arg(long)]
    cap_only: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let passed = if let (Some(seed), true) = (arguments.seed, arguments.steps) {
        println!(
            "{}",
            quorlock_tests::crash::steps(seed, budget(&arguments).vary)
        );
        true
    } else if let (Some(seed), Some(only)) = (arguments.seed, arguments.only) {
        repeat(seed, only, budget(&arguments))
    } else if let Some(hours) = arguments.hours {
        last(&arguments, hours)
    } else {
        let states = arguments.states;
        let first = arguments.seed.unwrap_or(1);
        let outcome = run(first, budget(&arguments), arguments.jobs, |done, failed| {
            done < states && !(arguments.first_failure && failed > 0)
        });
        report(&outcome.statistics);
        verdict(&outcome)
    };
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn budget(arguments: &Arguments) -> Budget {
    Budget {
        short: arguments.short,
        long: arguments.long,
        vary: match arguments.cap_only {
            true => Vary::Cap,
            false => Vary::Everything,
        },
    }
}

/// Runs for hours, in slices, each added to the ledger.
fn last(arguments: &Arguments, hours: u32) -> bool {
    let end = seconds() + u64::from(hours) * 3600;
    let mut ledger = match Ledger::read(&arguments.ledger) {
        Ok(ledger) => ledger,
        Err(error) => {
            println!(
                "cannot use the ledger {}: {error}",
                arguments.ledger.display()
            );
            println!("0 passed, 1 failed, 0 skipped");
            return false;
        }
    };
    let mut is_right = true;
    while seconds() < end {
        let began = seconds();
        let slice = end.min(began + SLICE_SECONDS);
        let first = ledger.next_seed.max(1);
        let outcome = run(first, budget(arguments), arguments.jobs, |_, _| {
            seconds() < slice
        });
        for failure in &outcome.failures {
            println!("FAILED {failure}");
        }
        is_right &= outcome.failures.is_empty();
        ledger.add(&outcome, seconds() - began);
        if let Err(error) = ledger.write(&arguments.ledger) {
            println!(
                "cannot write the ledger {}: {error}",
                arguments.ledger.display()
            );
            is_right = false;
            break;
        }
    }
    println!("in all runs of this ledger, {} s:", ledger.seconds);
    report(&ledger.statistics);
    let failed = ledger.failures;
    let passed = ledger.statistics.workloads.saturating_sub(failed);
    println!("{passed} passed, {failed} failed, 0 skipped");
    is_right
}

fn repeat(seed: u64, only: u64, budget: Budget) -> bool {
    let explored = explore(seed, budget, Some(only), &mut Statistics::default());
    match explored {
        Ok(()) => println!(
            "state {only} of seed {seed} is as it should be\n1 passed, 0 failed, 0 skipped"
        ),
        Err(ref failure) => println!("FAILED {failure}\n0 passed, 1 failed, 0 skipped"),
    }
    explored.is_ok()
}

fn report(statistics: &Statistics) {
    println!("{:<40} {:>12}", "states", statistics.states());
    for (name, count) in statistics.numbers() {
        println!("{name:<40} {count:>12}");
    }
    for (kind, count) in &statistics.faults {
        println!("{:<40} {count:>12}", format!("fault: {kind}"));
    }
}

fn verdict(outcome: &Outcome) -> bool {
    for failure in &outcome.failures {
        println!("FAILED {failure}");
    }
    let failed = outcome.failures.len() as u64;
    let passed = outcome.statistics.workloads.saturating_sub(failed);
    println!("acknowledged writes lost, or nodes clean with loss: {failed}");
    println!("{passed} passed, {failed} failed, 0 skipped");
    failed == 0
}

fn seconds() -> u64 {
    SystemClock.raw().as_nanos() / 1_000_000_000
}

/// How often a long run writes its ledger.
const SLICE_SECONDS: u64 = 60;
