//! Starts a child that cannot outlive this process.
//!
//! The child first runs this executable again, which asks the kernel to kill it at the death of
//! its parent, checks that the parent still lives, and then becomes the wanted program. Doing it
//! in the child, before the program starts, leaves no moment in which the parent could die
//! unnoticed, and needs no code between fork and exec.
//!
//! The kernel means the *thread* that started the child; call [`command`] from the main thread.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum as _;
use rustix::process::{Signal, getpgrp, getppid, set_parent_process_death_signal, setsid};
use rustix::termios::tcgetpgrp;

use crate::clock;
use crate::exit_code::{FAILED, NOT_EXECUTABLE, NOT_FOUND};
use crate::output::remark;

/// The hidden first argument that makes this executable act as a launcher.
pub(crate) const MARK: &str = "__launch";

/// What happens to the child when this process dies, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bond {
    /// It is killed at once. Asking would not do: one that is stopped or hangs would live on.
    Killed,
    /// As `Killed`, and it starts only after it was given the terminal.
    KilledOnTerminal,
    /// It lives on, in a session of its own.
    Detached,
}

/// A command that runs `program` under `bond` in a process group of its own. `typed` is the name
/// the program sees as its own.
pub(crate) fn command(bond: Bond, program: &Path, typed: &OsStr) -> Command {
    let mut command = Command::new(own_executable());
    let word = bond.to_possible_value().expect("each has a word");
    command.arg(MARK).arg(std::process::id().to_string());
    command.arg(word.get_name()).arg(program).arg(typed);
    if bond != Bond::Detached {
        command.process_group(0);
    }
    command
}

/// This executable itself, as `quorlock`.
pub(crate) fn own(bond: Bond) -> Command {
    command(bond, &own_executable(), "quorlock".as_ref())
}

/// This executable; by its name where that still exists, so that process lists show the name.
fn own_executable() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

/// The launcher's own life: `arguments` are those after [`MARK`]. Returns only if it failed.
pub(crate) fn become_child(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut next = || arguments.next().unwrap_or_default();
    let (parent, bond, program, typed) = (next(), next(), next(), next());
    let parent: Option<i32> = parent.to_str().and_then(|text| text.parse().ok());
    let bond = Bond::from_str(&bond.to_string_lossy(), false);
    let (Some(parent), Ok(bond)) = (parent, bond) else {
        remark("this argument is for the command's own use");
        return ExitCode::from(FAILED);
    };
    if let Err(error) = bind(bond, parent) {
        remark(format_args!("cannot start {}: {error}", program.display()));
        return ExitCode::from(FAILED);
    }
    let error = Command::new(&program).arg0(typed).args(arguments).exec();
    remark(format_args!("cannot start {}: {error}", program.display()));
    let missing = error.kind() == io::ErrorKind::NotFound;
    ExitCode::from(if missing { NOT_FOUND } else { NOT_EXECUTABLE })
}

fn bind(bond: Bond, parent: i32) -> io::Result<()> {
    if bond == Bond::Detached {
        setsid()?;
        return Ok(());
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return Err(io::Error::other("the process that started it has ended"));
    }
    if bond == Bond::KilledOnTerminal {
        await_foreground();
    }
    Ok(())
}

/// Waits until the parent has made this process group the terminal's foreground, so that the
/// program's first read is not answered by a stop signal. Gives up after a while: then the program
/// starts in the background, which it can cope with as in any shell.
fn await_foreground() {
    let give_up = clock::now() + FOREGROUND_WAIT_MAX;
    while clock::now() < give_up {
        match tcgetpgrp(io::stdin()) {
            Ok(group) if group != getpgrp() => clock::block_for(Duration::from_millis(1)),
            _ => return,
        }
    }
}

const FOREGROUND_WAIT_MAX: Duration = Duration::from_secs(2);
