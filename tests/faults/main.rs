//! The real `quorlock server` under faults: killed at its n-th system call, with failing, full
//! and slow disks, with damaged files.
//!
//! Each run ends with the same question to the node started again: is every write there that it
//! acknowledged, does it wait where it must, and does it say the truth about it? Killing a process
//! never loses the page cache, so nothing here says what a power loss would do: that is what the
//! simulated disk is for.

mod aged;
mod broken;
mod check;
mod check_directory;
mod damage;
mod direct;
mod examine;
mod failing;
mod full;
mod kill;
mod mount;
mod op;
mod options;
mod pairs;
mod phase;
mod report;
mod segment;
mod slow;
mod state;
mod strace;
mod stream;
mod subject;
mod sweep;
mod torn;
mod traffic;
mod unusable;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quorlock_testkit::binary;
use tempfile::TempDir;

use check::{Bench, Check};
use options::Options;
use strace::Abilities;

#[allow(clippy::print_stdout, reason = "the report is what the program is for")]
fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let checks = all_checks(options.is_thorough);
    if options.is_list {
        for check in &checks {
            println!("{}", check.name);
        }
        return ExitCode::SUCCESS;
    }
    match run(&options, &checks) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("the faults cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// With `--all` some checks are made in every mode, and not in one only.
fn all_checks(is_thorough: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.extend(broken::checks());
    checks.extend(direct::checks());
    checks.extend(slow::checks());
    checks.extend(kill::checks(is_thorough));
    checks.extend(failing::checks(is_thorough));
    checks.extend(torn::checks());
    checks.extend(full::checks());
    checks.extend(unusable::checks());
    checks.extend(pairs::checks());
    checks.extend(damage::checks());
    checks.extend(sweep::checks());
    checks
}

#[allow(clippy::print_stdout, reason = "the report is what the program is for")]
fn run(options: &Options, checks: &[Check]) -> io::Result<ExitCode> {
    let scratch = scratch(options.folder.as_deref())?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => binary::quorlock().to_owned(),
    };
    let bench = Bench {
        program,
        abilities: Abilities::probe(scratch.path()),
        takes_direct: direct::is_taken_in(scratch.path()),
        scratch: scratch.path().to_owned(),
        is_thorough: options.is_thorough,
        is_root: rustix::process::geteuid().is_root(),
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = options.jobs.unwrap_or(cores);
    let totals = check::run_all(&bench, checks, &options.only, jobs, |check, record| {
        print!("{}", report::of_check(check, record, options.is_thorough));
    });
    print!("{}", report::of_all(&totals));
    let is_empty = totals.passed == 0 && totals.skipped.is_empty();
    if is_empty {
        eprintln!("no check has such a name; --list names them all");
    }
    let has_failed = totals.failures() > 0 || is_empty;
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// A directory for all nodes of this run.
fn scratch(wanted: Option<&Path>) -> io::Result<TempDir> {
    let memory = PathBuf::from("/dev/shm");
    let is_large = rustix::fs::statvfs(&memory)
        .is_ok_and(|shape| shape.f_bavail.saturating_mul(shape.f_frsize) >= SCRATCH_BYTES_MIN);
    let mut builder = tempfile::Builder::new();
    builder.prefix("quorlock-faults-");
    match wanted {
        Some(folder) => builder.tempdir_in(folder),
        None if is_large => builder.tempdir_in(memory),
        None => builder.tempdir(),
    }
}

/// What the checks of a few jobs need at a time.
const SCRATCH_BYTES_MIN: u64 = 1 << 30;
