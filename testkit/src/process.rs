//! A process that a test starts, mostly a node: what it writes, where it listens, how it ends. It is killed when dropped.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::waiting::{PATIENCE, becomes_so};

/// One process, from its start to its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: PathBuf,
    /// How long the file was when the process started.
    begin: usize,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a command without input. All it writes is appended to a file.
    ///
    /// # Errors
    ///
    /// If the file or the process cannot be made.
    pub fn start(command: &mut Command, output: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(output)?;
        let begin = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let errors = file.try_clone()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()?;
        Ok(Self {
            child,
            output: output.to_owned(),
            begin,
            status: None,
        })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written.
    pub fn output(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        let written = bytes.get(self.begin..).unwrap_or_default();
        String::from_utf8_lossy(written).into_owned()
    }

    /// Waits for a line with this text, and gives the first.
    ///
    /// # Panics
    ///
    /// If it is not written in time, or the process ends without it.
    pub fn await_line(&mut self, part: &str) -> String {
        let line = |output: &str| {
            let (whole, _) = output.rsplit_once('\n')?;
            let line = whole.lines().find(|line| line.contains(part));
            line.map(str::to_owned)
        };
        let mut found = None;
        becomes_so(PATIENCE, || {
            let has_ended = self.status().is_some();
            found = line(&self.output());
            has_ended || found.is_some()
        });
        found.unwrap_or_else(|| panic!("{part:?} is not written: {}", self.account()))
    }

    /// Waits until a node says where it listens; `None` if it ends before, or does not say so within `max`.
    pub fn address_within(&mut self, max: Duration) -> Option<SocketAddr> {
        let mut address = None;
        becomes_so(max, || {
            let has_ended = self.status().is_some();
            address = address_in(&self.output());
            has_ended || address.is_some()
        });
        address
    }

    /// Where a node listens.
    ///
    /// # Panics
    ///
    /// If it does not say so in time.
    pub fn address(&mut self) -> SocketAddr {
        let address = self.address_within(PATIENCE);
        address.unwrap_or_else(|| panic!("it does not listen: {}", self.account()))
    }

    /// How it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits for its end; `None` if it does not come within `max`.
    pub fn status_within(&mut self, max: Duration) -> Option<ExitStatus> {
        becomes_so(max, || self.status().is_some());
        self.status
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it does not come in time.
    pub fn await_end(&mut self) -> ExitStatus {
        let status = self.status_within(PATIENCE);
        status.unwrap_or_else(|| panic!("the process does not end: {}", self.account()))
    }

    /// Sends a signal; a process that has ended already needs none.
    pub fn signal(&mut self, signal: Signal) {
        if self.status().is_none() {
            // It may end at this moment.
            let _ended = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    ///
    /// If it does not end in time, or with a failure.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert!(self.await_end().success(), "{}", self.account());
    }

    /// `kill -9`: nothing is flushed, nothing is said. Waits for the end.
    pub fn kill(&mut self) {
        if self.status().is_none() {
            let _ended = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }

    /// How it ended and what it wrote, for people.
    fn account(&mut self) -> String {
        let state = match self.status() {
            Some(status) => format!("it ended with {status}"),
            None => "it runs".to_owned(),
        };
        format!("{state}:\n{}", self.output())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn address_in(output: &str) -> Option<SocketAddr> {
    let (_, behind) = output.split_once("Listening on ")?;
    let (address, _) = behind.split_once('\n')?;
    address.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, output: &Path) -> Process {
        Process::start(Command::new("sh").args(["-c", script]), output).unwrap()
    }

    #[test]
    fn each_process_has_its_own_part_of_a_file() {
        let output = std::env::temp_dir().join(format!("testkit-{}", std::process::id()));
        let mut first = shell("echo one; exit 3", &output);
        assert_eq!(first.await_line("one"), "one");
        assert_eq!(first.await_end().code(), Some(3));
        let mut second = shell("echo Listening on 127.0.0.1:7 >&2; exec sleep 60", &output);
        assert_eq!(
            second.address_within(PATIENCE),
            Some("127.0.0.1:7".parse().unwrap())
        );
        assert_eq!(second.output(), "Listening on 127.0.0.1:7\n");
        second.signal(Signal::TERM);
        assert_eq!(second.await_end().code(), None);
        assert_eq!(second.address_within(PATIENCE).unwrap().port(), 7);
        assert_eq!(first.address_within(PATIENCE).unwrap().port(), 7);
        fs::remove_file(output).unwrap();
    }
}
