//! The machine's files, for a configuration: read when a node starts.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use quorlock_node::config::{self, Config, ConfigError, Files, Invocation, Problem};

/// The files of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemFiles;

impl Files for SystemFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        std::path::absolute(path).ok()
    }

    fn is_public(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o004 != 0)
    }
}

/// Reads the file of this machine that `requirepass-file` names.
///
/// # Errors
/// When it cannot be read, or is no password.
pub fn read_password_file(config: &mut Config) -> Result<(), Problem> {
    config.read_password(&SystemFiles)
}

/// Reads the arguments after `quorlock server`. `-` reads more lines from `stdin`.
pub fn parse_command_line<S: AsRef<str>>(
    arguments: &[S],
    stdin: &mut dyn Read,
) -> Result<Invocation, ConfigError> {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    config::parse(&arguments, stdin, &SystemFiles)
}
