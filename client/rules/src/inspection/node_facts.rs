//! What a node says of itself, read out of its INFO.
//!
//! Nothing here is taken for certain: a field that is missing is none.

use std::sync::Arc;
use std::time::Duration;

use super::node_reply::{InfoText, NodeReply};
use super::question::Dialect;
use crate::protocol::meaning;
use crate::votes::{Identity, is_list_of};

/// A node's INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Who it says it is.
    pub identity: Option<Identity>,
    /// The commands that it has.
    pub dialect: Dialect,
    /// Whether it is no node but an agent in front of nodes.
    pub is_agent: bool,
    /// Whether it is another system, for which the client itself answers.
    pub is_other_system: bool,
    /// Its version, with the server's name.
    pub version: String,
    /// What is left of its restart delay.
    pub delay_left: Option<Duration>,
    /// Whether it is still reading its data.
    pub is_loading: bool,
    /// The cluster that it belongs to.
    pub cluster_id: Option<Arc<str>>,
    /// How many nodes that has.
    pub cluster_size: Option<usize>,
    /// How many it will have, while a member is added or removed.
    pub next_size: Option<usize>,
    /// The node that is added or removed meanwhile, by the address that the operator has named.
    pub size_about: Option<String>,
    /// How long locks of clients with another list may last, by what it says.
    pub size_wait: Option<Duration>,
    /// When it writes to its disk; `none` where it keeps no log.
    pub fsync: Option<String>,
    /// How long it takes to write to its disk.
    pub sync_time: Option<Duration>,
    /// The time of its wall clock.
    pub wall: Option<Duration>,
    /// Since when it runs.
    pub uptime: Option<Duration>,
    /// Whether it copies another server.
    pub is_replica: bool,
    /// Whether it is a part of Redis Cluster.
    pub is_cluster: bool,
    /// What it does where its memory is full.
    pub eviction: Option<String>,
    /// The same for all nodes of one machine.
    pub machine: Option<String>,
    /// The number of its directory's file system on that machine.
    pub file_system: Option<String>,
    /// What its kernel reads the time from.
    pub clock_source: Option<String>,
    /// How many clients it has.
    pub clients: Option<u64>,
    /// How many it takes.
    pub clients_max: Option<u64>,
    /// How many it was to take, where its process may open too few files for them.
    pub clients_wanted: Option<u64>,
    /// The memory of its keys, in bytes.
    pub memory: Option<u64>,
    /// Its limit of that; 0 where there is none.
    pub memory_max: Option<u64>,
    /// Whether the last write to its log has failed.
    pub log_fails: bool,
    /// How many calls wait in line for a lock.
    pub lock_waiters: Option<u64>,
    /// How many keys without a ttl it has that may be locks.
    pub locks_without_ttl: Option<u64>,
    /// The rights that the user lacks to take locks there, where it is another system that says so.
    pub lacking_rights: Option<String>,
}

impl NodeFacts {
    /// The size of its cluster, where a list of so many entries is not one of that cluster.
    pub(super) fn other_size(&self, listed: usize) -> Option<usize> {
        let is_other = !is_list_of(listed, self.cluster_size, self.next_size);
        self.cluster_size.filter(|_| is_other)
    }

    /// Reads the reply to INFO.
    ///
    /// # Errors
    /// The node's words, where it refuses it.
    pub fn read(reply: &NodeReply) -> Result<Self, String> {
        let NodeReply::Text(bytes) = reply else {
            return Err(reply.refusal());
        };
        let text = InfoText::new(bytes);
        let info = meaning::info_of(&text);
        let field = |name: &str| {
            let value = text.field(name)?;
            (value.len() <= VALUE_BYTES_MAX).then(|| value.to_owned())
        };
        let number = |name: &str| text.number::<u64>(name);
        let gateway = field("quorlock_gateway");
        let (dialect, version) = match (field("quorlock_version"), field("valkey_version")) {
            _ if let Some(version) = gateway.clone() => (Dialect::Quorlock, version),
            (Some(version), _) => (Dialect::Quorlock, format!("quorlock {version}")),
            (None, Some(version)) => (Dialect::Redis, format!("valkey {version}")),
            (None, None) => {
                let version = field("redis_version").unwrap_or_else(|| "?".to_owned());
                (Dialect::Redis, format!("redis {version}"))
            }
        };
        let keeps_no_log = number("aof_enabled") == Some(0);
        let fsync = field("quorlock_appendfsync").or(keeps_no_log.then(|| "none".to_owned()));
        Ok(Self {
            identity: info.identity,
            dialect,
            is_agent: info.is_agent,
            is_other_system: gateway.is_some(),
            version,
            delay_left: info.delay_left,
            is_loading: info.is_loading,
            cluster_id: info.membership.cluster_id,
            cluster_size: info.membership.cluster_size,
            next_size: info.membership.next_size,
            size_about: field("quorlock_cluster_size_about"),
            size_wait: number("quorlock_cluster_size_wait_ms").map(Duration::from_millis),
            fsync,
            sync_time: number("quorlock_sync_usec").map(Duration::from_micros),
            wall: number("server_time_usec").map(Duration::from_micros),
            uptime: number("uptime_in_seconds").map(Duration::from_secs),
            is_replica: field("role").is_some_and(|role| role == "slave"),
            is_cluster: number("cluster_enabled") == Some(1),
            eviction: field("maxmemory_policy"),
            machine: field("quorlock_machine"),
            file_system: field("quorlock_file_system"),
            clock_source: field("quorlock_clock_source"),
            clients: number("connected_clients"),
            clients_max: number("maxclients"),
            clients_wanted: number("quorlock_maxclients_wanted"),
            memory: number("used_memory"),
            memory_max: number("maxmemory"),
            log_fails: field("aof_last_write_status").is_some_and(|status| status == "err"),
            lock_waiters: number("quorlock_lock_waiters"),
            locks_without_ttl: number("quorlock_locks_without_ttl"),
            lacking_rights: field("quorlock_gateway_lacks"),
        })
    }
}

impl NodeFacts {
    /// How much of its memory its keys take, where it takes no new ones beyond its limit.
    #[must_use]
    pub fn memory_percent(&self) -> Option<u64> {
        let evicts = self
            .eviction
            .as_deref()
            .is_some_and(|policy| policy != "noeviction");
        let limit = self.memory_max.filter(|limit| *limit > 0 && !evicts)?;
        Some(self.memory?.saturating_mul(100) / limit)
    }
}

/// No field that is read is longer.
const VALUE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> NodeFacts {
        NodeFacts::read(&NodeReply::Text(text.as_bytes().to_vec())).expect("it is a reply to INFO")
    }

    #[test]
    fn a_node_says_who_it_is_and_how_it_does() {
        let facts = read(
            "redis_version:7.2.4\r\nquorlock_version:0.1.0\r\nquorlock_node_id:n\r\n\
             quorlock_incarnation:2\r\nquorlock_cluster_id:\r\nquorlock_cluster_size:5\r\n\
             restart_delay:1\r\nrestart_delay_remaining_ms:7200\r\nserver_time_usec:5000000\r\n\
             aof_enabled:1\r\nquorlock_appendfsync:always\r\nquorlock_sync_usec:202\r\nrole:master\r\n",
        );
        assert_eq!(facts.version, "quorlock 0.1.0");
        assert_eq!(facts.dialect, Dialect::Quorlock);
        assert_eq!(facts.delay_left, Some(Duration::from_millis(7_200)));
        assert_eq!((facts.cluster_size, &facts.cluster_id), (Some(5), &None));
        assert_eq!(facts.fsync.as_deref(), Some("always"));
        assert_eq!(facts.sync_time, Some(Duration::from_micros(202)));
        assert_eq!(facts.wall, Some(Duration::from_secs(5)));
        assert!(!facts.is_replica && !facts.is_cluster && !facts.is_loading);
    }

    #[test]
    fn redis_and_valkey_are_known_by_their_version() {
        let redis = read("redis_version:7.0.15\r\nrun_id:r\r\naof_enabled:0\r\nrole:slave\r\n");
        assert_eq!(
            (redis.dialect, &*redis.version),
            (Dialect::Redis, "redis 7.0.15")
        );
        assert_eq!(redis.fsync.as_deref(), Some("none"));
        assert!(redis.is_replica);
        let valkey = read("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\ncluster_enabled:1\r\n");
        assert_eq!(valkey.version, "valkey 8.0.1");
        assert!(valkey.is_cluster && valkey.identity.is_none());
        let other = read("run_id:p\r\nquorlock_gateway:postgresql 15.18\r\n");
        assert_eq!(
            (other.dialect, &*other.version),
            (Dialect::Quorlock, "postgresql 15.18")
        );
        assert!(other.is_other_system && !valkey.is_other_system);
        assert_eq!(other.lacking_rights, None);
        let guest = read("run_id:p\r\nquorlock_gateway_lacks:INSERT, UPDATE on \"a\".b\r\n");
        let lacking = guest.lacking_rights.as_deref();
        assert_eq!(lacking, Some("INSERT, UPDATE on \"a\".b"));
        let refused = NodeReply::Error("NOPERM no INFO for you".to_owned());
        assert!(NodeFacts::read(&refused).is_err_and(|text| text.contains("NOPERM")));
    }
}
