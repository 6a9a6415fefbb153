//! Sets of nodes, who a node is, and when an incarnation may vote.
//!
//! Invariant: a majority is counted over distinct identities, so a node that is reachable under
//! two addresses has one vote, and over nodes of one cluster, whichever connects first. Nothing
//! here does I/O.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Most nodes a client can have.
pub(crate) const NODES_MAX: usize = 64;

/// A node's index in the list the client was built with.
pub(crate) type NodeIndex = usize;

/// A set of nodes by their index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    /// Adds a node.
    pub(crate) fn insert(&mut self, node: NodeIndex) {
        self.0 |= Self::bit(node);
    }

    /// Takes a node out.
    pub(crate) fn remove(&mut self, node: NodeIndex) {
        self.0 &= !Self::bit(node);
    }

    /// Takes all nodes of another set out.
    pub(crate) fn remove_all(&mut self, others: Self) {
        self.0 &= !others.0;
    }

    /// The node listed first of those in the set.
    pub(crate) fn first(self) -> Option<NodeIndex> {
        let lowest = self.0.trailing_zeros();
        (!self.is_empty()).then(|| usize::try_from(lowest).expect("64 at most"))
    }

    /// Whether the node is in the set.
    pub(crate) fn contains(self, node: NodeIndex) -> bool {
        self.0 & Self::bit(node) != 0
    }

    /// Whether no node is in it.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn bit(node: NodeIndex) -> u64 {
        assert!(node < NODES_MAX, "the builder limits the number of nodes");
        1 << node
    }
}

/// Votes needed among `nodes` nodes.
pub(crate) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Who a node is, and which of its lives this is.
///
/// A Quorlock node keeps its id over restarts and counts its incarnations; Redis and Valkey draw
/// a new `run_id` at every start.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// let identity = redlock.probe().await[0].identity.clone().expect("the node is up");
/// println!("{identity}"); // 1f0c... (incarnation 3)
/// assert!(!identity.id.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Identity {
    /// `quorlock_node_id`, or `run_id`.
    pub id: Arc<str>,
    /// `quorlock_incarnation`, or 0.
    pub incarnation: u64,
    /// `quorlock_cluster_id`: the cluster that the node belongs to, if it names one.
    pub cluster: Option<Arc<str>>,
}

#[cfg(feature = "simulation")]
impl Identity {
    /// The identity of a simulated node.
    #[must_use]
    pub fn new(id: Arc<str>, incarnation: u64) -> Self {
        let cluster = None;
        Self {
            id,
            incarnation,
            cluster,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (incarnation {})", self.id, self.incarnation)
    }
}

/// Which cluster a node says it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) cluster_id: Option<Arc<str>>,
    pub(crate) cluster_size: Option<usize>,
}

/// Votes counted over distinct identities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ballot {
    votes: Vec<(NodeIndex, Identity)>,
}

impl Ballot {
    /// Counts a node's vote; a later one under the same index replaces it.
    pub(crate) fn add(&mut self, node: NodeIndex, identity: Identity) {
        self.remove(node);
        self.votes.push((node, identity));
    }

    /// Takes a node's vote back.
    pub(crate) fn remove(&mut self, node: NodeIndex) {
        self.votes.retain(|(other, _)| *other != node);
    }

    /// The identity under which this node voted.
    pub(crate) fn of(&self, node: NodeIndex) -> Option<&Identity> {
        self.votes
            .iter()
            .find(|(other, _)| *other == node)
            .map(|(_, identity)| identity)
    }

    /// How many different nodes of one cluster voted: of the one with the most votes, where nodes
    /// name several. A node that names none counts with any.
    pub(crate) fn distinct(&self) -> usize {
        self.of_cluster(self.cluster())
    }

    /// The cluster of which the most nodes voted, if any named one; of the node listed first, where
    /// as many voted of several.
    pub(crate) fn cluster(&self) -> Option<&Arc<str>> {
        let named = || {
            let votes = self.votes.iter();
            votes.filter_map(|(node, identity)| Some((node, identity.cluster.as_ref()?)))
        };
        let (_, first) = named().next()?;
        if named().all(|(_, other)| other == first) {
            return Some(first);
        }
        let most = named().max_by_key(|(node, one)| (self.of_cluster(Some(*one)), Reverse(*node)));
        most.map(|(_, cluster)| cluster)
    }

    /// How many different nodes voted that may be of this cluster; without one, of any.
    fn of_cluster(&self, cluster: Option<&Arc<str>>) -> usize {
        let is_of = |identity: &Identity| {
            let named = identity.cluster.as_ref();
            cluster.is_none() || named.is_none() || named == cluster
        };
        let votes = &self.votes;
        let counts = |(at, (_, identity)): (usize, &(NodeIndex, Identity))| {
            // A vote that does not count takes none away either.
            let is_known =
                |(_, earlier): &(NodeIndex, Identity)| earlier.id == identity.id && is_of(earlier);
            is_of(identity) && !votes[..at].iter().any(is_known)
        };
        votes
            .iter()
            .enumerate()
            .filter(|vote| counts(*vote))
            .count()
    }

    /// The first index under which the same node voted too, if it was counted under two addresses.
    pub(crate) fn twin(&self, node: NodeIndex) -> Option<NodeIndex> {
        let identity = self.of(node)?;
        let twins = self
            .votes
            .iter()
            .filter(|(at, other)| *at != node && other.id == identity.id);
        twins.map(|(other, _)| *other).min()
    }
}

/// Whether a node that says who it is may vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It votes.
    Votes,
    /// It is the node that is also listed under this index: the votes count as one.
    SameAs(NodeIndex),
    /// It has shown a later incarnation before: it does not vote.
    WentBack,
    /// Its cluster is not the one that this client is for, or that other nodes belong to.
    OtherCluster(Arc<str>),
    /// Its cluster has so many nodes, and the client knows another number.
    OtherSize(usize),
}

/// What is remembered of the nodes' identities over reconnects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Register {
    /// How many entries the client's list has; zero if that does not matter.
    entries: usize,
    /// The cluster that the client is for, if it was told.
    cluster_id: Option<Arc<str>>,
    /// The cluster that each entry named at its last login, if one.
    named: HashMap<NodeIndex, Arc<str>>,
    /// The cluster that a majority of the entries named last.
    named_by_majority: Option<Arc<str>>,
    newest: HashMap<Arc<str>, u64>,
    present: HashMap<NodeIndex, Arc<str>>,
}

impl Register {
    /// For a list of so many entries, which is that of a certain cluster or not.
    pub(crate) fn new(entries: usize, cluster_id: Option<Arc<str>>) -> Self {
        Self {
            entries,
            cluster_id,
            ..Self::default()
        }
    }

    /// Judges whether a node is one of the cluster whose nodes are listed, all of them and no others: a majority of
    /// another set of nodes excludes nobody.
    pub(crate) fn admit_member(&mut self, node: NodeIndex, said: &Membership) -> Admission {
        self.named.remove(&node);
        if let Some(size) = said
            .cluster_size
            .filter(|size| *size != self.entries && self.entries > 0)
        {
            return Admission::OtherSize(size);
        }
        let Some(theirs) = &said.cluster_id else {
            // Redis and Valkey name none.
            return Admission::Votes;
        };
        self.named.insert(node, Arc::clone(theirs));
        let alike = self.named.values().filter(|other| *other == theirs);
        if alike.count() >= majority(self.entries) {
            self.named_by_majority = Some(Arc::clone(theirs));
        }
        match &self.cluster_id {
            Some(ours) if ours != theirs => Admission::OtherCluster(Arc::clone(ours)),
            _ => Admission::Votes,
        }
    }

    /// The cluster that this node names and the one that counts, where those are two: the one that
    /// the client was told, or that a majority of the entries named last.
    pub(crate) fn outsider(&self, node: NodeIndex) -> Option<(Arc<str>, Arc<str>)> {
        let theirs = self.named.get(&node)?;
        let ours = self
            .cluster_id
            .as_ref()
            .or(self.named_by_majority.as_ref())?;
        (ours != theirs).then(|| (Arc::clone(theirs), Arc::clone(ours)))
    }

    /// Judges the identity a node has just shown on a new connection.
    pub(crate) fn admit(&mut self, node: NodeIndex, identity: &Identity) -> Admission {
        self.present.insert(node, Arc::clone(&identity.id));
        let newest = self
            .newest
            .entry(Arc::clone(&identity.id))
            .or_insert(identity.incarnation);
        if identity.incarnation < *newest {
            self.named.remove(&node);
            return Admission::WentBack;
        }
        *newest = identity.incarnation;
        // Every start of a Redis node is a new identity, and nodes come and go: once these are
        // many, only those that are present are remembered.
        if self.newest.len() > REMEMBERED_MAX {
            let present = &self.present;
            self.newest
                .retain(|id, _| present.values().any(|other| other == id));
        }
        let twin = self
            .present
            .iter()
            .find(|(other, id)| **other != node && **id == identity.id);
        twin.map_or(Admission::Votes, |(&other, _)| Admission::SameAs(other))
    }

    /// The first index under which the same node is listed, if that is before this one: of several
    /// names of a node, the first is the one that votes.
    pub(crate) fn same_as(&self, node: NodeIndex) -> Option<NodeIndex> {
        let id = self.present.get(&node)?;
        let names = self.present.iter().filter(|(_, other)| *other == id);
        let first = names.map(|(&other, _)| other).min()?;
        (first < node).then_some(first)
    }

    /// How many identities are remembered.
    #[cfg(feature = "simulation")]
    pub(crate) fn size(&self) -> usize {
        self.newest.len() + self.present.len()
    }
}

const REMEMBERED_MAX: usize = 4 * NODES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: &str, incarnation: u64) -> Identity {
        Identity {
            id: Arc::from(id),
            incarnation,
            cluster: None,
        }
    }

    #[test]
    fn one_node_under_two_addresses_is_noticed() {
        let mut register = Register::default();
        assert_eq!(register.admit(0, &identity("a", 1)), Admission::Votes);
        assert_eq!(register.admit(1, &identity("b", 1)), Admission::Votes);
        assert_eq!(register.admit(2, &identity("a", 1)), Admission::SameAs(0));
        assert_eq!(register.same_as(2), Some(0));
        // The first index votes, whichever connects last.
        register.admit(0, &identity("a", 1));
        assert_eq!((register.same_as(0), register.same_as(2)), (None, Some(0)));
        // Reconnecting under its own address is nothing special.
        assert_eq!(register.admit(1, &identity("b", 2)), Admission::Votes);
    }

    fn member(cluster: &str, cluster_size: Option<usize>) -> Membership {
        Membership {
            cluster_id: (!cluster.is_empty()).then(|| Arc::from(cluster)),
            cluster_size,
        }
    }

    #[test]
    fn nodes_of_another_cluster_or_of_more_or_fewer_nodes_do_not_vote() {
        let blue = || Arc::from("blue");
        let mut register = Register::new(3, None);
        assert_eq!(
            register.admit_member(0, &member("", None)),
            Admission::Votes
        );
        assert_eq!(
            register.admit_member(1, &member("blue", Some(5))),
            Admission::OtherSize(5)
        );
        let mut register = Register::new(3, Some(blue()));
        let red = register.admit_member(0, &member("red", None));
        assert_eq!(red, Admission::OtherCluster(blue()));
        assert_eq!(register.outsider(0), Some((Arc::from("red"), blue())));
        let first = register.admit_member(1, &member("blue", None));
        assert_eq!(first, Admission::Votes);
        assert_eq!(register.outsider(1), None);
    }

    #[test]
    fn the_cluster_that_a_majority_names_counts_whoever_connects_first() {
        let mut register = Register::new(5, None);
        for (node, cluster) in ["red", "blue", "blue"].into_iter().enumerate() {
            let admitted = register.admit_member(node, &member(cluster, None));
            assert_eq!(admitted, Admission::Votes);
            assert_eq!(
                register.outsider(node),
                None,
                "nobody knows yet who is wrong"
            );
        }
        register.admit_member(3, &member("", None));
        register.admit_member(4, &member("blue", None));
        let outsider = (Arc::from("red"), Arc::from("blue"));
        assert_eq!(register.outsider(0), Some(outsider));
        for node in 1..5 {
            assert_eq!(register.outsider(node), None);
        }
        // The entry leads to a node of the cluster now.
        register.admit_member(0, &member("blue", None));
        assert_eq!(register.outsider(0), None);
        // Two name a cluster of another size: what they named before counts no more.
        register.admit_member(0, &member("red", None));
        let blue = (Arc::from("red"), Arc::from("blue"));
        register.admit_member(1, &member("blue", Some(7)));
        register.admit_member(2, &member("blue", Some(7)));
        assert_eq!(register.outsider(0), Some(blue), "nobody says otherwise");
        // All others belong to the other cluster now.
        register.admit_member(1, &member("red", None));
        register.admit_member(2, &member("red", None));
        assert_eq!(register.outsider(0), None);
        assert_eq!(
            register.outsider(4),
            Some((Arc::from("blue"), Arc::from("red")))
        );
    }

    #[test]
    fn votes_of_different_clusters_are_not_counted_together() {
        for (clusters, votes) in [
            ("rbb", 2),
            ("rrbb", 2),
            ("rbb-", 3),
            ("r-", 2),
            ("--", 2),
            ("bbb", 3),
            ("rbg", 1),
        ] {
            let mut ballot = Ballot::default();
            for (node, cluster) in clusters.chars().enumerate() {
                let vote = Identity {
                    cluster: (cluster != '-').then(|| Arc::from(cluster.to_string())),
                    ..identity(&format!("n{node}"), 1)
                };
                ballot.add(node, vote.clone());
                // The same node under another name.
                ballot.add(node + 10, vote);
            }
            assert_eq!(ballot.distinct(), votes, "{clusters}");
        }
    }

    #[test]
    fn who_claims_the_id_of_a_node_of_another_cluster_takes_no_vote_away() {
        for order in [[0, 1, 2], [1, 2, 0], [1, 0, 2]] {
            let mut ballot = Ballot::default();
            for node in order {
                let (id, cluster) = [("b", "blue"), ("b", "red"), ("c", "red")][node];
                let cluster = Some(Arc::from(cluster));
                ballot.add(
                    node,
                    Identity {
                        cluster,
                        ..identity(id, 1)
                    },
                );
            }
            assert_eq!(ballot.distinct(), 2, "{order:?}");
        }
    }

    #[test]
    fn an_incarnation_that_goes_backwards_does_not_vote() {
        let mut register = Register::default();
        assert_eq!(register.admit(0, &identity("a", 7)), Admission::Votes);
        assert_eq!(register.admit(0, &identity("a", 6)), Admission::WentBack);
        assert_eq!(register.admit(0, &identity("a", 7)), Admission::Votes);
        assert_eq!(register.admit(3, &identity("a", 6)), Admission::WentBack);
    }

    #[test]
    fn what_is_remembered_stays_bounded() {
        let mut register = Register::default();
        for start in 0..10_000 {
            register.admit(0, &identity(&format!("run{start}"), start % 2));
        }
        assert!(register.newest.len() <= REMEMBERED_MAX + 1);
    }

    #[test]
    fn sets_and_majorities() {
        let mut set = NodeSet::default();
        set.insert(0);
        set.insert(63);
        set.insert(63);
        assert_eq!(
            [0, 1, 63].map(|node| set.contains(node)),
            [true, false, true]
        );
        assert_eq!(set.first(), Some(0));
        set.remove(0);
        assert!(!set.is_empty());
        assert_eq!(set.first(), Some(63));
        let last = set;
        set.insert(1);
        set.remove_all(last);
        assert_eq!(set.first(), Some(1));
        set.remove(1);
        assert!(set.is_empty());
        set = last;
        set.remove(63);
        assert!(set.is_empty());
        assert_eq!(set.first(), None);
        assert_eq!([1, 2, 3, 4, 5].map(majority), [1, 2, 2, 3, 3]);
    }
}
