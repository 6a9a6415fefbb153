//! `cluster-seeds`: runs whole clusters from seeds, or one with all that happens in it.
//!
//! Its last line is `N passed, N failed, N skipped`; a seed is one check.

#![allow(clippy::print_stdout, reason = "this is a command")]

use std::process::ExitCode;

use clap::Parser;
use quorlock_tests::simulation::{Plan, run};

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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (first, seeds) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.first, arguments.seeds),
    };
    let (mut passed, mut failed, mut simulated_ms, mut acquired) = (0_u64, 0_u64, 0, 0);
    for seed in first..first.saturating_add(seeds) {
        match run(&Plan::of(seed), arguments.seed.is_some()) {
            Ok(report) => {
                passed += 1;
                simulated_ms += report.simulated_ms;
                acquired += report.acquired;
                if arguments.seed.is_some() {
                    println!("{report:?}");
                }
            }
            Err(violation) => {
                failed += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    let hours = simulated_ms / 3_600_000;
    println!("{hours} hours simulated, {acquired} acquisitions");
    println!("{passed} passed, {failed} failed, 0 skipped");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
