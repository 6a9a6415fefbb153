//! A release on all nodes that somebody waits for.
//!
//! Invariant: it ends when enough nodes have told for whoever waits, or when the nodes have had their time; what is
//! still owed then stays in the nodes' queues.

use std::rc::Rc;
use std::sync::Arc;

use crate::answer::Content;
use crate::call::Outcome;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::{Cause, NodeRelease, Release};
use crate::round::Round;
use crate::step::{Input, Step};

/// Whose answers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// A majority that has freed the lock.
    Majority,
    /// All that may hold the lock and are not known to be away.
    Reached,
    All,
}

#[derive(Debug)]
pub(super) struct Releasing {
    subject: Rc<Subject>,
    pub(super) round: Round<NodeRelease>,
    waits_for: WaitsFor,
}

impl Releasing {
    pub(super) fn start(
        subject: &Rc<Subject>,
        waits_for: WaitsFor,
        context: &mut Context<'_>,
    ) -> Self {
        let deadline = context.now.after(context.patience(subject.ttl));
        Self {
            subject: Rc::clone(subject),
            round: context.ask_all(Kind::Release, subject, deadline),
            waits_for,
        }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        if let Input::Reply(reply) = input
            && let Content::Released(answer) = reply.content
        {
            self.round.answered(reply.node, answer);
        }
        self.look(context)
    }

    /// Ends if enough is known, which may be so before any node has answered.
    pub(super) fn look(&mut self, context: &mut Context<'_>) -> Step {
        let is_enough = self.is_enough(context);
        if !is_enough && !self.round.is_over(context.now) {
            return Step::GoesOn;
        }
        let told = |(node, answer): (usize, &Option<NodeRelease>)| {
            let link = &context.links[node];
            let not_told = || {
                NodeRelease::Not(match is_enough {
                    true => link.last_known(context.now),
                    false => link.unreached().unwrap_or(Cause::Silent),
                })
            };
            (
                Arc::clone(&context.labels[node]),
                answer.clone().unwrap_or_else(not_told),
            )
        };
        let nodes = self.round.answers().iter().enumerate().map(told).collect();
        context.tell(Outcome::Released(Release { nodes }));
        Step::Ended
    }

    fn is_enough(&self, context: &Context<'_>) -> bool {
        let mut links = context.links.iter().enumerate();
        match self.waits_for {
            WaitsFor::Majority => {
                let freed = |answer: &NodeRelease| *answer == NodeRelease::Freed;
                self.round.count(freed) >= context.quorum()
            }
            WaitsFor::Reached => links.all(|(node, link)| {
                let is_owed = self.round.awaits(node) && self.subject.may_be_held_by(node);
                !is_owed || link.is_away()
            }),
            WaitsFor::All => false,
        }
    }
}
