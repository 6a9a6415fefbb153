//! Connections to the servers of a Redis Cluster, on which the client's requests are carried out.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::{Endpoint, NodeAddress};
use quorlock_gateway::redis_cluster;
pub(super) use quorlock_gateway::redis_cluster::KnownServers;

use super::connector::ProgramStream;
use super::stream::Stream;
use super::tcp::{self, Addresses};
use super::tls::Tls;

/// The feature that a client needs for it and lacks.
pub(super) const MISSING_FEATURE: Option<&str> = None;

/// Finds the cluster by the servers of the address. Half of this time is for connection and answer of a server, as of a Sentinel. A
/// client stays with the cluster that it has found first.
pub(super) async fn connect(
    address: &NodeAddress,
    tls: Option<Tls>,
    known: &Addresses,
    deadline: Duration,
) -> io::Result<Stream> {
    let Endpoint::RedisCluster { servers } = &address.endpoint else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let patience = deadline / 2;
    let connect = move |host: String, port| {
        let (tls, known) = (tls.clone(), Addresses::default());
        async move { tcp::connect(&host, port, tls, &known, patience).await }
    };
    let (login, cluster) = (address.login(), known.cluster.clone());
    let gateway = redis_cluster::connect(connect, servers, login, patience, cluster).await?;
    Ok(Stream::Program(
        address.to_string(),
        ProgramStream::new(gateway),
    ))
}
