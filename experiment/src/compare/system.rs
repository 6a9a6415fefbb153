//! Systems that run already, on which our own client takes locks: the address says which system it is.
//!
//! Nothing is started, killed or emptied there. A run has names of its own, so that no lock of a program or of an earlier
//! run is in its way. An address is never shown: it may hold a password.

use quorlock_client::{Redlock, TlsOptions};
use quorlock_client_rules::address::{Endpoint, NodeAddress};
use rand::RngExt as _;
use thiserror::Error;

use super::caller::ServiceCaller;
use crate::engine::EngineError;
use crate::words::words;

words! {
    /// A system on which the client keeps locks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SystemKind or "system on which the client keeps locks: {all}" {
        /// A master of Redis that Sentinels watch.
        Sentinel = "sentinel",
        /// A Redis Cluster.
        RedisCluster = "redis-cluster",
        /// The members of etcd.
        Etcd = "etcd",
        /// A table of PostgreSQL.
        Postgresql = "postgresql",
    }
}

/// A system that was named by its address.
#[derive(Clone)]
pub struct ListedSystem {
    kind: SystemKind,
    address: String,
    tls: TlsOptions,
    /// What all names of this run begin with.
    prefix: String,
    /// Its version, or why it cannot be asked.
    pub version: Result<String, String>,
}

/// Why an address names no system that is compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SystemError {
    /// It is no address.
    #[error("{0}")]
    Address(String),
    /// It is that of a single node.
    #[error(
        "'{0}' is a node and no other system: write redis+sentinel://, redis-cluster://, etcd:// or postgresql://"
    )]
    Node(String),
}

impl ListedSystem {
    /// Reads an address, and has its server asked for its version.
    ///
    /// # Errors
    /// If it is no address of such a system.
    pub fn find(
        address: &str,
        tls: &TlsOptions,
        version: impl FnOnce(&str, TlsOptions) -> Result<String, String>,
    ) -> Result<ListedSystem, SystemError> {
        let parsed = NodeAddress::parse(address);
        let parsed = parsed.map_err(|error| SystemError::Address(error.to_string()))?;
        let kind = match parsed.endpoint {
            Endpoint::Sentinels { .. } => SystemKind::Sentinel,
            Endpoint::RedisCluster { .. } => SystemKind::RedisCluster,
            Endpoint::Etcd { .. } => SystemKind::Etcd,
            Endpoint::Postgresql { .. } => SystemKind::Postgresql,
            _ => return Err(SystemError::Node(parsed.to_string())),
        };
        let run: u32 = rand::rng().random();
        Ok(ListedSystem {
            kind,
            address: address.to_owned(),
            tls: tls.clone(),
            prefix: format!("{PREFIX}{run:08x}:"),
            version: version(address, tls.clone()),
        })
    }

    /// Which system it is.
    pub fn kind(&self) -> SystemKind {
        self.kind
    }

    pub(super) fn caller(&self, number: usize) -> Result<ServiceCaller, EngineError> {
        let builder = Redlock::builder()
            .node(self.address.as_str())
            .tls(self.tls.clone())
            .accept_failover()
            .prefix(&self.prefix)
            .client_name(&format!("caller-{number}"));
        let redlock = builder.build().map_err(EngineError::failed)?;
        Ok(ServiceCaller::Redlock(redlock))
    }
}

impl SystemKind {
    /// Why it is skipped where no address was named.
    pub(super) fn not_named(self) -> String {
        let (address, package) = match self {
            SystemKind::Sentinel => (
                "redis+sentinel://127.0.0.1:26379/mymaster",
                "redis-sentinel",
            ),
            SystemKind::RedisCluster => ("redis-cluster://127.0.0.1:7000", "redis-server"),
            SystemKind::Etcd => ("etcd://127.0.0.1:2379", "etcd-server"),
            SystemKind::Postgresql => ("postgresql://user@127.0.0.1/postgres", "postgresql"),
        };
        format!("no address was named: --system {address} (Debian: apt-get install {package})")
    }

    /// Whether a failover may lose a lock there, so that it has two holders.
    pub(super) fn may_lose(self) -> bool {
        matches!(self, SystemKind::Sentinel | SystemKind::RedisCluster)
    }

    pub(super) fn is(self) -> &'static str {
        match self {
            SystemKind::Sentinel => "1 master, Sentinels",
            SystemKind::RedisCluster => "masters of slots",
            SystemKind::Etcd => "keys with leases",
            SystemKind::Postgresql => "rows of a table",
        }
    }

    pub(super) fn is_at_length(self) -> String {
        let what = match self {
            SystemKind::Sentinel => {
                "a master of Redis that Sentinels watch; a lock is a key that ends with its ttl, and a failover may lose it"
            }
            SystemKind::RedisCluster => {
                "a Redis Cluster; a lock is a key on the master of its slot that ends with its ttl, and a failover may lose it"
            }
            SystemKind::Etcd => {
                "the members of etcd, which sync before they answer; a lock is a key that ends with its lease"
            }
            SystemKind::Postgresql => {
                "one server of PostgreSQL; a lock is a row that is committed before it is granted, and ends with its ttl"
            }
        };
        format!("our own client on {what}; not started here")
    }
}

const PREFIX: &str = "quorlock-experiment:";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: &str) -> Result<ListedSystem, SystemError> {
        ListedSystem::find(address, &TlsOptions::new(), |_, _| Ok("1.2".to_owned()))
    }

    #[test]
    fn an_address_says_which_system_it_is_and_each_run_has_names_of_its_own() {
        for (address, kind) in [
            ("redis+sentinel://127.0.0.1:1/m", SystemKind::Sentinel),
            ("redis-cluster://127.0.0.1:1", SystemKind::RedisCluster),
            ("etcds://127.0.0.1:1,127.0.0.2:1", SystemKind::Etcd),
            ("postgresql://me@127.0.0.1/x", SystemKind::Postgresql),
        ] {
            let [one, other] = [found(address), found(address)].map(Result::ok);
            let (one, other) = one.zip(other).expect("it is a system");
            assert_eq!(one.kind(), kind);
            assert_ne!(one.prefix, other.prefix);
        }
    }

    #[test]
    fn callers_and_the_version_trust_the_authorities_that_were_named() {
        let tls = TlsOptions::new().ca_file("/nowhere/ca.pem");
        let system = ListedSystem::find("rediss+sentinel://127.0.0.1:1/m", &tls, |_, given| {
            assert_eq!(given, tls);
            Ok("1.2".to_owned())
        });
        let Err(error) = system.expect("it is a system").caller(0) else {
            panic!("a caller needs no authorities")
        };
        let words = error.to_string();
        // A build of this package alone has no TLS.
        let is_named = words.contains("/nowhere/ca.pem") || words.contains("built without TLS");
        assert!(is_named, "{words}");
    }

    #[test]
    fn what_is_none_is_refused_without_its_password() {
        for address in [
            "moon://me:secret@x",
            "redis://me:secret@127.0.0.1:1",
            "etcd://",
        ] {
            let Err(error) = found(address) else {
                panic!("{address} is a system")
            };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
