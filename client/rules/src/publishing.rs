//! A message on its way to all nodes.
//!
//! Invariant: it counts as sent where a majority of distinct nodes has taken it. Those of one client reach each node in the order in
//! which they were handed over, so nothing is waited for before a node is asked: the queue of its link is the order.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::answer::Content;
use crate::call::Outcome;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::{Cause, PublishError};
use crate::round::Round;
use crate::step::{Input, Step};
use crate::votes::{Ballot, Identity};

#[derive(Debug)]
pub(super) struct Publishing {
    pub(super) round: Round<Result<(Identity, u64), Cause>>,
}

impl Publishing {
    pub(super) fn start(channel: Bytes, payload: Bytes, context: &mut Context<'_>) -> Self {
        let words = vec![Bytes::from_static(b"PUBLISH"), channel, payload];
        let subject: Rc<Subject> = Subject::of_words(words, LASTS);
        let deadline = context.now.after(context.patience(LASTS));
        let round = context.ask_all(Kind::Publish, &subject, deadline);
        Self { round }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        if let Input::Reply(reply) = input
            && let Content::Published(answer) = reply.content
        {
            self.round.answered(reply.node, answer);
        }
        let mut ballot = Ballot::default();
        let mut most = 0;
        for (node, answer) in self.round.answers().iter().enumerate() {
            if let Some(Ok((by, listeners))) = answer {
                ballot.add(node, by.clone());
                most = most.max(*listeners);
            }
        }
        if ballot.distinct() >= context.quorum() {
            context.tell(Outcome::Published(Ok(most)));
            return Step::Ended;
        }
        if !self.round.is_over(context.now) {
            return Step::GoesOn;
        }
        let error = PublishError {
            needed: context.quorum(),
            nodes: self.round.causes(context.labels),
        };
        context.tell(Outcome::Published(Err(error)));
        Step::Ended
    }
}

/// How long a message is worth sending, and by which the silence of nodes is judged.
const LASTS: Duration = Duration::from_secs(10);
