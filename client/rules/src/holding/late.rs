//! Rounds of extensions that found no majority in time, and what nodes still answer to them.
//!
//! Invariant: an answer counts from when its round began, however late it comes, and as long as the node has not said
//! since that it does not have the lock. So a majority that has extended the lock in different rounds holds it for as
//! long as the earliest of these says, and never longer.

use crate::clock::ClientInstant;
use crate::votes::{Identity, NodeIndex};

use super::round::RenewalRound;

/// The rounds since the last renewal, but the one under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Late {
    /// Their numbers and when they began, the last one last.
    rounds: Vec<(u32, ClientInstant)>,
    /// Of each node the last of these rounds in which it has extended the lock.
    renewed: Vec<Renewed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Renewed {
    node: NodeIndex,
    by: Identity,
    round: u32,
    since: ClientInstant,
}

impl Late {
    /// This round is followed by another one, and has found no majority so far.
    pub(super) fn follow(&mut self, round: &RenewalRound) {
        if self.rounds.len() == ROUNDS_MAX {
            self.rounds.remove(0);
        }
        self.rounds.push((round.number, round.started));
        for node in 0..round.answers.len() {
            if let Some(by) = round.renewed.of(node) {
                self.renewed(node, by.clone(), round.number);
            }
        }
    }

    /// A majority has renewed the lock in a later round: these rounds have nothing to add.
    pub(super) fn clear(&mut self) {
        self.rounds.clear();
        self.renewed.clear();
    }

    /// A node has extended the lock in one of these rounds.
    pub(super) fn renewed(&mut self, node: NodeIndex, by: Identity, round: u32) {
        let began = self.rounds.iter().find(|(number, _)| *number == round);
        let Some(&(_, since)) = began else {
            return;
        };
        let is_known = |one: &Renewed| one.node == node && one.round >= round;
        if !self.renewed.iter().any(is_known) {
            self.withdraw(node);
            self.renewed.push(Renewed {
                node,
                by,
                round,
                since,
            });
        }
    }

    /// A node has said that it does not have the lock.
    pub(super) fn withdraw(&mut self, node: NodeIndex) {
        self.renewed.retain(|one| one.node != node);
    }

    /// Since when so many nodes hold the lock for a whole lease, those together that have extended it in the round under
    /// way and in one of these.
    pub(super) fn held_since(&self, round: &RenewalRound, quorum: usize) -> Option<ClientInstant> {
        let is_missing = |one: &&Renewed| round.renewed.of(one.node).is_none();
        let mut missing: Vec<_> = self.renewed.iter().filter(is_missing).collect();
        missing.sort_unstable_by_key(|one| std::cmp::Reverse(one.round));
        let mut ballot = round.renewed.clone();
        let mut since = round.started;
        for one in missing {
            ballot.add(one.node, one.by.clone());
            since = since.earlier(one.since);
            if ballot.distinct() >= quorum {
                return Some(since);
            }
        }
        None
    }
}

/// Later answers are to rounds that have little left to give: each pause between two takes an eighth of what is left of
/// the lease.
const ROUNDS_MAX: usize = 16;
