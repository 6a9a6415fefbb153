//! The process in which a client was built.
//!
//! Invariant: after a fork the client's thread is in the parent only. Nothing of the child waits for it.

use std::sync::Arc;

/// A process by its number, which a fork changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        // A system call of about 50 ns; a call to a node takes a thousand times as long.
        Self(std::process::id())
    }

    /// Whether the client's thread is in this process.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Says what to do where it is not.
    pub(crate) fn check(self) -> Result<(), Arc<str>> {
        match self.is_current() {
            true => Ok(()),
            false => Err(Arc::from(FORKED)),
        }
    }

    /// Another process than this one.
    #[cfg(test)]
    pub(crate) fn parent() -> Self {
        Self(Self::current().0.wrapping_add(1))
    }
}

const FORKED: &str = "this process was forked from the one that built the client, and the client's thread is there: build a \
                      client in each process after the fork";
