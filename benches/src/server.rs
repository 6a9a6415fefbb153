//! One server of a measurement: started on a free port in an empty folder, asked, restarted, stopped.
//!
//! Quorlock and Redis take the same directives, so both get the same line.

use std::fs::File;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock_testkit::{Connection, Reply, free_port, pause};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::clock;
use crate::cores::{self, Cores};
use crate::failure::{Doing, Failure};
use crate::sync_delay::SyncDelay;
use crate::workload::Log;

const START_MAX: Duration = Duration::from_secs(20);

/// A log of ten million operations takes a while to write out and to replay.
const RESTART_MAX: Duration = Duration::from_secs(300);

/// What a server is started with.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) program: PathBuf,
    pub(crate) log: Log,
    /// Ours runs all scripts in the interpreter.
    pub(crate) is_interpreted: bool,
    pub(crate) sync_delay: Option<Duration>,
    pub(crate) cores: Cores,
    pub(crate) scratch: PathBuf,
}

/// A running server; it is killed and its folder removed when this is dropped.
pub(crate) struct Server {
    setup: Setup,
    process: Child,
    sync_delay: Option<SyncDelay>,
    folder: TempDir,
    port: u16,
}

impl Server {
    pub(crate) fn start(setup: &Setup) -> Result<Self, Failure> {
        Self::start_looking_every(setup, Duration::from_millis(5))
    }

    fn start_looking_every(setup: &Setup, between: Duration) -> Result<Self, Failure> {
        let folder = tempfile::tempdir_in(&setup.scratch).doing("making a folder for a server")?;
        let port = free_port();
        let (process, sync_delay) = launch(setup, folder.path(), port)?;
        cores::pin(setup.cores.load)?;
        let mut server = Self {
            setup: setup.clone(),
            process,
            sync_delay,
            folder,
            port,
        };
        server.wait_until_serving(START_MAX, between)?;
        Ok(server)
    }

    /// Ends the server in good order, starts it again on what it has written, and returns the time
    /// from its start to the first PONG.
    pub(crate) fn restart(&mut self) -> Result<Duration, Failure> {
        let process = Pid::from_child(&self.process);
        kill_process(process, Signal::TERM).doing("stopping a server")?;
        let end = clock::now() + RESTART_MAX;
        while !self.has_ended()? {
            if clock::now() > end {
                return Err(self.failure("does not stop"));
            }
            pause(Duration::from_millis(5));
        }
        let start = clock::now();
        let (process, sync_delay) = launch(&self.setup, self.folder.path(), self.port)?;
        (self.process, self.sync_delay) = (process, sync_delay);
        cores::pin(self.setup.cores.load)?;
        self.wait_until_serving(RESTART_MAX, Duration::from_millis(1))?;
        Ok(clock::now().saturating_sub(start))
    }

    /// How long each sync was held back since the last call.
    pub(crate) fn take_sync_delays(&self) -> Vec<Duration> {
        let delays = self.sync_delay.as_ref().map(SyncDelay::take_seen);
        delays.unwrap_or_default()
    }

    /// The memory of the server that is in use.
    pub(crate) fn resident_bytes(&self) -> Result<u64, Failure> {
        let path = format!("/proc/{}/status", self.process.id());
        let facts = std::fs::read_to_string(path).doing("asking for a server's memory")?;
        let line = facts.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let none = || Failure::new("the kernel does not tell a server's memory");
        kibibytes.map(|size| size * 1024).ok_or_else(none)
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        self.process.kill().doing("killing a server")?;
        self.process.wait().doing("killing a server")?;
        Ok(())
    }

    /// Stops the process where it is: its connections stand, and nothing is answered.
    pub(crate) fn hang(&self) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.process), Signal::STOP).doing("stopping a server")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The time all threads of the server have run on a core, user and system together.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.process.id()));
        let mut nanoseconds = 0_u64;
        for task in std::fs::read_dir(&tasks).doing("listing a server's threads")? {
            let path = task
                .doing("listing a server's threads")?
                .path()
                .join("schedstat");
            // A thread may end between the listing and the reading.
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let spent = text
                .split(' ')
                .next()
                .and_then(|word| word.parse::<u64>().ok());
            nanoseconds = nanoseconds.saturating_add(spent.unwrap_or_default());
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// How often threads of the server have given up their core to wait for something.
    pub(crate) fn wakeups(&self) -> Result<u64, Failure> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.process.id()));
        let mut switches = 0;
        for task in std::fs::read_dir(&tasks).doing("listing a server's threads")? {
            let path = task.doing("listing a server's threads")?.path();
            let text = std::fs::read_to_string(path.join("status")).unwrap_or_default();
            let mut lines = text.lines();
            let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            switches += line.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        }
        Ok(switches)
    }

    /// How long a server takes from its start to the first PONG, in an empty folder.
    pub(crate) fn start_time(setup: &Setup) -> Result<(Self, Duration), Failure> {
        let start = clock::now();
        let server = Self::start_looking_every(setup, Duration::from_micros(200))?;
        Ok((server, clock::now().saturating_sub(start)))
    }

    /// Sends one command and returns what a status, an integer or a bulk reply says.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String, Failure> {
        let address = (Ipv4Addr::LOCALHOST, self.port);
        let reply = Connection::open_within(address, START_MAX)
            .and_then(|mut connection| connection.ask(arguments))
            .doing("talking to a server")?;
        match reply {
            Reply::Status(text) => Ok(text),
            Reply::Integer(number) => Ok(number.to_string()),
            Reply::Bulk(Some(_)) => Ok(reply.text()),
            _ => Err(Failure::new(format!("{arguments:?} was answered {reply}"))),
        }
    }

    pub(crate) fn connect(&self) -> Result<TcpStream, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).doing("connecting")?;
        stream.set_nodelay(true).doing("connecting")?;
        stream
            .set_read_timeout(Some(START_MAX))
            .doing("connecting")?;
        Ok(stream)
    }

    fn wait_until_serving(&mut self, most: Duration, between: Duration) -> Result<(), Failure> {
        let end = clock::now() + most;
        while self.ask(&["PING"]).is_err() {
            if self.has_ended()? || clock::now() > end {
                return Err(self.failure("does not serve"));
            }
            pause(between);
        }
        Ok(())
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        let status = self.process.try_wait().doing("waiting for a server")?;
        Ok(status.is_some())
    }

    fn failure(&self, what: &str) -> Failure {
        let output = std::fs::read_to_string(self.folder.path().join("output"));
        let (name, output) = (self.setup.program.display(), output.unwrap_or_default());
        Failure::new(format!("{name} {what}:\n{output}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data is thrown away; there is nothing to end cleanly.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn launch(setup: &Setup, folder: &Path, port: u16) -> Result<(Child, Option<SyncDelay>), Failure> {
    let mut options = File::options();
    let output = options
        .create(true)
        .append(true)
        .open(folder.join("output"));
    let output = output.doing("making a server's log")?;
    let errors = output.try_clone().doing("making a server's log")?;
    let mut command = Command::new(&setup.program);
    let name = setup.program.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let is_quorlock = !name.contains("redis") && !name.contains("valkey");
    if is_quorlock {
        command.args(["server", "--first-start", "serve"]);
    }
    if is_quorlock && setup.is_interpreted {
        command.args(["--script-native", "no"]);
    }
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", ""])
        .args(log_directives(setup.log))
        .arg("--dir")
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    // A child inherits the affinity of the thread that starts it.
    cores::pin(setup.cores.server)?;
    if let Some(delay) = setup.sync_delay {
        let (process, sync_delay) = SyncDelay::start(&mut command, delay, setup.cores)?;
        return Ok((process, Some(sync_delay)));
    }
    let process = command.spawn();
    let process = process.doing(format!("starting {}", setup.program.display()))?;
    Ok((process, None))
}

fn log_directives(log: Log) -> Vec<&'static str> {
    let mode = match log {
        Log::None => return vec!["--appendonly", "no"],
        Log::EverySecond => "everysec",
        Log::Always => "always",
    };
    // Neither rewrites its log while it is measured.
    let no_rewrite = ["--auto-aof-rewrite-percentage", "0"];
    [["--appendonly", "yes"], ["--appendfsync", mode], no_rewrite].concat()
}
