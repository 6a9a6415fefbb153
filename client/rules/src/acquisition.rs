//! One attempt to acquire a lock: a state machine without clock and I/O.
//!
//! Invariant: "acquired" is decided only with a majority of distinct nodes and with validity left
//! that counts from before the first byte was sent; every other decision orders a release on all
//! nodes, whatever they are believed to hold. It does not retry: the next attempt has a new token.

mod blocking;
mod fence;
mod fencing;
mod renewal;

use std::time::Duration;

use self::fencing::Fencing;
use crate::answer::{Answer, FenceAnswer, NodeFence};
use crate::clock::ClientInstant;
use crate::outcome::Cause;
use crate::settings::Drift;
use crate::token::Token;
use crate::votes::{Ballot, Identity, NodeIndex, NodeSet, majority};

pub(super) use renewal::RENEWAL_PART;

/// What an attempt is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Number of nodes listed.
    pub nodes: usize,
    /// How many more of them than a majority must agree.
    pub spare_votes: usize,
    /// Length of the lease.
    pub ttl: Duration,
    /// How much longer nodes keep the lock, where it ends without a release.
    pub lock_delay: Duration,
    /// What is taken off for clocks that differ.
    pub drift: Drift,
    /// Validity that must be left when the lock is handed out.
    pub min_validity: Duration,
    /// Where the lock is renewed: what must be left of its lease when a renewal has come back that takes as long as the
    /// votes did.
    pub reserve: Option<Duration>,
}

impl Terms {
    /// How many nodes must agree.
    #[must_use]
    pub const fn quorum(&self) -> usize {
        majority(self.nodes) + self.spare_votes
    }

    /// Whether nodes go on keeping a lock that is lost.
    pub(crate) fn keeps_lost(&self) -> bool {
        !self.lock_delay.is_zero()
    }
}

/// What happens to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AttemptEvent {
    /// A node answered, or is known not to.
    Answered {
        /// Which one.
        node: NodeIndex,
        /// Its answer.
        answer: Answer,
        /// The fence of the name there, where that was asked for.
        fence: Option<NodeFence>,
    },
    /// A node answered a request to take a fence.
    Fenced {
        /// Which one.
        node: NodeIndex,
        /// The fence it was asked to take.
        fence: u64,
        /// Its answer.
        answer: FenceAnswer,
    },
    /// The time last asked for has come (or any other time: a timer may fire early).
    Timer,
    /// The caller gave up.
    Cancel,
}

/// What is to be done for an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AttemptAction {
    /// Ask this node to take the lock.
    Send {
        /// Which one.
        node: NodeIndex,
    },
    /// Ask this node, which has granted the lock, to take this fence for it.
    Fence {
        /// Which one.
        node: NodeIndex,
        /// The fence.
        fence: u64,
    },
    /// Call again at this time, in place of any time named before.
    ArmTimer(ClientInstant),
    /// The attempt is over.
    Decide(Decision),
    /// Release on all nodes, behind anything sent to them before.
    ReleaseEverywhere,
    /// Release on one node that granted after the attempt had failed.
    Release {
        /// Which one.
        node: NodeIndex,
    },
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The lock is held until then.
    Acquired {
        /// End of the validity.
        valid_until: ClientInstant,
    },
    /// Somebody else holds it, or votes were split.
    Busy {
        /// The token most of the refusing nodes named.
        holder: Option<Token>,
    },
    /// Too few nodes can vote.
    NoQuorum,
    /// The majority came too late, for the lock to be valid or to be renewed.
    TimedOut,
    /// The caller gave up.
    Cancelled,
}

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Vote {
    /// Asked, no answer yet, and still waited for until then.
    Awaited(ClientInstant),
    /// Asked, and no longer waited for; a late answer still counts.
    Overdue,
    /// The same, and it was not silent: it is only slower than this attempt may take.
    Left,
    /// Not asked yet; once it is, it is waited for so long.
    Unasked(Duration),
    /// Answered.
    Told(Answer),
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition {
    terms: Terms,
    started: ClientInstant,
    votes: Vec<Vote>,
    /// How long each node is waited for once another one has refused.
    contended: Vec<Duration>,
    is_contended: bool,
    /// When the nodes were asked that were not asked first.
    asked_all: Option<ClientInstant>,
    ballot: Ballot,
    /// The nodes of which it is not known whether their cluster is the one that counts.
    undecided: NodeSet,
    /// When a majority had granted the lock.
    voted: Option<ClientInstant>,
    /// Where a fence is asked for as well.
    fencing: Option<Fencing>,
    decision: Option<Decision>,
    /// How long a majority took for its votes, which came too late to renew the lock.
    took: Option<Duration>,
}

/// How long a node is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// While no node has refused.
    pub most: Duration,
    /// Once one has: what an attempt has taken until then is in the way of others.
    pub contended: Duration,
}

impl Acquisition {
    /// Begins an attempt at `now`, which must be read before anything is sent. `patience` is how
    /// long each node is waited for.
    #[must_use]
    pub fn start(
        terms: Terms,
        now: ClientInstant,
        patience: impl Fn(NodeIndex) -> Duration,
        actions: &mut Vec<AttemptAction>,
    ) -> Self {
        let patience = |node| Patience {
            most: patience(node),
            contended: patience(node),
        };
        Self::start_with(terms, now, |_| true, patience, actions)
    }

    /// The same, but some nodes are asked first, and the others, which must be fewer than a
    /// majority, as soon as one of the first has granted.
    #[must_use]
    pub fn start_with(
        terms: Terms,
        now: ClientInstant,
        is_first: impl Fn(NodeIndex) -> bool,
        patience: impl Fn(NodeIndex) -> Patience,
        actions: &mut Vec<AttemptAction>,
    ) -> Self {
        let vote = |node| match is_first(node) {
            true => Vote::Awaited(now.after(patience(node).most)),
            false => Vote::Unasked(patience(node).most),
        };
        let votes = (0..terms.nodes).map(vote).collect();
        let contended = (0..terms.nodes).map(|node| patience(node).contended);
        let contended = contended.collect();
        let first = (0..terms.nodes).filter(|node| is_first(*node));
        actions.extend(first.map(|node| AttemptAction::Send { node }));
        let ballot = Ballot::default();
        let attempt = Self {
            terms,
            started: now,
            votes,
            contended,
            is_contended: false,
            asked_all: None,
            ballot,
            undecided: NodeSet::default(),
            voted: None,
            fencing: None,
            decision: None,
            took: None,
        };
        actions.push(AttemptAction::ArmTimer(attempt.next_time()));
        attempt
    }

    fn tick(&mut self, now: ClientInstant) {
        for vote in &mut self.votes {
            if matches!(vote, Vote::Awaited(until) if now.has_reached(*until)) {
                *vote = Vote::Overdue;
            }
        }
        if let Some(fencing) = &mut self.fencing {
            fencing.tick(now);
        }
    }

    /// Takes an event in. `now` must be read after the event happened.
    pub fn handle(
        &mut self,
        now: ClientInstant,
        event: AttemptEvent,
        actions: &mut Vec<AttemptAction>,
    ) {
        match event {
            AttemptEvent::Answered {
                node,
                answer,
                fence,
            } => {
                self.note_fence(node, &answer, fence);
                self.take_answer(node, answer, actions);
            }
            AttemptEvent::Fenced {
                node,
                fence,
                answer,
            } => self.take_fence_answer(node, fence, answer),
            AttemptEvent::Timer => self.tick(now),
            AttemptEvent::Cancel if self.decision.is_none() => {
                return self.decide(Decision::Cancelled, actions);
            }
            AttemptEvent::Cancel => {}
        }
        if self.decision.is_none() {
            if self.ballot.distinct() > 0 {
                self.ask_all(now, actions);
            }
            self.hurry(now);
            match self.judge_with_fence(now, actions) {
                Some(decision) => {
                    let has_majority = self.ballot.distinct() >= self.terms.quorum();
                    let is_late = has_majority && decision == Decision::TimedOut;
                    let is_measure = is_late && self.terms.reserve.is_some();
                    self.took = is_measure.then(|| self.votes_took(now));
                    self.decide(decision, actions);
                }
                None => actions.push(AttemptAction::ArmTimer(self.next_time())),
            }
        }
    }

    /// Takes back the votes of nodes that have none, as is known now, each for this reason. To be called before an event, as long
    /// as nothing is decided.
    pub(crate) fn take_back(&mut self, why_not: impl Fn(NodeIndex, &Identity) -> Option<Cause>) {
        for (node, vote) in self.votes.iter_mut().enumerate() {
            if let Some(cause) = self.ballot.of(node).and_then(|by| why_not(node, by)) {
                *vote = Vote::Told(Answer::Not(cause));
                self.ballot.remove(node);
                if let Some(fencing) = &mut self.fencing {
                    fencing.withdraw(node);
                }
            }
        }
        if self.ballot.distinct() < self.terms.quorum() {
            self.voted = None;
        }
    }

    /// Of which nodes it is not known, as is known now, whether their cluster counts. To be called before an event.
    pub(crate) fn note_undecided(&mut self, is_undecided: impl Fn(NodeIndex) -> bool) {
        self.undecided = NodeSet::default();
        for node in (0..self.votes.len()).filter(|node| is_undecided(*node)) {
            self.undecided.insert(node);
        }
    }

    /// Whether this node has not answered, and its time is up.
    pub(crate) fn is_due(&self, node: NodeIndex, now: ClientInstant) -> bool {
        matches!(self.votes.get(node), Some(Vote::Awaited(until)) if now.has_reached(*until))
    }

    /// This node goes on answering what was sent before: its time is up only then, unless another node has refused or the
    /// attempt must not last longer.
    pub(crate) fn spare(&mut self, node: NodeIndex, until: ClientInstant, is_cut: bool) {
        self.votes[node] = match is_cut || self.is_contended {
            true => Vote::Left,
            false => Vote::Awaited(until),
        };
    }

    /// When the attempt began.
    pub(crate) fn started(&self) -> ClientInstant {
        self.started
    }

    /// Votes for us, by node.
    pub(crate) fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// Whether a node has refused without a holder's token, though it tells tokens: readers have the lock there.
    pub(crate) fn is_behind_readers(&self) -> bool {
        let of_readers =
            |vote: &Vote| matches!(vote, Vote::Told(Answer::Busy { holder: None, .. }));
        self.votes.iter().any(of_readers)
    }

    /// What is known of each node.
    pub(crate) fn votes(&self) -> &[Vote] {
        &self.votes
    }

    /// How long a majority took for its votes, where that left too little of the lease to renew it.
    pub(crate) fn took(&self) -> Option<Duration> {
        self.took
    }

    /// What it is about.
    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }

    /// Whether every node has answered.
    pub(crate) fn is_complete(&self) -> bool {
        self.votes.iter().all(|vote| matches!(vote, Vote::Told(_)))
    }

    /// What the attempt came to, once it is over.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    fn take_answer(&mut self, node: NodeIndex, answer: Answer, actions: &mut Vec<AttemptAction>) {
        if let Answer::Granted(identity) = &answer {
            let failed = !matches!(self.decision, None | Some(Decision::Acquired { .. }));
            if failed {
                actions.push(AttemptAction::Release { node });
            } else {
                self.ballot.add(node, identity.clone());
            }
        }
        if let Some(vote) = self.votes.get_mut(node) {
            *vote = Vote::Told(answer);
        }
    }

    /// Where a node has refused, the others are waited for no longer than usual.
    fn hurry(&mut self, now: ClientInstant) {
        let is_refusal = |vote: &Vote| matches!(vote, Vote::Told(Answer::Busy { .. }));
        if self.is_contended || !self.votes.iter().any(is_refusal) {
            return;
        }
        self.is_contended = true;
        for (vote, contended) in self.votes.iter_mut().zip(&self.contended) {
            match vote {
                Vote::Awaited(until) => *until = until.earlier(now.after(*contended)),
                Vote::Unasked(patience) => *patience = (*patience).min(*contended),
                Vote::Overdue | Vote::Left | Vote::Told(_) => {}
            }
        }
    }

    fn ask_all(&mut self, now: ClientInstant, actions: &mut Vec<AttemptAction>) {
        for (node, vote) in self.votes.iter_mut().enumerate() {
            if let Vote::Unasked(patience) = *vote {
                *vote = Vote::Awaited(now.after(patience));
                self.asked_all = Some(now);
                actions.push(AttemptAction::Send { node });
            }
        }
    }

    fn judge(&self, now: ClientInstant) -> Option<Decision> {
        let quorum = self.terms.quorum();
        let yes = self.ballot.distinct();
        let valid_until = self.valid_until();
        let left = now.until(valid_until);
        let too_late = left.is_zero() || left < self.terms.min_validity;
        if too_late {
            return Some(Decision::TimedOut);
        }
        if yes >= quorum {
            return Some(match self.can_be_renewed(now) {
                true => Decision::Acquired { valid_until },
                false => Decision::TimedOut,
            });
        }
        let is_awaited = |vote: &&Vote| matches!(vote, Vote::Awaited(_));
        let is_unasked = |vote: &&Vote| matches!(vote, Vote::Unasked(_));
        let awaited = self.votes.iter().filter(is_awaited).count();
        let unasked = self.votes.iter().filter(is_unasked).count();
        // The others are asked only when one of the first grants.
        let may_go_on = yes + awaited > 0;
        if may_go_on && yes + awaited + unasked >= quorum {
            return None;
        }
        let (mut present, mut are_unclear) = (self.ballot.clone(), false);
        for (node, vote) in self.votes.iter().enumerate() {
            if let Vote::Told(Answer::Busy { by, .. }) = vote {
                match self.undecided.contains(node) {
                    true => are_unclear = true,
                    false => present.add(node, by.clone()),
                }
            }
        }
        // A node that is waited for may be the one that shows whose refusals count.
        if are_unclear && awaited > 0 {
            return None;
        }
        let left = self.votes.iter().filter(|vote| **vote == Vote::Left);
        let others = awaited + unasked + left.count();
        // Nodes that refuse because they hold the lock for somebody work, and so do those that are only slow; only
        // when too few work is it a matter of quorum.
        let is_busy = present.distinct() > yes && present.distinct() + others >= quorum;
        Some(if is_busy {
            Decision::Busy {
                holder: self.holder(),
            }
        } else {
            Decision::NoQuorum
        })
    }

    fn decide(&mut self, decision: Decision, actions: &mut Vec<AttemptAction>) {
        let failed = !matches!(decision, Decision::Acquired { .. });
        self.decision = Some(decision.clone());
        actions.push(AttemptAction::Decide(decision));
        if failed {
            actions.push(AttemptAction::ReleaseEverywhere);
        }
    }

    fn valid_until(&self) -> ClientInstant {
        self.started
            .after(self.terms.drift.validity(self.terms.ttl))
    }

    fn next_time(&self) -> ClientInstant {
        let mut next = self.valid_until().before(self.terms.min_validity);
        if !self.terms.min_validity.is_zero() {
            // With just that much left the lock may still be handed out.
            next = next.after(Duration::from_nanos(1));
        }
        for vote in &self.votes {
            if let Vote::Awaited(until) = vote {
                next = next.earlier(*until);
            }
        }
        let fencing = self.fencing.as_ref().and_then(Fencing::next_time);
        fencing.map_or(next, |at| next.earlier(at))
    }
}

#[cfg(test)]
mod tests;
