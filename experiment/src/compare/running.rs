//! A service that runs, from its start to its end.

use std::path::Path;
use std::time::Duration;

use super::caller::ServiceCaller;
use super::etcd::{EtcdCaller, EtcdCluster};
use super::postgresql::Postgresql;
use super::service::Service;
use super::system::ListedSystem;
use super::{InstalledServices, there};
use crate::engine::EngineError;
use crate::engine::real::ServiceNodes;

/// What runs; what was started here ends when this is dropped.
pub(super) enum RunningService {
    Nodes(ServiceNodes),
    Etcd(EtcdCluster),
    Postgresql(Postgresql),
    Listed(ListedSystem),
}

impl RunningService {
    /// Starts a service in this directory, and waits until it serves. `ttl` is the longest that it will be asked for.
    pub(super) async fn start(
        service: Service,
        found: &InstalledServices,
        ttl: Duration,
        directory: &Path,
    ) -> Result<RunningService, EngineError> {
        match service {
            Service::Nodes(kind, fsync) => {
                let nodes = ServiceNodes::start(found.server(kind)?, fsync, ttl, directory).await?;
                Ok(RunningService::Nodes(nodes))
            }
            Service::Etcd(members) => {
                let etcd = there(&found.etcd)?;
                let cluster = EtcdCluster::start(etcd, members, directory).await?;
                Ok(RunningService::Etcd(cluster))
            }
            Service::Postgresql => Ok(RunningService::Postgresql(
                there(&found.postgresql)?.clone(),
            )),
            Service::Client(kind) => {
                let system = found.system(kind).map_err(EngineError::Missing)?;
                Ok(RunningService::Listed(system.clone()))
            }
        }
    }

    /// A caller with connections of its own.
    pub(super) async fn caller(&self, number: usize) -> Result<ServiceCaller, EngineError> {
        match self {
            RunningService::Nodes(nodes) => ServiceCaller::redlock(&nodes.ports(), number),
            RunningService::Etcd(cluster) => {
                let caller = EtcdCaller::new(&cluster.ports(), number);
                Ok(ServiceCaller::Etcd(caller))
            }
            RunningService::Postgresql(server) => {
                Ok(ServiceCaller::Postgresql(server.caller().await?))
            }
            RunningService::Listed(system) => system.caller(number),
        }
    }

    /// `kill -9` of one process of it, the leader where there is one; it starts again at once.
    pub(super) async fn strike(&mut self) -> Result<(), EngineError> {
        match self {
            RunningService::Nodes(nodes) => nodes.strike(),
            RunningService::Etcd(cluster) => cluster.strike().await,
            // It is not ours: no step asks for that.
            RunningService::Postgresql(_) | RunningService::Listed(_) => {
                Err(EngineError::Missing(NOT_OURS.to_owned()))
            }
        }
    }
}

/// Why a server that was given by its URL is not killed.
pub(super) const NOT_OURS: &str = "the server was not started here, so nobody kills it";
