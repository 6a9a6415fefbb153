//! What a majority of the nodes says, by the answers of one count.
//!
//! Invariant: a leader is who holds the lock at a majority of distinct nodes, whatever the others say. Nobody leads where no
//! answer that is still to come could give somebody a majority.

use std::time::Duration;

use super::{END_SLACK, Observation};
use crate::answer::Sight;
use crate::clock::ClientInstant;
use crate::leader::{Leader, Observed};
use crate::token::Token;
use crate::votes::{Ballot, Identity, NodeIndex, majority};

/// What a count comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More answers may say more.
    Open,
    Certain(Observed),
    /// Nobody has a majority of those that have answered, and somebody is about to, or an old answer is among them.
    Split,
    /// Too few have answered.
    Missing,
}

impl Observation {
    /// What the answers of a count say.
    pub(super) fn verdict(&self, is_over: bool) -> Verdict {
        let mut all = Ballot::default();
        let mut holders: Vec<(&Token, Ballot)> = Vec::new();
        for (node, by, sight) in self.told_by() {
            all.add(node, by.clone());
            if let Some(sight) = sight {
                match holders.iter_mut().find(|(token, _)| *token == &sight.token) {
                    Some((_, ballot)) => ballot.add(node, by.clone()),
                    None => {
                        let mut ballot = Ballot::default();
                        ballot.add(node, by.clone());
                        holders.push((&sight.token, ballot));
                    }
                }
            }
        }
        let (nodes, quorum) = (self.answers.len(), majority(self.answers.len()));
        holders.sort_by_key(|(_, ballot)| std::cmp::Reverse(ballot.distinct()));
        let most = holders.first().map_or(0, |(_, ballot)| ballot.distinct());
        if let Some((token, _)) = holders.first().filter(|_| most >= quorum) {
            return self.leader(token, quorum, is_over);
        }
        let answered = all.distinct();
        let is_nobody = answered >= quorum && most + (nodes - answered) < quorum;
        match is_nobody {
            // Who is about to have a majority shall not be reported as nobody.
            true if most == 0 || is_over && self.failures >= SPLITS_MAX => {
                Verdict::Certain(Observed::Vacant)
            }
            _ if !is_over => Verdict::Open,
            true => Verdict::Split,
            false => Verdict::Missing,
        }
    }

    /// The leader whom a majority holds, with what a majority says of it, once all have answered that may say more.
    fn leader(&self, token: &Token, quorum: usize, is_over: bool) -> Verdict {
        let sights = self.told_by().filter_map(|(_, _, sight)| sight.as_ref());
        let sights: Vec<&Sight> = sights.filter(|sight| sight.token == *token).collect();
        let count = |is_so: &dyn Fn(&Sight) -> bool| sights.iter().filter(|it| is_so(it)).count();
        let agree = |it: &&&Sight| {
            count(&|other| other.fence == it.fence && other.owner == it.owner) >= quorum
        };
        if sights.iter().find(agree).is_none() && !is_over {
            return Verdict::Open;
        }
        let known = self.told_leader().filter(|told| told.token == *token);
        let fences = sights.iter().filter_map(|it| it.fence);
        let certain = fences.filter(|fence| count(&|other| other.fence == Some(*fence)) >= quorum);
        let fence = certain.chain(known.and_then(|known| known.fence)).max();
        let mut owners = sights.iter().filter_map(|it| it.owner.clone());
        let owner = owners.next().or(known.and_then(|it| it.proposal.clone()));
        if fence.is_some_and(|fence| fence < self.fence) {
            // An earlier leader: some of the answers are old.
            return if is_over {
                Verdict::Split
            } else {
                Verdict::Open
            };
        }
        Verdict::Certain(Observed::Leader(Leader::new(token.clone(), owner, fence)))
    }

    fn told_by(&self) -> impl Iterator<Item = (NodeIndex, &Identity, &Option<Sight>)> {
        let answers = self.answers.iter().enumerate();
        answers.filter_map(|(node, answer)| match answer {
            Some(Ok((by, sight))) => Some((node, by, sight)),
            _ => None,
        })
    }

    /// When a majority of the nodes does not hold the leader's lock any more, if nobody renews it.
    pub(super) fn end_of(&self, observed: &Observed, now: ClientInstant) -> Option<ClientInstant> {
        let Observed::Leader(leader) = observed else {
            return None;
        };
        let sights = self.told_by().filter_map(|(_, _, sight)| sight.as_ref());
        let its = sights.filter(|sight| sight.token == leader.token);
        let mut left: Vec<Duration> = its.filter_map(|sight| sight.left).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        let left = left.get(majority(self.answers.len()) - 1)?;
        Some(now.after(left.saturating_add(END_SLACK)))
    }
}

/// So many counts in a row find candidates none of whom has a majority: then nobody leads.
const SPLITS_MAX: u32 = 2;
