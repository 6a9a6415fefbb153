//! What a call that stands in line asks of the nodes beside that of the line: whether the lock is free there, and, behind
//! readers, to let none in that comes after it.
//!
//! A line is at one node, and readers need a majority: they would pass by it at the others. So a call that was refused because
//! of readers stands in the lines of the other nodes as well. Its turn is that of the one line, in which all callers stand.
//!
//! Invariants: votes decide. The call leaves these lines with its own, so that it keeps no reader out that comes after it has
//! gone, and none of its own client. A node that forgets it, or has another one first, costs time alone.

use std::rc::Rc;

use bytes::Bytes;

use super::{Acquiring, Stage};
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::Cause;
use crate::token::Token;
use crate::votes::NodeIndex;

impl Acquiring {
    /// Whether readers were in the way of the last attempt to take the lock alone.
    pub(super) fn is_behind_readers(&self) -> bool {
        let is_writer = self.permits.is_none() && !self.call.is_shared;
        let mut last = self.last.iter().filter(|_| is_writer);
        last.any(|last| last.attempt.is_behind_readers())
    }

    /// The call stands in line at a node: behind readers it does so at the others as well, once at each.
    pub(super) fn keep_readers_out(
        &self,
        of_line: NodeIndex,
        token: &Token,
        context: &mut Context<'_>,
    ) {
        if !self.is_behind_readers() {
            return;
        }
        let Some(name) = self.line_name().cloned() else {
            return;
        };
        let subject = Subject::new_as(false, name.clone().into(), token.clone(), self.call.ttl);
        for node in 0..context.nodes() {
            // What is free lets nobody stand in line.
            let is_other = node != of_line && !self.in_line.others.contains(node);
            let may_stand = is_other && context.links[node].may_have_lines(context.now);
            if may_stand && context.lines.stand_also_at(&name, node) {
                let kind = self.place_at(node, context);
                context.ask(node, kind, &subject, NO_ATTEMPT);
            }
        }
    }

    fn place_at(&self, node: NodeIndex, context: &Context<'_>) -> Kind {
        Kind::Wait {
            turn: context.turn_at(node),
            index: self.part_index(),
        }
    }

    /// Another node than that of the line has said how many stand in its own.
    pub(super) fn told_elsewhere(
        &mut self,
        node: NodeIndex,
        answer: &Result<u64, Cause>,
        is_now: bool,
        context: &mut Context<'_>,
    ) {
        if matches!(answer, Ok(waiting) if *waiting > 0) {
            return;
        }
        if let Some(name) = self.line_name() {
            context.lines.stand_not_at(name, node);
        }
        // The same as that it does not exist there.
        if is_now && answer.is_ok() {
            self.ask(context);
        }
    }

    /// The lock is free at another node than that of the line, and this call is the first of those who keep readers out there.
    /// Where others come first in the line they may be readers, whom it lets in.
    pub(crate) fn called_elsewhere(
        &mut self,
        node: NodeIndex,
        name: &Bytes,
        context: &mut Context<'_>,
    ) {
        context.lines.stand_not_at(name, node);
        let is_pausing = matches!(self.stage, Stage::Pausing(_) | Stage::AskingTimeLeft(_));
        if is_pausing && self.in_line.ahead_at_most > Some(0) {
            context.unwait(node, name);
        }
    }

    /// Another node than that of the line is asked whether it is free, one after the other from check to check. Where each
    /// check is of another permit any of them is, so that each permit comes to each node.
    pub(super) fn ask_another(
        &mut self,
        of_line: NodeIndex,
        subject: &Rc<Subject>,
        context: &mut Context<'_>,
    ) {
        let nodes = context.nodes();
        // What was free while the lock was held says nothing new.
        let others =
            (0..nodes).filter(|node| *node != of_line && !self.in_line.others.contains(*node));
        let tells = |node: &NodeIndex| context.links[*node].is_ready(context.now);
        // A reader is let in beside others who read.
        let others: Vec<_> = others
            .filter(tells)
            .filter(|_| !self.call.is_shared)
            .collect();
        let turn = match &self.permits {
            Some(_) => context.random.next_u32() as usize,
            None => self.in_line.checks,
        };
        if let Some(&node) = others.get(turn % others.len().max(1)) {
            let keeps_out =
                self.is_behind_readers() && context.links[node].may_have_lines(context.now);
            let kind = match self.line_name().filter(|_| keeps_out) {
                // This keeps its place there, and lets the node keep readers out for as long again.
                Some(name) => {
                    context.lines.stand_also_at(name, node);
                    self.place_at(node, context)
                }
                None => Kind::Exists,
            };
            context.ask(node, kind, subject, self.attempts);
        }
        self.in_line.checks = self.in_line.checks.wrapping_add(1);
    }
}

/// What is asked between two attempts, and answered to none.
const NO_ATTEMPT: u32 = 0;
