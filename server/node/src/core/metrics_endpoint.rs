//! The seam to the endpoint of the metrics: what CONFIG SET asks of what listens there.

use std::fmt::Debug;
use std::net::SocketAddr;

use crate::config::Config;
use crate::core::certificates::Installation;

/// Where a node's metrics are read.
pub trait MetricsEndpoint: Send + Sync + Debug {
    /// Listens where a configuration says, beside where it listens now. Once the result is called it listens nowhere else. Where
    /// the result is dropped, all stays as it was.
    ///
    /// # Errors
    /// Which address cannot be listened on, why, and where the endpoint still is.
    fn prepare(&self, config: &Config) -> Result<Installation, String>;

    /// The first address that it listens on, if any.
    fn address(&self) -> Option<SocketAddr>;
}
