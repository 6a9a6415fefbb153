//! `quorlock experiment`: what each fsync mode loses, costs and risks when nodes crash, tried on the user's own machine.
//!
//! What is tried, and what decides a trial, is in `quorlock-experiment`; these files read arguments, show progress and
//! put results where the user wants them.

mod cancel;
mod compare;
mod compare_progress;
mod crash_progress;
mod crash_recovery;
mod environment;
mod found;
pub(crate) mod node;
mod programs;
mod progress;
mod run_options;
mod stories;
mod tried;

use std::process::ExitCode;

use crate::exit_code::Failure;
use crate::output::Format;

/// Arguments of `quorlock experiment`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: ExperimentCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ExperimentCommand {
    /// Crash nodes in every way and report what each fsync mode loses and costs
    #[command(after_help = crash_recovery::HELP)]
    CrashRecovery(Box<crash_recovery::Arguments>),
    /// Put the same lock workload on other lock services and report what they cost and what survives which fault
    #[command(after_help = compare::HELP)]
    Compare(Box<compare::Arguments>),
    /// List the failure stories that can be replayed
    List,
    /// Tell a failure story, and replay it
    Show {
        /// Its name, as `experiment list` shows it
        story: String,
        /// Only tell it
        #[arg(long)]
        no_replay: bool,
    },
}

/// Runs a subcommand of `quorlock experiment`.
pub(crate) fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    match arguments.command {
        ExperimentCommand::CrashRecovery(arguments) => crash_recovery::run(&arguments, format),
        ExperimentCommand::Compare(arguments) => compare::run(&arguments, format),
        ExperimentCommand::List => Ok(stories::list(format)),
        ExperimentCommand::Show { story, no_replay } => stories::show(&story, !no_replay, format),
    }
}

/// A run that could not be carried out.
fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::new(ERROR, what)
}

/// What is said where a signal came before there was a directory.
const INTERRUPTED_EARLY: &str = "interrupted before anything was tried; nothing was made";

/// Its exit code.
const ERROR: u8 = 2;
