//! An observer of an election, or a watch on a lock: [`Observation`] carried out.
//!
//! Invariant: it asks for nothing but who has the lock, so it keeps nobody from it.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::action::Action;
use crate::answer::Content;
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::link::fraction;
use crate::link::request::{Kind, Subject};
use crate::observation::{Observation, ObservationAction, ObservationEvent};
use crate::step::{Input, Step};
use crate::token::Token;
use crate::votes::NodeIndex;

#[derive(Debug)]
pub(super) struct Observing {
    subject: Rc<Subject>,
    observation: Observation,
    listener: Listener,
}

/// Who listens.
#[derive(Debug)]
pub(super) enum Listener {
    /// It is told who leads, whenever that is another one.
    Observer,
    /// It is told who has the lock as long as that is certain; this was told last.
    Watch(Option<Option<Token>>),
}

impl Observing {
    pub(super) fn start(name: Bytes, listener: Listener, context: &mut Context<'_>) -> Self {
        let token = Token::from_bytes(Bytes::new());
        let subject = Subject::new(name.into(), token, QUESTION_LASTS);
        let patience = context.patience(QUESTION_LASTS);
        let mut actions = Vec::new();
        let is_watch = matches!(listener, Listener::Watch(_));
        let observation = Observation::start(
            context.nodes(),
            is_watch,
            context.now,
            patience,
            &mut actions,
        );
        let mut observing = Self {
            subject,
            observation,
            listener,
        };
        observing.act(actions, context);
        observing
    }

    /// The lock that is observed.
    pub(super) fn name(&self) -> Option<&Bytes> {
        self.subject.name.single()
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        let event = match input {
            Input::Timer => ObservationEvent::Timer,
            Input::Reply(reply) => {
                let node = reply.node;
                let Content::Seen(seen, _) = reply.content else {
                    return Step::GoesOn;
                };
                let tracks = |name| context.links[node].tracks(name);
                ObservationEvent::Seen {
                    node,
                    round: reply.round,
                    is_tracked: seen.is_ok() && self.name().is_some_and(tracks),
                    seen,
                }
            }
        };
        self.step(event, context);
        Step::GoesOn
    }

    /// A node says that the lock has changed.
    pub(super) fn changed(&mut self, node: NodeIndex, context: &mut Context<'_>) {
        self.step(ObservationEvent::Changed(node), context);
    }

    /// A node does not tell of changes any more.
    pub(super) fn lost(&mut self, node: NodeIndex, context: &mut Context<'_>) {
        self.step(ObservationEvent::Lost(node), context);
    }

    pub(super) fn next_time(&self) -> ClientInstant {
        self.observation.next_time()
    }

    fn step(&mut self, event: ObservationEvent, context: &mut Context<'_>) {
        let patience = context.patience(QUESTION_LASTS);
        let (now, random) = (context.now, fraction(context.random));
        let mut actions = Vec::new();
        self.observation
            .handle(now, random, patience, event, &mut actions);
        self.act(actions, context);
    }

    fn act(&mut self, actions: Vec<ObservationAction>, context: &mut Context<'_>) {
        if let Listener::Watch(told) = &mut self.listener {
            let certain = self
                .observation
                .certain()
                .map(|leader| leader.token.clone());
            if told.as_ref() != Some(&certain) {
                let watched = Action::Watched(context.operation, certain.clone());
                *told = Some(certain);
                context.actions.push(watched);
            }
        }
        for action in actions {
            match action {
                ObservationAction::Look { node, round } => {
                    let look = Kind::Look {
                        is_tracked: true,
                        index: None,
                    };
                    context.ask(node, look, &self.subject, round);
                }
                ObservationAction::Report(_) if matches!(self.listener, Listener::Watch(_)) => {}
                ObservationAction::Report(observed) => {
                    let observer = context.operation;
                    context.actions.push(Action::Observed(observer, observed));
                }
            }
        }
    }
}

/// A question about no lease: silence is judged as upon one about this.
const QUESTION_LASTS: Duration = Duration::from_secs(10);
