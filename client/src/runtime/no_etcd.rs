//! In place of etcd, in a build without the feature `etcd`: a client of it is not built.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::NodeAddress;

use super::stream::Stream;
use super::tls::Tls;

/// The feature that a client needs for it and lacks.
pub(super) const MISSING_FEATURE: Option<&str> = Some("etcd");

/// # Errors
/// Always.
pub(super) async fn connect(_: &NodeAddress, _: Option<Tls>, _: Duration) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}
