//! Exit codes of the command, and the one error type that leaves a subcommand.
//!
//! The codes are those of sysexits.h and of the shells, so that scripts can tell "the lock is
//! busy" from "my command failed". A failure says what happened, what it means for the lock, and
//! what to do. It does not carry secrets: addresses are shown without user and password.

use std::fmt;
use std::process::ExitCode;

/// The command was understood but did not succeed, for a reason without a code of its own.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 64;
/// The directory that was named cannot be read, or holds nothing.
pub(crate) const NO_INPUT: u8 = 66;
/// Too few nodes answered for a majority.
pub(crate) const NO_QUORUM: u8 = 69;
/// The lock was lost, or is not held with this token.
pub(crate) const LOST: u8 = 70;
/// A majority of the nodes has released the lock, but not every node, as the caller has asked for.
pub(crate) const INCOMPLETE: u8 = 74;
/// Somebody else holds the lock.
pub(crate) const BUSY: u8 = 75;
/// The command to run exists but cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command to run does not exist.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a command, as shells do.
pub(crate) const SIGNAL_BASE: u8 = 128;

/// Why a subcommand ended without success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// The exit code where the user has asked for another one.
    pub(crate) exit: u8,
    /// What happened and what it means, one or more sentences without a final line break.
    pub(crate) what: String,
    /// What to do about it; empty where nothing sensible can be said.
    pub(crate) remedy: String,
    /// The word for programs, where it is not that of the code.
    kind: Option<&'static str>,
}

impl Failure {
    pub(crate) fn new(code: u8, what: impl fmt::Display) -> Self {
        Self {
            code,
            exit: code,
            what: what.to_string(),
            remedy: String::new(),
            kind: None,
        }
    }

    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::new(USAGE, what)
    }

    pub(crate) fn failed(what: impl fmt::Display) -> Self {
        Self::new(FAILED, what)
    }

    /// Adds what the user can do now.
    pub(crate) fn remedy(mut self, remedy: impl fmt::Display) -> Self {
        self.remedy = remedy.to_string();
        self
    }

    /// Ends with this code instead, and stays what it is.
    pub(crate) fn exit_with(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }

    /// Calls it this instead, for programs that read `--json`.
    pub(crate) fn called(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// It as `--json` shows it.
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::json!({
            "error": {
                "kind": self.kind(),
                "exit_code": self.exit,
                "message": self.what,
                "remedy": self.remedy,
            }
        })
    }

    /// The stable word for it, for programs that read `--json`.
    pub(crate) fn kind(&self) -> &'static str {
        if let Some(kind) = self.kind {
            return kind;
        }
        match self.code {
            USAGE => "usage",
            NO_INPUT => "no-input",
            NO_QUORUM => "no-quorum",
            LOST => "lost",
            INCOMPLETE => "incomplete",
            BUSY => "busy",
            NOT_EXECUTABLE => "not-executable",
            NOT_FOUND => "not-found",
            code if code > SIGNAL_BASE => "signal",
            _ => "failed",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)?;
        for line in self.remedy.lines() {
            write!(formatter, "\n  {line}")?;
        }
        Ok(())
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        Self::from(failure.exit)
    }
}
