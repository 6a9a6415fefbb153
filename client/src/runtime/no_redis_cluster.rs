//! In place of Redis Cluster, in a build without the feature `redis-cluster`: a client of it is not built.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::NodeAddress;

use super::stream::Stream;
use super::tcp::Addresses;
use super::tls::Tls;

/// The feature that a client needs for it and lacks.
pub(super) const MISSING_FEATURE: Option<&str> = Some("redis-cluster");

/// # Errors
/// Always.
pub(super) async fn connect(
    _: &NodeAddress,
    _: Option<Tls>,
    _: &Addresses,
    _: Duration,
) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}
