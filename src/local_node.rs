//! A connection to a port of a node on this machine, as clients make it: plain, or with TLS.

use std::io;
use std::slice;
use std::time::Duration;

use quorlock_client::{Dialer, TlsOptions};
use quorlock_client_rules::address::NodeAddress;
use tokio::io::{AsyncRead, AsyncWrite};

/// Connects to `127.0.0.1:port`, with TLS where `tls` says how. The time is for the connection, and a handshake is no part of it.
///
/// # Errors
/// Why there is no connection, or which file of TLS cannot be used.
pub(crate) async fn connect(
    port: u16,
    tls: Option<TlsOptions>,
    patience: Duration,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let scheme = if tls.is_some() { "rediss" } else { "redis" };
    let address = NodeAddress::parse(&format!("{scheme}://127.0.0.1:{port}"));
    let address = address.map_err(io::Error::other)?;
    let dialer = Dialer::new(slice::from_ref(&address), tls.unwrap_or_default());
    let dialer = dialer.map_err(io::Error::other)?;
    dialer.connect(&address, patience).await
}
