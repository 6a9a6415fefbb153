//! Waiting at a node that has no lines and tells of changes: what its word, and a look upon it, lead to.
//!
//! Invariant: word of a change has the lock looked at, and grants nothing. All who wait are told at the same time.

use std::time::Duration;

use super::{Acquiring, Stage};
use crate::answer::Sight;
use crate::context::Context;
use crate::lines::Way;
use crate::link::fraction;
use crate::token::Token;
use crate::votes::NodeIndex;

impl Acquiring {
    /// A node that tells of changes has said who has the lock there, if it has answered.
    pub(super) fn holder_told(
        &mut self,
        node: NodeIndex,
        holder: Option<Option<&Sight>>,
        token: Token,
        context: &mut Context<'_>,
    ) {
        let name = self.line_name();
        let tells = name.is_some_and(|name| context.links[node].tracks(name));
        match holder {
            // Callers that have split the votes ask again after a random pause.
            Some(None) if self.is_split() && !self.in_line.stands() => {}
            Some(None) if self.in_line.parts_left > 0 => self.stand_for_next(token, context),
            Some(None) => self.found_free(context),
            Some(Some(holder)) if tells => {
                // The attempts that have failed were about another one's end.
                if self.in_line.seen.as_ref() != Some(&holder.token) {
                    self.in_line.seen = Some(holder.token.clone());
                    self.in_line.failures = 0;
                }
                self.in_line.is_called = false;
                self.in_line.parts_left = 0;
                self.stands_behind(0, context);
            }
            // Here it stays, and looks once more when the node tells of changes.
            Some(Some(_)) if self.in_line.parts_left > 0 => {
                self.in_line.parts_left = 0;
                self.stand_at((node, Way::Changes), token, context);
            }
            _ => self.stand_at((node + 1, Way::Changes), token, context),
        }
    }

    /// The lock is free at the node that tells of changes. Others are told so at the same time, always in the same order: so
    /// who has waited for long asks at once, others after a random pause, and last who has just released it.
    fn found_free(&mut self, context: &mut Context<'_>) {
        let (name, now) = (&self.call.name, context.now);
        let waited = self.limit.waited(now);
        let spread = TOLD_SPREAD.max(context.round_trip());
        let part = TOLD_LONG.as_secs_f64() / waited.max(TOLD_LONG).as_secs_f64();
        let pause = spread.mul_f64(part * fraction(context.random));
        let until = match context.refusals.stands_back_until(name, now) {
            Some(until) => until,
            None if pause >= TOLD_SPREAD / 4 => now.after(pause),
            None => return self.called(context),
        };
        self.in_line.ahead = None;
        self.in_line.is_called = self.in_line.may_be_called(now);
        // A call whose wait is over first asks at its end.
        let end = self.limit.ends_at();
        let ends_first = end.is_some_and(|end| until.has_reached(end));
        if ends_first {
            return self.called(context);
        }
        self.stage = Stage::Pausing(until);
    }

    /// The node that tells of changes says that the lock has changed there: it is asked whether the lock is free.
    pub(crate) fn changed(&mut self, context: &mut Context<'_>) {
        let is_pausing = matches!(self.stage, Stage::Pausing(_) | Stage::AskingTimeLeft(_));
        let Some(name) = self.line_name().filter(|_| is_pausing) else {
            return;
        };
        if let Some((node, token)) = self.untried(context) {
            self.ask_place(name.clone(), (node, Way::Changes), token, context);
        }
    }
}

/// Those who are told of a release ask within this time, the sooner the longer they have waited: in ever less of it beyond
/// this wait.
const TOLD_SPREAD: Duration = Duration::from_millis(2);
const TOLD_LONG: Duration = Duration::from_millis(20);
