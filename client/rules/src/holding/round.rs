//! One round of extensions of a lock that is held, and when the nodes that it missed are asked again.

use std::time::Duration;

use super::HoldingEvent;
use crate::acquisition::{Acquisition, Vote};
use crate::answer::{Answer, ExtendAnswer};
use crate::clock::ClientInstant;
use crate::outcome::NodeAnswer;
use crate::votes::{Ballot, NodeIndex, NodeSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RenewalRound {
    pub(super) number: u32,
    pub(super) started: ClientInstant,
    pub(super) deadline: ClientInstant,
    pub(super) renewed: Ballot,
    pub(super) awaited: NodeSet,
    pub(super) answers: Vec<Option<NodeAnswer>>,
    pub(super) is_settled: bool,
}

impl RenewalRound {
    /// The attempt that acquired the lock, as the round before the first one.
    pub(super) fn of_attempt(attempt: &Acquisition) -> Self {
        let mut awaited = NodeSet::default();
        let mut answers = Vec::new();
        for (node, vote) in attempt.votes().iter().enumerate() {
            answers.push(match vote {
                Vote::Told(Answer::Granted(_)) => Some(NodeAnswer::Granted),
                Vote::Told(Answer::Busy { holder, .. }) => Some(NodeAnswer::Busy {
                    holder: holder.clone(),
                }),
                Vote::Told(Answer::Not(cause)) => Some(NodeAnswer::Not(cause.clone())),
                Vote::Awaited(_) | Vote::Overdue | Vote::Left => {
                    awaited.insert(node);
                    None
                }
                Vote::Unasked(_) => None,
            });
        }
        Self {
            number: 0,
            started: attempt.started(),
            deadline: attempt.started(),
            renewed: attempt.ballot().clone(),
            awaited,
            answers,
            is_settled: true,
        }
    }

    /// The round after this one: all nodes are asked at `now`, and waited for as long as `patience`.
    pub(super) fn next(&self, now: ClientInstant, patience: Duration) -> Self {
        let nodes = self.answers.len();
        let mut awaited = NodeSet::default();
        (0..nodes).for_each(|node| awaited.insert(node));
        Self {
            number: self.number.wrapping_add(1).max(1),
            started: now,
            deadline: now.after(patience),
            renewed: Ballot::default(),
            awaited,
            answers: vec![None; nodes],
            is_settled: false,
        }
    }

    /// This round, if it has that number.
    pub(super) fn numbered(&mut self, number: u32) -> Option<&mut Self> {
        (self.number == number).then_some(self)
    }

    pub(super) fn is_awaited(&self, node: NodeIndex) -> bool {
        self.awaited.contains(node)
    }

    /// Whether the node answered that somebody else has it.
    pub(super) fn is_busy(&self, node: NodeIndex) -> bool {
        matches!(self.answers.get(node), Some(Some(NodeAnswer::Busy { .. })))
    }

    /// Whether so many nodes may still renew the lock: those that are waited for, and while one is, those that somebody
    /// else has and that are asked again.
    pub(super) fn may_find(&self, quorum: usize) -> bool {
        let may_yet = |node: &NodeIndex| self.is_awaited(*node) || self.is_busy(*node);
        let open = self.not_renewed().filter(may_yet).count();
        !self.awaited.is_empty() && self.renewed.distinct() + open >= quorum
    }

    /// The nodes that have not renewed the lock.
    pub(super) fn not_renewed(&self) -> impl Iterator<Item = NodeIndex> {
        let nodes = 0..self.answers.len();
        nodes.filter(|node| self.renewed.of(*node).is_none())
    }

    /// Whether the lock would be renewed by this event, were it not too late.
    pub(super) fn would_settle(&self, event: &HoldingEvent, quorum: usize) -> bool {
        let mut renewed = self.renewed.clone();
        match event {
            HoldingEvent::Extended {
                node,
                round: number,
                answer: ExtendAnswer::Extended(by),
            }
            | HoldingEvent::Taken {
                node,
                round: number,
                answer: Answer::Granted(by),
            } if *number == self.number => {
                renewed.add(*node, by.clone());
            }
            _ => {}
        }
        renewed.distinct() >= quorum && !self.is_settled
    }
}

/// When the nodes that a round missed are asked again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Healing {
    at: Option<ClientInstant>,
    tries: u32,
}

impl Healing {
    pub(super) fn at(&self) -> Option<ClientInstant> {
        self.at
    }

    /// No node is to be asked for now.
    pub(super) fn pause(&mut self) {
        self.at = None;
    }

    /// Whether it is time, and if not, when that is: after a twelfth of the lease, and sooner at
    /// first where a node is only busy with an attempt of somebody else, which ends soon.
    pub(super) fn is_due(&mut self, now: ClientInstant, ttl: Duration, is_contended: bool) -> bool {
        match self.at {
            Some(at) if now.has_reached(at) => {
                self.at = None;
                self.tries = self.tries.saturating_add(1);
                true
            }
            Some(_) => false,
            None => {
                let shorter = if is_contended {
                    4 >> self.tries.min(2)
                } else {
                    1
                };
                self.at = Some(now.after((ttl / 12 / shorter).max(PAUSE_MIN)));
                false
            }
        }
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(5);
