//! Tells systemd that the node accepts connections (`supervised systemd`).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends the notice if there is anybody to send it to.
pub(super) fn notify() {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&name) {
        tracing::warn!("cannot tell systemd that the node is ready: {error}");
    }
}

fn send(name: &OsStr) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address)?;
    Ok(())
}
