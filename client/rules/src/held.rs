//! A lock that is held by a guard: [`Holding`] carried out.
//!
//! Invariant: this alone renews and releases its lock, so no renewal can follow a release. It ends
//! the lock when the guard is gone, whatever happened to the program that had it.

use std::rc::Rc;
use std::sync::Arc;

use crate::OperationId;
use crate::acquisition::Acquisition;
use crate::action::Action;
use crate::answer::Content;
use crate::call::{AcquireCall, Extended, Outcome};
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::holding::{Holding, HoldingAction, HoldingEvent};
use crate::link::request::{Kind, Subject};
use crate::outcome::{ExtendError, Loss, NodeReport};
use crate::round::ATTEMPT_BIT;
use crate::step::{Input, Step};

#[derive(Debug)]
pub(super) struct Held {
    pub(super) subject: Rc<Subject>,
    holding: Holding,
    pub(super) timer: ClientInstant,
    /// The round in which the lock was taken: its stragglers are votes.
    taken_in: u32,
    /// The fence of the lock, which nodes that it has missed take with it.
    fence: Option<u64>,
    extenders: Vec<OperationId>,
}

impl Held {
    pub(super) fn start(
        attempt: &Acquisition,
        now: ClientInstant,
        subject: Rc<Subject>,
        valid_until: ClientInstant,
        taken_in: u32,
        call: &AcquireCall,
    ) -> Self {
        let mut actions = Vec::new();
        let (renews, lifetime) = (call.renews, call.max_lifetime);
        let holding = Holding::start(
            attempt,
            attempt.terms(),
            valid_until,
            now,
            renews,
            lifetime,
            &mut actions,
        );
        let timer = actions.iter().find_map(|action| match action {
            HoldingAction::ArmTimer(at) => Some(*at),
            _ => None,
        });
        Self {
            subject,
            holding,
            timer: timer.unwrap_or(valid_until),
            taken_in,
            fence: attempt.fence(),
            extenders: Vec::new(),
        }
    }

    pub(super) fn valid_until(&self) -> ClientInstant {
        self.holding.valid_until()
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        let event = match input {
            Input::Timer => HoldingEvent::Timer,
            Input::Reply(reply) => {
                let (node, round) = (reply.node, reply.round);
                match reply.content {
                    // An earlier attempt had another token, and its release is on its way.
                    Content::Taken(..) if round & ATTEMPT_BIT != 0 && round != self.taken_in => {
                        return Step::GoesOn;
                    }
                    Content::Taken(answer, _) => HoldingEvent::Taken {
                        node,
                        round: if round == self.taken_in { 0 } else { round },
                        answer,
                    },
                    Content::Extended(answer) => HoldingEvent::Extended {
                        node,
                        round,
                        answer,
                    },
                    _ => return Step::GoesOn,
                }
            }
        };
        self.step(event, context)
    }

    /// The owner wants to renew now, and is told what comes of it.
    pub(super) fn renew(&mut self, asker: OperationId, context: &mut Context<'_>) -> Step {
        self.extenders.push(asker);
        self.step(HoldingEvent::Extend, context)
    }

    /// The owner is done: nothing is renewed any more. Says whether the lock is to be released, which is left to the
    /// caller; one that was lost before stays on the nodes for its lock delay.
    pub(super) fn end(&mut self, context: &mut Context<'_>) -> bool {
        let patience = context.patience(self.subject.ttl);
        let (now, mut actions) = (context.now, Vec::new());
        self.holding
            .handle(now, patience, HoldingEvent::Release, &mut actions);
        let loss = self.holding.ended().unwrap_or(&Loss::Released).clone();
        self.tell_loss(&loss, context);
        actions.contains(&HoldingAction::ReleaseEverywhere)
    }

    fn step(&mut self, event: HoldingEvent, context: &mut Context<'_>) -> Step {
        // A round that fails is followed by another one before the lease is over.
        let ttl = self.subject.ttl;
        let longest = context.round_trip().max(ttl / 3);
        let patience = context.patience(ttl).min(longest);
        let mut actions = Vec::new();
        self.holding
            .handle(context.now, patience, event, &mut actions);
        let mut step = Step::GoesOn;
        for action in actions {
            match action {
                HoldingAction::Extend { node, round } => {
                    context.ask(node, Kind::Extend, &self.subject, round);
                }
                HoldingAction::Take { node, round } => {
                    let kind = self.fence.map_or(Kind::Take, Kind::Retake);
                    context.ask(node, kind, &self.subject, round);
                }
                HoldingAction::ArmTimer(at) => self.timer = at,
                HoldingAction::Renewed { valid_until } => {
                    let held = context.operation;
                    context.actions.push(Action::Renewed { held, valid_until });
                    let extended = Extended {
                        valid_until,
                        kept_until: None,
                    };
                    for asker in self.extenders.drain(..) {
                        context.tell_other(asker, Outcome::Extended(Ok(extended)));
                    }
                }
                HoldingAction::NotRenewed => {
                    let held = context.operation;
                    context.actions.push(Action::RenewalFailing { held });
                    self.tell_not_renewed(context);
                }
                HoldingAction::Lost(loss) => {
                    self.tell_loss(&loss, context);
                    step = Step::Ended;
                }
                HoldingAction::ReleaseEverywhere => context.release_everywhere(&self.subject),
            }
        }
        step
    }

    fn tell_not_renewed(&mut self, context: &mut Context<'_>) {
        if self.extenders.is_empty() {
            return;
        }
        let labels = context.labels.iter().map(Arc::clone);
        let answers = labels.zip(self.holding.answers());
        let nodes: Vec<_> = answers
            .map(|(node, answer)| NodeReport { node, answer })
            .collect();
        let needed = context.quorum();
        for asker in self.extenders.drain(..) {
            let nodes = nodes.clone();
            let error = ExtendError::NoQuorum { needed, nodes };
            context.tell_other(asker, Outcome::Extended(Err(error)));
        }
    }

    fn tell_loss(&mut self, loss: &Loss, context: &mut Context<'_>) {
        let lost = Action::Lost {
            held: context.operation,
            loss: loss.clone(),
        };
        context.actions.push(lost);
        for asker in self.extenders.drain(..) {
            let error = ExtendError::Lost(loss.clone());
            context.tell_other(asker, Outcome::Extended(Err(error)));
        }
    }
}
