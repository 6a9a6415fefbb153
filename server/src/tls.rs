//! TLS: the files that a node shows its clients and those that ask for its metrics, and handshakes with them.
//!
//! Invariant: a connection keeps the certificates with which it began. Files are read together and taken into use together, or
//! none of them is.

mod failures;
mod material;
mod stream;
#[cfg(test)]
mod tests;
mod validity;

use std::sync::{Arc, Mutex};

use quorlock_node::core::certificates::{CertificateSource, Installation};
use quorlock_node::core::clients::Address;
use quorlock_node::event_loop::stream::Stream;
use quorlock_node::start::StartError;
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::clock::Clock;
use crate::config::Config;
use failures::Failures;
use material::Material;
pub(crate) use stream::TlsStream;

/// Begins handshakes with the clients that connect to `tls-port`, and makes those with what asks for the metrics.
pub(crate) struct Acceptor {
    current: Arc<Mutex<Arc<Material>>>,
    failures: Arc<Failures>,
}

impl Acceptor {
    /// What the configuration says; `None` where TLS is not spoken.
    ///
    /// # Errors
    /// When a file is missing, or cannot be used.
    pub(crate) fn new(
        config: &Config,
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Arc<Self>>, StartError> {
        if config.spoken_tls().is_none() && !config.has_metrics_with_tls() {
            return Ok(None);
        }
        let read = material::read(config).map_err(|why| {
            StartError::Config(format!(
                "TLS cannot be spoken: {why}. Nothing was started and no lock is affected"
            ))
        })?;
        Ok(Some(Arc::new(Self {
            current: Arc::new(Mutex::new(read)),
            failures: Arc::new(Failures::new(clock)),
        })))
    }

    /// The connection of a client that is to speak TLS on `socket`.
    ///
    /// # Errors
    /// When the configuration cannot be used, which it was before.
    pub(crate) fn accept<S: Stream>(
        &self,
        socket: S,
        client: Address,
    ) -> Result<TlsStream<S>, rustls::Error> {
        let connection = ServerConnection::new(Arc::clone(&self.material().clients))?;
        let failures = Arc::clone(&self.failures);
        Ok(TlsStream::new(socket, connection, client, failures))
    }

    /// A connection to the metrics, behind its handshake. It shows no secrets and takes no orders, so no certificate is asked for.
    ///
    /// # Errors
    /// When the handshake fails.
    #[allow(
        dead_code,
        reason = "a node without HTTP has no endpoint for its metrics"
    )]
    pub(crate) async fn accept_http(
        &self,
        socket: tokio::net::TcpStream,
    ) -> std::io::Result<impl AsyncRead + AsyncWrite + Unpin + use<>> {
        let config = Arc::clone(&self.material().metrics);
        tokio_rustls::TlsAcceptor::from(config).accept(socket).await
    }

    fn material(&self) -> Arc<Material> {
        Arc::clone(&self.current.lock().expect("none of its holders can panic"))
    }
}

impl CertificateSource for Acceptor {
    fn read(&self, config: &Config) -> Result<Installation, String> {
        let read = material::read(config)?;
        let current = Arc::clone(&self.current);
        Ok(Box::new(move || {
            *current.lock().expect("none of its holders can panic") = read;
        }))
    }

    fn end(&self) -> Option<i64> {
        self.material().end
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Acceptor")
    }
}
