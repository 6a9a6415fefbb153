//! A release on all nodes that somebody waits for.
//!
//! Invariant: it ends when all nodes have told, when enough have told for whoever waits, or when
//! the nodes have had their time; what is still owed then stays in the nodes' queues.

use std::rc::Rc;
use std::sync::Arc;

use super::call::Outcome;
use super::context::Context;
use super::link::request::{Kind, Subject};
use super::round::Round;
use super::step::{Input, Step};
use crate::answer::Content;
use crate::clock::ClientInstant;
use crate::outcome::{Cause, NodeRelease, Release};

#[derive(Debug)]
pub(super) struct Releasing {
    round: Round<NodeRelease>,
    /// Whether all nodes are waited for, or only a majority that has freed the lock.
    waits_for_all: bool,
}

impl Releasing {
    pub(super) fn start(
        subject: &Rc<Subject>,
        waits_for_all: bool,
        context: &mut Context<'_>,
    ) -> Self {
        let deadline = context.now.after(context.patience(subject.ttl));
        let mut round = Round::start(context.nodes(), deadline);
        for node in 0..context.nodes() {
            round.ask(node);
            context.ask(node, Kind::Release, subject, 0);
        }
        Self {
            round,
            waits_for_all,
        }
    }

    pub(super) fn next_time(&self) -> ClientInstant {
        self.round.deadline
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        if let Input::Reply(reply) = input
            && let Content::Released(answer) = reply.content
        {
            self.round.answered(reply.node, answer);
        }
        let freed = self.round.count(|answer| *answer == NodeRelease::Freed);
        let is_enough = !self.waits_for_all && freed >= context.quorum();
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
}
