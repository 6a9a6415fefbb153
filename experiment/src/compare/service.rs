//! What is compared: a product, with the one setting that matters most for its locks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::system::SystemKind;
use crate::cell::FsyncMode;
use crate::words::{text_in_files, words};

words! {
    /// A product.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Kind or "service that is compared: {all}" {
        /// Our own nodes, with our own client.
        Quorlock = "quorlock",
        /// redis-server, with our own client.
        RedisServer = "redis-server",
        /// valkey-server, with our own client.
        ValkeyServer = "valkey-server",
        /// etcd, through its lock API.
        Etcd = "etcd",
        /// Advisory locks of a PostgreSQL server.
        Postgresql = "postgresql",
        /// Our own client, on systems that were named by their addresses.
        Client = "client",
    }
}

/// A product in one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Service {
    /// Five independent nodes and a majority, in this mode.
    Nodes(Kind, FsyncMode),
    /// So many members of one raft group.
    Etcd(u8),
    /// One server that runs already.
    Postgresql,
    /// Our own client on a system that runs already.
    Client(SystemKind),
}

impl Kind {
    /// Its settings that are compared, with these fsync modes where it has them.
    pub fn services(self, fsync: &[FsyncMode]) -> Vec<Service> {
        match self {
            Kind::Etcd => ETCD_MEMBERS.map(Service::Etcd).into(),
            Kind::Postgresql => vec![Service::Postgresql],
            Kind::Client => SystemKind::ALL.map(Service::Client).into(),
            own => fsync
                .iter()
                .map(|mode| Service::Nodes(own, *mode))
                .collect(),
        }
    }
}

impl Service {
    /// Which product.
    pub fn kind(self) -> Kind {
        match self {
            Service::Nodes(kind, _) => kind,
            Service::Etcd(_) => Kind::Etcd,
            Service::Postgresql => Kind::Postgresql,
            Service::Client(_) => Kind::Client,
        }
    }

    /// Whether two holders at once are a defect of ours: on our own nodes, and with our own client on a system that loses no
    /// lock.
    pub fn is_ours(self) -> bool {
        match self {
            Service::Nodes(kind, _) => kind == Kind::Quorlock,
            Service::Client(system) => !system.may_lose(),
            Service::Etcd(_) | Service::Postgresql => false,
        }
    }

    /// What it is, in a few words.
    pub fn is(self) -> &'static str {
        match self {
            Service::Nodes(..) => "5 nodes, Redlock",
            Service::Etcd(1) => "1 member, raft",
            Service::Etcd(_) => "3 members, raft",
            Service::Postgresql => "1 server, sessions",
            Service::Client(system) => system.is(),
        }
    }

    /// What it is, and what a lock rests on.
    pub fn is_at_length(self) -> String {
        match self {
            Service::Nodes(kind, fsync) => format!(
                "five independent nodes of {} ({}), a lock on a majority of them (Redlock, by our own client, whose \
                 waiting callers {}); it ends with its ttl",
                kind.word(),
                match fsync {
                    FsyncMode::None => "without a log".to_owned(),
                    mode => format!("fsync {mode}"),
                },
                match kind {
                    Kind::Quorlock => "stand in line at one node",
                    _ => "are told by the nodes what changes",
                }
            ),
            Service::Etcd(members) => format!(
                "one raft group of {members} {}, each of which syncs before it answers; the lock API over HTTP, a lease \
                 per caller, callers wait in a queue of the service; a lock ends with its lease",
                match members {
                    1 => "member",
                    _ => "members",
                }
            ),
            Service::Postgresql => {
                "one server, not started here; advisory locks of a session, in its memory; callers \
                 wait in a queue of the service; a lock ends with its session, not with time"
                    .to_owned()
            }
            Service::Client(system) => system.is_at_length(),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Service::Nodes(kind, fsync) => write!(f, "{kind}/{fsync}"),
            Service::Etcd(members) => write!(f, "{}/{members}", Kind::Etcd),
            Service::Postgresql => write!(f, "{}", Kind::Postgresql),
            Service::Client(system) => write!(f, "{}/{system}", Kind::Client),
        }
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Service, String> {
        let (kind, setting) = text.split_once('/').unwrap_or((text, ""));
        let kind: Kind = kind.parse()?;
        let unknown = || format!("'{text}' is no service in a setting that is compared");
        match kind {
            Kind::Postgresql if setting.is_empty() => Ok(Service::Postgresql),
            Kind::Postgresql => Err(unknown()),
            Kind::Etcd => {
                let members = setting.parse().map_err(|_| unknown())?;
                let known = ETCD_MEMBERS.contains(&members);
                known.then_some(Service::Etcd(members)).ok_or_else(unknown)
            }
            Kind::Client => setting.parse().map(Service::Client).map_err(|_| unknown()),
            own => Ok(Service::Nodes(own, setting.parse()?)),
        }
    }
}

text_in_files!(Service);

const ETCD_MEMBERS: [u8; 2] = [1, 3];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_read_as_it_is_written() {
        let all = Kind::ALL
            .map(|kind| kind.services(&FsyncMode::ALL))
            .concat();
        assert_eq!(all.len(), 4 + 4 + 4 + 2 + 1 + 4);
        for service in all {
            assert_eq!(service.to_string().parse(), Ok(service));
            assert!(!service.is_at_length().is_empty());
        }
        for text in [
            "",
            "etcd",
            "etcd/2",
            "postgresql/1",
            "quorlock",
            "quorlock/x",
            "client",
            "client/quorlock",
        ] {
            assert!(text.parse::<Service>().is_err(), "{text}");
        }
    }
}
