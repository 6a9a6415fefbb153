//! What is wrong with a set of nodes, or will be: each finding with its remedy.
//!
//! Invariant: a finding says only what the nodes have told. What they do not tell (their machines, their disks) is judged by the
//! addresses, and said so.

mod limits;
mod members;
mod settings;
#[cfg(test)]
mod tests;

use super::cluster_view::{ClusterView, NodeState};
use super::node_facts::NodeFacts;
use crate::votes::NODES_MAX;
use members::of_members;

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Its address without the password.
    pub address: String,
    /// The host of its address; none for a socket of this machine.
    pub host: Option<String>,
    /// Whether another server may take its place without the locks that it took last.
    pub fails_over: bool,
    /// What it says of itself, or why it cannot be asked.
    pub facts: Result<NodeFacts, String>,
    /// How far its wall clock is ahead, in milliseconds.
    pub ahead_ms: Option<i128>,
    /// Directives and their values, where it tells them.
    pub settings: Vec<(String, String)>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The node takes no vote, or a lock may have two holders.
    Problem,
    /// It is well now, and will cost something in a fault.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The node that it is about, by its place in the list; none where it is about several.
    pub node: Option<usize>,
    /// A word for it that does not change.
    pub kind: &'static str,
    /// What it is, and what it means for locks.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Everything that was found, the worst first.
#[must_use]
pub fn examine(nodes: &[Examined], view: &ClusterView) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (node, (examined, state)) in nodes.iter().zip(&view.states).enumerate() {
        findings.extend(of_state(state, nodes).map(|found| at(node, found)));
        findings.extend(of_failover(examined).map(|found| at(node, found)));
        // What is said of a node is not true of an agent.
        if let Ok(facts) = &examined.facts
            && !facts.is_agent
        {
            let own = settings::of_settings(facts, &examined.settings).into_iter();
            let clock = settings::of_clock(facts, examined.ahead_ms);
            let own = own.chain(clock).chain(limits::of_limits(facts));
            let own = own.chain(of_rights(facts));
            findings.extend(own.map(|found| at(node, found)));
        }
    }
    findings.extend(of_count(nodes.len()));
    findings.extend(of_versions(nodes));
    findings.extend(of_members(nodes));
    findings.extend(of_machines(nodes));
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn at(node: usize, found: Finding) -> Finding {
    Finding {
        node: Some(node),
        ..found
    }
}

fn found(
    severity: Severity,
    kind: &'static str,
    what: impl Into<String>,
    remedy: &'static str,
) -> Finding {
    Finding {
        severity,
        node: None,
        kind,
        what: what.into(),
        remedy,
    }
}

/// What this user may not do in another system.
fn of_rights(facts: &NodeFacts) -> Option<Finding> {
    let lacking = facts.lacking_rights.as_ref()?;
    Some(found(
        Severity::Problem,
        "lacking-rights",
        format!("this user can take no lock there: it lacks the rights {lacking}"),
        "let an administrator give it to this role: GRANT SELECT, INSERT, UPDATE ON the table",
    ))
}

/// What the next failover may cost.
fn of_failover(examined: &Examined) -> Option<Finding> {
    examined.fails_over.then(|| {
        found(
            Severity::Problem,
            "fails-over",
            "its replicas have a lock a moment later: a failover may lose it, and then it has two holders",
            "list independent nodes instead, or have the resource refuse late writes",
        )
    })
}

/// Why a node does not vote.
fn of_state(state: &NodeState, nodes: &[Examined]) -> Option<Finding> {
    use Severity::{Problem, Warning};
    Some(match state {
        NodeState::Serving => return None,
        NodeState::RestartDelay { left } => found(
            Warning,
            "restart-delay",
            format!(
                "it serves no locks for another {} s, because it may have forgotten some",
                left.as_secs()
            ),
            "wait; with appendfsync always it serves at once after a crash",
        ),
        NodeState::Starting => found(Warning, "starting", "it is still reading its data", "wait"),
        NodeState::LogFails => found(
            Problem,
            "log-fails",
            "it cannot write its log, and takes no locks until it can",
            "make room on its disk; its log file says what the disk answers",
        ),
        NodeState::MemoryFull => found(
            Problem,
            "memory-full",
            "its keys take all of maxmemory: it takes no further locks",
            limits::MORE_MEMORY,
        ),
        NodeState::Replica => found(
            Problem,
            "replica",
            "it copies another server and takes no locks; a failover to it would forget locks",
            "list independent servers, and no replicas of each other",
        ),
        NodeState::RedisCluster => found(
            Problem,
            "redis-cluster",
            "it is a part of Redis Cluster, whose nodes have each a part of the keys: it does not vote",
            "list independent servers, or the cluster as a whole and alone: redis-cluster://HOST:PORT",
        ),
        NodeState::SameNode(other) => of_same(nodes.get(*other)),
        NodeState::OtherCluster(cluster) => found(
            Problem,
            "other-cluster",
            format!(
                "it belongs to the cluster {cluster}, and most nodes to another: it does not vote"
            ),
            "list all nodes of one cluster, each once",
        ),
        NodeState::MixedClusters(cluster) => of_mixed(cluster.as_deref()),
        NodeState::OtherSize(size) if *size > NODES_MAX => found(
            Problem,
            "other-size",
            "it was removed from its cluster: it does not vote".to_owned(),
            "list it no more, and stop it",
        ),
        NodeState::OtherSize(size) => found(
            Problem,
            "other-size",
            format!("its cluster has {size} nodes, and another number is listed: it does not vote"),
            "list all nodes of the cluster, each once",
        ),
        NodeState::Agent => of_agent(),
        NodeState::Unidentified => found(
            Problem,
            "unidentified",
            "it does not say who it is, so its vote could be counted twice: it does not vote",
            "allow INFO there, or count votes by address: --votes-by-address",
        ),
        NodeState::Silent(why) => found(Problem, "no-answer", why.clone(), remedy_for_silence(why)),
    })
}

fn of_same(other: Option<&Examined>) -> Finding {
    let other = other.map_or("another", |other| &*other.address);
    found(
        Severity::Problem,
        "same-node",
        format!(
            "it has the identity of {other}: one node under two addresses, or a copied data directory; the two vote once"
        ),
        "list each node once; of two directories keep the one that was not copied, and make the other anew: quorlock node init DIR",
    )
}

fn of_mixed(cluster: Option<&str>) -> Finding {
    let own = match cluster {
        Some(cluster) => format!("it belongs to the cluster {cluster}"),
        None => "it names no cluster".to_owned(),
    };
    found(
        Severity::Problem,
        "mixed-clusters",
        format!(
            "{own}; the nodes belong to several, and none of these has a majority of the list: none of them votes"
        ),
        "list all nodes of one cluster, each once",
    )
}

fn of_agent() -> Finding {
    found(
        Severity::Problem,
        "agent",
        "it is an agent and no node: it keeps no locks, and its vote would be that of its own nodes once more: it does not vote",
        "list the nodes that the agent was started with, and not the agent: `INFO nodes` on it shows them",
    )
}

/// What to do about a certificate of a node that is accepted at another time than now: no flag of the client helps.
#[must_use]
fn remedy_for_certificate(why: &str) -> Option<&'static str> {
    if why.contains("certificate has expired") {
        return Some("replace the node's certificate, and send the node SIGHUP");
    }
    let is_early = why.contains("certificate is not valid yet");
    is_early.then_some("correct the clock of this machine, or wait until the certificate is valid")
}

fn remedy_for_silence(why: &str) -> &'static str {
    const LOGIN: [&str; 3] = ["NOAUTH", "WRONGPASS", "refused the login"];
    if LOGIN.iter().any(|words| why.contains(words)) {
        return "give user and password in the address, or in nodes.conf: redis://user:password@host:port";
    }
    if why.contains("max number of clients") {
        return limits::MORE_CLIENTS;
    }
    if why.contains("NOPERM") {
        return "give this user the right to run INFO, LOCK.LIST and LOCK.INFO";
    }
    if why.contains("unknown command") {
        return "let it have INFO under its own name: nodes are asked by it";
    }
    if let Some(remedy) = remedy_for_certificate(why) {
        return remedy;
    }
    let is_no_tls = why.contains("speaks no TLS");
    if why.contains("TLS: ") && !is_no_tls {
        return "--cacert, --cert, --key and --sni say what TLS is spoken with, or such lines in nodes.conf";
    }
    if is_no_tls || why.contains("Redis's protocol") || why.contains("connection broke") {
        return "name the port on which the node speaks Redis's protocol: redis:// without TLS, rediss:// with it";
    }
    if why.ends_with("in time over TLS") {
        return "start the node, or write redis:// where its port is a plain one";
    }
    if why.contains("lookup") {
        return "correct the host's name, or the resolver";
    }
    "start the node, or see whether a firewall is between"
}

fn of_count(count: usize) -> Option<Finding> {
    match count {
        1 => Some(found(
            Severity::Warning,
            "one-node",
            "one node is listed: no lock can be taken while it is down",
            "list three or five nodes on machines of their own",
        )),
        _ if count.is_multiple_of(2) => Some(found(
            Severity::Warning,
            "even-number",
            format!("{count} nodes stand no more failures than {} do", count - 1),
            "list an odd number of nodes",
        )),
        _ => None,
    }
}

fn of_versions(nodes: &[Examined]) -> Option<Finding> {
    let facts = nodes.iter().filter_map(|node| node.facts.as_ref().ok());
    let mut versions: Vec<&str> = facts.map(|facts| &*facts.version).collect();
    versions.sort_unstable();
    versions.dedup();
    (versions.len() > 1).then(|| {
        let what = format!("the nodes have different versions: {}", versions.join(", "));
        let remedy = "bring all nodes to one version, one node after the other";
        found(Severity::Warning, "versions", what, remedy)
    })
}

/// What fails together: the nodes of one machine, as its kernel says, or else as their addresses show it.
fn of_machines(nodes: &[Examined]) -> Option<Finding> {
    let machine = |node: &Examined| node.facts.as_ref().ok()?.machine.clone();
    let host = |node: &Examined| node.host.clone().unwrap_or_else(|| "localhost".to_owned());
    let place = |node: &Examined| machine(node).unwrap_or_else(|| host(node));
    let places: Vec<String> = nodes.iter().map(place).collect();
    let together = largest_group(&places);
    let first = nodes.get(*together.first()?)?;
    let are_local = together
        .iter()
        .all(|node| is_loopback(&host(&nodes[*node])));
    let severity = match are_local {
        true => Severity::Note,
        false => Severity::Warning,
    };
    let count = together.len();
    let what = match (machine(first), share_a_disk(nodes, &together)) {
        (None, _) => format!(
            "{count} nodes are on {}, as their addresses say: they fail together, and a disk of theirs too",
            host(first)
        ),
        (Some(_), true) => {
            format!(
                "{count} nodes are on one machine and one disk, as its kernel says: they fail together"
            )
        }
        (Some(_), false) => {
            format!("{count} nodes are on one machine, as its kernel says: they fail together")
        }
    };
    let remedy = "put each node on a machine and a disk of its own";
    Some(found(severity, "one-machine", what, remedy))
}

/// The most nodes that are in one place, if they are several.
fn largest_group(places: &[String]) -> Vec<usize> {
    let is_with = |first: usize| move |node: &usize| places[*node] == places[first];
    let group = |first: usize| -> Vec<usize> { (0..places.len()).filter(is_with(first)).collect() };
    let groups = (0..places.len()).map(group);
    let largest = groups.max_by_key(Vec::len).unwrap_or_default();
    if largest.len() > 1 {
        largest
    } else {
        Vec::new()
    }
}

/// Whether all of these nodes of one machine keep a log in one file system.
fn share_a_disk(nodes: &[Examined], together: &[usize]) -> bool {
    let file_system = |node: &usize| {
        let facts = nodes[*node].facts.as_ref().ok()?;
        let is_kept = !matches!(facts.fsync.as_deref(), Some("none" | "off"));
        facts.file_system.as_ref().filter(|_| is_kept)
    };
    let first = file_system(&together[0]);
    first.is_some() && together.iter().all(|node| file_system(node) == first)
}

fn is_loopback(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1")
}
