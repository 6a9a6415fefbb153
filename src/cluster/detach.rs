//! `quorlock cluster up --detach`: the supervisor goes into a session of its own.
//!
//! This half waits until the cluster is ready or has failed, and says so. Interrupting the wait
//! leaves the cluster running.

use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use super::control::{self, ControlRequest};
use super::home::ClusterHome;
use super::options::Arguments;
use super::{banner, ready_file};
use crate::clock;
use crate::exit_code::Failure;
use crate::launch::{self, Bond};
use crate::output::{Format, remark};

/// Starts the background half and waits for it.
pub(super) fn run(
    home: &ClusterHome,
    arguments: &Arguments,
    format: Format,
) -> Result<ExitCode, Failure> {
    let mut child = background_half(home, arguments, format)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::failed(format!("cannot start the supervisor: {error}")))?;
    let announce_at = clock::now() + NOTICE_AFTER;
    let mut is_announced = false;
    loop {
        if let Some(failure) = end_of(&mut child) {
            return Err(failure);
        }
        // Refused as long as it does not listen; its end shows a failure.
        let cluster = control::ask(home, &ControlRequest::Status)
            .ok()
            .map(|(_, cluster)| cluster);
        if let Some(cluster) = cluster.filter(|cluster| cluster.ready) {
            let footer = "Stop it with: quorlock cluster down";
            format.result(
                format_args!("{}{footer}", banner::banner(&cluster)),
                &ready_file::value(&cluster),
            );
            return Ok(ExitCode::SUCCESS);
        }
        if !is_announced && clock::now() > announce_at {
            is_announced = true;
            remark("waiting for all nodes to serve; watch them with: quorlock cluster status");
        }
        clock::block_for(STEP);
    }
}

fn background_half(home: &ClusterHome, arguments: &Arguments, format: Format) -> Command {
    let mut command = launch::own(Bond::Detached);
    command.args(["cluster", "up", "--detached"]);
    if arguments.ephemeral {
        // Beside a directory the flag cannot be given by people.
        command.arg("--remove");
    }
    command.arg("--dir").arg(home.directory());
    if let Some(nodes) = arguments.nodes {
        command.arg("--nodes").arg(nodes.to_string());
    }
    if let Some(port) = arguments.base_port {
        command.arg("--base-port").arg(port.to_string());
    }
    if let Some(mode) = &arguments.appendfsync {
        command.arg("--appendfsync").arg(mode);
    }
    if arguments.tls {
        command.arg("--tls");
    }
    if arguments.in_process {
        command.arg("--in-process");
    }
    if let Some(callers) = arguments.with_load {
        command.arg("--with-load").arg(callers.to_string());
    }
    command.args(arguments.page_flags(format));
    if let Some(path) = &arguments.ready_file {
        command.arg("--ready-file").arg(path);
    }
    command
}

/// The failure of a background half that has ended, in its own words.
fn end_of(child: &mut Child) -> Option<Failure> {
    let status = child.try_wait().ok().flatten()?;
    let mut words = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _partial = stderr.take(WORDS_BYTES_MAX).read_to_string(&mut words);
    }
    let words = words.trim().trim_start_matches("quorlock: ");
    let (what, remedy) = words.split_once('\n').unwrap_or((words, ""));
    if what.is_empty() {
        return Some(Failure::failed(format!(
            "the cluster did not start ({status})"
        )));
    }
    let remedy: Vec<&str> = remedy.lines().map(str::trim).collect();
    Some(Failure::failed(what).remedy(remedy.join("\n")))
}

const NOTICE_AFTER: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(50);
const WORDS_BYTES_MAX: u64 = 1 << 16;
