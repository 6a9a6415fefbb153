//! Completions for shells, and man pages: made from the same description of the command line that parses it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::exit_code::Failure;

/// `quorlock completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell that completes words
    shell: Shell,
}

/// `quorlock man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManPages {
    /// The directory that they are written to; it is made where there is none
    directory: PathBuf,
}

/// Prints the completions of a command line.
pub(crate) fn complete(arguments: &Completions, mut command: Command) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "quorlock", &mut text);
    // Who has read enough wants no more.
    let _closed_pipe = io::stdout().write_all(&text);
    ExitCode::SUCCESS
}

/// Writes a man page for each subcommand of a command line.
pub(crate) fn write_man_pages(arguments: &ManPages, command: Command) -> Result<ExitCode, Failure> {
    let directory: &Path = &arguments.directory;
    let made = fs::create_dir_all(directory);
    let written = made.and_then(|()| clap_mangen::generate_to(command, directory));
    written.map_err(|error| {
        let what = format!("cannot write man pages to {}: {error}", directory.display());
        Failure::failed(what)
    })?;
    Ok(ExitCode::SUCCESS)
}
