//! Observers of elections, and what nodes tell of the locks that they observe.
//!
//! Invariant: nodes tell of no more names that nobody observes any more than of others.

use bytes::Bytes;

use super::Client;
use crate::OperationId;
use crate::action::Action;
use crate::clock::ClientInstant;
use crate::context::Context;
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
        // Nodes forget all names at once: that is worth it where they tell of more in vain than for somebody.
        self.names_left += 1;
        if self.names_left <= self.observers.len() {
            return;
        }
        self.names_left = 0;
        for node in 0..self.links.len() {
            if self.links[node].has_tracking() {
                self.context(now, operation, actions).untrack(node);
                self.with_observers(now, None, actions, |observer, context| {
                    observer.lost(node, context);
                });
            }
        }
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
            self.with_observers(now, None, actions, |observer, context| {
                observer.lost(node, context);
            });
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
