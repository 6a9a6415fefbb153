//! A process of a service: its output in a file, its end with its owner.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process; it is killed when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Starts it; what it says is added to this file.
    pub(crate) fn start(mut command: Command, input: Stdio, log: &Path) -> io::Result<Process> {
        let file = File::options().create(true).append(true).open(log)?;
        let errors = file.try_clone()?;
        command.stdin(input).stdout(file).stderr(errors);
        command.spawn().map(Process)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

/// `kill -9`, and waits for the end.
impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The end of what was said in a log.
pub(crate) fn last_words(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

const LINES: usize = 8;
