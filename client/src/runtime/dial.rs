//! Making a connection: to a port, a socket, the program's own, the master that Sentinels name, or another system.

use std::io;
use std::time::Duration;

use quorlock_client_rules::address::{Endpoint, NodeAddress};
use tokio::net::UnixStream;

use super::connector::Connector;
use super::etcd;
use super::postgresql;
use super::redis_cluster;
use super::sentinels;
use super::stream::Stream;
use super::tcp;
pub(super) use super::tcp::Addresses;
use super::tls::Tls;

pub(super) async fn dial(
    address: NodeAddress,
    connector: Option<Connector>,
    tls: Option<Tls>,
    known: Addresses,
    deadline: Duration,
) -> io::Result<Stream> {
    let (host, port) = match address.endpoint.clone() {
        // The rules end one that takes too long, as one to a socket of the file system.
        Endpoint::Program { name } => {
            let connector = connector.ok_or(io::ErrorKind::NotFound)?;
            return Ok(Stream::Program(name, connector.connect().await?));
        }
        Endpoint::Unix { path } => return UnixStream::connect(path).await.map(Stream::Unix),
        Endpoint::Tcp { host, port } => (host, port),
        Endpoint::Sentinels { sentinels, master } => {
            return sentinels::connect(sentinels, master, tls, deadline).await;
        }
        Endpoint::Etcd { .. } => return etcd::connect(&address, tls, deadline).await,
        Endpoint::RedisCluster { .. } => {
            return redis_cluster::connect(&address, tls, &known, deadline).await;
        }
        Endpoint::Postgresql { .. } => {
            return postgresql::connect(&address, tls, &known, deadline).await;
        }
    };
    tcp::connect(&host, port, tls, &known, deadline).await
}
