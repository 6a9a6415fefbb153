//! Lends the terminal to the command, as a shell does.
//!
//! A command in a process group of its own could otherwise not read from the terminal, and
//! Ctrl-C would not reach it.

use std::io::{self, IsTerminal};

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::signal_state::ignore_terminal_output_stop;

/// The terminal on standard input, in whose foreground this process runs.
#[derive(Debug)]
pub(super) struct Terminal {
    own_group: Pid,
}

impl Terminal {
    /// The terminal, if standard input is one and this process is in its foreground.
    pub(super) fn held() -> Option<Self> {
        let stdin = io::stdin();
        let own_group = getpgrp();
        let is_held = stdin.is_terminal() && tcgetpgrp(&stdin).ok() == Some(own_group);
        is_held.then_some(Self { own_group })
    }

    /// Whether the command alone talks to the terminal. In a pipeline it does not: there others
    /// of this process's group need the terminal too, and the command gets it once it asks.
    pub(super) fn is_interactive(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether this process is in the foreground now.
    pub(super) fn is_held_now(&self) -> bool {
        tcgetpgrp(io::stdin()).ok() == Some(self.own_group)
    }

    /// Makes `group` the foreground.
    pub(super) fn lend(&self, group: Pid) {
        ignore_terminal_output_stop();
        // Fails if the group has ended meanwhile; then there is nobody to lend to.
        let _ended = tcsetpgrp(io::stdin(), group);
    }

    /// Makes this process the foreground again, if `group` was it.
    pub(super) fn take_back(&self, group: Pid) {
        if tcgetpgrp(io::stdin()).ok() == Some(group) {
            ignore_terminal_output_stop();
            let _terminal_is_gone = tcsetpgrp(io::stdin(), self.own_group);
        }
    }
}
