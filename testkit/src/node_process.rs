//! A node as a process of its own, so that `kill -9` is real.
//!
//! Each has a directory and a port that it keeps over restarts. It is killed when dropped.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::binary;
use crate::connection::Connection;
use crate::process::Process;
use crate::reserved_port::ReservedPort;
use crate::waiting::{PATIENCE, becomes_so};

const REPLY_MAX: Duration = Duration::from_secs(5);

/// One node: its directory, its port, and its process while it runs.
#[derive(Debug)]
pub struct NodeProcess {
    folder: PathBuf,
    port: ReservedPort,
    directives: Vec<String>,
    process: Option<Process>,
}

impl NodeProcess {
    /// Starts a node in a folder of its own below `parent`, with further directives such as
    /// `["--appendfsync", "always"]`.
    ///
    /// # Panics
    ///
    /// If it does not answer in time: no test can go on.
    pub fn start(parent: &Path, name: &str, directives: &[&str]) -> Self {
        let folder = parent.join(name);
        fs::create_dir(&folder).expect("a fresh folder for a node can be made");
        Self::start_on(parent, name, directives)
    }

    /// The same in a folder that is there.
    ///
    /// # Panics
    ///
    /// As for [`start`](Self::start).
    pub fn start_on(parent: &Path, name: &str, directives: &[&str]) -> Self {
        let folder = parent.join(name);
        let directives = directives.iter().map(|&word| word.to_owned()).collect();
        let mut node = Self {
            folder,
            port: ReservedPort::new().expect("a port is free"),
            directives,
            process: None,
        };
        node.start_again();
        node
    }

    /// Starts the node after it was killed or stopped, and returns when it answers PING.
    ///
    /// # Panics
    ///
    /// If it runs, or does not answer in time.
    pub fn start_again(&mut self) {
        self.start_again_by(&[]);
    }

    /// Like [`start_again`](Self::start_again), by a program that sets the scene: its words come
    /// before the node's, and it must become the node with `exec`.
    ///
    /// # Panics
    ///
    /// As for [`start_again`](Self::start_again).
    pub fn start_again_by(&mut self, scene: &[String]) {
        assert!(self.process.is_none(), "the node runs");
        let mut command = match scene.split_first() {
            None => Command::new(binary::quorlock()),
            Some((program, words)) => {
                let mut command = Command::new(program);
                command.args(words).arg(binary::quorlock());
                command
            }
        };
        command
            .arg("server")
            .args([
                "--port",
                &self.port.number().to_string(),
                "--bind",
                "127.0.0.1",
            ])
            .args(["--first-start", "serve"]);
        command
            .arg("--dir")
            .arg(&self.folder)
            .args(&self.directives);
        let process = Process::start(&mut command, &self.log_path());
        let mut process = process.expect("the program can be started");
        let (mut answers, mut end) = (false, None);
        becomes_so(PATIENCE, || {
            answers = self.ask(&["PING"]).is_ok();
            end = process.status();
            answers || end.is_some()
        });
        let how = end.map_or_else(
            || "runs and does not answer".to_owned(),
            |end| format!("ended with {end}"),
        );
        assert!(answers && end.is_none(), "the node {how}:\n{}", self.log());
        self.process = Some(process);
    }

    /// `kill -9`: nothing is flushed, nothing is said.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    ///
    /// If the node does not run, does not end in time, or ends with a failure.
    pub fn stop(&mut self) {
        self.process.take().expect("the node runs").stop();
    }

    /// Sends one command on a connection of its own. The reply is its [text](crate::Reply).
    ///
    /// # Errors
    ///
    /// If nothing listens, or the connection ends before the reply.
    pub fn ask(&self, words: &[&str]) -> io::Result<String> {
        let address = (Ipv4Addr::LOCALHOST, self.port.number());
        let reply = Connection::open_within(address, REPLY_MAX)?.ask(words)?;
        Ok(reply.to_string())
    }

    /// A field of INFO.
    ///
    /// # Panics
    ///
    /// If the node does not answer.
    pub fn info(&self, field: &str) -> Option<String> {
        let text = self
            .ask(&["INFO", "everything"])
            .expect("the node answers INFO");
        let mut lines = text.lines();
        lines.find_map(|line| {
            line.strip_prefix(field)?
                .strip_prefix(':')
                .map(str::to_owned)
        })
    }

    /// Where clients find the node.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port.number())
    }

    /// What the node wrote, over all its starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.with_extension("log")
    }
}

/// A port nobody uses now, for what has to be named before it is there, or that nobody may answer for. It stays reserved for as long as
/// this process lives, so that no connection of another process has it when a server comes to listen on it.
///
/// # Panics
///
/// If the system has none.
pub fn free_port() -> u16 {
    Box::leak(Box::new(ReservedPort::new().expect("a port is free"))).number()
}
