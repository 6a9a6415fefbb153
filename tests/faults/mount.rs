//! A small file system of its own as a node's data directory. Mounting one needs root.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::check_directory::CheckDirectory;

/// A tmpfs on a check's data directory, unmounted when dropped.
pub(crate) struct Mount {
    folder: PathBuf,
}

impl Mount {
    /// Mounts it with options such as `size=40m`.
    pub(crate) fn on(directory: &CheckDirectory, options: &str) -> io::Result<Self> {
        let folder = directory.data();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
        run(command.arg(&folder))?;
        Ok(Self { folder })
    }

    /// Changes its options.
    pub(crate) fn remount(&self, options: &str) -> io::Result<()> {
        let mut command = Command::new("mount");
        command.args(["-o", &format!("remount,{options}")]);
        run(command.arg(&self.folder))
    }

    /// A file that takes up so many MiB.
    pub(crate) fn fill(&self, mib: usize) -> io::Result<PathBuf> {
        let ballast = self.folder.join("ballast");
        fs::write(&ballast, vec![1; mib << 20])?;
        Ok(ballast)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        // Lazily: a process that is just ending may still be in there.
        let _ = run(command.arg("-l").arg(&self.folder));
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(said))
}
