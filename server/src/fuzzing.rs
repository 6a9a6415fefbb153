//! A door for the fuzz targets of `tests/fuzz/`: connections that speak TLS, on any stream. It is compiled with
//! `--cfg fuzzing` alone.

use std::sync::Arc;

use quorlock_node::core::clients::Address;
use quorlock_node::event_loop::stream::Stream;
use quorlock_node::start::StartError;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::tls;

/// Begins handshakes with clients.
#[derive(Debug)]
pub struct Acceptor(Arc<tls::Acceptor>);

impl Acceptor {
    /// What the configuration says; `None` where TLS is not spoken.
    ///
    /// # Errors
    /// When a file is missing, or cannot be used.
    pub fn new(config: &Config) -> Result<Option<Self>, StartError> {
        let acceptor = tls::Acceptor::new(config, Arc::new(SettableClock::new()))?;
        Ok(acceptor.map(Self))
    }

    /// The connection of a client that is to speak TLS on `socket`.
    ///
    /// # Panics
    /// When the configuration cannot be used, which it was before.
    pub fn accept<S: Stream>(&self, socket: S) -> impl Stream + use<S> {
        let accepted = self.0.accept(socket, Address::InProcess);
        accepted.expect("the configuration was used before")
    }
}
