//! What follows from an event: answers are delivered and what is due is done, until nothing follows any more. Then calls end that wait until
//! what is owed to nodes is paid.
//!
//! Invariant: of what is due at one time so much is done at most, so that what arrives meanwhile comes before the rest.

use super::Client;
use crate::OperationId;
use crate::action::Action;
use crate::call::Outcome;
use crate::clock::ClientInstant;
use crate::link::{Link, LinkAction};
use crate::step::Input;

/// A call that waits until what is owed has been paid.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) operation: OperationId,
    pub(super) until: ClientInstant,
}

impl Client {
    /// Delivers what nodes have answered and does what is due, until nothing follows any more. Of renewals that are due at the
    /// same time only so many have their turn, and of calls behind them: what arrives meanwhile comes before the rest.
    pub(super) fn settle(&mut self, now: ClientInstant, is_time: bool, actions: &mut Vec<Action>) {
        let (mut renewals, mut calls) = (0, 0);
        loop {
            for node in 0..self.links.len() {
                let link = &self.links[node];
                if link.is_waited_for() || is_time && link.is_due(now) {
                    self.with_link(node, now, Link::tick);
                }
                while let Some(reply) = self.links[node].take_reply() {
                    self.known.push_back(reply);
                }
                self.settle_lines(now, node, actions);
                self.settle_tracking(now, node, actions);
            }
            if let Some(reply) = self.known.pop_front() {
                self.counting.reply(&reply);
                let operation = reply.operation;
                self.input(now, operation, Input::Reply(reply), actions);
            } else if is_time
                && renewals < RENEWALS_DUE_MAX
                && let Some(held) = self.watchdogs.take_due(now)
            {
                renewals += 1;
                self.input(now, held, Input::Timer, actions);
            } else if is_time
                && renewals < RENEWALS_DUE_MAX
                && calls < CALLS_DUE_MAX
                && let Some(operation) = self.timers.take_due(now)
            {
                calls += 1;
                self.input(now, operation, Input::Timer, actions);
            } else if let Some(name) = self.lines.take_left() {
                self.line_left(now, &name, actions);
            } else if is_time && let Some(wanted) = self.waiters.take_due(now) {
                self.tell_places(now, &wanted, actions);
            } else {
                break;
            }
        }
        for link in &mut self.links {
            actions.extend(link.take_actions().map(|action| match action {
                LinkAction::Open(id) => Action::Open(id),
                LinkAction::Close(id) => Action::Close(id),
                LinkAction::LimitUnacknowledged(id, limit) => {
                    Action::LimitUnacknowledged(id, limit)
                }
                LinkAction::Log(line) => Action::Log(line),
            }));
        }
        self.settle_streams(now, is_time, actions);
        self.end_settling(now, actions);
    }

    fn end_settling(&mut self, now: ClientInstant, actions: &mut Vec<Action>) {
        if self.settling.is_empty() {
            return;
        }
        let can_pay = self.can_pay(now);
        self.settling.retain(|settling| {
            let goes_on = can_pay && !now.has_reached(settling.until);
            if !goes_on {
                actions.push(Action::Tell(settling.operation, Outcome::Settled));
            }
            goes_on
        });
    }
}

/// How many locks are renewed at once, or told to be lost.
pub(super) const RENEWALS_DUE_MAX: usize = 256;

/// How many calls have their turn at once.
pub(super) const CALLS_DUE_MAX: usize = 128;
