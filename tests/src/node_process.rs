//! A node as a process of its own, so that `kill -9` is real.
//!
//! Each has a directory and a port that it keeps over restarts. It is killed when dropped.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::binary;
use crate::waiting::becomes_so;

const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(10);

/// One node: its directory, its port, and its process while it runs.
pub struct NodeProcess {
    folder: PathBuf,
    port: u16,
    directives: Vec<String>,
    process: Option<Child>,
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
        let directives = directives.iter().map(|&word| word.to_owned()).collect();
        let mut node = Self {
            folder,
            port: free_port(),
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
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--first-start", "serve"]);
        command
            .arg("--dir")
            .arg(&self.folder)
            .args(&self.directives);
        let log = self.log_file();
        let errors = log.try_clone().expect("a file can be opened twice");
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        self.process = Some(command.spawn().expect("the program can be started"));
        let answers = becomes_so(START_MAX, || self.ask(&["PING"]).is_ok());
        assert!(answers, "the node does not answer:\n{}", self.log());
    }

    /// `kill -9`: nothing is flushed, nothing is said.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    ///
    /// If the node does not run, does not end in time, or ends with a failure.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("the node runs");
        let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process id"), Signal::TERM).expect("the node can be signalled");
        let mut ended = None;
        becomes_so(STOP_MAX, || {
            ended = process.try_wait().expect("a child can be waited for");
            ended.is_some()
        });
        let status = ended.unwrap_or_else(|| panic!("the node does not end:\n{}", self.log()));
        assert!(
            status.success(),
            "the node ended with {status}:\n{}",
            self.log()
        );
    }

    /// Sends one command on a connection of its own. The reply is its first line as it came, or
    /// the text of a bulk reply.
    ///
    /// # Errors
    ///
    /// If nothing listens, or the connection ends before the reply.
    pub fn ask(&self, arguments: &[&str]) -> io::Result<String> {
        Self::ask_at(self.port, arguments)
    }

    /// The same, of whatever listens on this port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// If nothing listens, or the connection ends before the reply.
    pub fn ask_at(port: u16, arguments: &[&str]) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut request = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            let _ = write!(request, "${}\r\n{argument}\r\n", argument.len());
        }
        stream.write_all(request.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = line
            .strip_prefix('$')
            .and_then(|rest| rest.trim().parse().ok());
        let Some(length) = length else {
            return Ok(line.trim_end().to_owned());
        };
        let mut text = vec![0; length];
        reader.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
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
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What the node wrote, over all its starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    fn log_file(&self) -> File {
        let mut options = File::options();
        options.create(true).append(true);
        options
            .open(self.log_path())
            .expect("a log file can be made")
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port nobody uses now, for what has to be named before it is there: a node that keeps its port
/// over restarts, or one that nobody may answer for.
///
/// # Panics
///
/// If the system has none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}
