//! The side-by-side harness: the same work on Quorlock and on a peer, alternating, on one machine.
//!
//! It starts both servers itself, each time fresh, on free ports and on a core of their own, and
//! writes a table and JSON. Absolute figures drift with the machine; only ratios count.

mod clock;
mod cores;
mod environment;
mod failure;
mod load;
mod options;
mod report;
mod server;
mod statistics;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cores::Cores;
use environment::Environment;
use failure::{Doing, Failure};
use options::Options;
use report::{Figures, Row};
use server::Server;
use workload::{Traffic, Workload};

const QUICK_DIVISOR: u64 = 20;

#[allow(clippy::print_stdout, reason = "the table is what the harness is for")]
fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(failure) => Err(failure),
    };
    match outcome {
        Ok(text) => {
            println!("\n{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

#[allow(
    clippy::print_stdout,
    reason = "shows that a run of many minutes goes on"
)]
fn run(options: &Options) -> Result<String, Failure> {
    fs::create_dir_all(&options.out).doing("making the report's folder")?;
    // Beside the report, so that the logs lie on a real disk and not on a temporary one.
    let scratch = tempfile::tempdir_in(&options.out).doing("making a scratch folder")?;
    let ours = match &options.ours {
        Some(program) => program.clone(),
        None => build_quorlock()?,
    };
    let cores = Cores::choose()?;
    let environment = Environment::look(scratch.path(), &ours, &options.peer, cores)?;
    println!("{}\n\n{}", environment.line(), report::HEADER);
    let mut rows = Vec::new();
    for workload in workload::all() {
        let named = |wish: &String| workload.name.starts_with(wish.as_str());
        if !options.only.is_empty() && !options.only.iter().any(named) {
            continue;
        }
        let row = measure(options, &workload, &ours, cores, scratch.path())?;
        println!("{}", row.line());
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(Failure::new("no workload has such a name"));
    }
    report::write(&options.out, &environment, &rows)
}

fn measure(
    options: &Options,
    workload: &Workload,
    ours: &Path,
    cores: Cores,
    scratch: &Path,
) -> Result<Row, Failure> {
    let mut figures = [Figures::default(), Figures::default()];
    let programs = [ours, options.peer.as_path()];
    for round in 0..options.rounds {
        // Who goes first changes, so that neither always meets the warmer machine.
        for turn in 0..2 {
            let side = (round + turn) % 2;
            measure_once(
                options,
                workload,
                programs[side],
                cores,
                scratch,
                &mut figures[side],
            )?;
        }
    }
    let [ours, peer] = figures;
    Ok(Row::new(workload, ours, peer))
}

fn measure_once(
    options: &Options,
    workload: &Workload,
    program: &Path,
    cores: Cores,
    scratch: &Path,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let server = Server::start(program, workload.log, cores.server, scratch)?;
    cores::pin(cores.load)?;
    let operations = workload.scaled(if options.quick { QUICK_DIVISOR } else { 1 });
    // Connecting, first pages and first segments are not what is measured.
    load::run(
        &options.load,
        &server,
        workload,
        workload.scaled(20 * QUICK_DIVISOR),
    )?;
    let before = server.cpu()?;
    let seen = load::run(&options.load, &server, workload, operations)?;
    let spent = server.cpu()?.saturating_sub(before);
    let holds_locks = server.ask(&["DBSIZE"])? != "0";
    if holds_locks != (workload.traffic == Traffic::Acquire) {
        let name = program.display();
        return Err(Failure::new(format!(
            "{}: {name} did not do the work",
            workload.name
        )));
    }
    figures
        .operations_per_second
        .push(seen.operations_per_second);
    figures.median_latency_us.extend(seen.median_latency_us);
    figures
        .cpu_us_per_operation
        .push(spent.as_secs_f64() * 1e6 / operations as f64);
    Ok(())
}

/// Builds the program to measure, with the profile this harness was built with.
fn build_quorlock() -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "--package",
        "quorlock",
        "--bin",
        "quorlock",
    ]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.status().doing("starting cargo")?;
    if !status.success() {
        return Err(Failure::new("quorlock does not build"));
    }
    let harness = std::env::current_exe().doing("looking for the built program")?;
    Ok(harness.with_file_name("quorlock"))
}
