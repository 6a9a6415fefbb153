//! `quorlock cluster up`: from the flags to a supervised cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::embedded::LaunchMode;
use super::event::{self, EventTarget, Reporter};
use super::home::ClusterHome;
use super::live::{self, Screen};
use super::manifest::Manifest;
use super::member::ClusterMember;
use super::options::Arguments;
use super::prepare::{Prepared, prepare};
use super::queued_output::QueuedOutput;
use super::supervisor::{Plan, supervise};
use super::view::LocalCluster;
use super::{clean, control, current, detach, ready_file};
use crate::exit_code::Failure;
use crate::output::{Format, remark};
use crate::runtime;
use crate::signals::CaughtSignals;

/// Serves a page about these nodes on this port, or any that is free, and gives its address. The authority is the one that has
/// signed the nodes' certificates.
pub(crate) type ServePage =
    fn(Option<u16>, Vec<String>, Option<PathBuf>) -> Result<String, Failure>;

/// Starts a cluster and supervises it, in this process or in the background.
pub(super) fn run(
    mut arguments: Arguments,
    format: Format,
    serve_page: ServePage,
) -> Result<ExitCode, Failure> {
    if arguments.remove {
        arguments.ephemeral = true;
    } else if arguments.ephemeral {
        arguments.dir = temporary_directory();
    }
    // What can be cut off and advanced is in memory.
    arguments.in_process |= arguments.ephemeral;
    let home = ClusterHome::at(&arguments.dir)?;
    current::check_folder()?;
    let outcome = if arguments.detach && !arguments.detached {
        make(&home, &arguments)?;
        detach::run(&home, &arguments, format)
    } else {
        runtime::block_on(async {
            // Before there is anything that a signal would leave behind.
            let ends = CaughtSignals::that_end()
                .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
            make(&home, &arguments)?;
            Ok(bring_up(&home, &arguments, format, ends, serve_page).await)
        })?
    };
    if arguments.ephemeral && (outcome.is_err() || !arguments.detach || arguments.detached) {
        current::forget(&home);
        let _left_behind = clean::remove(&home);
    }
    outcome
}

/// Makes the cluster's directory, where none runs.
fn make(home: &ClusterHome, arguments: &Arguments) -> Result<(), Failure> {
    home.make()?;
    if home.is_running() {
        return Err(home.already_runs());
    }
    match &arguments.ready_file {
        Some(path) => ready_file::remove_stale(path),
        None => Ok(()),
    }
}

async fn bring_up(
    home: &ClusterHome,
    arguments: &Arguments,
    format: Format,
    ends: CaughtSignals,
    serve_page: ServePage,
) -> Result<ExitCode, Failure> {
    let _ownership = home.own()?;
    let Prepared {
        manifest,
        resumed,
        note,
    } = prepare(home, arguments)?;
    let mode = LaunchMode {
        in_process: arguments.in_process,
        ephemeral: arguments.ephemeral,
        appendfsync: manifest.appendfsync.clone(),
        tls: manifest.certificates(home),
        size: manifest.nodes.len(),
        cluster_id: manifest.cluster_id().to_owned(),
    };
    let target = target(home, arguments.detached)?;
    let output = target.output().cloned();
    let listener = control::listen(home)?;
    current::record(home)?;
    let members = manifest.nodes.iter().cloned();
    let members = members
        .map(|entry| ClusterMember::new(entry, home.clone(), mode.clone()))
        .collect();
    let page = page(arguments, format, &manifest, home, serve_page)?;
    let load = load(arguments, &manifest);
    let plan = Plan {
        home: home.clone(),
        members,
        view: LocalCluster {
            name: home.name(),
            directory: home.directory().to_owned(),
            pid: std::process::id(),
            quorum: manifest.quorum(),
            cacert: manifest.certificates(home).map(|it| it.authority),
            page,
            appendfsync: manifest.appendfsync,
            ephemeral: arguments.ephemeral,
            in_process: arguments.in_process,
            resumed,
            note,
            ready: false,
            nodes: Vec::new(),
        },
        ready_file: arguments.ready_file.clone(),
        load,
        format,
        screen: screen(arguments, format, output.as_ref())?,
    };
    let reporter = Reporter::new(format, target);
    let outcome = supervise(plan, reporter, listener, ends).await;
    let outcome = conclude(outcome, output.as_ref(), format);
    if let Some(path) = &arguments.ready_file {
        ready_file::remove_own(path);
    }
    outcome
}

/// Has all written, and a failure behind it where that belongs on standard output: a reader that reads nothing has its time, and no
/// more. What it has not read by then is said on standard error.
fn conclude(
    outcome: Result<(), Failure>,
    output: Option<&QueuedOutput>,
    format: Format,
) -> Result<ExitCode, Failure> {
    let Some(output) = output else {
        return outcome.map(|()| ExitCode::SUCCESS);
    };
    let is_said_there = format == Format::Json;
    if let (Err(failure), true) = (&outcome, is_said_there) {
        let _closed = output.send(format!("{}\n", failure.value()).as_bytes());
    }
    output.finish();
    let is_written = output.is_idle();
    match outcome {
        Err(failure) if is_said_there && !output.has_failed() => {
            if !is_written {
                remark(&failure);
            }
            Ok(failure.into())
        }
        outcome => outcome.map(|()| ExitCode::SUCCESS),
    }
}

/// Where the supervisor reports what happens.
fn target(home: &ClusterHome, is_detached: bool) -> Result<EventTarget, Failure> {
    if is_detached {
        let log = event::open_log(home);
        let log = log.map_err(|error| home.failure("cannot write to", &error))?;
        return Ok(EventTarget::Log(log));
    }
    let output = QueuedOutput::open()
        .map_err(|error| Failure::failed(format!("cannot write to standard output: {error}")))?;
    Ok(EventTarget::Output(output))
}

/// How many callers take locks, and on which nodes.
fn load(arguments: &Arguments, manifest: &Manifest) -> Option<(usize, Vec<String>)> {
    let callers = arguments.with_load?;
    Some((callers.into(), manifest.urls()))
}

/// The page for a browser, where people watch or one is asked for. Gives its address.
fn page(
    arguments: &Arguments,
    format: Format,
    manifest: &Manifest,
    home: &ClusterHome,
    serve: ServePage,
) -> Result<Option<String>, Failure> {
    let asked = arguments.page_port;
    let is_for_people = format == Format::Text && !arguments.ephemeral;
    if arguments.no_page || !is_for_people && asked.is_none() {
        return Ok(None);
    }
    let authority = manifest.certificates(home).map(|it| it.authority);
    match serve(asked, manifest.urls(), authority) {
        // Nobody has asked for it.
        Err(_) if asked.is_none() => Ok(None),
        served => served.map(Some),
    }
}

/// The terminal for a live table, where people watch.
fn screen(
    arguments: &Arguments,
    format: Format,
    output: Option<&QueuedOutput>,
) -> Result<Option<Screen>, Failure> {
    let has_table = !arguments.no_tui && format == Format::Text && Screen::is_available();
    let terminal = output.filter(|_| has_table);
    let screen = terminal.map(|terminal| Screen::open(terminal.clone()));
    screen.transpose().map_err(|error| {
        live::unusable(error).remedy("go on without one: quorlock cluster up --no-tui")
    })
}

fn temporary_directory() -> PathBuf {
    let name = format!("quorlock-{:08x}", rand::random::<u32>());
    Path::new(&std::env::temp_dir()).join(name)
}
