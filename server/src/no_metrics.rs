//! In place of the HTTP endpoint, in a build without the feature `http`: a node that is to have one does not start.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use quorlock_node::core::state::NodeState;
use quorlock_node::start::StartError;

use crate::config::Config;
use crate::tls::Acceptor;

/// Nothing to bind.
///
/// # Errors
/// Where there is a `metrics-port`.
pub(crate) fn bind(config: &Config) -> Result<Vec<TcpListener>, StartError> {
    match config.metrics_port {
        None => Ok(Vec::new()),
        Some(port) => Err(StartError::Config(format!(
            "metrics-port is {port}, but this program was built without HTTP. Nothing was started and no lock is affected; \
             leave the directive out, or build quorlock-server with the feature http"
        ))),
    }
}

/// Never called: nothing was bound.
///
/// # Errors
/// Always.
pub(crate) fn spawn(
    _: Vec<TcpListener>,
    _: Option<Arc<Acceptor>>,
    _: Arc<NodeState>,
) -> io::Result<JoinHandle<()>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn a_node_that_is_to_have_metrics_does_not_start_without_them() {
        let mut config = Config::default();
        assert!(bind(&config).unwrap().is_empty());
        config.set("metrics-port", &["9121"]).unwrap();
        let refused = bind(&config).unwrap_err().to_string();
        assert!(refused.contains("metrics-port is 9121"), "{refused}");
        assert!(refused.contains("with the feature http"), "{refused}");
    }
}
