//! Sets of nodes, who a node is, and how votes are counted.
//!
//! Invariant: a majority is counted over distinct identities, so a node that is reachable under
//! two addresses has one vote, and over nodes of one cluster. Nothing here does I/O.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

/// Most nodes a client can have.
pub const NODES_MAX: usize = 64;

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

    /// How many nodes are in it.
    pub(crate) fn len(self) -> usize {
        usize::try_from(self.0.count_ones()).expect("64 at most")
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
#[must_use]
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Whether a list of so many entries may be that of a cluster of which a node says that it has `size` nodes, and `next` from a
/// change on that has begun. A second number that differs by more than one counts for nothing: a majority of each of two such
/// lists may have no node in common.
pub(crate) fn is_list_of(entries: usize, size: Option<usize>, next: Option<usize>) -> bool {
    let Some(size) = size else {
        return true;
    };
    let next = next.filter(|next| next.abs_diff(size) == 1);
    size == entries || next == Some(entries)
}

/// Who a node is, and which of its lives this is.
///
/// A Quorlock node keeps its id over restarts and counts its incarnations; Redis and Valkey draw
/// a new `run_id` at every start.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
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

impl Identity {
    /// Whether this may be the same node as the other: one that names no cluster may be of any.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        self.id == other.id && (other.cluster.is_none() || self.may_be_of(other.cluster.as_ref()))
    }

    /// Whether the node may be of this cluster; without one, it may be of any.
    fn may_be_of(&self, cluster: Option<&Arc<str>>) -> bool {
        cluster.is_none() || self.cluster.is_none() || self.cluster.as_ref() == cluster
    }
}

impl Identity {
    /// The identity of a simulated node.
    #[doc(hidden)]
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
        let is_of = |identity: &Identity| identity.may_be_of(cluster);
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

    /// The first index under which the same node voted too, if its vote counts and it was given under two addresses.
    pub(crate) fn twin(&self, node: NodeIndex) -> Option<NodeIndex> {
        let cluster = self.cluster();
        let identity = self.of(node).filter(|own| own.may_be_of(cluster))?;
        let is_twin = |(at, other): &&(NodeIndex, Identity)| {
            *at != node && other.id == identity.id && other.may_be_of(cluster)
        };
        let twins = self.votes.iter().filter(is_twin);
        twins.map(|(other, _)| *other).min()
    }
}

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

    /// A ballot of such votes, each with the node's id and the first letter of its cluster, if it names one.
    fn ballot(votes: &[(NodeIndex, &str, &str)]) -> Ballot {
        let mut ballot = Ballot::default();
        for (node, id, cluster) in votes {
            let cluster = (!cluster.is_empty()).then(|| Arc::from(*cluster));
            let vote = Identity {
                cluster,
                ..identity(id, 1)
            };
            ballot.add(*node, vote);
        }
        ballot
    }

    #[test]
    fn one_id_under_two_addresses_is_one_vote_and_a_copied_one_of_another_cluster_is_none() {
        for (votes, distinct, twins) in [
            // (node, id, cluster), and of each in turn the first index of the same node
            (vec![(0, "x", "r"), (1, "x", "r")], 1, [Some(1), Some(0)]),
            (vec![(1, "x", ""), (0, "x", "")], 1, [Some(0), Some(1)]),
            (vec![(0, "x", ""), (1, "x", "r")], 1, [Some(1), Some(0)]),
            (vec![(0, "x", "r"), (1, "y", "r")], 2, [None, None]),
            // Nobody knows which of them is the copy: they are two nodes, and one counts.
            (vec![(0, "x", "b"), (1, "x", "r")], 1, [None, None]),
        ] {
            let ballot = ballot(&votes);
            assert_eq!(ballot.distinct(), distinct, "{votes:?}");
            let of = |at: usize| ballot.twin(votes[at].0);
            assert_eq!([of(0), of(1)], twins, "{votes:?}");
        }
        // The cluster of most votes shows which one is the copy, in whichever order they came.
        let mut votes = [(0, "x", "b"), (1, "x", "r"), (2, "y", "r"), (3, "x", "r")];
        for _ in 0..votes.len() {
            votes.rotate_left(1);
            let ballot = ballot(&votes);
            assert_eq!(ballot.distinct(), 2, "{votes:?}");
            let twins = [0, 1, 2, 3].map(|node| ballot.twin(node));
            assert_eq!(twins, [None, Some(3), None, Some(1)], "{votes:?}");
        }
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
