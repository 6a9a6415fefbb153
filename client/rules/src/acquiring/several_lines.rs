//! Standing in line for several names that are taken together: in the line of one of them that is held, at a time.
//!
//! Invariants: as for a lock, votes decide, and the token in the line is that of the next attempt, which is for all names. A
//! name that is free is passed over, and its line is left, so that whoever wants it alone has it. No call stands in the
//! line of another call of this client: that one comes first, and the line is joined when it has been left.

use std::time::Duration;

use bytes::Bytes;

use super::{Acquiring, Stage};
use crate::context::Context;
use crate::lines::Way;
use crate::token::Token;
use crate::votes::NodeIndex;

impl Acquiring {
    /// The name in whose line the call stands or would stand: of several one at a time.
    pub(super) fn line_name(&self) -> Option<&Bytes> {
        self.call.name.parts().get(self.in_line.part)
    }

    /// Which of several names that is. An answer about another one comes too late.
    pub(super) fn part_index(&self) -> Option<u32> {
        let is_set = self.call.name.single().is_none();
        u32::try_from(self.in_line.part).ok().filter(|_| is_set)
    }

    /// An earlier call of this client for the same names may have stood in line for another one of them: that is joined, so
    /// that these calls stand in one line and keep no other call of this client from a second one.
    pub(super) fn find_line(&mut self, context: &Context<'_>) {
        let wanted = &self.call.name;
        if wanted.single().is_some() {
            return;
        }
        let is_own = |name: &Bytes| context.lines.is_of(name, wanted) == Some(true);
        if let Some(part) = wanted.parts().iter().position(is_own) {
            self.in_line.part = part;
        }
    }

    /// Whether the call stands in line, and no other call of this client in its place.
    pub(super) fn has_line(&self, context: &Context<'_>) -> bool {
        self.is_own_line(context) == Some(true)
    }

    /// Whether the call would stand in line for a name for which another call of this client does.
    pub(super) fn is_behind_own(&self, context: &Context<'_>) -> bool {
        let is_set = self.call.name.single().is_none();
        is_set && self.is_own_line(context) == Some(false)
    }

    fn is_own_line(&self, context: &Context<'_>) -> Option<bool> {
        context.lines.is_of(self.line_name()?, &self.call.name)
    }

    /// Where the call stands in line, and the token there that no attempt has yet.
    pub(super) fn untried(&self, context: &Context<'_>) -> Option<(NodeIndex, Token)> {
        let name = self.line_name().filter(|_| self.has_line(context))?;
        context.lines.untried(name)
    }

    /// The call stands in line no longer, if it did.
    pub(super) fn leave_own_line(&mut self, context: &mut Context<'_>) {
        if self.has_line(context)
            && let Some(name) = self.line_name().cloned()
        {
            self.in_line.leave();
            context.leave_line(&name);
        }
    }

    /// The name is free at the node of the line: the next one may not be.
    pub(super) fn stand_for_next(&mut self, token: Token, context: &mut Context<'_>) {
        if let Some(name) = self.line_name().cloned() {
            context.leave_line(&name);
        }
        let count = self.call.name.parts().len().max(1);
        self.in_line.parts_left = self.in_line.parts_left.saturating_sub(1);
        self.in_line.part = (self.in_line.part + 1) % count;
        self.await_answer(context.patience(self.call.ttl), context);
        self.stand_at((0, Way::Turns), token, context);
    }

    /// The pause is over, and the call stands in no line of its own: of several names another call of this client may. Says
    /// whether the line is joined, or waited for, before all nodes are asked.
    pub(super) fn checks_line_of_own(
        &mut self,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> bool {
        if self.call.name.single().is_some() {
            return false;
        }
        self.find_line(context);
        self.in_line.checks = self.in_line.checks.wrapping_add(1);
        self.await_answer(patience, context);
        let token = self.call.next_token(context.random);
        self.stand_at((0, Way::Turns), token, context);
        true
    }

    /// A call of this client has left a line: one for several names stands there if it waits for that.
    pub(crate) fn line_was_left(&mut self, name: &Bytes, context: &mut Context<'_>) {
        let is_set = self.call.name.single().is_none();
        let waits = matches!(self.stage, Stage::Pausing(_)) && self.in_line.stands();
        let is_left = context.lines.way(name).is_none();
        if is_set && waits && is_left && self.line_name() == Some(name) {
            let token = self.call.next_token(context.random);
            self.await_answer(context.patience(self.call.ttl), context);
            self.stand_at((0, Way::Turns), token, context);
        }
    }

    /// The pause lasts until a node has had time to answer, or until the last attempt of the wait is due.
    fn await_answer(&mut self, patience: Duration, context: &Context<'_>) {
        if matches!(self.stage, Stage::Pausing(_)) {
            let pause = self.limit.cut(patience, context.round_trip(), context.now);
            self.stage = Stage::Pausing(context.now.after(pause));
        }
    }
}
