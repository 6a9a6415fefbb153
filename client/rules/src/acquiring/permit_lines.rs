//! Standing in line for a permit of a semaphore: in the line of each permit, at the first node that has lines. Of many permits
//! it stands in the lines of some at a time, and each check moves on by one.
//!
//! Invariants: as for a lock, votes decide, and the token in a line is that of the next attempt for that permit. A turn that
//! comes while another permit is asked for is kept: that permit is asked for next.
//!
//! Each line costs a request to one node to enter and one to leave.
//! Where no node has lines, one is asked in the pauses which permits are free.

use bytes::Bytes;

use super::permit_choice::PermitChoice;
use super::{Acquiring, Stage};
use crate::context::Context;
use crate::lines::Way;
use crate::outcome::Cause;
use crate::permits::{permit_name, permit_of};
use crate::token::Token;
use crate::votes::NodeIndex;

impl Acquiring {
    /// Stands in the line of each permit, of that which was refused just now with a new token.
    pub(super) fn line_up_for_permits(&mut self, context: &mut Context<'_>) {
        let Some(permits) = &self.permits else {
            return;
        };
        let chosen = permits.index();
        let untried = context.lines.untried(&permits.name());
        let token = untried.map(|(_, token)| token);
        let token = token.unwrap_or_else(|| self.call.next_token(context.random));
        self.stand_for_permit(chosen, 0, token, context);
        // In the others once a node has answered: servers without lines refuse one request, and not one for each permit.
        self.in_line.lacks_lines = true;
    }

    /// Stands in the lines of the permits beside the one that is asked for, where it does not stand there yet.
    fn stand_for_others(&mut self, context: &mut Context<'_>) {
        let is_needed = std::mem::take(&mut self.in_line.lacks_lines);
        let Some(permits) = self.permits.as_ref().filter(|_| is_needed) else {
            return;
        };
        let (semaphore, chosen) = (permits.semaphore().clone(), permits.index());
        let in_lines = permits.in_lines().filter(|index| *index != chosen);
        let others: Vec<_> = in_lines.collect();
        if permits.for_each_line() > 1 {
            self.leave_lines_behind(&semaphore, context);
        }
        for index in others {
            let name = permit_name(&semaphore, index);
            if context.lines.untried(&name).is_none() {
                let token = self.call.next_token(context.random);
                self.stand_for_permit(index, 0, token, context);
            }
        }
    }

    /// Of many permits: leaves the lines of those that the walk has left behind.
    fn leave_lines_behind(&mut self, semaphore: &Bytes, context: &mut Context<'_>) {
        for name in context.lines.of_semaphore(semaphore) {
            let index = self.permit_index(&name);
            if let Some((permits, index)) = self.permits.as_mut().zip(index)
                && !permits.keeps_line(index)
            {
                permits.forget_end(index);
                context.leave_line(&name);
            }
        }
    }

    /// Stands in the line of a permit, at the first node from this one on that has lines.
    fn stand_for_permit(
        &mut self,
        index: u32,
        from: NodeIndex,
        token: Token,
        context: &mut Context<'_>,
    ) {
        let Some(permits) = &self.permits else {
            return;
        };
        let name = permit_name(permits.semaphore(), index);
        let others = permits.others(index);
        let mut nodes = from..context.links.len();
        let node = nodes.find(|node| {
            !others.contains(*node) && context.links[*node].may_have_lines(context.now)
        });
        let Some(node) = node else {
            return context.leave_line(&name);
        };
        if let Some(before) = context.lines.join(&name, node, Way::Turns, token.clone()) {
            context.unwait(before, &name);
        }
        self.ask_place(name, (node, Way::Turns), token, context);
    }

    /// A node has answered how many stand in the line of this permit, perhaps while an attempt is under way.
    pub(super) fn permit_place_told(
        &mut self,
        (node, index): (NodeIndex, u32),
        answer: &Result<u64, Cause>,
        is_now: bool,
        context: &mut Context<'_>,
    ) {
        if answer.is_ok() {
            self.stand_for_others(context);
        }
        let Some(permits) = &self.permits else {
            return;
        };
        let name = permit_name(permits.semaphore(), index);
        let Some((stands_at, _)) = context.lines.untried(&name) else {
            return;
        };
        match answer {
            _ if stands_at != node => {}
            Ok(0) => {
                self.note_called(index);
                // Callers that have split the votes ask again after a random pause.
                match self.stage {
                    Stage::Pausing(_) if self.is_split() => self.take_turn_later(context),
                    _ if self.is_split() => {}
                    _ => self.take_turn_for_permit(context),
                }
            }
            Ok(waiting) if is_now => self.stands_behind(waiting.saturating_sub(1), context),
            Ok(_) => {}
            Err(_) => self.leave_lines_at(node, context),
        }
    }

    /// A node does not say how long the line of a permit is: the call stands in all its lines at the next one.
    fn leave_lines_at(&mut self, node: NodeIndex, context: &mut Context<'_>) {
        let names = self.permits.iter().flat_map(PermitChoice::names);
        let names: Vec<_> = names.collect();
        for (index, name) in (0..).zip(&names) {
            let untried = context.lines.untried(name);
            if let Some((_, token)) = untried.filter(|(stands_at, _)| *stands_at == node) {
                self.stand_for_permit(index, node + 1, token, context);
            }
        }
    }

    fn note_called(&mut self, index: u32) {
        if let Some(permits) = &mut self.permits {
            permits.called(index);
        }
    }

    /// It is this call's turn for a permit. It is asked for at once, or behind the one that is asked for now.
    pub(super) fn take_turn_for_permit(&mut self, context: &mut Context<'_>) {
        let is_pausing = matches!(self.stage, Stage::Pausing(_) | Stage::AskingTimeLeft(_));
        if is_pausing && self.may_take_turn(context) {
            self.choose_permit(context.now);
            self.called_again(context);
        }
    }

    /// It is this call's turn for this lock, which may be a permit.
    pub(crate) fn called_for(&mut self, name: &Bytes, context: &mut Context<'_>) {
        match self.permit_index(name) {
            Some(index) if self.may_stand_for(index) => {
                self.note_called(index);
                self.take_turn_for_permit(context);
            }
            Some(index) => {
                context.leave_line(name);
                self.permit_released(index);
            }
            None => self.called(context),
        }
    }

    /// Whether the call stands in the line of this permit. Another call of this client may have said that there are more.
    fn may_stand_for(&self, index: u32) -> bool {
        let permits = self.permits.as_ref();
        permits.is_some_and(|permits| index < permits.count())
    }

    /// The connection has ended on which the call stood in line for a permit.
    pub(super) fn permit_line_ended(&mut self, name: &Bytes, context: &mut Context<'_>) {
        let untried = context.lines.untried(name);
        match (untried, self.permit_index(name)) {
            (Some((_, token)), Some(index)) if self.may_stand_for(index) => {
                self.stand_for_permit(index, 0, token, context);
            }
            _ => context.leave_line(name),
        }
    }

    /// Which permit of the semaphore that the call is for this is.
    fn permit_index(&self, name: &Bytes) -> Option<u32> {
        let permits = self.permits.as_ref()?;
        let (semaphore, index) = permit_of(name)?;
        (semaphore == *permits.semaphore()).then_some(index)
    }

    /// Whether it is the call's turn for a permit that it has not asked for since.
    pub(super) fn is_called_for_permit(&self) -> bool {
        self.permits
            .as_ref()
            .is_some_and(PermitChoice::is_called_for)
    }
}
