//! Checks the models of timed exclusion, of fences, of shared locks and of the log, and every mutant of them.
//!
//! It prints a table and, for each invariant that does not hold, the steps that show it. Its last
//! line is `N passed, N failed, N skipped`. The tests of this program are a part of it, with small bounds.

mod check;
mod exclusion;
mod fences;
mod parts;
mod report;
mod run;
mod sharing;
mod stream;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

#[allow(clippy::print_stdout, reason = "the table is what the program is for")]
fn main() -> ExitCode {
    let options = match run::Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", run::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("models: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let counts = run::all(&options, |line| println!("{line}"));
    println!("{counts}");
    if counts.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
