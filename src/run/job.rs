//! The running command: its process group, and what happens to it.
//!
//! The command's process is not reaped before its group has been dealt with, so that neither the
//! process id nor the group id can have gone to somebody else when a signal is sent.

use std::ffi::OsString;
use std::io;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::descendants;
use super::program::Program;
use crate::exit_code::{FAILED, SIGNAL_BASE};
use crate::launch::{self, Bond};
use crate::lock_variables;

/// A command that was started and not yet reaped.
#[derive(Debug)]
pub(super) struct Job {
    pid: Pid,
    changes: Stream,
    is_reaped: bool,
}

/// Something that happened to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobChange {
    /// It has ended.
    Ended,
    /// This signal has stopped it.
    Stopped(i32),
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Ending {
    /// The code as a shell would show it.
    pub(super) fn code(self) -> u8 {
        match self {
            // A process can only exit with the low eight bits of its code.
            Self::Code(code) => code.to_le_bytes()[0],
            Self::Signal(signal) => u8::try_from(signal)
                .expect("a wait status has seven bits for it")
                .saturating_add(SIGNAL_BASE),
        }
    }
}

impl Job {
    /// Starts the command in a group of its own. It dies with this process.
    pub(super) fn start(
        program: &Program,
        environment: &[(&str, OsString)],
        on_terminal: bool,
    ) -> io::Result<Self> {
        descendants::adopt_orphans()?;
        // Listening begins before there is anything to hear.
        let changes = signal(SignalKind::child())?;
        let bond = if on_terminal {
            Bond::KilledOnTerminal
        } else {
            Bond::Killed
        };
        let mut command = launch::command(bond, program.path(), program.typed());
        command.args(program.arguments());
        for name in lock_variables::of_another(environment) {
            command.env_remove(name);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let child = command.spawn()?;
        Ok(Self {
            pid: Pid::from_child(&child),
            changes,
            is_reaped: false,
        })
    }

    /// The command's process group.
    pub(super) fn group(&self) -> Pid {
        self.pid
    }

    /// Waits for the next thing that happens to the command. Cancel-safe.
    pub(super) async fn change(&mut self) -> io::Result<JobChange> {
        loop {
            let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            if let Some(status) = self.look(either)? {
                let Some(signal) = status.stopping_signal() else {
                    return Ok(JobChange::Ended);
                };
                // Taken note of, a stop is not reported again. Should the command have been killed
                // meanwhile, there is no stop any more, and its end comes next.
                let _killed_meanwhile = self.look(WaitIdOptions::STOPPED);
                return Ok(JobChange::Stopped(signal));
            }
            if self.changes.recv().await.is_none() {
                return Err(io::Error::other("the async runtime has ended"));
            }
            if self.look(either)?.is_none() {
                // It was an adopted orphan.
                descendants::reap_orphans(self.pid)?;
            }
        }
    }

    /// Waits until something happens to the command or to an adopted orphan. Cancel-safe.
    pub(super) async fn any_child(&mut self) {
        let _runtime_has_ended = self.changes.recv().await;
    }

    /// Whether the command has ended.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        let ended = self.look(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        Ok(ended.is_some())
    }

    /// Signals every process of the command's group that this process may signal; an error if
    /// there is none, because they run as another user.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match kill_process_group(self.pid, signal) {
            // The group may be empty but for the command's unreaped end.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes note of the command's end, waiting for it if need be.
    pub(super) fn reap(mut self) -> io::Result<Ending> {
        loop {
            match waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED) {
                Err(rustix::io::Errno::INTR) | Ok(None) => {}
                Err(error) => return Err(error.into()),
                Ok(Some(status)) => {
                    self.is_reaped = true;
                    return Ok(match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Ending::Code(code),
                        (None, Some(signal)) => Ending::Signal(signal),
                        (None, None) => Ending::Code(i32::from(FAILED)),
                    });
                }
            }
        }
    }

    fn look(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        Ok(waitid(
            WaitId::Pid(self.pid),
            options | WaitIdOptions::NOHANG,
        )?)
    }
}

impl Drop for Job {
    /// A command that is given up loses its lock too, so it must not go on.
    fn drop(&mut self) {
        if !self.is_reaped {
            let _runs_as_somebody_else = self.signal(Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(Ending::Code(0).code(), 0);
        assert_eq!(Ending::Code(255).code(), 255);
        assert_eq!(Ending::Signal(15).code(), 143);
        assert_eq!(Ending::Signal(9).code(), 137);
        assert_eq!(Ending::Signal(200).code(), 255);
    }
}
