//! Why a supervisor has not answered, and what to do about it.

use std::fs;
use std::io;
use std::time::Duration;

use quorlock_server::show_duration;
use rustix::process::Pid;

use super::home::ClusterHome;
use super::manifest::Manifest;
use crate::exit_code::Failure;

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// There is no supervisor.
    Absent,
    /// The supervisor ended before it answered.
    Ended,
    /// Its process is stopped.
    Stopped(Pid),
    /// It has said nothing for so long.
    Silent(Pid, Duration),
    Failed(io::Error),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::Absent,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Ended,
            _ => Self::Failed(error),
        }
    }
}

impl NoAnswer {
    /// The same for people.
    pub(super) fn failure(self, home: &ClusterHome) -> Failure {
        let supervisor = format!("the supervisor of {}", home.name());
        let nodes_go_on = "nodes that run as processes go on, and so do their locks";
        match self {
            Self::Absent => {
                let shown = home.directory().display();
                let way_on = Manifest::read(home).map(|manifest| manifest.way_on(home));
                Failure::failed(format!("the cluster in {shown} is not running"))
                    .remedy(way_on.unwrap_or_default())
            }
            Self::Ended => Failure::failed(format!(
                "{supervisor} ended before it answered, and its nodes with it"
            ))
            .remedy("see whether it is down: quorlock cluster status"),
            Self::Stopped(pid) => Failure::failed(format!(
                "{supervisor} is stopped (process {pid}) and does not answer; {nodes_go_on}"
            ))
            .remedy(format!(
                "let it go on: kill -CONT {pid}\nit then does what it has just been asked for"
            )),
            Self::Silent(pid, waited) => Failure::failed(format!(
                "{supervisor} (process {pid}) does not answer, for {} now; {nodes_go_on}",
                show_duration(waited)
            ))
            .remedy(format!("look at process {pid}; killing it stops its nodes")),
            Self::Failed(error) => {
                Failure::failed(format!("{supervisor} cannot be asked: {error}"))
            }
        }
    }
}

/// Whether a process is stopped, by a signal or a debugger.
pub(super) fn is_stopped(pid: Pid) -> bool {
    let line = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).into_owned();
    // The state follows the name, which may contain anything.
    let state = line.rsplit_once(')').map(|(_, fields)| fields.trim_start());
    state.is_some_and(|state| state.starts_with(['T', 't']))
}
