//! What a call that stands in line asks of the nodes beside that of the line: whether the lock is free there, and, behind
//! readers, to let none in that comes after it.
//!
//! A line is at one node, and readers need a majority: they would pass by it at the others. So a call that was refused because
//! of readers stands in the lines of the other nodes as well. Its turn is that of the one line, in which all callers stand, or,
//! for the first of them, what a majority of the other nodes announces. A node that asks whether the call still stands there is
//! answered by standing in line anew.
//!
//! Invariants: votes decide. The call leaves these lines with its own, so that it keeps no reader out that comes after it has
//! gone, and none of its own client. A node that forgets it, or has another one first, costs time alone.

use std::rc::Rc;

use bytes::Bytes;

use super::{Acquiring, Stage};
use crate::context::Context;
use crate::lines::Way;
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

    /// The call stands in line at a node: behind readers it does so at the others as well, once at each. There are connections to
    /// those that have refused it, without which readers have no majority; the others follow with a check.
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
        let subject = Subject::new(name.clone().into(), token.clone(), self.call.ttl);
        for node in 0..context.nodes() {
            // What is free lets nobody stand in line.
            let is_other = node != of_line && !self.in_line.others.contains(node);
            let may_stand = is_other && context.links[node].may_have_lines(context.now);
            if may_stand && context.lines.stand_also_at(&name, node) {
                let kind = self.place_at(node, of_line, context);
                context.ask(node, kind, &subject, NO_ATTEMPT);
            }
        }
    }

    /// A turn lasts until a majority has said that it is one: no shorter than at the node of the line.
    fn place_at(&self, node: NodeIndex, of_line: NodeIndex, context: &Context<'_>) -> Kind {
        Kind::Wait {
            turn: context.turn_at(node).max(context.turn_at(of_line)),
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
            self.in_line.free.remove(node);
            return;
        }
        if let Some(name) = self.line_name() {
            context.lines.stand_not_at(name, node);
        }
        // The same as that it does not exist there.
        if is_now && answer.is_ok() {
            self.ask(context);
        } else if answer.is_ok() && self.in_line.ahead_at_most <= Some(0) && !self.is_split() {
            // Its turn may have come while an attempt was under way.
            self.free_elsewhere(node, context);
        }
    }

    /// The lock is free at another node than that of the line, and this call is the first of those who keep readers out there.
    /// Where others come first in the line they may be readers, whom it lets in. Else it asks all nodes once a majority has said
    /// so: the node of the line may be the last one to know, and readers who come need a majority without it.
    pub(crate) fn called_elsewhere(
        &mut self,
        node: NodeIndex,
        name: &Bytes,
        context: &mut Context<'_>,
    ) {
        context.lines.stand_not_at(name, node);
        if !matches!(self.stage, Stage::Pausing(_) | Stage::AskingTimeLeft(_)) {
            return;
        }
        if self.in_line.ahead_at_most > Some(0) {
            return context.unwait(node, name);
        }
        self.free_elsewhere(node, context);
    }

    /// The lock is free at one more of the other nodes. Once it is so at a majority all nodes are asked.
    fn free_elsewhere(&mut self, node: NodeIndex, context: &mut Context<'_>) {
        self.in_line.free.insert(node);
        // Those that were free at the last attempt have no line that could say so.
        let (free, others) = (self.in_line.free, self.in_line.others);
        let may_be_free = |node: &NodeIndex| free.contains(*node) || others.contains(*node);
        if (0..context.nodes()).filter(may_be_free).count() >= context.quorum() {
            self.called(context);
        }
    }

    /// Readers want the lock, and a node asks whether the call still stands in line there: so it does, and keeps its place. So
    /// does one with an attempt under way, which may take longer than the node waits. A node that has let the attempt take the
    /// lock meanwhile gives a turn that is declined.
    pub(crate) fn confirm_line(
        &mut self,
        node: NodeIndex,
        name: &Bytes,
        context: &mut Context<'_>,
    ) {
        let Some((of_line, token)) = context.lines.joined(name) else {
            return;
        };
        let is_tried = context.lines.untried(name).is_none();
        if node != of_line || is_tried {
            let is_shared = self.call.is_shared;
            let subject = Subject::new_as(is_shared, name.clone().into(), token, self.call.ttl);
            let kind = self.place_at(node, of_line, context);
            return context.ask(node, kind, &subject, NO_ATTEMPT);
        }
        let subject = self.ask_place(name.clone(), (node, Way::Turns), token, context);
        // The answer puts off the next check, which would have asked another node as well: two answers of five come to each node in two
        // minutes, and the writer to less than a fifth of a request in a second.
        if self.in_line.confirmations * 2 % 5 < 2 {
            self.ask_another(node, &subject, context);
        }
        self.in_line.confirmations = self.in_line.confirmations.wrapping_add(1);
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
        // One that is away keeps readers out again once there is a connection to it.
        let is_behind_readers = self.is_behind_readers();
        let tells = |node: &NodeIndex| {
            let link = &context.links[*node];
            link.is_ready(context.now) || is_behind_readers && !link.is_logged_in()
        };
        // A reader is let in beside others who read.
        let others: Vec<_> = others
            .filter(tells)
            .filter(|_| !self.call.is_shared)
            .collect();
        let count = match is_behind_readers {
            // Each of them in four checks, however many there are: so long a node keeps readers out.
            true => others.len().div_ceil(CHECKS_FOR_ALL),
            false => others.len().min(1),
        };
        let turn = match &self.permits {
            Some(_) => context.random.next_u32() as usize,
            None => self.in_line.checks.wrapping_mul(count),
        };
        for &node in others
            .iter()
            .cycle()
            .skip(turn % others.len().max(1))
            .take(count)
        {
            let keeps_out = is_behind_readers && context.links[node].may_have_lines(context.now);
            let kind = match self.line_name().filter(|_| keeps_out) {
                // This keeps its place there, and lets an earlier version keep readers out for as long again.
                Some(name) => {
                    context.lines.stand_also_at(name, node);
                    self.place_at(node, of_line, context)
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
/// Checks in which a writer behind readers comes to each node: some 75 s, or 90 s where readers stand behind it. A node of an
/// earlier version keeps readers out for 120 s.
const CHECKS_FOR_ALL: usize = 4;
