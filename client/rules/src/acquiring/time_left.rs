//! The lock is busy: its nodes are asked how long it will be.
//!
//! Invariant: what they tell chooses when to ask for the lock again. It never ends a wait, and never stands for a vote.

use std::time::Duration;

use super::failure::Failure;
use crate::acquisition::Vote;
use crate::answer::{Answer, Content};
use crate::call::AcquireCall;
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::round::Round;
use crate::step::Input;
use crate::token::Token;

#[derive(Debug)]
pub(super) struct TimeLeft {
    pub(super) round: Round<Option<Duration>>,
    /// The attempt that was refused.
    attempt: u32,
}

impl TimeLeft {
    /// Asks the nodes that have refused, and waits for them no longer than `limit`.
    pub(super) fn ask(
        call: &AcquireCall,
        refused: &Failure,
        attempt: u32,
        limit: Duration,
        context: &mut Context<'_>,
    ) -> Self {
        let patience = context.patience(call.ttl).min(limit);
        let deadline = context.now.after(patience);
        let mut round = Round::start(context.nodes(), deadline);
        let token = Token::from_bytes(bytes::Bytes::new());
        let subject = Subject::new(call.name.clone(), token, call.ttl);
        let is_busy = |vote: &Vote| matches!(vote, Vote::Told(Answer::Busy { .. }));
        for (node, vote) in refused.attempt.votes().iter().enumerate() {
            if is_busy(vote) {
                round.ask(node);
                context.ask(node, Kind::TimeLeft, &subject, attempt);
            }
        }
        Self { round, attempt }
    }

    /// Takes an event in. Says whether all have told, or have had their time.
    pub(super) fn handle(&mut self, input: Input, now: ClientInstant) -> bool {
        if let Input::Reply(reply) = input
            && let Content::TimeLeft(left) = reply.content
            && reply.round == self.attempt
        {
            self.round.answered(reply.node, left);
        }
        self.round.is_over(now)
    }

    /// When as many nodes are free again as are missing, or as many as have told; none if none has.
    pub(super) fn free_at(&self, missing: usize, now: ClientInstant) -> Option<ClientInstant> {
        let told = self.round.answers().iter().flatten().flatten();
        let mut lefts: Vec<Duration> = told.copied().collect();
        lefts.sort_unstable();
        let left = lefts.get(missing.saturating_sub(1)).or(lefts.last());
        left.map(|left| now.after(*left))
    }
}
