//! The thread of clients: it moves bytes between the rules and the nodes' sockets, and calls and outcomes between the rules and
//! the callers.
//!
//! Invariant: everything that outlives a call lives on this thread, so it outlives the caller's future, guard and runtime.
//! A client ends when no handle and no guard is left and nothing is owed any more, and the thread with its last client. Nothing
//! is decided here.

mod client_io;
pub(crate) mod connector;
mod dial;
pub(crate) mod dialer;
mod dropped;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(not(feature = "etcd"))]
#[path = "no_etcd.rs"]
mod etcd;
pub(crate) mod handle;
mod log;
#[cfg(feature = "postgresql")]
mod postgresql;
#[cfg(not(feature = "postgresql"))]
#[path = "no_postgresql.rs"]
mod postgresql;
#[cfg(all(test, feature = "postgresql", feature = "tls"))]
mod postgresql_tls_tests;
pub(crate) mod process;
#[cfg(feature = "redis-cluster")]
mod redis_cluster;
#[cfg(not(feature = "redis-cluster"))]
#[path = "no_redis_cluster.rs"]
mod redis_cluster;
mod sentinels;
mod shared_thread;
mod socket;
mod stream;
mod tcp;
mod thread;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
pub(crate) mod tls;

use std::sync::Arc;

use quorlock_client_rules::address::{Endpoint, NodeAddress};
use quorlock_client_rules::outcome::BuildError;
use quorlock_client_rules::settings::Settings;
use quorlock_clock::Clock;
use tokio::sync::mpsc;

use self::client_io::Arrival;
use self::connector::Connector;
use self::dropped::Dropped;
use self::handle::Handle;
use self::tls::Tls;

/// Has a client run: on the thread that the clients of the process share, or on one of its own. The connectors are those of
/// the nodes, where they have any; TLS is spoken with those whose addresses say so.
pub(crate) fn start(
    nodes: Vec<NodeAddress>,
    connectors: Vec<Option<Connector>>,
    tls: Option<Tls>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    has_own_thread: bool,
) -> Result<Handle, BuildError> {
    let (commands, received) = mpsc::unbounded_channel();
    let dropped = Arc::new(Dropped::default());
    let arrival = Arrival {
        nodes,
        connectors,
        tls,
        settings,
        clock,
        commands: received,
        dropped: Arc::clone(&dropped),
    };
    let started = match has_own_thread {
        true => thread::start(arrival, async |mut clients| clients.run().await).map(drop),
        false => shared_thread::admit(arrival),
    };
    started.map_err(|error| BuildError::Thread(Arc::new(error)))?;
    Ok(Handle::new(commands, dropped))
}

/// The feature without which such an endpoint cannot be reached, if this crate was built without it.
pub(crate) fn missing_feature(endpoint: &Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::Etcd { .. } => etcd::MISSING_FEATURE,
        Endpoint::Postgresql { .. } => postgresql::MISSING_FEATURE,
        Endpoint::RedisCluster { .. } => redis_cluster::MISSING_FEATURE,
        _ => None,
    }
}
