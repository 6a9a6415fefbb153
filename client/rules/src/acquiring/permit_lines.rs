//! Standing in line for a permit of a semaphore: in the line of each permit, at the first node that has lines.
//!
//! Invariants: as for a lock, votes decide, and the token in a line is that of the next attempt for that permit. A turn that
//! comes while another permit is asked for is kept: that permit is asked for next.
//!
//! Where there are many permits, or no node has lines, the walk goes on in the pauses: each line costs a request to enter and
//! one to leave, and among many permits one is free soon.

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
    /// The locks in whose lines the call may stand: the one that it is for, or each permit.
    pub(crate) fn names_in_lines(&self) -> Vec<Bytes> {
        match &self.permits {
            Some(permits) if permits.is_small() => permits.names().collect(),
            Some(_) => Vec::new(),
            None => self.call.name.single().cloned().into_iter().collect(),
        }
    }

    /// Stands in the line of each permit, of that which was refused just now with a new token.
    pub(super) fn line_up_for_permits(&mut self, context: &mut Context<'_>) {
        let Some(permits) = self.permits.as_ref().filter(|permits| permits.is_small()) else {
            return;
        };
        let (semaphore, chosen) = (permits.semaphore().clone(), permits.index());
        for index in 0..permits.count() {
            let untried = context.lines.untried(&permit_name(&semaphore, index));
            if index != chosen && untried.is_some() {
                continue;
            }
            let token = untried.map(|(_, token)| token);
            let token = token.unwrap_or_else(|| self.call.next_token(context.random));
            self.stand_for_permit(index, 0, token, context);
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
        // What is known of nodes that are not of one mind is about the permit that was refused last.
        let is_refused = index == permits.index();
        let mut nodes = from..context.links.len();
        let node = nodes.find(|node| {
            let is_other = is_refused && self.in_line.others.contains(*node);
            !is_other && context.links[*node].may_have_lines(context.now)
        });
        let Some(node) = node else {
            return context.leave_line(&name);
        };
        if let Some(before) = context.lines.join(&name, node, Way::Turns, token.clone()) {
            context.unwait(before, &name);
        }
        self.ask_place(name, (node, Way::Turns), token, context);
    }

    /// A node has answered how many stand in the line of this permit.
    pub(super) fn permit_place_told(
        &mut self,
        (node, index): (NodeIndex, u32),
        answer: &Result<u64, Cause>,
        context: &mut Context<'_>,
    ) {
        let Some(permits) = &self.permits else {
            return;
        };
        let name = permit_name(permits.semaphore(), index);
        let Some((stands_at, token)) = context.lines.untried(&name) else {
            return;
        };
        match answer {
            _ if stands_at != node => {}
            Ok(0) => self.permit_called(index, context),
            Ok(waiting) => self.stands_behind(waiting.saturating_sub(1), context),
            Err(_) => self.stand_for_permit(index, node + 1, token, context),
        }
    }

    /// It is this call's turn for this permit. It is asked for at once, or behind the one that is asked for now.
    fn permit_called(&mut self, index: u32, context: &mut Context<'_>) {
        if let Some(permits) = &mut self.permits {
            permits.called(index);
        }
        let is_pausing = matches!(self.stage, Stage::Pausing(_) | Stage::AskingTimeLeft(_));
        if is_pausing && !self.is_split() && self.may_take_turn(context) {
            self.choose_permit(context.now);
            self.called_again(context);
        }
    }

    /// It is this call's turn for this lock, which may be a permit.
    pub(crate) fn called_for(&mut self, name: &Bytes, context: &mut Context<'_>) {
        match self.permit_index(name) {
            Some(index) => self.permit_called(index, context),
            None => self.called(context),
        }
    }

    /// The connection has ended on which the call stood in line for a permit.
    pub(super) fn permit_line_ended(&mut self, name: &Bytes, context: &mut Context<'_>) {
        let untried = context.lines.untried(name);
        match (untried, self.permit_index(name)) {
            (Some((_, token)), Some(index)) => self.stand_for_permit(index, 0, token, context),
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
