//! Which cluster's votes count, where the entries of a list name several.
//!
//! Invariant: while entries name several clusters, a node is asked for its vote only if a majority of the list may be of its cluster. One that
//! names none may be of any: it is asked only if one cluster has that majority. Nodes that name none are no cluster of their own, however many
//! they are: a list that names two clusters is wrong, and which of its nodes are right is not to be seen. Beside one named cluster they vote
//! with it, as while servers are replaced by nodes of it one after the other. So no majority is made of nodes of two clusters once it is known
//! that the list names them. What came before is judged by what is known at the verdict (`acquiring/asking.rs`).
//! Nothing here does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::outcome::Cause;
use crate::votes::{NodeIndex, majority};

/// What the entries of a list say of their clusters, remembered over reconnects.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedClusters {
    /// How many entries the list has; zero if that does not matter.
    entries: usize,
    /// The cluster that the client is for, if it was told.
    expected: Option<Arc<str>>,
    /// What each entry named at its last login: a cluster, or none, as Redis and Valkey do, and a node that was wiped.
    named: BTreeMap<NodeIndex, Option<Arc<str>>>,
    /// The entries whose nodes can never vote, as an agent and a node of another size: they give no cluster its majority.
    without_vote: BTreeSet<NodeIndex>,
    /// The entries whose nodes are counted by address and did not say yet to which cluster they belong, as while they load.
    unread: BTreeSet<NodeIndex>,
    /// Whether several clusters are named.
    is_mixed: bool,
    /// The cluster that a majority of the entries named last.
    by_majority: Option<Arc<str>>,
}

impl NamedClusters {
    /// For a list of so many entries, which is that of a certain cluster or not.
    pub(crate) fn new(entries: usize, expected: Option<Arc<str>>) -> Self {
        Self {
            entries,
            expected,
            ..Self::default()
        }
    }

    /// What the entry named counts no more.
    pub(crate) fn forget(&mut self, node: NodeIndex) {
        self.named.remove(&node);
        self.without_vote.remove(&node);
        self.unread.remove(&node);
        self.is_mixed = self.names_several();
    }

    /// The node of the entry can never vote, until another login says otherwise.
    pub(crate) fn does_not_vote(&mut self, node: NodeIndex) {
        self.forget(node);
        self.without_vote.insert(node);
    }

    /// The node of the entry may vote later. What it named before still counts.
    pub(crate) fn may_vote(&mut self, node: NodeIndex) {
        self.without_vote.remove(&node);
    }

    /// The node of the entry votes, and did not say yet to which cluster it belongs.
    pub(crate) fn note_unread(&mut self, node: NodeIndex) {
        self.forget(node);
        self.unread.insert(node);
    }

    /// An entry names this cluster, or none. Gives the cluster that the client is for, where that is another one.
    pub(crate) fn note(&mut self, node: NodeIndex, cluster: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.forget(node);
        self.named.insert(node, cluster.cloned());
        self.is_mixed = self.names_several();
        let theirs = cluster?;
        if self.count(theirs) >= majority(self.entries) {
            self.by_majority = Some(Arc::clone(theirs));
        }
        self.expected.clone().filter(|ours| ours != theirs)
    }

    /// Why this node is not asked for its vote: it names another cluster than the one that counts, which is the one that the client was told,
    /// or that a majority of the entries named last; or no cluster counts, and its own cannot come to.
    pub(crate) fn outsider(&self, node: NodeIndex) -> Option<Cause> {
        if let Some(ours) = self.counting() {
            let theirs = self.named.get(&node)?.as_ref()?;
            return (ours != theirs).then(|| Cause::OtherCluster {
                cluster: Arc::clone(theirs),
                expected: Arc::clone(ours),
            });
        }
        let is_asked = |cause: &Cause| match cause {
            Cause::MixedClusters { cluster, may_pass } => cluster.is_some() && *may_pass,
            _ => false,
        };
        self.undecided(node).filter(|cause| !is_asked(cause))
    }

    /// Why the vote of this node makes no majority, whether it is asked for or not: the list names several clusters, and none of them has a
    /// majority of it.
    pub(crate) fn undecided(&self, node: NodeIndex) -> Option<Cause> {
        if !self.is_mixed || self.counting().is_some() {
            return None;
        }
        let is_unread = self.unread.contains(&node);
        let own = match self.named.get(&node) {
            Some(named) => named.as_ref(),
            None if is_unread => None,
            None => return None,
        };
        let quorum = majority(self.entries);
        // Those that have not said yet to which cluster they belong may be of any.
        let known = self.named.len() + self.without_vote.len();
        let left = self.entries.saturating_sub(known);
        let may_have_it = |of: &Arc<str>| self.count(of) + left >= quorum;
        let may_pass = match own {
            Some(own) => may_have_it(own),
            None => self.named.values().flatten().any(may_have_it),
        };
        Some(Cause::MixedClusters {
            cluster: own.cloned(),
            may_pass,
        })
    }

    /// The cluster whose nodes vote, if that is known.
    fn counting(&self) -> Option<&Arc<str>> {
        self.expected.as_ref().or(self.by_majority.as_ref())
    }

    fn names_several(&self) -> bool {
        let mut clusters = self.named.values().flatten();
        let first = clusters.next();
        clusters.any(|other| Some(other) != first)
    }

    /// How many entries name this cluster.
    fn count(&self, cluster: &Arc<str>) -> usize {
        let named = self.named.values().flatten();
        named.filter(|other| *other == cluster).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::votes::{Ballot, Identity};

    fn cluster(letter: char) -> Option<Arc<str>> {
        (!matches!(letter, '-' | 'u')).then(|| Arc::from(letter.to_string()))
    }

    /// A list whose entries name these clusters; `-` names none, `?` has not logged in, `x` never votes, and of `u` INFO was not read.
    fn list(letters: &str) -> NamedClusters {
        let mut list = NamedClusters::new(letters.len(), None);
        for (node, letter) in letters.chars().enumerate() {
            match letter {
                '?' => {}
                'x' => list.does_not_vote(node),
                'u' => list.note_unread(node),
                _ => {
                    list.note(node, cluster(letter).as_ref());
                }
            }
        }
        list
    }

    /// Which entries are asked for their votes.
    fn asked(list: &NamedClusters) -> String {
        let nodes = 0..list.entries;
        let mark = |node| match list.outsider(node) {
            None if list.without_vote.contains(&node) => '.',
            None => 'v',
            Some(_) => '.',
        };
        nodes.map(mark).collect()
    }

    #[test]
    fn nodes_of_several_clusters_are_asked_only_where_a_majority_may_be_of_one() {
        for (letters, votes) in [
            ("bbbbb", "vvvvv"),
            ("rbbbb", ".vvvv"),
            ("rrbbg", "....."),
            ("rrbb?", "vvvv?"),
            ("rb???", "vv???"),
            ("gbrr?", "..vv?"),
            // One that never votes gives none of them its majority, and one whose INFO was not read may.
            ("rrbbx", "....."),
            ("rrb?x", "vv.?."),
            ("rrbbu", "vvvv."),
            ("rrxbu", "vv..."),
            ("---bru", "......"),
            ("bbu", "vvv"),
            // One that names none counts with the cluster that has a majority, and with none before that.
            ("bbb-r", "vvvv."),
            ("bb--r", "....."),
            ("bb-r?", "vv..?"),
            ("b-r", "..."),
            // Nothing says that the list is wrong.
            ("bb---", "vvvvv"),
            ("----r", "vvvvv"),
            ("r-???", "vv???"),
            // Those that name none are no cluster of their own, also where they are the most.
            ("---br", "....."),
            ("--?br", "..?.."),
            ("-----br", "......."),
            ("---rr", "vvvvv"),
            ("br", ".."),
        ] {
            assert_eq!(
                asked(&list(letters)),
                votes.replace('?', "v"),
                "of {letters}"
            );
        }
    }

    #[test]
    fn no_majority_is_made_of_nodes_of_two_clusters_in_any_list() {
        let letters = ['b', 'r', 'g', '-', '?', 'u'];
        for length in 1..=6_u32 {
            let lists = letters.len().pow(length);
            for number in 0..lists {
                let letter = |at: u32| letters[number / letters.len().pow(at) % letters.len()];
                let text: String = (0..length).map(letter).collect();
                let (list, mut ballot) = (list(&text), Ballot::default());
                for (node, letter) in text.chars().enumerate() {
                    if letter != '?' && list.outsider(node).is_none() {
                        let identity = Identity::new(Arc::from(node.to_string()), 1);
                        let cluster = cluster(letter);
                        ballot.add(
                            node,
                            Identity {
                                cluster,
                                ..identity
                            },
                        );
                    }
                }
                let quorum = majority(text.len());
                if !list.is_mixed || ballot.distinct() < quorum {
                    continue;
                }
                let of = |letter: char| text.chars().filter(|other| *other == letter).count();
                let has_majority = letters[..3].iter().any(|letter| of(*letter) >= quorum);
                assert!(has_majority, "{text}");
            }
        }
    }

    #[test]
    fn what_a_node_says_later_counts_and_what_it_said_before_does_not() {
        let mut list = list("bbbbb");
        // Two are made anew in another cluster, and a third is wiped: the majority counts that was named.
        for (node, letter) in [(0, 'r'), (1, 'r'), (2, '-')] {
            list.note(node, cluster(letter).as_ref());
        }
        assert_eq!(asked(&list), "..vvv");
        list.note(2, cluster('r').as_ref());
        assert_eq!(asked(&list), "vvv..");
        // A client that begins then knows of no majority, until the list is put right.
        let mut fresh = self::list("rr-bb");
        assert_eq!(asked(&fresh), ".....");
        fresh.note(0, cluster('b').as_ref());
        assert_eq!(asked(&fresh), "v.vvv");
        let mut fresh = self::list("rr-bb");
        fresh.forget(2);
        assert_eq!(asked(&fresh), "vvvvv");
    }

    #[test]
    fn a_cause_says_of_which_cluster_the_node_is_and_whether_it_may_pass() {
        let cause = |letters: &str, node| list(letters).undecided(node);
        let mixed = |letter, may_pass| {
            Some(Cause::MixedClusters {
                cluster: cluster(letter),
                may_pass,
            })
        };
        assert_eq!(cause("rrbb?", 0), mixed('r', true));
        assert_eq!(cause("gbrr?", 0), mixed('g', false));
        assert_eq!(cause("bb-r?", 2), mixed('-', true));
        assert_eq!(cause("bb--r", 2), mixed('-', false));
        assert_eq!(cause("---br", 0), mixed('-', false));
        assert_eq!(cause("--?br", 0), mixed('-', false));
        assert_eq!(cause("---rr", 0), None);
        assert_eq!(cause("rrbbx", 0), mixed('r', false));
        assert_eq!(cause("rrbbu", 4), mixed('-', true));
        let mut later = list("rrbbx");
        later.may_vote(4);
        assert_eq!(later.undecided(0), mixed('r', true));
        assert_eq!(cause("rrbb?", 4), None);
        assert_eq!(cause("rbbbb", 0), None, "one of them has a majority");
        let mut named = NamedClusters::new(2, cluster('b'));
        assert_eq!(named.note(0, cluster('r').as_ref()), cluster('b'));
        assert_eq!(named.note(1, None), None);
        assert_eq!(named.undecided(0), None);
        assert_eq!(asked(&named), ".v");
    }
}
