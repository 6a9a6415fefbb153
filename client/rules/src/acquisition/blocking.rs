//! What was in the way of an attempt: the holder with the most nodes, those nodes, or votes that are split.
//!
//! Invariant: this reads what the nodes have answered and decides nothing. It allocates nothing where every failed
//! attempt asks for it.

use super::{Acquisition, Vote};
use crate::answer::Answer;
use crate::token::Token;
use crate::votes::{NodeIndex, NodeSet};

impl Acquisition {
    /// Nodes without which the next attempt cannot succeed either: those of the owner with the most nodes, with those
    /// that have not answered if they alone are too few, or all that have not granted. None where a majority may be
    /// had without them, as after votes that came too late.
    ///
    /// It asks them first. While a lock is held, every other node is wanted by its holder, who may
    /// need it soon: an attempt that takes it only to release it again is in the way.
    pub(crate) fn blocking(&self) -> Option<NodeSet> {
        let holder = self.holder();
        let is_held = |vote: &Vote| matches!(vote, Vote::Told(Answer::Busy { holder: by, .. }) if *by == holder);
        let is_silent = |vote: &Vote| {
            matches!(
                vote,
                Vote::Told(Answer::Not(_)) | Vote::Awaited(_) | Vote::Overdue | Vote::Left
            )
        };
        let is_free =
            |vote: &Vote| matches!(vote, Vote::Told(Answer::Granted(_)) | Vote::Unasked(_));
        self.enough(is_held)
            .or_else(|| self.enough(|vote| is_held(vote) || is_silent(vote)))
            .or_else(|| self.enough(|vote| !is_free(vote)))
    }

    /// The nodes that the next attempt asks first, before the others; none if it asks all at once.
    #[must_use]
    pub fn first_of_next(&self) -> Vec<NodeIndex> {
        let first = self.blocking().filter(|_| !self.is_draw());
        let nodes = 0..self.terms.nodes;
        nodes
            .filter(|node| first.is_some_and(|first| first.contains(*node)))
            .collect()
    }

    /// These nodes, if no majority is left without them.
    fn enough(&self, is_one: impl Fn(&Vote) -> bool) -> Option<NodeSet> {
        let (nodes, count) = self.nodes_where(is_one);
        (self.terms.nodes - count < self.terms.quorum()).then_some(nodes)
    }

    fn nodes_where(&self, is_one: impl Fn(&Vote) -> bool) -> (NodeSet, usize) {
        let (mut nodes, mut count) = (NodeSet::default(), 0);
        for (node, _) in self
            .votes
            .iter()
            .enumerate()
            .filter(|(_, vote)| is_one(vote))
        {
            nodes.insert(node);
            count += 1;
        }
        (nodes, count)
    }

    /// Whether several callers have taken nodes and perhaps none of them a majority: no single one refuses on so many
    /// that the others are none, or nobody can have one. The second matters for an even number of nodes, half of which
    /// keep a majority from everybody. Where a node does not tell the holder, that may be any.
    pub(crate) fn is_split(&self) -> bool {
        let blocking = self.terms.nodes - self.terms.quorum() + 1;
        self.most_of_one().is_some_and(|most| most < blocking) || self.is_draw()
    }

    /// Whether several callers have taken nodes and none of them can have a majority, not even with all nodes that
    /// have told neither way.
    pub(crate) fn is_draw(&self) -> bool {
        let is_told =
            |vote: &Vote| is_refusal(vote) || matches!(vote, Vote::Told(Answer::Granted(_)));
        let (_, told) = self.nodes_where(is_told);
        let unknown = self.terms.nodes - told;
        let needed = self.terms.quorum();
        self.most_of_one()
            .is_some_and(|most| most + unknown < needed)
    }

    /// On how many nodes a single holder refuses, where every refusal names its holder.
    fn most_of_one(&self) -> Option<usize> {
        let (mut refusing, _) = self.nodes_where(is_refusal);
        let mut most = None;
        // One holder after the other, with all nodes that name it.
        while let Some(node) = refusing.first() {
            let holder = holder_of(&self.votes[node])?;
            let (theirs, count) = self.nodes_where(|vote| holder_of(vote) == Some(holder));
            most = most.max(Some(count));
            refusing.remove_all(theirs);
        }
        most
    }

    /// The token that most of the refusing nodes name.
    pub(crate) fn holder(&self) -> Option<Token> {
        let holders = self.votes.iter().filter_map(holder_of);
        let count = |holder: &Token| holders.clone().filter(|other| *other == holder).count();
        holders.clone().max_by_key(|holder| count(holder)).cloned()
    }
}

fn is_refusal(vote: &Vote) -> bool {
    matches!(vote, Vote::Told(Answer::Busy { .. }))
}

/// Whom a node has named with its refusal.
fn holder_of(vote: &Vote) -> Option<&Token> {
    match vote {
        Vote::Told(Answer::Busy { holder, .. }) => holder.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::acquisition::Terms;
    use crate::clock::ClientInstant;
    use crate::outcome::Cause;
    use crate::settings::Drift;
    use crate::votes::Identity;

    /// What the node has answered: granted, silent, refused without a word, or refused for the holder of this letter.
    fn vote(node: usize, said: char) -> Vote {
        let by = Identity {
            id: Arc::from(format!("n{node}")),
            incarnation: 1,
            cluster: None,
        };
        Vote::Told(match said {
            'g' => Answer::Granted(by),
            '-' => Answer::Not(Cause::Silent),
            '?' => Answer::Busy { by, holder: None },
            holder => Answer::Busy {
                by,
                holder: Some(Token::from(holder.to_string().as_str())),
            },
        })
    }

    fn attempt(votes: &str) -> Acquisition {
        let terms = Terms {
            nodes: votes.len(),
            spare_votes: 0,
            ttl: Duration::from_secs(10),
            lock_delay: Duration::ZERO,
            drift: Drift::default(),
            min_validity: Duration::ZERO,
            reserve: None,
        };
        let start = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let mut attempt = Acquisition::start(terms, start, |_| terms.ttl, &mut Vec::new());
        let told = votes.chars().enumerate();
        attempt.votes = told.map(|(node, said)| vote(node, said)).collect();
        attempt
    }

    #[test]
    fn votes_are_split_where_no_single_holder_keeps_the_others_from_a_majority() {
        for (votes, is_split) in [
            // Nobody refuses.
            ("ggggg", false),
            ("-----", false),
            // One holder has a majority, or as many as keep others from one.
            ("AAAgg", false),
            ("AAABB", false),
            ("BBAAA", false),
            ("BABAA", false),
            ("AAAg", false),
            ("AAg-", false),
            ("AA--", false),
            ("AAg", false),
            ("A", false),
            // Several have some, this caller among them, and nobody has enough.
            ("AABBg", true),
            ("AABBC-", true),
            // Half of the nodes keep a majority from everybody.
            ("AABB", true),
            ("AABg", true),
            ("gBAA", true),
            ("AAAggg", true),
            ("Ag", true),
            ("AABBC", true),
            ("AAggg", true),
            ("AAgg-", true),
            ("ABCDE", true),
            ("ABgg", true),
            ("ABC-", true),
            ("ABC", true),
            ("ABg", true),
            ("AB-", true),
            ("Ag-", true),
            // Who does not say for whom it refuses may refuse for the same holder as others.
            ("?????", false),
            ("AB?gg", false),
            ("?ABgg", false),
        ] {
            assert_eq!(attempt(votes).is_split(), is_split, "{votes}");
        }
    }

    #[test]
    fn most_nodes_a_client_can_have_with_a_holder_each_are_split_votes() {
        let votes: String = ('0'..).take(crate::votes::NODES_MAX).collect();
        let votes = votes.replace(['?', '-', 'g'], "a");
        assert!(attempt(&votes).is_split());
        // Who has a majority holds the lock, with half of the nodes nobody can.
        let of_one = |count: usize| votes[..64 - count].to_owned() + &"z".repeat(count);
        assert!(!attempt(&of_one(33)).is_split());
        assert!(attempt(&of_one(32)).is_split());
    }

    #[test]
    fn the_holder_is_whom_most_nodes_name() {
        for (votes, holder) in [
            ("ABBg-", Some("B")),
            ("ABABA", Some("A")),
            ("gg??B", Some("B")),
            ("gg??-", None),
            ("", None),
        ] {
            let holder = holder.map(Token::from);
            assert_eq!(attempt(votes).holder(), holder, "{votes}");
        }
    }
}
