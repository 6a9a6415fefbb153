//! `quorlock log`: what is in a node's data directory, and whether it is whole.
//!
//! All but `repair`, `import` and `export` only look, and work beside a running node. What is found is decided in
//! `quorlock-server`; these files put it into words.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit_code::Failure;
use crate::output::Format;

mod change;
mod check;
mod dump;
mod export;
mod import;
mod printout;
mod record;
mod repair;
mod stats;

/// Arguments of `quorlock log`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LogCommand {
    /// Say whether the log is whole, and if not, where it breaks and what that means
    #[command(after_help = check::HELP)]
    Check {
        /// A node's data directory; the node may run
        directory: PathBuf,
    },
    /// Print the log, one line per frame
    #[command(after_help = dump::HELP)]
    Dump(dump::Arguments),
    /// Say how large the log is, and of what
    #[command(after_help = stats::HELP)]
    Stats {
        /// A node's data directory; the node may run
        directory: PathBuf,
    },
    /// Cut a log that a start refuses, and keep what was cut in a folder
    #[command(after_help = repair::HELP)]
    Repair(repair::Arguments),
    /// Make a node of the append-only files of a redis-server
    #[command(after_help = import::HELP)]
    Import(import::Arguments),
    /// Make append-only files for a redis-server of a stopped node's log
    #[command(after_help = export::HELP)]
    Export(export::Arguments),
}

/// Runs a subcommand of `quorlock log`.
pub(crate) fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    match arguments.command {
        LogCommand::Check { directory } => check::run(&directory, format),
        LogCommand::Dump(arguments) => dump::run(&arguments, format),
        LogCommand::Stats { directory } => stats::run(&directory, format),
        LogCommand::Repair(arguments) => repair::run(&arguments, format),
        LogCommand::Import(arguments) => import::run(&arguments, format),
        LogCommand::Export(arguments) => export::run(&arguments, format),
    }
}
