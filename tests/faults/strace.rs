//! Faults put into system calls by strace: death, errors, delays.
//!
//! strace counts calls per thread. A signal is delivered when the call is entered, so a call at
//! which the process is killed has not happened.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use quorlock_testkit::{Process, becomes_so};
use rustix::process::Signal;

/// What happens at which call.
#[derive(Clone, Debug)]
pub(crate) struct Injection {
    /// The calls, separated by commas.
    pub(crate) calls: String,
    /// As strace writes it: `signal=KILL`, `error=EIO`, `delay_enter=100000`; empty for none.
    pub(crate) effect: String,
    /// At the how many-th call: `3`, or `3+` for all from the third on.
    pub(crate) when: String,
    /// Only calls about this file.
    pub(crate) path: Option<PathBuf>,
}

impl Injection {
    pub(crate) fn new(calls: &str, effect: &str, when: impl ToString) -> Self {
        Self {
            calls: calls.to_owned(),
            effect: effect.to_owned(),
            when: when.to_string(),
            path: None,
        }
    }

    /// Nothing happens: the calls are only written down.
    pub(crate) fn watching(calls: &str) -> Self {
        Self::new(calls, "", "")
    }

    /// The same for calls about one file only.
    pub(crate) fn about(mut self, path: PathBuf) -> Self {
        self.path = Some(path);
        self
    }

    /// Death when the `nth` call is entered.
    pub(crate) fn kill(call: &str, nth: u64) -> Self {
        Self::new(call, "signal=KILL", nth)
    }

    fn arguments(&self) -> Vec<String> {
        let Self {
            calls,
            effect,
            when,
            path,
        } = self;
        let mut words = vec![
            "-qqq".to_owned(),
            "-e".to_owned(),
            format!("trace={calls}"),
            "-e".to_owned(),
            "signal=none".to_owned(),
        ];
        if !effect.is_empty() {
            words.push("-e".to_owned());
            words.push(format!("inject={calls}:{effect}:when={when}"));
        }
        if let Some(path) = path {
            words.extend(["-P".to_owned(), path.display().to_string()]);
        }
        words
    }
}

/// The command that starts `program` with faults from its first instruction on. The program, not
/// strace, becomes the child.
pub(crate) fn command(program: &Path, injection: &Injection, trace: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-o"]).arg(trace);
    command.args(injection.arguments()).arg("--").arg(program);
    command
}

/// strace attached to a running process; dropping it detaches.
pub(crate) struct Attached {
    strace: Process,
}

impl Attached {
    /// Attaches to one thread of a process, by its name; to all threads if none is named.
    pub(crate) fn to(
        process: u32,
        thread: Option<&str>,
        injection: &Injection,
        trace: &Path,
    ) -> io::Result<Self> {
        let task = match thread {
            Some(name) => thread_named(process, name)?,
            None => process,
        };
        let mut command = Command::new("strace");
        if thread.is_none() {
            command.arg("-f");
        }
        let said = trace.with_extension("attach");
        command
            .args(injection.arguments())
            .arg("-o")
            .arg(trace)
            .args(["-p", &task.to_string()]);
        let strace = Process::start(&mut command, &said)?;
        let mut attached = Self { strace };
        let is_attached = becomes_so(ATTACH_MAX, || {
            // It has ended if it may not attach, or if what it attaches to is gone.
            are_traced(process, thread.map(|_| task)) || attached.strace.status().is_some()
        });
        if is_attached && are_traced(process, thread.map(|_| task)) {
            return Ok(attached);
        }
        let said = attached.strace.output();
        Err(io::Error::other(format!("strace did not attach: {said}")))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SIGTERM lets it detach; the traced process goes on.
        self.strace.signal(Signal::TERM);
        self.strace.status_within(ATTACH_MAX);
    }
}

/// What strace can do on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Starting a program with faults.
    pub(crate) starts: bool,
    /// Attaching to a running one.
    pub(crate) attaches: bool,
}

impl Abilities {
    /// Tries both on a process that does nothing.
    pub(crate) fn probe(folder: &Path) -> Self {
        let trace = folder.join("probe.trace");
        let kill = Injection::kill("exit_group", 1);
        let starts = command(Path::new("true"), &kill, &trace)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| !status.success());
        let sleeper = Command::new("sleep").arg("60").spawn();
        let attaches = starts
            && sleeper.is_ok_and(|mut sleeper| {
                let attached = Attached::to(sleeper.id(), None, &kill, &trace).is_ok();
                let _ = sleeper.kill();
                let _ = sleeper.wait();
                attached
            });
        Self { starts, attaches }
    }
}

fn are_traced(process: u32, only: Option<u32>) -> bool {
    let Ok(tasks) = tasks(process) else {
        return false;
    };
    let mut wanted = tasks
        .into_iter()
        .filter(|task| only.is_none_or(|only| only == *task));
    wanted.all(|task| {
        let status = fs::read_to_string(format!("/proc/{process}/task/{task}/status"));
        status.is_ok_and(|text| {
            let tracer = text
                .lines()
                .find_map(|line| line.strip_prefix("TracerPid:"));
            tracer.is_some_and(|tracer| tracer.trim() != "0")
        })
    })
}

fn thread_named(process: u32, name: &str) -> io::Result<u32> {
    let is_named = |task: &u32| {
        let comm = fs::read_to_string(format!("/proc/{process}/task/{task}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let mut found = Ok(None);
    // A thread names itself once it runs.
    becomes_so(THREAD_MAX, || {
        found = tasks(process).map(|tasks| tasks.into_iter().find(is_named));
        !matches!(found, Ok(None))
    });
    found?.ok_or_else(|| io::Error::other(format!("the node has no thread {name}")))
}

fn tasks(process: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

const ATTACH_MAX: Duration = Duration::from_secs(10);
const THREAD_MAX: Duration = Duration::from_secs(5);
