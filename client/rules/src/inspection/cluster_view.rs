//! The nodes as they do together: which of them vote, and whether a lock can be taken.
//!
//! Invariant: a node that is listed twice, or that belongs to another cluster than most, adds no vote.

use std::time::Duration;

use super::node_facts::NodeFacts;
use crate::named_clusters::NamedClusters;
use crate::outcome::Cause;
use crate::votes::{Ballot, Identity, majority};

/// The nodes of the list, and what they come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The state of each, in the order of the list.
    pub states: Vec<NodeState>,
    /// How many distinct nodes vote.
    pub votes: usize,
    /// How many a lock needs.
    pub quorum: usize,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It votes.
    Serving,
    /// It serves no locks until its restart delay is over.
    RestartDelay {
        /// What is left of it.
        left: Duration,
    },
    /// It is still reading its data.
    Starting,
    /// It cannot write its log.
    LogFails,
    /// Its keys take all the memory that they may.
    MemoryFull,
    /// It copies another server: it takes no locks of its own.
    Replica,
    /// It is a part of Redis Cluster, whose nodes have each a part of the keys.
    RedisCluster,
    /// It is the node that is also listed at this place.
    SameNode(usize),
    /// Most nodes belong to another cluster than this one.
    OtherCluster(String),
    /// The nodes belong to several clusters, none of which has a majority of the list; this is its own, if it names one.
    MixedClusters(Option<String>),
    /// Its cluster has so many nodes, and another number is listed.
    OtherSize(usize),
    /// It is no node but an agent in front of nodes.
    Agent,
    /// It does not say who it is.
    Unidentified,
    /// It cannot be asked, and why.
    Silent(String),
}

impl NodeState {
    fn of_outsider(cause: Cause) -> Self {
        match cause {
            Cause::OtherCluster { cluster, .. } => Self::OtherCluster(cluster.to_string()),
            Cause::MixedClusters { cluster, .. } => {
                Self::MixedClusters(cluster.map(|cluster| cluster.to_string()))
            }
            other => Self::Silent(other.to_string()),
        }
    }

    /// The word for it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::RestartDelay { .. } => "restart-delay",
            Self::Starting => "starting",
            Self::LogFails => "log-fails",
            Self::MemoryFull => "memory-full",
            Self::Replica => "replica",
            Self::RedisCluster => "redis-cluster",
            Self::SameNode(_) => "same-node",
            Self::OtherCluster(_) => "other-cluster",
            Self::MixedClusters(_) => "mixed-clusters",
            Self::OtherSize(_) => "other-size",
            Self::Agent => "agent",
            Self::Unidentified => "unidentified",
            Self::Silent(_) => "no-answer",
        }
    }
}

impl ClusterView {
    /// Puts together what the nodes say. Where votes are counted by address, each address is a node.
    #[must_use]
    pub fn of(nodes: &[Result<NodeFacts, String>], votes_by_address: bool) -> Self {
        let listed = nodes.len();
        let mut ballot = Ballot::default();
        let facts = nodes.iter().map(|facts| facts.as_ref().ok());
        let clusters = named_clusters(facts, votes_by_address);
        let mut states = Vec::with_capacity(listed);
        for (node, facts) in nodes.iter().enumerate() {
            let state = match facts {
                Ok(facts) => own_state(facts, listed, votes_by_address),
                Err(why) => NodeState::Silent(why.clone()),
            };
            if state == NodeState::Serving
                && let Ok(facts) = facts
            {
                ballot.add(node, identity(facts, node, votes_by_address));
            }
            states.push(state);
        }
        for (node, state) in states.iter_mut().enumerate() {
            let outsider = outsider(&clusters, node);
            if let Some(outsider) = outsider.filter(|_| ballot.of(node).is_some()) {
                ballot.remove(node);
                *state = NodeState::of_outsider(outsider);
            }
        }
        for (node, state) in states.iter_mut().enumerate() {
            if let Some(first) = ballot.twin(node).filter(|twin| *twin < node) {
                *state = NodeState::SameNode(first);
            }
        }
        if !votes_by_address {
            note_delayed_twins(nodes, &mut states);
        }
        Self {
            states,
            votes: ballot.distinct(),
            quorum: majority(listed),
        }
    }

    /// Whether a lock can be taken.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.votes >= self.quorum
    }

    /// When enough restart delays are over for a lock, if nothing else changes; none where that is so now, or never.
    #[must_use]
    pub fn quorum_after(&self) -> Option<Duration> {
        let missing = self
            .quorum
            .checked_sub(self.votes)
            .filter(|missing| *missing > 0)?;
        let mut delays: Vec<Duration> = Vec::new();
        for state in &self.states {
            if let NodeState::RestartDelay { left } = state {
                delays.push(*left);
            }
        }
        delays.sort_unstable();
        delays.get(missing - 1).copied()
    }
}

/// A node in its restart delay that is listed under another address too, or whose directory is a copy of another's, will not vote behind
/// its delay either.
fn note_delayed_twins(nodes: &[Result<NodeFacts, String>], states: &mut [NodeState]) {
    let id = |node: &Result<NodeFacts, String>| {
        let identity = node.as_ref().ok()?.identity.as_ref()?;
        Some(identity.id.clone())
    };
    for (node, facts) in nodes.iter().enumerate() {
        if !matches!(states[node], NodeState::RestartDelay { .. }) {
            continue;
        }
        let counts = |other: usize| other < node || states[other] == NodeState::Serving;
        let is_twin = |other: &usize| {
            *other != node
                && counts(*other)
                && id(facts).is_some()
                && id(&nodes[*other]) == id(facts)
        };
        if let Some(other) = (0..nodes.len()).find(is_twin) {
            states[node] = NodeState::SameNode(other);
        }
    }
}

/// What those say of their clusters that can vote in this list.
fn named_clusters<'f>(
    nodes: impl ExactSizeIterator<Item = Option<&'f NodeFacts>>,
    votes_by_address: bool,
) -> NamedClusters {
    let listed = nodes.len();
    let mut clusters = NamedClusters::new(listed, None);
    for (node, facts) in nodes.enumerate() {
        let Some(facts) = facts else { continue };
        match counted_identity(facts, (node, listed), votes_by_address) {
            Ok(_) => {
                clusters.note(node, facts.cluster_id.as_ref());
            }
            Err(_) => clusters.does_not_vote(node),
        }
    }
    clusters
}

/// Why the vote of a node makes no majority with those of the others: it is of another cluster, or none has a majority.
fn outsider(clusters: &NamedClusters, node: usize) -> Option<Cause> {
    let outsider = clusters.outsider(node);
    outsider.or_else(|| clusters.undecided(node))
}

/// Who the nodes are whose answers are counted, in the order of the list, and of the others why they are not. A node without facts was not asked.
#[must_use]
pub fn counted_identities(
    nodes: &[Option<&NodeFacts>],
    votes_by_address: bool,
) -> Vec<Result<Identity, String>> {
    let clusters = named_clusters(nodes.iter().copied(), votes_by_address);
    let identity = |(node, facts): (usize, &Option<&NodeFacts>)| {
        let facts = facts.ok_or_else(|| "it was not asked".to_owned())?;
        let identity = counted_identity(facts, (node, nodes.len()), votes_by_address)?;
        match outsider(&clusters, node) {
            None => Ok(identity),
            Some(cause) => Err(cause.to_string()),
        }
    };
    nodes.iter().enumerate().map(identity).collect()
}

/// Who a node is, if it may vote in a list of so many, whatever the others are.
fn counted_identity(
    facts: &NodeFacts,
    (node, listed): (usize, usize),
    votes_by_address: bool,
) -> Result<Identity, String> {
    match facts.other_size(listed) {
        _ if facts.is_agent => Err(AGENT.to_owned()),
        Some(size) => Err(format!(
            "its cluster has {size} nodes, and {listed} are listed: list all of them"
        )),
        _ if facts.identity.is_none() && !votes_by_address => Err(
            "it does not say who it is, so its vote could be counted twice: see --votes-by-address"
                .to_owned(),
        ),
        _ => Ok(identity(facts, node, votes_by_address)),
    }
}

/// Why the answers of an agent are not counted.
const AGENT: &str =
    "it is an agent and no node, so what it says is what its own nodes say: list those nodes";

fn identity(facts: &NodeFacts, node: usize, votes_by_address: bool) -> Identity {
    let by_address = || Identity::new(format!("#{node}").into(), 0);
    match &facts.identity {
        Some(identity) if !votes_by_address => identity.clone(),
        _ => by_address(),
    }
}

/// What a node does, whatever the others do.
fn own_state(facts: &NodeFacts, listed: usize, votes_by_address: bool) -> NodeState {
    if facts.is_agent {
        return NodeState::Agent;
    }
    if facts.is_loading {
        return NodeState::Starting;
    }
    if facts.is_cluster {
        return NodeState::RedisCluster;
    }
    if facts.is_replica {
        return NodeState::Replica;
    }
    if let Some(size) = facts.other_size(listed) {
        return NodeState::OtherSize(size);
    }
    if facts.identity.is_none() && !votes_by_address {
        return NodeState::Unidentified;
    }
    match facts.delay_left {
        Some(left) => NodeState::RestartDelay { left },
        None if facts.log_fails => NodeState::LogFails,
        None if facts.memory_percent().is_some_and(|percent| percent >= 100) => {
            NodeState::MemoryFull
        }
        None => NodeState::Serving,
    }
}

#[cfg(test)]
mod tests {
    use super::super::node_reply::NodeReply;
    use super::*;

    /// A node's INFO, from `name:value` pairs separated by blanks.
    fn facts(text: &str) -> Result<NodeFacts, String> {
        NodeFacts::read(&NodeReply::Text(text.replace(' ', "\r\n").into_bytes()))
    }

    fn node(id: &str) -> Result<NodeFacts, String> {
        facts(&format!("run_id:{id}"))
    }

    #[test]
    fn a_node_in_its_delay_and_one_that_is_down_do_not_vote() {
        let delayed = facts("run_id:d restart_delay_remaining_ms:7000");
        let silent = Err("refused".to_owned());
        let nodes = [
            node("a"),
            node("b"),
            node("c"),
            delayed.clone(),
            silent.clone(),
        ];
        let view = ClusterView::of(&nodes, false);
        assert_eq!((view.votes, view.quorum, view.has_quorum()), (3, 3, true));
        let left = Duration::from_secs(7);
        assert_eq!(view.states[3], NodeState::RestartDelay { left });
        assert_eq!(view.states[4], NodeState::Silent("refused".to_owned()));
        assert_eq!(view.quorum_after(), None);

        let nodes = [node("a"), node("b"), delayed, silent.clone(), silent];
        let view = ClusterView::of(&nodes, false);
        assert!(!view.has_quorum());
        assert_eq!(view.quorum_after(), Some(left));
    }

    #[test]
    fn a_node_that_is_listed_twice_or_belongs_elsewhere_adds_no_vote() {
        let view = ClusterView::of(&[node("a"), node("b"), node("a")], false);
        assert_eq!((view.votes, &view.states[2]), (2, &NodeState::SameNode(0)));
        let by_address = ClusterView::of(&[node("a"), node("b"), node("a")], true);
        assert_eq!(by_address.votes, 3);
        let of =
            |id: &str, cluster: &str| facts(&format!("run_id:{id} quorlock_cluster_id:{cluster}"));
        let view = ClusterView::of(&[of("a", "red"), of("b", "red"), of("c", "blue")], false);
        assert_eq!(view.votes, 2);
        assert_eq!(view.states[2], NodeState::OtherCluster("blue".to_owned()));
        // However votes are counted.
        for by_address in [false, true] {
            let nodes = [of("a", "red"), of("b", "blue"), node("c")];
            let view = ClusterView::of(&nodes, by_address);
            let mixed =
                |cluster: Option<&str>| NodeState::MixedClusters(cluster.map(str::to_owned));
            let states = [mixed(Some("red")), mixed(Some("blue")), mixed(None)];
            assert_eq!((view.votes, &view.states[..]), (0, &states[..]));
            let nodes = [of("a", "red"), of("b", "red"), node("c"), of("d", "blue")];
            let view = ClusterView::of(&[&nodes[..], &[of("e", "red")]].concat(), by_address);
            assert_eq!(view.votes, 4);
            assert_eq!(view.states[3], NodeState::OtherCluster("blue".to_owned()));
        }
        // Those that name none are no cluster of their own, however many they are.
        let nodes = [
            node("a"),
            node("b"),
            node("c"),
            of("d", "red"),
            of("e", "blue"),
        ];
        let view = ClusterView::of(&nodes, false);
        assert_eq!((view.votes, view.has_quorum()), (0, false));
        assert_eq!(view.states[0], NodeState::MixedClusters(None));
        let view = ClusterView::of(&nodes[..4], false);
        assert_eq!(
            view.votes, 4,
            "as while they are replaced one after the other"
        );
        // One that is away may decide between the two, and no lock can be taken until it does. One that never votes decides nothing.
        let [red, blue] = ["red", "blue"].map(|of| NodeState::MixedClusters(Some(of.to_owned())));
        let listed = [
            of("a", "red"),
            of("b", "red"),
            of("c", "blue"),
            of("d", "blue"),
        ];
        for (last, state) in [
            (
                Err("refused".to_owned()),
                NodeState::Silent("refused".to_owned()),
            ),
            (facts("quorlock_agent:1"), NodeState::Agent),
        ] {
            let view = ClusterView::of(&[&listed[..], &[last]].concat(), false);
            let states = [&red, &red, &blue, &blue, &state].map(Clone::clone);
            assert_eq!((view.votes, &view.states[..]), (0, &states[..]));
        }
        let sized = facts("run_id:c quorlock_cluster_size:5");
        let view = ClusterView::of(&[node("a"), node("b"), sized], false);
        assert_eq!((view.votes, &view.states[2]), (2, &NodeState::OtherSize(5)));
    }

    #[test]
    fn the_answers_of_nodes_of_several_clusters_are_not_counted_together() {
        let of = |id: &str, more: &str| facts(&format!("run_id:{id} {more}"));
        let [red, blue] = ["red", "blue"].map(|name| format!("quorlock_cluster_id:{name}"));
        let counted = |nodes: &[Result<NodeFacts, String>], by_address| {
            let facts: Vec<Option<&NodeFacts>> =
                nodes.iter().map(|one| one.as_ref().ok()).collect();
            let counted = counted_identities(&facts, by_address);
            let words = |one: Result<Identity, String>| one.err().unwrap_or_default();
            counted.into_iter().map(words).collect::<Vec<String>>()
        };
        let silent = || Err("refused".to_owned());
        for by_address in [false, true] {
            let even = [of("a", &red), of("b", &blue), node("c")];
            for why in counted(&even, by_address) {
                assert!(why.contains("list the nodes of one cluster"), "{why}");
            }
            // The one that is away may decide between them.
            for why in &counted(&[of("a", &red), of("b", &blue), silent()], by_address)[..2] {
                assert!(why.contains("list all nodes of one cluster"), "{why}");
            }
            // Also of one that does not vote now.
            let delayed = of("b", &format!("{blue} restart_delay_remaining_ms:7000"));
            let most = [of("a", &red), delayed, of("c", &red)];
            let words = counted(&most, by_address);
            let [first, other, last] = &words[..] else {
                panic!("one for each")
            };
            assert_eq!((&**first, &**last), ("", ""));
            let why = "it belongs to the cluster blue and not to red: does not vote";
            assert_eq!(other, why);
        }
    }

    #[test]
    fn a_copy_of_a_directory_is_found_while_it_waits_for_its_restart_delay() {
        let delayed = |id: &str| facts(&format!("run_id:{id} restart_delay_remaining_ms:7000"));
        let states = |nodes: [Result<NodeFacts, String>; 3]| ClusterView::of(&nodes, false).states;
        use NodeState::{SameNode, Serving};
        let wait = NodeState::RestartDelay {
            left: Duration::from_secs(7),
        };
        let found = states([node("a"), node("b"), delayed("a")]);
        assert_eq!(found, [Serving, Serving, SameNode(0)]);
        let found = states([delayed("a"), node("b"), node("a")]);
        assert_eq!(found, [SameNode(2), Serving, Serving]);
        let found = states([node("b"), delayed("a"), delayed("a")]);
        assert_eq!(found, [Serving, wait.clone(), SameNode(1)]);
        let found = states([node("b"), delayed("a"), delayed("c")]);
        assert_eq!(found, [Serving, wait.clone(), wait]);
    }

    #[test]
    fn servers_that_cannot_take_locks_are_named() {
        for (text, state) in [
            ("run_id:a loading:1", NodeState::Starting),
            ("run_id:a aof_last_write_status:err", NodeState::LogFails),
            ("run_id:a used_memory:9 maxmemory:9", NodeState::MemoryFull),
            ("run_id:a role:slave", NodeState::Replica),
            ("run_id:a cluster_enabled:1", NodeState::RedisCluster),
            ("redis_version:7", NodeState::Unidentified),
        ] {
            let view = ClusterView::of(&[facts(text)], false);
            assert_eq!((view.votes, &view.states[0]), (0, &state), "{text}");
            let counted = counted_identity(&facts(text).expect("INFO"), (0, 1), false);
            assert_eq!(counted.is_err(), state == NodeState::Unidentified, "{text}");
        }
        // However votes are counted.
        let agent = facts("quorlock_version:1 quorlock_agent:1");
        for by_address in [false, true] {
            let view = ClusterView::of(std::slice::from_ref(&agent), by_address);
            assert_eq!((view.votes, &view.states[0]), (0, &NodeState::Agent));
            let counted = counted_identity(agent.as_ref().expect("INFO"), (0, 1), by_address);
            assert!(counted.is_err_and(|why| why.contains("agent")));
        }
    }
}
