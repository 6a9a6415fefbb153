//! Sets of nodes, who a node is, and when an incarnation may vote.
//!
//! Invariant: a majority is counted over distinct identities, so a node that is reachable under
//! two addresses has one vote. Nothing here does I/O.

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
}

#[cfg(feature = "simulation")]
impl Identity {
    /// The identity of a simulated node.
    #[must_use]
    pub fn new(id: Arc<str>, incarnation: u64) -> Self {
        Self { id, incarnation }
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

    /// How many different nodes voted.
    pub(crate) fn distinct(&self) -> usize {
        let votes = &self.votes;
        let is_first = |(at, (_, identity)): (usize, &(NodeIndex, Identity))| {
            !votes[..at]
                .iter()
                .any(|(_, earlier)| earlier.id == identity.id)
        };
        votes
            .iter()
            .enumerate()
            .filter(|vote| is_first(*vote))
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
    /// The cluster that the client is for, or that the first node belongs to which names one.
    cluster_id: Option<Arc<str>>,
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
    pub(crate) fn admit_member(&mut self, said: &Membership) -> Admission {
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
        let ours = self.cluster_id.get_or_insert_with(|| Arc::clone(theirs));
        if ours == theirs {
            Admission::Votes
        } else {
            Admission::OtherCluster(Arc::clone(ours))
        }
    }

    /// Judges the identity a node has just shown on a new connection.
    pub(crate) fn admit(&mut self, node: NodeIndex, identity: &Identity) -> Admission {
        self.present.insert(node, Arc::clone(&identity.id));
        let newest = self
            .newest
            .entry(Arc::clone(&identity.id))
            .or_insert(identity.incarnation);
        if identity.incarnation < *newest {
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
}

const REMEMBERED_MAX: usize = 4 * NODES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: &str, incarnation: u64) -> Identity {
        Identity {
            id: Arc::from(id),
            incarnation,
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

    #[test]
    fn nodes_of_another_cluster_or_of_more_or_fewer_nodes_do_not_vote() {
        let member = |cluster: &str, cluster_size| Membership {
            cluster_id: (!cluster.is_empty()).then(|| Arc::from(cluster)),
            cluster_size,
        };
        let mut register = Register::new(3, None);
        assert_eq!(register.admit_member(&member("", None)), Admission::Votes);
        assert_eq!(
            register.admit_member(&member("blue", Some(5))),
            Admission::OtherSize(5)
        );
        // One that does not count says nothing about the cluster either.
        assert_eq!(
            register.admit_member(&member("red", Some(3))),
            Admission::Votes
        );
        assert_eq!(
            register.admit_member(&member("blue", Some(3))),
            Admission::OtherCluster(Arc::from("red"))
        );
        let mut register = Register::new(3, Some(Arc::from("blue")));
        assert_eq!(
            register.admit_member(&member("red", None)),
            Admission::OtherCluster(Arc::from("blue"))
        );
        assert_eq!(
            register.admit_member(&member("blue", None)),
            Admission::Votes
        );
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
        set.remove(0);
        assert!(!set.is_empty());
        set.remove(63);
        assert!(set.is_empty());
        assert_eq!([1, 2, 3, 4, 5].map(majority), [1, 2, 2, 3, 3]);
    }
}
