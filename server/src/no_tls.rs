//! In place of TLS, in a build without the feature `tls`: a node that is to speak it does not start.

use std::convert::Infallible;
use std::io::IoSlice;
use std::sync::Arc;

use quorlock_node::core::certificates::{CertificateSource, Installation};
use quorlock_node::core::clients::Address;
use quorlock_node::event_loop::stream::{Stream, StreamError};
use quorlock_node::start::StartError;

use crate::clock::Clock;
use crate::config::Config;

/// There is none.
#[derive(Debug)]
pub(crate) enum Acceptor {}

/// There is none.
pub(crate) struct TlsStream<S> {
    never: Infallible,
    socket: S,
}

impl Acceptor {
    /// Nothing to accept with.
    ///
    /// # Errors
    /// Where there is a `tls-port`.
    pub(crate) fn new(config: &Config, _: Arc<dyn Clock>) -> Result<Option<Arc<Self>>, StartError> {
        let what = match config.spoken_tls() {
            Some(tls) => format!("tls-port is {}", tls.port),
            None if config.has_metrics_with_tls() => "metrics-tls is yes".to_owned(),
            None => return Ok(None),
        };
        Err(StartError::Config(format!(
            "{what}, but this program was built without TLS. Nothing was started and no lock is affected; leave the directive out, \
             or build quorlock-server with the feature tls"
        )))
    }

    /// Never called.
    pub(crate) fn accept<S: Stream>(&self, _: S, _: Address) -> Result<TlsStream<S>, Infallible> {
        match *self {}
    }

    /// Never called.
    #[allow(
        dead_code,
        reason = "a node without HTTP has no endpoint for its metrics"
    )]
    pub(crate) async fn accept_http(
        &self,
        _: tokio::net::TcpStream,
    ) -> std::io::Result<tokio::net::TcpStream> {
        match *self {}
    }
}

impl CertificateSource for Acceptor {
    fn read(&self, _: &Config) -> Result<Installation, String> {
        match *self {}
    }

    fn end(&self) -> Option<i64> {
        match *self {}
    }
}

impl<S> TlsStream<S> {
    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }
}

impl<S> Stream for TlsStream<S> {
    fn receive(&mut self, _: &mut [u8]) -> Result<usize, StreamError> {
        match self.never {}
    }

    fn send(&mut self, _: &[u8]) -> Result<usize, StreamError> {
        match self.never {}
    }

    fn send_vectored(&mut self, _: &[IoSlice<'_>]) -> Result<usize, StreamError> {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;
    use crate::clock::SettableClock;

    #[test]
    fn a_node_that_is_to_speak_tls_does_not_start_without_it() {
        let mut config = Config::default();
        let clock = Arc::new(SettableClock::new());
        assert!(Acceptor::new(&config, clock.clone()).unwrap().is_none());
        config.set("tls-port", &["6380"]).unwrap();
        let refused = Acceptor::new(&config, clock).unwrap_err().to_string();
        assert!(refused.contains("tls-port is 6380"), "{refused}");
        for (name, value) in [
            ("tls-port", "0"),
            ("metrics-tls", "yes"),
            ("metrics-port", "0"),
        ] {
            config.set(name, &[value]).unwrap();
        }
        let clock = Arc::new(SettableClock::new());
        let also = Acceptor::new(&config, clock).unwrap_err().to_string();
        assert!(also.contains("metrics-tls is yes"), "{also}");
        assert!(refused.contains("with the feature tls"), "{refused}");
    }
}
