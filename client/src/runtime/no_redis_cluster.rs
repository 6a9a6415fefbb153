//! In place of Redis Cluster, in a build without the feature `redis-cluster`: a client of it is not built.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::NodeAddress;

use super::stream::Stream;
use super::tcp::Addresses;
use super::tls::Tls;

/// The feature that a client needs for it and lacks.
pub(super) const MISSING_FEATURE: Option<&str> = Some("redis-cluster");

/// No servers are known here.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownServers;

/// # Errors
/// Always.
pub(super) async fn connect(
    _: &NodeAddress,
    _: Option<Tls>,
    addresses: &Addresses,
    _: Duration,
) -> io::Result<Stream> {
    let KnownServers = addresses.cluster;
    Err(io::ErrorKind::Unsupported.into())
}
