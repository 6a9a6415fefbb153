//! The machine's files, for a configuration: read when a node starts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use quorlock_node::config::{self, Config, ConfigError, Files, Invocation, Problem};

/// The files of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemFiles;

impl Files for SystemFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn is_special(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|about| !about.is_file())
    }

    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        std::path::absolute(path).ok()
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // A link stays, and what it leads to is replaced.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".tmp-{}", std::process::id()));
        let temporary = directory.join(name);
        let written = write_new(&temporary, path, bytes).and_then(|()| {
            fs::rename(&temporary, path)?;
            File::open(directory)?.sync_all()
        });
        if written.is_err() {
            // It may be gone, or never have been.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn is_public(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o004 != 0)
    }
}

/// Writes a file that is to take the place of another one, with its permissions. What an earlier process left is replaced.
fn write_new(path: &Path, replaced: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    if let Ok(about) = fs::metadata(replaced) {
        file.set_permissions(about.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads the file of this machine that `requirepass-file` names.
///
/// # Errors
/// When it cannot be read, or is no password.
pub fn read_password_file(config: &mut Config) -> Result<(), Problem> {
    config.read_password(&SystemFiles)
}

/// Reads the arguments after `quorlock server`, for programs that take the same. `-` reads more lines from `stdin`.
pub fn parse_command_line<S: AsRef<str>>(
    arguments: &[S],
    stdin: &mut dyn Read,
) -> Result<Invocation, ConfigError> {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    config::parse(&arguments, stdin, &SystemFiles)
}
