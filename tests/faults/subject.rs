//! The node under test: the real `quorlock server`, on a port of its own choosing.

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use quorlock_testkit::Process;
use rustix::process::Signal;

use crate::check::Bench;
use crate::check_directory::CheckDirectory;
use crate::strace::{self, Injection};

/// `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Always,
    Everysec,
    No,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Always, Self::Everysec, Self::No];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
            Self::No => "no",
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Signalled(i32),
}

impl Ended {
    pub(crate) const KILLED: Self = Self::Signalled(9);

    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signalled(signal.unwrap_or_default()),
        }
    }
}

/// A way to start a node.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) more: Vec<String>,
    pub(crate) injection: Option<Injection>,
    /// Words before the program: another user, a resource limit.
    pub(crate) wrapper: Vec<String>,
    /// It has to write its log directly.
    pub(crate) is_direct: bool,
}

impl Launch {
    pub(crate) fn new(bench: &Bench, mode: Mode) -> Self {
        Self {
            program: bench.program.clone(),
            is_direct: mode == Mode::Always && bench.takes_direct,
            mode,
            more: Vec::new(),
            injection: None,
            wrapper: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, words: &[&str]) -> Self {
        self.more.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    pub(crate) fn injecting(mut self, injection: Injection) -> Self {
        self.injection = Some(injection);
        self
    }

    /// Starts the node in a directory. It may die at any moment.
    pub(crate) fn start(&self, directory: &CheckDirectory) -> io::Result<Subject> {
        let output = directory.file(&format!("out-{}", directory.next_run()));
        let mut command = match (&self.injection, self.wrapper.split_first()) {
            (Some(injection), _) => {
                strace::command(&self.program, injection, &directory.file(START_TRACE))
            }
            (None, Some((first, rest))) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
            (None, None) => Command::new(&self.program),
        };
        command
            .args([
                "server",
                "--port",
                "0",
                "--bind",
                "127.0.0.1",
                "--workers",
                "1",
                "--first-start",
                "serve",
            ])
            .args(["--restart-delay-max", CAP_WORD])
            .args(["--appendfsync", self.mode.name()])
            .args(&self.more)
            .arg("--dir")
            .arg(directory.data());
        Ok(Subject {
            process: Process::start(&mut command, &output)?,
            is_direct: self.is_direct,
        })
    }
}

/// A node as a process. It is killed when dropped.
pub(crate) struct Subject {
    process: Process,
    /// It has to write its log directly.
    pub(crate) is_direct: bool,
}

impl Subject {
    /// Waits until the node says where it listens; how it ended if it does not come that far.
    pub(crate) fn listening(&mut self) -> Result<SocketAddr, Ended> {
        if let Some(address) = self.process.address_within(START_MAX) {
            return Ok(address);
        }
        let ended = self.process.status().map(Ended::of);
        self.kill();
        Err(ended.unwrap_or(Ended::Exited(NEVER_CAME)))
    }

    /// What the node wrote.
    pub(crate) fn said(&self) -> String {
        self.process.output()
    }

    /// The last lines of it, for people.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(6)..].join("\n    ")
    }

    /// How often a thread of it panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.said().matches("panicked at").count() as u64
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.status().is_some()
    }

    /// Waits for the end; `None` if it does not come in time.
    pub(crate) fn end(&mut self, max: Duration) -> Option<Ended> {
        self.process.status_within(max).map(Ended::of)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM.
    pub(crate) fn terminate(&mut self) {
        self.process.signal(Signal::TERM);
    }
}

/// `restart-delay-max` of all nodes here: so long that TTLs can outlast a whole run, since delays
/// are looked at and not waited for.
pub(crate) const CAP: Duration = Duration::from_secs(2 * 3_600);
const CAP_WORD: &str = "2h";

/// What strace writes of a node that it started.
pub(crate) const START_TRACE: &str = "start.trace";

const START_MAX: Duration = Duration::from_secs(30);

/// Stands for a node that neither answers nor ends.
pub(crate) const NEVER_CAME: i32 = -1;
