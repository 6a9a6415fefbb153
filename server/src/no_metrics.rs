//! In place of the HTTP endpoint, in a build without the feature `http`: a node that is to have one does not start.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use quorlock_node::core::certificates::Installation;
use quorlock_node::core::metrics_endpoint::MetricsEndpoint;
use quorlock_node::core::state::NodeState;
use quorlock_node::start::StartError;

use crate::config::Config;
use crate::tls::Acceptor;

/// There is none.
#[derive(Debug)]
pub(crate) struct Endpoint;

impl Endpoint {
    /// Nothing to bind.
    ///
    /// # Errors
    /// Where there is a `metrics-port`.
    pub(crate) fn bind(config: &Config, _: Option<Arc<Acceptor>>) -> Result<Arc<Self>, StartError> {
        match config.metrics_port {
            None => Ok(Arc::new(Self)),
            Some(port) => Err(StartError::Config(format!(
                "metrics-port is {port}, but this program was built without HTTP. Nothing was started and no lock is affected; \
                 leave the directive out, or build quorlock-server with the feature http"
            ))),
        }
    }

    /// Nothing to serve.
    ///
    /// # Errors
    /// Never.
    pub(crate) fn begin(&self, _: &Arc<NodeState>) -> io::Result<()> {
        Ok(())
    }

    /// Nothing to wait for.
    pub(crate) fn end(&self) -> Option<JoinHandle<()>> {
        None
    }
}

impl MetricsEndpoint for Endpoint {
    fn prepare(&self, config: &Config) -> Result<Installation, String> {
        match config.metrics_port {
            None => Ok(Box::new(|| {})),
            Some(_) => Err(
                "this program was built without HTTP; the metrics stay off. Build quorlock-server with the feature http"
                    .to_owned(),
            ),
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn a_node_that_is_to_have_metrics_does_not_start_without_them_and_gets_none_later() {
        let mut config = Config::default();
        let none = Endpoint::bind(&config, None).unwrap();
        assert!(none.prepare(&config).is_ok());
        config.set("metrics-port", &["9121"]).unwrap();
        let refused = Endpoint::bind(&config, None).unwrap_err().to_string();
        assert!(refused.contains("metrics-port is 9121"), "{refused}");
        assert!(refused.contains("with the feature http"), "{refused}");
        let refused = none.prepare(&config).err().unwrap();
        assert!(refused.contains("with the feature http"), "{refused}");
        assert_eq!(none.address(), None);
    }
}
