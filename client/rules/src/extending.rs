//! Another end for a lock of which only the token is known: a later one, or any.
//!
//! Invariants: the validity counts from before the first request was sent, on connections that stand. No node is asked to take
//! the lock: that it is gone there may be a release by somebody else who knows the token, which would be undone.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Content, ExtendAnswer};
use crate::call::{Extended, Outcome};
use crate::clock::ClientInstant;
use crate::connecting::Connecting;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::{Cause, ExtendError, Loss, NodeAnswer, NodeReport};
use crate::round::Round;
use crate::step::{Input, Step};
use crate::votes::Ballot;

#[derive(Debug)]
pub(super) enum Extending {
    /// No majority could be asked now, and connections are being made.
    Connecting(Connecting, Extension),
    Asking(Box<Asking>),
}

/// What is asked of the nodes.
#[derive(Clone, Debug)]
pub(super) struct Extension {
    /// [`Kind::Extend`] or [`Kind::SetEnd`].
    kind: Kind,
    subject: Rc<Subject>,
    waits_for_all: bool,
}

impl Extension {
    /// The lock is to last longer.
    pub(super) fn to_extend(subject: Rc<Subject>, waits_for_all: bool) -> Self {
        Self {
            kind: Kind::Extend,
            subject,
            waits_for_all,
        }
    }

    /// The lock is to end then: that is told as soon as a majority has set it. What they keep is known then.
    pub(super) fn to_set_end(subject: Rc<Subject>) -> Self {
        Self {
            kind: Kind::SetEnd,
            subject,
            waits_for_all: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Asking {
    waits_for_all: bool,
    subject: Rc<Subject>,
    round: Round<NodeAnswer>,
    /// How long the nodes keep the lock, asked right behind the extension.
    left: Round<Option<Duration>>,
    ballot: Ballot,
    began: ClientInstant,
    valid_until: ClientInstant,
}

impl Extending {
    pub(super) fn start(extension: Extension, context: &mut Context<'_>) -> Self {
        match Connecting::start(Duration::MAX, true, context) {
            Some(connecting) => Self::Connecting(connecting, extension),
            None => Self::Asking(Box::new(Asking::start(extension, context))),
        }
    }

    pub(super) fn next_time(&self) -> ClientInstant {
        match self {
            Self::Connecting(connecting, ..) => connecting.deadline,
            Self::Asking(asking) => asking.round.deadline,
        }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        match self {
            Self::Connecting(connecting, extension) => {
                if connecting.handle(input, context.now) {
                    let asking = Asking::start(extension.clone(), context);
                    *self = Self::Asking(Box::new(asking));
                }
                Step::GoesOn
            }
            Self::Asking(asking) => asking.handle(input, context),
        }
    }
}

impl Asking {
    fn start(extension: Extension, context: &mut Context<'_>) -> Self {
        let Extension {
            kind,
            subject,
            waits_for_all,
        } = extension;
        let deadline = context.now.after(context.patience(subject.ttl));
        let mut round = Round::start(context.nodes(), deadline);
        let mut left = Round::start(context.nodes(), deadline);
        for node in 0..context.nodes() {
            round.ask(node);
            context.ask(node, kind, &subject, 0);
            if waits_for_all {
                left.ask(node);
                context.ask(node, Kind::TimeLeft, &subject, 0);
            }
        }
        let validity = context.settings.drift.validity(subject.ttl);
        Self {
            waits_for_all,
            subject,
            round,
            left,
            ballot: Ballot::default(),
            began: context.now,
            valid_until: context.now.after(validity),
        }
    }

    fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        if let Input::Reply(reply) = input {
            let node = reply.node;
            match reply.content {
                Content::Extended(answer) => {
                    let answer = self.extended(node, answer);
                    self.round.answered(node, answer);
                }
                Content::TimeLeft(told) => self.left.answered(node, told),
                _ => {}
            }
        }
        let has_majority = self.ballot.distinct() >= context.quorum();
        let refused = self.refused();
        let is_lost = refused > context.nodes() - context.quorum();
        let is_over = self.round.is_over(context.now) && self.have_told_time(context.now);
        let is_enough = !self.waits_for_all && has_majority;
        if !is_lost && !is_over && !is_enough {
            return Step::GoesOn;
        }
        let result = if !has_majority {
            Err(self.not_extended(is_lost, context))
        } else if context.now.has_reached(self.valid_until) {
            Err(ExtendError::Lost(Loss::Late))
        } else {
            Ok(Extended {
                valid_until: self.valid_until,
                // What was left when a node was asked is not more than what it told.
                kept_until: Some(self.began.after(self.kept_for(context.quorum()))),
            })
        };
        context.tell(Outcome::Extended(result));
        Step::Ended
    }

    fn extended(&mut self, node: usize, answer: ExtendAnswer) -> NodeAnswer {
        match answer {
            ExtendAnswer::Extended(identity) => {
                self.ballot.add(node, identity);
                NodeAnswer::Granted
            }
            ExtendAnswer::Gone(_) => NodeAnswer::Not(Cause::NotOurs),
            ExtendAnswer::Other(_) => NodeAnswer::Busy { holder: None },
            ExtendAnswer::Not(cause) => NodeAnswer::Not(cause),
        }
    }

    /// Whether all nodes that have extended the lock have told how long they keep it: the others are not waited for.
    fn have_told_time(&self, now: ClientInstant) -> bool {
        let answers = self.round.answers().iter().enumerate();
        let mut granted = answers.filter(|(_, answer)| matches!(answer, Some(NodeAnswer::Granted)));
        self.left.is_over(now) || granted.all(|(node, _)| !self.left.awaits(node))
    }

    /// How long a majority keeps the lock at least, as those nodes have told that have extended it.
    fn kept_for(&self, quorum: usize) -> Duration {
        let answers = self.round.answers().iter().zip(self.left.answers());
        let mut lefts: Vec<Duration> = answers
            .filter(|(answer, _)| matches!(answer, Some(NodeAnswer::Granted)))
            .map(|(_, left)| left.flatten().unwrap_or(self.subject.ttl))
            .collect();
        lefts.sort_unstable_by(|one, other| other.cmp(one));
        lefts.get(quorum - 1).copied().unwrap_or(self.subject.ttl)
    }

    fn refused(&self) -> usize {
        self.round.count(|answer| {
            matches!(
                answer,
                NodeAnswer::Not(Cause::NotOurs) | NodeAnswer::Busy { .. }
            )
        })
    }

    fn not_extended(&self, is_lost: bool, context: &Context<'_>) -> ExtendError {
        if is_lost {
            return ExtendError::Lost(Loss::BelowMajority);
        }
        let nodes = self.round.answers().iter().zip(context.labels.iter());
        let report = |(answer, label): (&Option<NodeAnswer>, &Arc<str>)| NodeReport {
            node: Arc::clone(label),
            answer: answer.clone().unwrap_or(NodeAnswer::Not(Cause::Silent)),
        };
        ExtendError::NoQuorum {
            needed: context.quorum(),
            nodes: nodes.map(report).collect(),
        }
    }
}
