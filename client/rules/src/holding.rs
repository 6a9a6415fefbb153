//! A lock that is held: renewal, healing, loss. A state machine without clock and I/O.
//!
//! Invariants: the validity only moves forward, and only when a majority of distinct nodes renewed
//! it before the old one ended, in one round or in several together. A loss is final. After a loss or a
//! release nothing is renewed or taken any more.

mod grant;
mod late;
mod round;

use std::time::Duration;

use self::grant::{GrantState, holders, without_lock};
use self::late::Late;
use self::round::{Healing, RenewalRound};
use crate::acquisition::{Acquisition, RENEWAL_PART, Terms, Vote};
use crate::answer::{Answer, ExtendAnswer};
use crate::clock::ClientInstant;
use crate::outcome::{Cause, Loss, NodeAnswer};
use crate::votes::NodeIndex;

/// What happens to a lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HoldingEvent {
    /// The time last asked for has come (or any other time: a timer may fire early).
    Timer,
    /// The owner wants to renew now.
    Extend,
    /// The owner is done, or gone.
    Release,
    /// A node answered an extension.
    Extended {
        /// Which one.
        node: NodeIndex,
        /// The round it answers.
        round: u32,
        /// Its answer.
        answer: ExtendAnswer,
    },
    /// A node answered a request to take the lock: a straggler of the acquisition (round 0), or
    /// one that is being healed.
    Taken {
        /// Which one.
        node: NodeIndex,
        /// The round it answers.
        round: u32,
        /// Its answer.
        answer: Answer,
    },
}

/// What is to be done for a lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HoldingAction {
    /// Ask this node to extend the lock.
    Extend {
        /// Which one.
        node: NodeIndex,
        /// To be handed back with the answer.
        round: u32,
    },
    /// Ask this node to take the lock under the same token.
    Take {
        /// Which one.
        node: NodeIndex,
        /// To be handed back with the answer.
        round: u32,
    },
    /// Call again at this time, in place of any time named before.
    ArmTimer(ClientInstant),
    /// The validity has moved on.
    Renewed {
        /// Its new end.
        valid_until: ClientInstant,
    },
    /// This round found no majority; the old validity still counts.
    NotRenewed,
    /// The lock is lost, for good.
    Lost(Loss),
    /// Release on all nodes, behind anything sent to them before.
    ReleaseEverywhere,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    terms: Terms,
    /// The longest that any node may keep what it granted.
    longest: Duration,
    renews: bool,
    ends_at: Option<ClientInstant>,
    valid_until: ClientInstant,
    next_renewal: ClientInstant,
    grants: Vec<GrantState>,
    /// The last round; that of the acquisition is number 0.
    round: RenewalRound,
    /// What rounds before it still bring.
    late: Late,
    healing: Healing,
    end: Option<Loss>,
}

impl Holding {
    /// Goes on from an attempt that acquired the lock, at `now`. `terms` are those of the renewals.
    #[must_use]
    pub fn start(
        attempt: &Acquisition,
        terms: Terms,
        valid_until: ClientInstant,
        now: ClientInstant,
        renews: bool,
        max_lifetime: Option<Duration>,
        actions: &mut Vec<HoldingAction>,
    ) -> Self {
        let longest = terms.ttl.max(attempt.terms().ttl);
        let longest = longest.saturating_add(terms.lock_delay);
        let grants = attempt.votes().iter().map(|vote| match vote {
            Vote::Told(Answer::Granted(identity)) => GrantState::Held {
                identity: identity.clone(),
                confirmed: now,
            },
            _ => GrantState::Open,
        });
        let ends_at = max_lifetime.map(|lifetime| attempt.started().after(lifetime));
        let mut holding = Self {
            terms,
            longest,
            renews,
            ends_at,
            valid_until,
            next_renewal: attempt.started().after(terms.ttl / RENEWAL_PART),
            grants: grants.collect(),
            round: RenewalRound::of_attempt(attempt),
            late: Late::default(),
            healing: Healing::default(),
            end: None,
        };
        holding.valid_until = holding.capped(valid_until);
        actions.push(HoldingAction::ArmTimer(holding.next_time()));
        holding
    }

    /// Takes an event in. `now` must be read after the event happened. `patience` is how long the
    /// nodes are waited for if a round of extensions begins.
    pub fn handle(
        &mut self,
        now: ClientInstant,
        patience: Duration,
        event: HoldingEvent,
        actions: &mut Vec<HoldingAction>,
    ) {
        if self.end.is_some() {
            return;
        }
        // What ended before is not released any more where others have to wait for the lock delay.
        let is_over = self.terms.keeps_lost() && now.has_reached(self.valid_until);
        if event == HoldingEvent::Release && !is_over {
            return self.end(Loss::Released, actions);
        }
        // The deadline comes before anything an event could bring: what arrives now is too late.
        if now.has_reached(self.lost_at()) {
            let had_majority = self.round.would_settle(&event, self.terms.quorum());
            let loss = match self.ends_at {
                Some(ends_at) if now.has_reached(self.margin_before(ends_at)) => Loss::MaxLifetime,
                _ if had_majority => Loss::Late,
                _ => Loss::Expired,
            };
            return self.end(loss, actions);
        }
        match event {
            HoldingEvent::Timer => self.expire_round(now, actions),
            HoldingEvent::Extend => {
                if self.round.is_settled {
                    self.begin_round(now, patience, actions);
                }
            }
            HoldingEvent::Extended {
                node,
                round,
                answer,
            } => {
                self.take_extension(now, node, round, answer, actions);
            }
            HoldingEvent::Taken {
                node,
                round,
                answer,
            } => {
                self.take_vote(now, node, round, answer);
            }
            HoldingEvent::Release => {}
        }
        self.settle(now, actions);
        if self.end.is_none() {
            let is_due = self.renews && now.has_reached(self.next_renewal);
            if is_due && self.round.is_settled {
                self.begin_round(now, patience, actions);
            }
            self.heal(now, actions);
            actions.push(HoldingAction::ArmTimer(self.next_time()));
        }
    }

    /// End of the validity.
    #[must_use]
    pub fn valid_until(&self) -> ClientInstant {
        self.valid_until
    }

    /// Why the lock is no longer held, once it is not.
    #[must_use]
    pub fn ended(&self) -> Option<&Loss> {
        self.end.as_ref()
    }

    /// What each node answered in the last round of extensions.
    pub(crate) fn answers(&self) -> impl Iterator<Item = NodeAnswer> {
        (0..self.terms.nodes).map(|node| {
            let told = self.round.answers.get(node).cloned().flatten();
            told.unwrap_or(NodeAnswer::Not(Cause::Silent))
        })
    }

    fn begin_round(
        &mut self,
        now: ClientInstant,
        patience: Duration,
        actions: &mut Vec<HoldingAction>,
    ) {
        if self.round.renewed.distinct() < self.terms.quorum() {
            self.late.follow(&self.round);
        }
        self.round = self.round.next(now, patience);
        self.healing = Healing::default();
        let round = self.round.number;
        let nodes = 0..self.terms.nodes;
        actions.extend(nodes.map(|node| HoldingAction::Extend { node, round }));
    }

    /// Asks the nodes again that did not renew, before the next round does: a node that has come
    /// back is needed as soon as the next one goes. While a round still waits for a majority, those are asked again
    /// that somebody else had: an attempt of others ends soon, silent nodes may answer too late.
    ///
    /// An answer counts in the round it was asked for, which began earlier. A node is asked again
    /// only when it has answered.
    fn heal(&mut self, now: ClientInstant, actions: &mut Vec<HoldingAction>) {
        let round = &mut self.round;
        let is_renewed = round.renewed.distinct() >= self.terms.quorum();
        let has_failed = round.is_settled && !is_renewed;
        if !self.renews || has_failed {
            return self.healing.pause();
        }
        let grants = &self.grants;
        let is_wanted = |node: NodeIndex| round.is_settled || round.is_busy(node);
        let may_heal = |node: &NodeIndex| {
            !round.is_awaited(*node) && is_wanted(*node) && grants[*node].may_heal(now)
        };
        let missing: Vec<NodeIndex> = round.not_renewed().filter(may_heal).collect();
        if missing.is_empty() {
            return self.healing.pause();
        }
        let is_contended = missing.iter().any(|node| round.is_busy(*node));
        if !self.healing.is_due(now, self.terms.ttl, is_contended) {
            return;
        }
        for node in missing {
            round.awaited.insert(node);
            let round = round.number;
            actions.push(HoldingAction::Extend { node, round });
        }
    }

    fn take_extension(
        &mut self,
        now: ClientInstant,
        node: NodeIndex,
        number: u32,
        answer: ExtendAnswer,
        actions: &mut Vec<HoldingAction>,
    ) {
        let lease = self.lease();
        let Some(grant) = self.grants.get_mut(node) else {
            return;
        };
        let mut wants_take = false;
        let mut told = NodeAnswer::Granted;
        let mut renewed = None;
        match answer {
            ExtendAnswer::Extended(identity) => {
                *grant = GrantState::Held {
                    identity: identity.clone(),
                    confirmed: now,
                };
                renewed = Some(identity);
            }
            ExtendAnswer::Gone(identity) => {
                self.late.withdraw(node);
                told = NodeAnswer::Not(Cause::NotOurs);
                *grant = without_lock(grant, identity, now, lease);
                wants_take = match grant {
                    GrantState::Restarted => true,
                    // It may be somebody's release of the lock on all nodes, which comes to this one as well.
                    GrantState::Open => !self.is_withdrawn_anywhere(now),
                    _ => false,
                };
            }
            ExtendAnswer::Other(identity) => {
                self.late.withdraw(node);
                told = NodeAnswer::Busy { holder: None };
                *grant = match without_lock(grant, identity.clone(), now, lease) {
                    // Somebody took the node after it had forgotten us.
                    GrantState::Restarted => GrantState::Withdrawn {
                        identity,
                        until: now.after(lease),
                    },
                    grant => grant,
                };
            }
            ExtendAnswer::Not(cause) => told = NodeAnswer::Not(cause),
        }
        let Some(round) = self.round.numbered(number) else {
            if let Some(by) = renewed {
                self.late.renewed(node, by, number);
            }
            return;
        };
        round.answers[node] = Some(told);
        if wants_take && !now.has_reached(self.valid_until) {
            actions.push(HoldingAction::Take {
                node,
                round: number,
            });
            return;
        }
        round.awaited.remove(node);
        if let Some(identity) = renewed {
            round.renewed.add(node, identity);
        }
    }

    /// Whether somebody has removed the lock from a node on purpose, a lease ago at most.
    fn is_withdrawn_anywhere(&self, now: ClientInstant) -> bool {
        self.grants.iter().any(|grant| !grant.may_heal(now))
    }

    fn take_vote(&mut self, now: ClientInstant, node: NodeIndex, number: u32, answer: Answer) {
        let forgotten = now.after(self.lease());
        let Some(grant) = self.grants.get_mut(node) else {
            return;
        };
        let told = match &answer {
            Answer::Granted(identity) => {
                *grant = GrantState::Held {
                    identity: identity.clone(),
                    confirmed: now,
                };
                NodeAnswer::Granted
            }
            Answer::Busy { by, holder } => {
                if *grant == GrantState::Restarted {
                    *grant = GrantState::Withdrawn {
                        identity: by.clone(),
                        until: forgotten,
                    };
                }
                NodeAnswer::Busy {
                    holder: holder.clone(),
                }
            }
            Answer::Not(cause) => NodeAnswer::Not(cause.clone()),
        };
        let Some(round) = self.round.numbered(number) else {
            return;
        };
        round.awaited.remove(node);
        round.answers[node] = Some(told);
        if let Answer::Granted(identity) = answer {
            // It was sent after the round began, so it lasts at least as long as an extension.
            round.renewed.add(node, identity);
        }
    }

    fn settle(&mut self, now: ClientInstant, actions: &mut Vec<HoldingAction>) {
        let quorum = self.terms.quorum();
        if holders(&self.grants, true).distinct() < quorum {
            return self.end(Loss::BelowMajority, actions);
        }
        let validity = self.terms.drift.validity(self.terms.ttl);
        let round = &mut self.round;
        if round.renewed.distinct() >= quorum {
            let until = round.started.after(validity);
            let next_renewal = round.started.after(self.terms.ttl / RENEWAL_PART);
            let is_first = !round.is_settled || self.next_renewal != next_renewal;
            round.is_settled = true;
            self.late.clear();
            if is_first {
                self.next_renewal = next_renewal;
                self.move_on(now, until);
                actions.push(HoldingAction::Renewed {
                    valid_until: self.valid_until,
                });
            }
            return;
        }
        if let Some(since) = self.late.held_since(round, quorum)
            && self.move_on(now, since.after(validity))
        {
            actions.push(HoldingAction::Renewed {
                valid_until: self.valid_until,
            });
        }
        let round = &mut self.round;
        if !round.is_settled && !round.may_find(quorum) {
            round.is_settled = true;
            self.fail_round(now, actions);
        }
    }

    /// Moves the validity on, if that is forward: both clocks' parts, whatever the order of rounds.
    fn move_on(&mut self, now: ClientInstant, until: ClientInstant) -> bool {
        let until = self.capped(until);
        let is_forward = !self.valid_until.has_reached(until);
        if is_forward {
            let is_over = now.has_reached(self.valid_until);
            debug_assert!(!is_over, "what has ended is not renewed");
            self.valid_until = until;
        }
        is_forward
    }

    fn expire_round(&mut self, now: ClientInstant, actions: &mut Vec<HoldingAction>) {
        if !self.round.is_settled && now.has_reached(self.round.deadline) {
            self.round.is_settled = true;
            self.fail_round(now, actions);
        }
    }

    /// The next try comes soon, but backs off even close to the end.
    fn fail_round(&mut self, now: ClientInstant, actions: &mut Vec<HoldingAction>) {
        let left = now.until(self.valid_until);
        let pause = (left / 8)
            .clamp(RETRY_MIN, RETRY_MAX)
            .min(self.terms.ttl / 3);
        self.next_renewal = now.after(pause);
        actions.push(HoldingAction::NotRenewed);
    }

    fn end(&mut self, loss: Loss, actions: &mut Vec<HoldingAction>) {
        let is_loss = loss != Loss::Released;
        self.end = Some(loss.clone());
        if is_loss {
            actions.push(HoldingAction::Lost(loss));
        }
        // After a loss the nodes keep the lock, so that nobody has it before the delay is over.
        if !is_loss || !self.terms.keeps_lost() {
            actions.push(HoldingAction::ReleaseEverywhere);
        }
    }

    fn capped(&self, until: ClientInstant) -> ClientInstant {
        self.ends_at.map_or(until, |ends_at| until.earlier(ends_at))
    }

    /// How long a node may hold what it has confirmed, on this client's clock.
    fn lease(&self) -> Duration {
        let drift = self.terms.drift.of(self.longest);
        self.longest.saturating_add(drift)
    }

    /// The loss is told a little early, so that there is time to act on it.
    fn lost_at(&self) -> ClientInstant {
        self.margin_before(self.valid_until)
    }

    fn margin_before(&self, until: ClientInstant) -> ClientInstant {
        until.before(loss_margin(self.terms.ttl))
    }

    fn next_time(&self) -> ClientInstant {
        let mut next = self.lost_at();
        if !self.round.is_settled {
            next = next.earlier(self.round.deadline);
        } else if self.renews {
            next = next.earlier(self.next_renewal);
        }
        self.healing.at().map_or(next, |at| next.earlier(at))
    }
}

/// How long before its validity ends a lock counts as lost.
pub(super) fn loss_margin(ttl: Duration) -> Duration {
    (ttl / 50).min(LOSS_MARGIN_MAX)
}

const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(1);
const LOSS_MARGIN_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
