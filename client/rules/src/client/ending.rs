//! The end of calls and locks: releases, and callers that are gone.
//!
//! Invariant: whatever a call may have taken on a node is released there, by an operation of its
//! own that lasts until the nodes have answered or have had their time.

use std::rc::Rc;
use std::time::Duration;

use super::Client;
use crate::OperationId;
use crate::action::Action;
use crate::call::Outcome;
use crate::clock::ClientInstant;
use crate::link::request::Subject;
use crate::name::LockName;
use crate::operation::Operation;
use crate::releasing::{Releasing, WaitsFor};
use crate::step::Step;
use crate::token::Token;

impl Client {
    pub(super) fn release(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        subject: &Rc<Subject>,
        waits_for: WaitsFor,
        actions: &mut Vec<Action>,
    ) {
        let mut context = self.context(now, operation, actions);
        let mut releasing = Releasing::start(subject, waits_for, &mut context);
        if releasing.look(&mut context) == Step::GoesOn {
            self.operations
                .insert(operation, Operation::Releasing(Box::new(releasing)));
            self.arm(operation);
        }
    }

    /// What is to be released; a lock that is held here ends. None if that was lost before, and stays on the nodes for its
    /// lock delay.
    pub(super) fn end_for_release(
        &mut self,
        now: ClientInstant,
        held: Option<OperationId>,
        (name, token, mut lasts): (LockName, Token, Option<Duration>),
        keeps_lost: bool,
        actions: &mut Vec<Action>,
    ) -> Option<Rc<Subject>> {
        let nodes = self.links.len();
        let mut taken = None;
        if let Some(handed_over) = self.handed_over.remove(&token) {
            if let Some(Operation::Detached {
                subject,
                tokens,
                until,
            }) = self.operations.remove(&handed_over)
            {
                lasts = lasts.max(Some(now.until(until)));
                taken = Some(subject);
                self.forget_handed_over(&tokens);
            }
            self.disarm(handed_over);
        }
        let lock = held.and_then(|held| self.take_held(now, held, actions));
        if lock.is_some() || keeps_lost {
            return lock;
        }
        let kept = lasts.unwrap_or_default().max(UNKNOWN_LEASE);
        if let Some(taken) = taken {
            return Some(Subject::of_taken(
                &taken,
                (name, token),
                UNKNOWN_LEASE,
                kept,
            ));
        }
        // Whoever took another lock may have been another program: any node may hold it.
        Some(Subject::of_unknown_past(
            name,
            token,
            UNKNOWN_LEASE,
            kept,
            nodes,
        ))
    }

    /// Ends a lock that is held, and leaves its release to the caller, if it is to be released.
    fn take_held(
        &mut self,
        now: ClientInstant,
        held: OperationId,
        actions: &mut Vec<Action>,
    ) -> Option<Rc<Subject>> {
        let Some(Operation::Held(mut lock)) = self.operations.remove(&held) else {
            return None;
        };
        self.disarm(held);
        let is_released = lock.end(&mut self.context(now, held, actions));
        if !is_released {
            self.pass_on(now, &lock.subject, actions);
        }
        is_released.then_some(lock.subject)
    }

    /// Undoes what a call has begun that nobody is interested in any more. That is an operation of
    /// its own, so that what the call still has in its queues is not sent; its outcome says when it
    /// is done on the nodes that can be reached.
    pub(super) fn gone(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        actions: &mut Vec<Action>,
    ) {
        let undoing = operation.undoing();
        if self.owners.leave(operation) {
            actions.push(Action::Tell(undoing, Outcome::Settled));
            return;
        }
        self.end_listening(operation, actions);
        let operation = self.owners.lock_of(operation);
        match self.operations.get(&operation) {
            Some(Operation::Held(_)) => {
                if let Some(subject) = self.take_held(now, operation, actions) {
                    self.release(now, undoing, &subject, WaitsFor::Reached, actions);
                    self.pass_on(now, &subject, actions);
                    return;
                }
            }
            Some(Operation::Acquiring(_)) => {
                let Some(Operation::Acquiring(mut acquiring)) = self.operations.remove(&operation)
                else {
                    return;
                };
                self.disarm(operation);
                self.counting.cancelled();
                let taken = acquiring.cancel(now);
                if let Some(subject) = &taken {
                    self.release(now, undoing, subject, WaitsFor::Reached, actions);
                }
                self.leave_queue(now, &acquiring, operation, actions);
                if taken.is_some() {
                    return;
                }
            }
            Some(
                Operation::Extending(_)
                | Operation::Reading(_)
                | Operation::Probing(_)
                | Operation::Publishing(_)
                | Operation::Listing(_)
                | Operation::SyncingFences(_),
            ) => {
                // What was sent has its effect.
                self.operations.remove(&operation);
                self.disarm(operation);
            }
            Some(Operation::Observing(_)) => self.end_observer(now, operation, actions),
            // A release goes on, and is told.
            Some(Operation::Releasing(_)) => return,
            // A lock that was handed over stays until its lease is over.
            Some(Operation::Detached { .. }) => {}
            None => {
                self.settling
                    .retain(|settling| settling.operation != operation);
            }
        }
        actions.push(Action::Tell(undoing, Outcome::Settled));
    }
}

/// The least of a release by token, which may know no ttl: on a node that is away it is tried again for this long and the slack of a
/// release. A node is waited for as in a round about such a lease.
const UNKNOWN_LEASE: Duration = Duration::from_secs(5);
