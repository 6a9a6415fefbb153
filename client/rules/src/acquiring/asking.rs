//! An attempt under way: its requests to the nodes, their answers, and its timer.
//!
//! Invariant: answers to the requests of other attempts are not among its events. What it decides is the attempt's
//! own; what follows from that is not its concern.

use std::rc::Rc;
use std::time::Duration;

use crate::acquisition::{Acquisition, AttemptAction, AttemptEvent, Decision, Patience, Terms};
use crate::answer::{Answer, Content};
use crate::call::AcquireCall;
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::held::Held;
use crate::holding::loss_margin;
use crate::link::request::{Kind, Subject};
use crate::outcome::Cause;
use crate::register::Register;
use crate::round::ATTEMPT_BIT;
use crate::step::Input;
use crate::token::Token;
use crate::votes::{Identity, NodeIndex};

#[derive(Debug)]
pub(super) struct Asking {
    pub(super) attempt: Acquisition,
    pub(super) timer: ClientInstant,
    /// Whether the wait's end left it less time than its nodes may need.
    pub(super) is_cut: bool,
    round: u32,
    /// How the nodes are asked for the lock.
    take: Kind,
    subject: Rc<Subject>,
}

impl Asking {
    /// Begins the attempt of this number, with a token that no attempt has had. No node is waited for longer than `patience_max`.
    pub(super) fn start(
        call: &AcquireCall,
        token: Token,
        number: u32,
        patience_max: Duration,
        context: &mut Context<'_>,
    ) -> Self {
        let ttl = call.ttl;
        let is_cut = patience_max < context.patience(ttl);
        let kept = match call.is_shared {
            true => ttl,
            false => ttl.saturating_add(call.lock_delay),
        };
        let lock = (call.name.clone(), token);
        let subject = Subject::to_take(call.is_shared, lock, (ttl, kept), call.text.clone());
        let terms = Terms {
            nodes: context.nodes(),
            spare_votes: context.settings.spare_votes,
            ttl,
            lock_delay: call.lock_delay,
            drift: context.settings.drift,
            min_validity: call.min_validity,
            reserve: call.renews.then(|| call.reserve.max(loss_margin(ttl))),
        };
        let mut actions = Vec::with_capacity(terms.nodes + 1);
        let (links, now) = (&context.links, context.now);
        let patience = |node: usize| {
            let most = links[node].patience(ttl, now).min(patience_max);
            let contended = links[node]
                .contended_patience()
                .map_or(most, |usual| usual.min(most));
            Patience { most, contended }
        };
        // The time was read before the first byte is sent: the nodes' leases begin later.
        let first = context.refusals.first(&call.name, context.now);
        // Asking in two rounds, and renewing in a third, takes a lease that is long enough for them.
        let first = first.filter(|_| context.round_trip().saturating_mul(3) < ttl);
        let is_first = |node| first.is_none_or(|first| first.contains(node));
        let mut attempt = Acquisition::start_with(terms, now, is_first, patience, &mut actions);
        let name = call.name.single();
        let guess = name.and_then(|name| context.fences.guess(name));
        if call.is_fenced {
            attempt.ask_fence(guess);
        }
        let take = match call.is_fenced {
            true => Kind::TakeFenced { guess },
            false => Kind::Take,
        };
        let mut asking = Self {
            timer: attempt.started(),
            attempt,
            is_cut,
            round: number | ATTEMPT_BIT,
            subject,
            take,
        };
        asking.act(actions, context);
        asking
    }

    /// Takes an event in. Says what the attempt has come to, if that was decided now.
    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Option<Decision> {
        let event = self.event(input)?;
        if event == AttemptEvent::Timer {
            self.spare(context);
        }
        let mut actions = Vec::new();
        let (now, attempt) = (context.now, &mut self.attempt);
        take_in(attempt, context.register, now, event, &mut actions);
        self.act(actions, context)
    }

    /// A node whose time is up and that is not silent is waited for as long as it goes on answering; where that is in the
    /// way of others, or the wait is over, it is at least not taken for silent.
    fn spare(&mut self, context: &Context<'_>) {
        let now = context.now;
        let (sent, ttl) = (self.attempt.started(), self.attempt.terms().ttl);
        for (node, link) in context.links.iter().enumerate() {
            if self.attempt.is_due(node, now)
                && let Some(until) = link.answers_until(sent, ttl, now)
            {
                self.attempt.spare(node, until, self.is_cut);
            }
        }
    }

    /// The caller is gone. Gives what is to be released on all nodes, if anything was asked for.
    pub(super) fn cancel(&mut self, now: ClientInstant) -> Option<Rc<Subject>> {
        let mut actions = Vec::new();
        let attempt = &mut self.attempt;
        attempt.handle(now, AttemptEvent::Cancel, &mut actions);
        let releases = actions.contains(&AttemptAction::ReleaseEverywhere);
        releases.then(|| self.subject())
    }

    /// What is taken.
    pub(super) fn subject(&self) -> Rc<Subject> {
        Rc::clone(&self.subject)
    }

    /// The lock, if the attempt has acquired it.
    pub(super) fn into_held(self, call: &AcquireCall, now: ClientInstant) -> Option<Held> {
        let Some(&Decision::Acquired { valid_until }) = self.attempt.decision() else {
            return None;
        };
        let (subject, round) = (self.subject, self.round);
        let attempt = &self.attempt;
        Some(Held::start(attempt, now, subject, valid_until, round, call))
    }

    /// What an event means for the attempt; nothing if it belongs to another one.
    fn event(&self, input: Input) -> Option<AttemptEvent> {
        match input {
            Input::Timer => Some(AttemptEvent::Timer),
            Input::Reply(reply) if reply.round == self.round => {
                let node = reply.node;
                match reply.content {
                    Content::Taken(answer, fence) => Some(AttemptEvent::Answered {
                        node,
                        answer,
                        fence,
                    }),
                    Content::Fenced(fence, answer) => Some(AttemptEvent::Fenced {
                        node,
                        fence,
                        answer,
                    }),
                    _ => None,
                }
            }
            Input::Reply(_) => None,
        }
    }

    fn act(&mut self, actions: Vec<AttemptAction>, context: &mut Context<'_>) -> Option<Decision> {
        let mut decision = None;
        for action in actions {
            match action {
                AttemptAction::Send { node } => {
                    context.ask(node, self.take, &self.subject, self.round);
                }
                AttemptAction::Fence { node, fence } => {
                    context.ask(node, Kind::Fence(fence), &self.subject, self.round);
                }
                AttemptAction::ArmTimer(at) => self.timer = at,
                AttemptAction::Decide(decided) => decision = Some(decided),
                AttemptAction::ReleaseEverywhere | AttemptAction::Release { .. } => {
                    context.release_everywhere(&self.subject);
                }
            }
        }
        decision
    }
}

/// Takes an event into an attempt, which is judged by what is known of the nodes' clusters now. What a node has granted that has
/// no vote is freed with the rest if the attempt fails, and is an extra of the lock otherwise.
fn take_in(
    attempt: &mut Acquisition,
    register: &Register,
    now: ClientInstant,
    mut event: AttemptEvent,
    actions: &mut Vec<AttemptAction>,
) {
    // A grant that comes when the attempt has failed is freed for itself.
    if attempt.decision().is_none() {
        attempt.take_back(|node, by| no_vote(register, node, by));
        attempt.note_undecided(|node| register.undecided(node).is_some());
        if let AttemptEvent::Answered { node, answer, .. } = &mut event
            && let Answer::Granted(by) = answer
            && let Some(cause) = no_vote(register, *node, by)
        {
            *answer = Answer::Not(cause);
        }
    }
    attempt.handle(now, event, actions);
}

/// Why a grant that this node gave is no vote, whenever it came: the node would not be asked now, or names another cluster now than
/// then while none has a majority.
fn no_vote(register: &Register, node: NodeIndex, by: &Identity) -> Option<Cause> {
    let is_renamed = |cause: &Cause| matches!(cause, Cause::MixedClusters { cluster, .. } if *cluster != by.cluster);
    let undecided = || register.undecided(node).filter(is_renamed);
    register.outsider(node).or_else(undecided)
}

#[cfg(test)]
#[path = "asking_tests.rs"]
mod tests;
