//! One server of a measurement: started on a free port in an empty folder, asked, stopped.
//!
//! Quorlock and Redis take the same directives, so both get the same line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::clock;
use crate::cores;
use crate::failure::{Doing, Failure};
use crate::workload::Log;

const START_MAX: Duration = Duration::from_secs(20);

/// A running server; it is killed and its folder removed when this is dropped.
pub(crate) struct Server {
    process: Child,
    folder: TempDir,
    port: u16,
}

impl Server {
    pub(crate) fn start(
        program: &Path,
        log: Log,
        core: usize,
        scratch: &Path,
    ) -> Result<Self, Failure> {
        let folder = tempfile::tempdir_in(scratch).doing("making a folder for a server")?;
        let port = free_port()?;
        let output = File::create(folder.path().join("output")).doing("making a server's log")?;
        let errors = output.try_clone().doing("making a server's log")?;
        let mut command = Command::new(program);
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_quorlock = !name.contains("redis") && !name.contains("valkey");
        if is_quorlock {
            command.arg("server");
        }
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]);
        command
            .args(log_directives(log))
            .arg("--dir")
            .arg(folder.path());
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        // A child inherits the affinity of the thread that starts it.
        cores::pin(core)?;
        let process = command
            .spawn()
            .doing(format!("starting {}", program.display()))?;
        let mut server = Self {
            process,
            folder,
            port,
        };
        server.wait_until_serving(program)?;
        Ok(server)
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

    /// Sends one command and returns the first line of its reply, or the text of a bulk reply.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String, Failure> {
        let stream = self.connect()?;
        let mut writer = stream.try_clone().doing("talking to a server")?;
        writer
            .write_all(&encode(arguments))
            .doing("talking to a server")?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .doing("reading a server's reply")?;
        if let Some(length) = line
            .strip_prefix('$')
            .and_then(|rest| rest.trim().parse().ok())
        {
            let mut text = vec![0; length];
            reader
                .read_exact(&mut text)
                .doing("reading a server's reply")?;
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        if line.starts_with('-') || line.is_empty() {
            return Err(Failure::new(format!("{arguments:?} was answered {line:?}")));
        }
        Ok(line.trim_end()[1..].to_owned())
    }

    pub(crate) fn connect(&self) -> Result<TcpStream, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).doing("connecting")?;
        stream.set_nodelay(true).doing("connecting")?;
        stream
            .set_read_timeout(Some(START_MAX))
            .doing("connecting")?;
        Ok(stream)
    }

    fn wait_until_serving(&mut self, program: &Path) -> Result<(), Failure> {
        let end = clock::now() + START_MAX;
        while self.ask(&["PING"]).is_err() {
            let ended = self.process.try_wait().doing("waiting for a server")?;
            if ended.is_some() || clock::now() > end {
                let path = self.folder.path().join("output");
                let output = std::fs::read_to_string(path).unwrap_or_default();
                let name = program.display();
                return Err(Failure::new(format!("{name} does not serve:\n{output}")));
            }
            pause(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data is thrown away; there is nothing to end cleanly.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A request as clients send it.
pub(crate) fn encode(arguments: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len());
    for argument in arguments {
        request.push_str(&format!("${}\r\n{argument}\r\n", argument.len()));
    }
    request.into_bytes()
}

#[allow(
    clippy::disallowed_methods,
    reason = "one thread, nothing else to do but wait"
)]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

fn log_directives(log: Log) -> &'static [&'static str] {
    match log {
        Log::None => &["--appendonly", "no"],
        Log::EverySecond => &["--appendonly", "yes", "--appendfsync", "everysec"],
        Log::Always => &["--appendonly", "yes", "--appendfsync", "always"],
    }
}

fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).doing("looking for a free port")?;
    Ok(listener
        .local_addr()
        .doing("looking for a free port")?
        .port())
}
