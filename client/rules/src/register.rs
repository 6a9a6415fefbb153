//! Which of the nodes that say who they are may vote, remembered over reconnects.
//!
//! Invariant: what one node claims of itself costs no other node's vote, whichever connects first, as long as a majority of the list names one
//! cluster: nodes that name different clusters are different nodes, also where one has copied the other's id. A node that is in an earlier state than
//! one that it has shown is noticed once: from then on the earlier state is where it goes on from. Nothing here does I/O.

use std::collections::HashMap;
use std::sync::Arc;

use crate::named_clusters::NamedClusters;
use crate::outcome::Cause;
use crate::votes::{Identity, NODES_MAX, NodeIndex, is_list_of};

/// Which cluster a node says it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) cluster_id: Option<Arc<str>>,
    pub(crate) cluster_size: Option<usize>,
    /// How many it will have, while one is added or removed.
    pub(crate) next_size: Option<usize>,
}

/// How far a node's log had come, in the positions of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogState {
    /// What this run of the node has found when it began.
    pub(crate) recovered: u64,
    /// What is on its disk.
    pub(crate) synced: u64,
}

/// How far a node had come when it told who it is.
#[derive(Clone, Copy, Debug)]
struct State {
    incarnation: u64,
    log: Option<LogState>,
}

impl State {
    /// Whether a node that has shown `earlier` before cannot have come from there to here.
    ///
    /// An incarnation that was used already is another run only if it began elsewhere. What a run finds in the log is all
    /// that the runs before it have synced.
    fn is_behind(&self, earlier: &Self) -> bool {
        if self.incarnation != earlier.incarnation {
            let is_lost = |(now, then): (LogState, LogState)| now.recovered < then.synced;
            return self.incarnation < earlier.incarnation
                || self.log.zip(earlier.log).is_some_and(is_lost);
        }
        let is_lost = |(now, then): (LogState, LogState)| {
            now.recovered != then.recovered || now.synced < then.synced
        };
        self.log.zip(earlier.log).is_some_and(is_lost)
    }
}

/// Whether a node that says who it is may vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It votes.
    Votes,
    /// It is the node that is also listed under this index: the votes count as one.
    SameAs(NodeIndex),
    /// It has shown a later state before, and has forgotten what it granted since.
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
    clusters: NamedClusters,
    /// The latest state that each node has shown, by its id and the cluster that it named.
    latest: HashMap<(Arc<str>, Option<Arc<str>>), State>,
    present: HashMap<NodeIndex, Identity>,
}

impl Register {
    /// For a list of so many entries, which is that of a certain cluster or not.
    pub(crate) fn new(entries: usize, cluster_id: Option<Arc<str>>) -> Self {
        Self {
            entries,
            clusters: NamedClusters::new(entries, cluster_id),
            ..Self::default()
        }
    }

    /// Judges whether a node is one of the cluster whose nodes are listed, all of them and no others: a majority of
    /// another set of nodes excludes nobody.
    pub(crate) fn admit_member(&mut self, node: NodeIndex, said: &Membership) -> Admission {
        self.clusters.forget(node);
        let is_list = || is_list_of(self.entries, said.cluster_size, said.next_size);
        let other = || self.entries > 0 && !is_list();
        if let Some(size) = said.cluster_size.filter(|_| other()) {
            self.clusters.does_not_vote(node);
            return Admission::OtherSize(size);
        }
        match self.clusters.note(node, said.cluster_id.as_ref()) {
            Some(ours) => Admission::OtherCluster(ours),
            None => Admission::Votes,
        }
    }

    /// A node that is counted by its address did not say yet to which cluster it belongs.
    pub(crate) fn admit_unread(&mut self, node: NodeIndex) -> Admission {
        self.clusters.note_unread(node);
        Admission::Votes
    }

    /// What answers under an entry does not vote, for this reason: where that lasts, it gives no cluster its majority.
    pub(crate) fn does_not_vote(&mut self, node: NodeIndex, cause: &Cause) {
        match cause.is_permanent() {
            true => self.clusters.does_not_vote(node),
            false => self.clusters.may_vote(node),
        }
    }

    /// Why this node is not asked for its vote, by the clusters that the nodes name.
    pub(crate) fn outsider(&self, node: NodeIndex) -> Option<Cause> {
        self.clusters.outsider(node)
    }

    /// Why the vote of this node makes no majority, by the clusters that the nodes name, whether it is asked for or not.
    pub(crate) fn undecided(&self, node: NodeIndex) -> Option<Cause> {
        self.clusters.undecided(node)
    }

    /// Judges the identity and the state of its log that a node has just shown.
    pub(crate) fn admit(
        &mut self,
        node: NodeIndex,
        identity: &Identity,
        log: Option<LogState>,
    ) -> Admission {
        self.present.insert(node, identity.clone());
        if self.has_gone_back(identity, log) {
            return Admission::WentBack;
        }
        // Every start of a Redis node is a new identity, and nodes come and go: once these are
        // many, only those that are present are remembered.
        if self.latest.len() > REMEMBERED_MAX {
            let present = &self.present;
            let is_present = |id: &Arc<str>| present.values().any(|other| other.id == *id);
            self.latest.retain(|(id, _), _| is_present(id));
        }
        let twin = self
            .present
            .iter()
            .find(|(other, twin)| **other != node && twin.may_be(identity));
        twin.map_or(Admission::Votes, |(&other, _)| Admission::SameAs(other))
    }

    /// Whether this node is in an earlier state than it was, under whatever of the clusters it may be of; remembers this one.
    pub(crate) fn has_gone_back(&mut self, identity: &Identity, log: Option<LogState>) -> bool {
        let incarnation = identity.incarnation;
        let now = State { incarnation, log };
        let is_it = |(id, cluster): &(Arc<str>, Option<Arc<str>>)| {
            let is_other = cluster.is_some() && identity.cluster.is_some();
            *id == identity.id && (!is_other || *cluster == identity.cluster)
        };
        let mut shown = self.latest.iter().filter(|(own, _)| is_it(own));
        let has_gone_back = shown.any(|(_, earlier)| now.is_behind(earlier));
        if has_gone_back {
            self.latest.retain(|own, _| !is_it(own));
        }
        let own = (Arc::clone(&identity.id), identity.cluster.clone());
        self.latest.insert(own, now);
        has_gone_back
    }

    /// The first index under which the same node is listed, if that is before this one: of several
    /// names of a node, the first is the one that votes.
    pub(crate) fn same_as(&self, node: NodeIndex) -> Option<NodeIndex> {
        let own = self.present.get(&node)?;
        let names = self.present.iter().filter(|(_, other)| other.may_be(own));
        let first = names.map(|(&other, _)| other).min()?;
        (first < node).then_some(first)
    }

    /// How many identities are remembered.
    pub(crate) fn size(&self) -> usize {
        self.latest.len() + self.present.len()
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

    fn member(cluster: &str, cluster_size: Option<usize>) -> Membership {
        Membership {
            cluster_id: (!cluster.is_empty()).then(|| Arc::from(cluster)),
            cluster_size,
            next_size: None,
        }
    }

    fn other(cluster: &str, expected: &str) -> Option<Cause> {
        let (cluster, expected) = (Arc::from(cluster), Arc::from(expected));
        Some(Cause::OtherCluster { cluster, expected })
    }

    #[test]
    fn while_a_member_is_added_or_removed_clients_with_either_list_get_votes() {
        let votes = |entries, size, next| {
            let mut register = Register::new(entries, None);
            let said = Membership {
                next_size: next,
                ..member("blue", Some(size))
            };
            register.admit_member(0, &said) == Admission::Votes
        };
        for (entries, size, next, may_vote) in [
            (5, 5, None, true),
            (6, 5, None, false),
            (5, 5, Some(6), true),
            (6, 5, Some(6), true),
            (4, 5, Some(6), false),
            (7, 5, Some(6), false),
            (5, 6, Some(5), true),
            // Majorities of five and of seven may have no node in common.
            (7, 5, Some(7), false),
            (5, 5, Some(7), true),
        ] {
            assert_eq!(
                votes(entries, size, next),
                may_vote,
                "{entries} listed of {size} and {next:?}"
            );
        }
    }

    #[test]
    fn one_node_under_two_addresses_is_noticed() {
        let mut register = Register::default();
        assert_eq!(register.admit(0, &identity("a", 1), None), Admission::Votes);
        assert_eq!(register.admit(1, &identity("b", 1), None), Admission::Votes);
        assert_eq!(
            register.admit(2, &identity("a", 1), None),
            Admission::SameAs(0)
        );
        assert_eq!(register.same_as(2), Some(0));
        // The first index votes, whichever connects last.
        register.admit(0, &identity("a", 1), None);
        assert_eq!((register.same_as(0), register.same_as(2)), (None, Some(0)));
        // Reconnecting under its own address is nothing special.
        assert_eq!(register.admit(1, &identity("b", 2), None), Admission::Votes);
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
        assert_eq!(register.outsider(0), other("red", "blue"));
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
        assert_eq!(register.outsider(0), other("red", "blue"));
        for node in 1..5 {
            assert_eq!(register.outsider(node), None);
        }
        // The entry leads to a node of the cluster now.
        register.admit_member(0, &member("blue", None));
        assert_eq!(register.outsider(0), None);
        // One that names none is no outsider.
        register.admit_member(0, &member("red", None));
        register.admit_member(0, &member("", None));
        assert_eq!(register.outsider(0), None);
        // Two name a cluster of another size: what they named before counts no more.
        register.admit_member(0, &member("red", None));
        register.admit_member(1, &member("blue", Some(7)));
        register.admit_member(2, &member("blue", Some(7)));
        assert_eq!(
            register.outsider(0),
            other("red", "blue"),
            "nobody says otherwise"
        );
        // All others belong to the other cluster now.
        register.admit_member(1, &member("red", None));
        register.admit_member(2, &member("red", None));
        assert_eq!(register.outsider(0), None);
        assert_eq!(register.outsider(4), other("blue", "red"));
    }

    #[test]
    fn a_node_in_an_earlier_state_than_before_is_noticed_once() {
        let at = |incarnation, recovered, synced| (incarnation, LogState { recovered, synced });
        let shown = at(7, 100, 150);
        for (now, has_gone_back) in [
            (at(7, 100, 150), false),
            (at(7, 100, 151), false),
            // A restart finds what was synced before it, and perhaps more.
            (at(8, 150, 151), false),
            (at(9, 400, 401), false),
            (at(6, 400, 401), true),
            (at(8, 149, 900), true),
            // The count was used before, by a run that began elsewhere.
            (at(7, 90, 900), true),
            (at(7, 101, 900), true),
            (at(7, 100, 149), true),
        ] {
            let mut register = Register::default();
            let mut admit =
                |(incarnation, log)| register.admit(0, &identity("a", incarnation), Some(log));
            assert_eq!(admit(shown), Admission::Votes);
            let expected = match has_gone_back {
                true => Admission::WentBack,
                false => Admission::Votes,
            };
            assert_eq!(admit(now), expected, "{now:?}");
            assert_eq!(admit(now), Admission::Votes, "it goes on from {now:?}");
        }
        // Without a log that is told, the incarnation says it, under whichever entry.
        let mut register = Register::default();
        assert_eq!(register.admit(0, &identity("a", 7), None), Admission::Votes);
        assert_eq!(
            register.admit(3, &identity("a", 6), None),
            Admission::WentBack
        );
        assert_eq!(
            register.admit(3, &identity("a", 7), None),
            Admission::SameAs(0)
        );
    }

    #[test]
    fn who_copies_the_id_of_a_node_under_another_cluster_costs_that_one_nothing() {
        let of = |cluster: &str, incarnation| Identity {
            cluster: Some(Arc::from(cluster)),
            ..identity("a", incarnation)
        };
        let mut register = Register::default();
        // Whichever connects first: its incarnation is not the other one's past.
        assert_eq!(register.admit(0, &of("blue", 900), None), Admission::Votes);
        assert_eq!(register.admit(1, &of("red", 5), None), Admission::Votes);
        assert_eq!(register.same_as(1), None);
        assert_eq!(
            register.admit(0, &of("blue", 899), None),
            Admission::WentBack
        );
        // The node itself is noticed as before, under every address and with or without a name for its cluster.
        assert_eq!(register.admit(2, &of("red", 5), None), Admission::SameAs(1));
        assert_eq!(register.same_as(2), Some(1));
        assert_eq!(register.admit(1, &of("red", 4), None), Admission::WentBack);
        assert_eq!(
            register.admit(3, &identity("a", 4), None),
            Admission::WentBack
        );
        let mut register = Register::default();
        assert_eq!(register.admit(0, &identity("a", 6), None), Admission::Votes);
        assert_eq!(register.admit(0, &of("red", 5), None), Admission::WentBack);
        assert_eq!(register.admit(1, &of("red", 6), None), Admission::SameAs(0));
    }

    #[test]
    fn what_is_remembered_stays_bounded() {
        let mut register = Register::default();
        for start in 0..10_000 {
            register.admit(0, &identity(&format!("run{start}"), start % 2), None);
        }
        assert!(register.latest.len() <= REMEMBERED_MAX + 1);
    }
}
