//! The file that tells other programs the node's process id, as the directive `pidfile` asks.

use std::fs;
use std::path::PathBuf;

/// A pid file, removed at a clean end.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. As in Redis, a node runs without one that cannot be written.
    pub(super) fn create(path: PathBuf) -> Option<Self> {
        match fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Some(Self { path }),
            Err(error) => {
                tracing::warn!("Failed to write PID file {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _already_gone = fs::remove_file(&self.path);
    }
}
