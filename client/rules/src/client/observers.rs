//! Observers of elections, and what nodes tell of the locks that they observe.
//!
//! Invariant: nodes tell of no more names that nobody observes or waits for any more than of others, and of a few.

use bytes::Bytes;

use super::Client;
use crate::OperationId;
use crate::action::Action;
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::lines::Way;
use crate::observing::{Listener, Observing};
use crate::operation::Operation;
use crate::votes::NodeIndex;

impl Client {
    pub(super) fn observe(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        name: Bytes,
        listener: Listener,
        actions: &mut Vec<Action>,
    ) {
        self.observers.push((name.clone(), operation));
        let mut context = self.context(now, operation, actions);
        let observing = Observing::start(name, listener, &mut context);
        self.operations
            .insert(operation, Operation::Observing(Box::new(observing)));
        self.arm(operation);
    }

    /// Nobody listens to an observer any more. Where nodes tell of changes in vain, they are asked anew, by those that go on.
    pub(super) fn end_observer(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        actions: &mut Vec<Action>,
    ) {
        self.operations.remove(&operation);
        self.disarm(operation);
        let Some(at) = self.observers.iter().position(|(_, it)| *it == operation) else {
            return;
        };
        let (name, _) = self.observers.swap_remove(at);
        if self.observers.iter().any(|(other, _)| *other == name) {
            return;
        }
        self.names_left += 1;
        self.forget_names(now, actions);
    }

    /// Nodes forget all names at once: that is worth it where they tell of more in vain than for somebody.
    pub(super) fn forget_names(&mut self, now: ClientInstant, actions: &mut Vec<Action>) {
        let waits_left = self.lines.told_in_vain().saturating_sub(WAITS_LEFT);
        if self.names_left + waits_left <= self.observers.len() + self.lines.size() {
            return;
        }
        self.names_left = 0;
        self.lines.forget_told_in_vain();
        let nobody = OperationId(u64::MAX);
        for node in 0..self.links.len() {
            if self.links[node].has_tracking() {
                self.context(now, nobody, actions).untrack(node);
                self.end_tracking(now, node, actions);
            }
        }
    }

    /// A node does not tell of changes any more: whoever observes or waits asks anew.
    fn end_tracking(&mut self, now: ClientInstant, node: NodeIndex, actions: &mut Vec<Action>) {
        self.with_observers(now, None, actions, |observer, context| {
            observer.lost(node, context);
        });
        self.end_lines(now, node, Way::Changes, actions);
    }

    /// The lock of this name, or of any, has changed at a node.
    pub(super) fn tell_changed(
        &mut self,
        now: ClientInstant,
        node: NodeIndex,
        name: Option<&Bytes>,
        actions: &mut Vec<Action>,
    ) {
        self.with_observers(now, name, actions, |observer, context| {
            observer.changed(node, context);
        });
    }

    /// Takes in that a node does not tell of changes any more.
    pub(super) fn settle_tracking(
        &mut self,
        now: ClientInstant,
        node: NodeIndex,
        actions: &mut Vec<Action>,
    ) {
        if self.links[node].take_lost_tracking() {
            self.end_tracking(now, node, actions);
        }
    }

    /// Lets the observers of this name do something, or all.
    fn with_observers(
        &mut self,
        now: ClientInstant,
        name: Option<&Bytes>,
        actions: &mut Vec<Action>,
        act: impl Fn(&mut Observing, &mut Context<'_>),
    ) {
        let is_it = |it: &&(Bytes, OperationId)| name.is_none_or(|name| it.0 == *name);
        let observers: Vec<_> = self.observers.iter().filter(is_it).map(|it| it.1).collect();
        for operation in observers {
            let Some(mut taken) = self.operations.remove(&operation) else {
                continue;
            };
            if let Operation::Observing(observing) = &mut taken {
                act(observing, &mut self.context(now, operation, actions));
            }
            self.operations.insert(operation, taken);
            self.arm(operation);
        }
    }
}

/// So many names that calls have waited for cost nothing: the same ones are waited for again and again.
const WAITS_LEFT: usize = 16;
