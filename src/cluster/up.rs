//! `quorlock cluster up`: from the flags to a supervised cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::event::Reporter;
use super::home::Home;
use super::member::{Member, Mode};
use super::prepare::{Prepared, prepare};
use super::supervisor::{Plan, supervise};
use super::{control, current, detach, ready_file};
use crate::exit_code::Failure;
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock cluster up`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// How many nodes; a lock needs more than half of them (default: 5)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: Option<u16>,
    /// Port of the first node, the others follow; 0 takes any free block (default: 7001, or the
    /// next free block)
    #[arg(long, value_name = "PORT")]
    pub(super) base_port: Option<u16>,
    /// Where the cluster keeps its data
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    pub(super) dir: PathBuf,
    /// Keep nothing: a temporary directory (or memory, with --in-process) that goes at the end
    #[arg(long, conflicts_with = "dir")]
    pub(super) ephemeral: bool,
    /// When the nodes sync their logs to disk (default: everysec)
    #[arg(long, value_name = "MODE")]
    pub(super) appendfsync: Option<AppendFsync>,
    /// Run the nodes inside this process instead of one process each
    #[arg(long)]
    pub(super) in_process: bool,
    /// Return once all nodes serve, and leave the cluster running
    #[arg(long)]
    pub(super) detach: bool,
    /// Write a JSON description of the cluster here once all nodes serve; removed at the end, and
    /// before the start if one of an earlier run is there
    #[arg(long, value_name = "FILE")]
    pub(super) ready_file: Option<PathBuf>,
    /// This is the background half of --detach
    #[arg(long, hide = true)]
    pub(super) detached: bool,
    /// Remove the directory at the end, as for --ephemeral whose directory is known
    #[arg(long, hide = true)]
    pub(super) remove: bool,
}

/// When a node's log is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum AppendFsync {
    Always,
    Everysec,
    No,
}

impl AppendFsync {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
            Self::No => "no",
        }
    }
}

impl Arguments {
    pub(super) fn appendfsync(&self) -> String {
        self.appendfsync
            .unwrap_or(AppendFsync::Everysec)
            .word()
            .to_owned()
    }

    /// Whether the nodes have no directories at all.
    pub(super) fn is_in_memory(&self) -> bool {
        self.ephemeral && self.in_process
    }
}

/// Starts a cluster and supervises it, in this process or in the background.
pub(super) fn run(mut arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    if arguments.remove {
        arguments.ephemeral = true;
    } else if arguments.ephemeral {
        arguments.dir = temporary_directory();
    }
    let home = Home::at(&arguments.dir)?;
    home.make()?;
    if home.is_running() {
        return Err(home.already_runs());
    }
    if let Some(path) = &arguments.ready_file {
        ready_file::remove_stale(path)?;
    }
    let outcome = if arguments.detach && !arguments.detached {
        detach::run(&home, &arguments, format)
    } else {
        runtime::block_on(bring_up(&home, &arguments, format))
    };
    if arguments.ephemeral && (outcome.is_err() || !arguments.detach || arguments.detached) {
        current::forget(&home);
        let _left_behind = fs::remove_dir_all(home.directory());
    }
    outcome
}

async fn bring_up(home: &Home, arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let _ownership = home.own()?;
    let Prepared {
        manifest,
        resumed,
        note,
    } = prepare(home, arguments)?;
    let mode = Mode {
        in_process: arguments.in_process,
        ephemeral: arguments.ephemeral,
        appendfsync: manifest.appendfsync.clone(),
    };
    let reporter = if arguments.detached {
        Reporter::to_file(home, format).map_err(|error| home.failure("cannot write to", &error))?
    } else {
        Reporter::to_output(format)
    };
    let listener = control::listen(home)?;
    current::record(home)?;
    let members = manifest.nodes.iter().cloned();
    let members = members
        .map(|entry| Member::new(entry, home.clone(), mode.clone()))
        .collect();
    let plan = Plan {
        home: home.clone(),
        members,
        quorum: manifest.quorum(),
        appendfsync: manifest.appendfsync,
        ephemeral: arguments.ephemeral,
        in_process: arguments.in_process,
        resumed,
        note,
        ready_file: arguments.ready_file.clone(),
        format,
    };
    let outcome = supervise(plan, reporter, listener).await;
    if let Some(path) = &arguments.ready_file {
        ready_file::remove_own(path);
    }
    outcome.map(|()| ExitCode::SUCCESS)
}

fn temporary_directory() -> PathBuf {
    let name = format!("quorlock-{:08x}", rand::random::<u32>());
    Path::new(&std::env::temp_dir()).join(name)
}

/// Where a cluster is kept when nobody says otherwise.
pub(super) const DEFAULT_DIRECTORY: &str = ".quorlock/dev";

const EXAMPLES: &str = "\
Examples:
  quorlock cluster up                                 five nodes, until Ctrl-C
  quorlock cluster up --appendfsync always            no restart delay after a killed process
  quorlock cluster up --ephemeral --ready-file r.json --detach      for a test suite
  quorlock cluster up --dir b --base-port 7101        a second cluster beside the first

Up again on a stopped cluster resumes it: the same nodes, ports and locks. A node that did not
stop cleanly takes no part until everything it may have forgotten has expired.";
