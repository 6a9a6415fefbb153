//! A directory to run the command in, and what a test wants to know of processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use quorlock_testkit::{Process, binary, eventually};
use rustix::fs::statvfs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A directory of its own, in which clusters are started. They end with it.
pub(crate) struct Shell {
    clusters: Vec<Process>,
    /// Behind the clusters: they are killed before it is removed.
    directory: TempDir,
}

/// What a command came to.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// In memory if there is room: where what a node writes is looked at, and not how, syncing to a
    /// real disk would be most of the time.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let has_room = statvfs(memory)
            .is_ok_and(|free| free.f_bavail.saturating_mul(free.f_frsize) >= MEMORY_BYTES_MIN);
        if has_room {
            Self::within(memory)
        } else {
            Self::new()
        }
    }

    fn within(parent: &Path) -> Self {
        Self {
            directory: tempfile::tempdir_in(parent).unwrap(),
            clusters: Vec::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The command with these words, not started yet.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary::quorlock());
        command
            .args(words)
            .current_dir(self.path())
            .env("XDG_CONFIG_HOME", self.file("config"))
            .env_remove("QUORLOCK_AGENT")
            .env_remove("QUORLOCK_NODES")
            .env_remove("QUORLOCK_POSTGRESQL_URL")
            .env_remove("QUORLOCK_SYSTEMS");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the command to its end.
    pub(crate) fn quorlock(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    /// Runs the command, which must succeed, and gives its output.
    pub(crate) fn succeed(&self, words: &[&str]) -> String {
        let ended = self.quorlock(words);
        assert_eq!(
            ended.code,
            Some(0),
            "{words:?}\n{}\n{}",
            ended.stdout,
            ended.stderr
        );
        ended.stdout
    }

    /// Starts a cluster and waits until it is ready. Gives what the ready file says.
    pub(crate) fn up(&mut self, words: &[&str]) -> Value {
        let ready = self.file("ready.json");
        let _none_yet = fs::remove_file(&ready);
        let mut command = self.command(&["cluster", "up", "--ready-file", "ready.json"]);
        let cluster = Process::start(command.args(words), &self.file("up.out"));
        self.clusters.push(cluster.unwrap());
        eventually("the cluster is ready", || {
            let ended = self.supervisor().status();
            assert!(ended.is_none(), "it ended:\n{}", self.up_output());
            ready.exists()
        });
        serde_json::from_str(&fs::read_to_string(ready).unwrap()).unwrap()
    }

    /// The same for so many nodes, on ports that are free.
    pub(crate) fn up_of(&mut self, nodes: usize, words: &[&str]) -> Value {
        let nodes = nodes.to_string();
        self.up(&[&["--nodes", &nodes, "--base-port", "0"][..], words].concat())
    }

    /// What the foreground command of the cluster has printed.
    pub(crate) fn up_output(&self) -> String {
        self.clusters.last().unwrap().output()
    }

    /// The foreground process of the cluster last started.
    pub(crate) fn supervisor(&mut self) -> &mut Process {
        self.clusters.last_mut().unwrap()
    }

    /// The state of each node, as `status --json` says it.
    pub(crate) fn states(&self) -> Vec<String> {
        let status = self.quorlock(&["cluster", "status", "--json"]).json();
        let nodes = status["nodes"].as_array().unwrap();
        nodes
            .iter()
            .map(|node| node["state"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let text = &self.stdout;
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}{}", self.stderr))
    }
}

/// Waits for a child's end.
pub(crate) fn await_end(child: &mut Child) -> std::process::ExitStatus {
    eventually("the process ends", || child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}

/// Whether a process lives; one that has ended but was not reaped does not.
pub(crate) fn lives(pid: u64) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = status
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .trim_start()
        .to_owned();
    !state.starts_with(['Z', 'X'])
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The process ids of a cluster's nodes.
pub(crate) fn pids(ready: &Value) -> Vec<u64> {
    let nodes = ready["nodes"].as_array().unwrap();
    nodes
        .iter()
        .map(|node| node["pid"].as_u64().unwrap())
        .collect()
}

/// A few nodes of a few segments each.
const MEMORY_BYTES_MIN: u64 = 1 << 30;
