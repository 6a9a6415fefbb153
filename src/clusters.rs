//! The clusters of a list: one as a rule, or several among which names of locks are shared out.
//!
//! Invariant: a command gets the nodes of one cluster at a time, so that it never counts votes of two together.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::address::{Endpoint, NodeAddress};
use quorlock_client_rules::shards::{ShardError, Shards};
use serde_json::Value;

use crate::exit_code::{Failure, NO_QUORUM};
use crate::node_address::complete;
use crate::tls_options::TlsFlags;

/// The nodes, and how their votes are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeList {
    /// Addresses, each with its login.
    pub(crate) nodes: Vec<String>,
    /// What tells their cluster from the others, where names of locks are shared out among several.
    pub(crate) cluster: Option<Arc<str>>,
    /// Whether votes are counted by address.
    pub(crate) votes_by_address: bool,
    /// Nodes that must agree besides a majority.
    pub(crate) spare_votes: usize,
    /// How TLS is spoken with them.
    pub(crate) tls: TlsFlags,
    /// What the names of locks begin with on the nodes, before those that are said.
    pub(crate) prefix: String,
    /// The length of leases for which none is said.
    pub(crate) ttl: Option<Duration>,
}

/// The nodes of each cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clusters {
    lists: Vec<NodeList>,
    /// None where there is one cluster, which has all names.
    shards: Option<Shards>,
    are_named: bool,
}

/// What a text or a file says about clusters.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The nodes of each cluster, with its name if it has one.
    pub(crate) clusters: Vec<(Option<String>, Vec<String>)>,
    /// The names of the clusters that all clients list next, where the list says so.
    pub(crate) next: Option<Vec<String>>,
}

impl Groups {
    /// Reads `a,b,c`, or several clusters: `a,b,c;d,e,f`, `east=a,b,c;west=d,e,f`, and `next=east,north` for a list that is being
    /// changed.
    pub(crate) fn read(text: &str) -> Self {
        let mut groups = Self::default();
        for part in parts(text) {
            let mut name: Option<&str> = None;
            let mut nodes = String::new();
            for word in part.split(|c: char| c == ',' || c.is_whitespace()) {
                let word = match named(word) {
                    Some((next, first)) => {
                        groups.add(name.replace(next), &nodes);
                        nodes.clear();
                        first
                    }
                    None => word,
                };
                nodes.push_str(word);
                nodes.push(',');
            }
            groups.add(name, &nodes);
        }
        groups
    }

    fn add(&mut self, name: Option<&str>, nodes: &str) {
        let nodes = split(nodes);
        match name {
            None if nodes.is_empty() => {}
            Some(NEXT) => self.next.get_or_insert_default().extend(nodes),
            name => self.clusters.push((name.map(str::to_owned), nodes)),
        }
    }
}

impl Clusters {
    /// One cluster, which has all names.
    pub(crate) fn one(list: NodeList) -> Self {
        Self {
            lists: vec![list],
            shards: None,
            are_named: false,
        }
    }

    /// These clusters, with all else that the list says. None where no node is named.
    pub(crate) fn of(base: &NodeList, groups: Groups) -> Result<Option<Self>, Failure> {
        let Groups { clusters, next } = groups;
        let mut lists = Vec::new();
        let mut names: Vec<Arc<str>> = Vec::new();
        let are_named = clusters.iter().any(|(name, _)| name.is_some());
        let is_one = clusters.len() == 1 && !are_named;
        for (name, nodes) in clusters {
            if nodes.is_empty() {
                let name = name.unwrap_or_default();
                return Err(Failure::usage(format!("cluster '{name}' names no node")));
            }
            if name.is_none() && are_named {
                return Err(Failure::usage(
                    "some clusters of the list have names and some have none",
                )
                .remedy(FORM));
            }
            let nodes = nodes.into_iter().map(complete);
            let nodes: Vec<String> = nodes.collect::<Result<_, _>>()?;
            let name = match (name, is_one) {
                (_, true) => None,
                (Some(name), _) => Some(Arc::from(name)),
                (None, _) => Some(locations(&nodes)?),
            };
            names.extend(name.clone());
            lists.push(NodeList {
                nodes,
                cluster: name,
                ..base.clone()
            });
        }
        if next.as_ref().is_some_and(Vec::is_empty) {
            return Err(Failure::usage(
                "next= names no cluster, and a list that is not being changed has none",
            )
            .remedy(FORM));
        }
        let next = next.unwrap_or_default();
        if let Some(other) = next.iter().find(|name| !is_name(name)) {
            let what = format!("next= is followed by names of clusters, and '{other}' is none");
            return Err(Failure::usage(what).remedy(FORM));
        }
        if !next.is_empty() && !are_named {
            let what = "next= names clusters, and the clusters of this list have no names";
            return Err(Failure::usage(what).remedy(FORM));
        }
        if lists.is_empty() {
            return Ok(None);
        }
        if is_one {
            return Ok(lists.pop().map(Self::one));
        }
        each_once(&lists)?;
        let mut shards = Shards::new(names).map_err(Failure::usage)?;
        if !next.is_empty() {
            let next = next.iter().map(String::as_str);
            shards = shards.changing_to(next).map_err(Failure::usage)?;
        }
        Ok(Some(Self {
            lists,
            shards: Some(shards),
            are_named,
        }))
    }

    /// The same with this before each name.
    pub(crate) fn set_prefix(&mut self, prefix: &str) {
        for list in &mut self.lists {
            prefix.clone_into(&mut list.prefix);
        }
    }

    /// What names begin with.
    pub(crate) fn prefix(&self) -> &str {
        self.lists.first().map_or("", |list| &list.prefix)
    }

    /// The cluster on which these names are taken together.
    pub(crate) fn taking<'a>(
        &self,
        names: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<NodeList, Failure> {
        let Some(shards) = &self.shards else {
            return Ok(self.lists[0].clone());
        };
        let names = names.into_iter().map(|name| self.whole(name));
        let names: Vec<Vec<u8>> = names.collect();
        match shards.take(&names) {
            Ok(cluster) => Ok(self.lists[cluster].clone()),
            Err(moves @ ShardError::Moves { .. }) => {
                Err(Failure::new(NO_QUORUM, moves).called("moves"))
            }
            Err(other) => Err(Failure::usage(other)),
        }
    }

    /// The cluster that has this name now.
    pub(crate) fn having(&self, name: &[u8]) -> NodeList {
        let shards = self.shards.as_ref();
        let cluster = shards.map_or(0, |shards| shards.of(&self.whole(name)));
        self.lists[cluster].clone()
    }

    /// The cluster that has this name by the next list, if that is another one.
    pub(crate) fn moves_to(&self, name: &[u8]) -> Option<&str> {
        let moves = self.shards.as_ref()?.moves_to(&self.whole(name))?;
        Some(moves)
    }

    /// Whether the list is being changed, so that names move.
    pub(crate) fn are_changing(&self) -> bool {
        self.shards.as_ref().is_some_and(Shards::are_changing)
    }

    /// A cluster of the next list whose nodes are not listed.
    pub(crate) fn next_without_nodes(&self) -> Option<&str> {
        let shards = self.shards.as_ref()?;
        let mut next = shards.next_clusters().iter();
        let missing = next.find(|name| !shards.clusters().contains(name))?;
        Some(missing)
    }

    /// Whether there are several, which have no names.
    pub(crate) fn are_unnamed(&self) -> bool {
        self.shards.is_some() && !self.are_named
    }

    /// The only cluster, for what has the nodes of one.
    pub(crate) fn only(mut self, what: &str) -> Result<NodeList, Failure> {
        match &self.shards {
            None => Ok(self.lists.swap_remove(0)),
            Some(shards) => {
                let all = shards.clusters().join("', '");
                Err(Failure::usage(format!(
                    "{what} has the nodes of one cluster, and the list shares names of locks out among clusters: '{all}'"
                ))
                .remedy("list the nodes of one of them alone, without its name"))
            }
        }
    }

    /// Each of them.
    pub(crate) fn all(&self) -> &[NodeList] {
        &self.lists
    }

    fn whole(&self, name: &[u8]) -> Vec<u8> {
        [self.prefix().as_bytes(), name].concat()
    }
}

/// What stands between semicolons that end a cluster: one in a login does not.
fn parts(text: &str) -> Vec<&str> {
    let is_end = |c: char| c == ',' || c.is_whitespace();
    let mut parts = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest[from..].find(';').map(|at| from + at) {
        let before = rest[..at].rsplit(is_end).next().unwrap_or_default();
        let after = rest[at + 1..].split(is_end).next().unwrap_or_default();
        let begins_login = |(_, address): (&str, &str)| !address.contains('@');
        let ends_login = |(login, _): (&str, &str)| !login.contains([':', '/', '=']);
        if before.split_once("://").is_some_and(begins_login)
            && after.split_once('@').is_some_and(ends_login)
        {
            from = at + 1;
            continue;
        }
        parts.push(&rest[..at]);
        rest = &rest[at + 1..];
        from = 0;
    }
    parts.push(rest);
    parts
}

/// The name of a cluster and its first node, in `east=a`. A node has no '=' so early.
fn named(word: &str) -> Option<(&str, &str)> {
    let (name, first) = word.split_once('=')?;
    is_name(name).then_some((name, first))
}

/// Whether a cluster may have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_part)
}

/// Addresses between commas and blanks. One of several Sentinels goes on over commas, up to the name of its master, and one of etcd
/// or Redis Cluster up to the next address.
fn split(text: &str) -> Vec<String> {
    let mut addresses: Vec<String> = Vec::new();
    let is_open = |address: &String| {
        let sentinels = address.split_once("+sentinel://");
        let hosts = |rest: &str| {
            rest.rsplit('@')
                .next()
                .is_some_and(|hosts| hosts.contains('/'))
        };
        let has_members = |scheme| MANY_HOSTS.contains(&scheme);
        let is_system = address
            .split_once("://")
            .is_some_and(|(scheme, _)| has_members(scheme));
        is_system || sentinels.is_some_and(|(_, rest)| !hosts(rest))
    };
    let parts = text.split(|c: char| c == ',' || c.is_whitespace());
    for part in parts.filter(|part| !part.is_empty()) {
        match addresses.last_mut().filter(|last| is_open(last)) {
            Some(last) if !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => addresses.push(part.to_owned()),
        }
    }
    addresses
}

/// What tells a cluster without a name: where its nodes are, in order, whoever logs in there and however.
fn locations(nodes: &[String]) -> Result<Arc<str>, Failure> {
    let parse = |node: &String| NodeAddress::parse(node).map_err(Failure::usage);
    let mut all = Vec::new();
    for node in nodes {
        all.push(match parse(node)?.endpoint {
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            Endpoint::Unix { path } => path,
            Endpoint::Program { name } => name,
            Endpoint::Sentinels { sentinels, master } => format!("{}/{master}", joined(sentinels)),
            Endpoint::Etcd { members } => joined(members),
            Endpoint::RedisCluster { servers } => joined(servers),
            Endpoint::Postgresql {
                host,
                port,
                database,
                schema,
            } => format!("{host}:{port}/{database}/{schema}"),
        });
    }
    all.sort_unstable();
    Ok(Arc::from(all.join(",")))
}

/// Hosts of which any one leads to the same place.
fn joined(mut hosts: Vec<(String, u16)>) -> String {
    hosts.sort_unstable();
    let hosts = hosts.iter().map(|(host, port)| format!("{host}:{port}"));
    hosts.collect::<Vec<_>>().join("+")
}

/// A node in two clusters would have a lock of each under one name.
fn each_once(lists: &[NodeList]) -> Result<(), Failure> {
    let mut known = Vec::new();
    for node in lists.iter().flat_map(|list| &list.nodes) {
        let address = NodeAddress::parse(node).map_err(Failure::usage)?;
        let mut endpoint = address.endpoint.clone();
        if let Endpoint::Sentinels {
            sentinels: hosts, ..
        }
        | Endpoint::Etcd { members: hosts }
        | Endpoint::RedisCluster { servers: hosts } = &mut endpoint
        {
            hosts.sort_unstable();
        }
        if known.contains(&endpoint) {
            return Err(Failure::usage(format!(
                "{address} is listed twice: each cluster has nodes of its own"
            )));
        }
        known.push(endpoint);
    }
    Ok(())
}

/// As it is written over what is said of a cluster, where there are several.
pub(crate) fn heading(list: &NodeList) -> Cow<'static, str> {
    match &list.cluster {
        Some(name) => Cow::Owned(format!("cluster '{name}'\n")),
        None => Cow::Borrowed(""),
    }
}

/// What is said of a cluster in JSON, with its name where there are several.
pub(crate) fn of_cluster(mut value: Value, list: &NodeList) -> Value {
    if let Some(name) = &list.cluster {
        value["cluster"] = Value::from(&**name);
    }
    value
}

/// Schemes of addresses whose hosts stand between commas.
const MANY_HOSTS: [&str; 5] = [
    "etcd",
    "etcds",
    "redis-cluster",
    "rediss-cluster",
    "valkey-cluster",
];
/// The word for the clusters of the next list.
const NEXT: &str = "next";
const NAME_BYTES_MAX: usize = 64;
const FORM: &str =
    "name all of them: --nodes 'east=a:7001,b:7001,c:7001;west=d:7001,e:7001,f:7001'";

#[cfg(test)]
mod tests;
