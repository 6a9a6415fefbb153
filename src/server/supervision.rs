//! What tells other programs of the node: its pid file, and the notice to systemd that it accepts
//! connections (the directives `pidfile` and `supervised`).

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
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

/// Tells systemd that the node accepts connections, if there is anybody to tell.
pub(super) fn notify_ready() {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send_ready(&name) {
        tracing::warn!("cannot tell systemd that the node is ready: {error}");
    }
}

fn send_ready(name: &OsStr) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address)?;
    Ok(())
}
