//! A process of another product: its output in a file, its end with its owner.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process; it is killed when this is dropped.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; what it says is added to this file.
    pub(super) fn start(mut command: Command, log: &Path) -> io::Result<Process> {
        let file = File::options().create(true).append(true).open(log)?;
        let errors = file.try_clone()?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        Ok(Process {
            child: command.spawn()?,
            log: log.to_owned(),
        })
    }

    /// `kill -9`, and waits for the end.
    pub(super) fn kill(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The end of what it said.
    pub(super) fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

const LINES: usize = 8;
