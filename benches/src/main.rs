//! The side-by-side harness: the same work on Quorlock and on a peer, alternating, on one machine.
//!
//! It starts both servers itself, each time fresh, on free ports and on a core of their own, and
//! writes a table and JSON. Absolute figures drift with the machine; only ratios count.

mod clock;
mod cores;
mod environment;
mod expired;
mod failure;
mod listeners;
mod load;
mod measure;
mod options;
mod quiet;
mod redlock;
mod replay;
mod report;
mod round_trip;
mod server;
mod statistics;
mod sync_delay;
mod waves;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cores::Cores;
use environment::Environment;
use failure::{Doing, Failure};
use options::{Delayed, Options};
use server::Setup;
use sync_delay::SyncDelay;
use workload::Traffic;

#[allow(clippy::print_stdout, reason = "the table is what the harness is for")]
fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(Options {
            delayed: Some(delayed),
            ..
        })) => return run_delayed(&delayed),
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
    let ours = match &options.ours {
        Some(program) => program.clone(),
        None => build_quorlock()?,
    };
    let cores = Cores::choose()?;
    let mut texts = Vec::new();
    for peer in &options.peers {
        if Command::new(peer).arg("--version").output().is_err() {
            println!(
                "not compared with {}, which is not installed",
                peer.display()
            );
            continue;
        }
        texts.push(compare(options, &ours, peer, cores)?);
    }
    if texts.is_empty() {
        return Err(Failure::new("none of the peers is installed"));
    }
    Ok(texts.join("\n"))
}

/// Measures all rows against one peer, and returns the report.
#[allow(
    clippy::print_stdout,
    reason = "shows that a run of many minutes goes on"
)]
fn compare(options: &Options, ours: &Path, peer: &Path, cores: Cores) -> Result<String, Failure> {
    let out = options.out.join(options::file_name(peer));
    fs::create_dir_all(&out).doing("making the report's folder")?;
    // Beside the report, so that the logs lie on a real disk and not on a temporary one.
    let scratch = tempfile::tempdir_in(&out).doing("making a scratch folder")?;
    let environment = Environment::look(scratch.path(), ours, peer, cores)?;
    println!("{}\n\n{}", environment.line(), report::HEADER);
    let (mut rows, mut text) = (Vec::new(), String::new());
    for workload in workload::all() {
        if !options.wants(&workload) {
            continue;
        }
        let setup = |program: &Path| Setup {
            program: program.to_owned(),
            log: workload.log,
            is_interpreted: workload.is_interpreted,
            sync_delay: workload.sync_delay,
            cores,
            scratch: scratch.path().to_owned(),
        };
        let row = match workload.traffic {
            Traffic::Redlock { broken } => redlock::row(options, &workload, broken, &setup(peer))?,
            Traffic::Crowd => redlock::crowd(options, &workload, &setup(peer))?,
            _ => measure::row(options, &workload, setup(ours), setup(peer))?,
        };
        println!("{}", row.line());
        rows.push(row);
        // A run that is interrupted leaves what it has measured.
        text = report::write(&out, &environment, &rows)?;
    }
    if rows.is_empty() {
        return Err(Failure::new("no workload has such a name"));
    }
    Ok(text)
}

/// Runs a program with its syncs delayed, and ends as it does.
fn run_delayed(delayed: &Delayed) -> ExitCode {
    let mut command = Command::new(&delayed.program);
    command.args(&delayed.arguments);
    let ended = Cores::choose()
        .and_then(|cores| SyncDelay::start(&mut command, delayed.delay, cores))
        .and_then(|(mut child, _)| child.wait().doing("waiting for a delayed program"));
    match ended {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
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
