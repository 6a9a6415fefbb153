//! Locks that several guards of one owner keep: who has them at once, and who is told of what.
//!
//! Invariant: each guard is told of each renewal, and of the loss, whichever call has acquired the lock. It is released when
//! the last guard ends.

use std::sync::Arc;

use super::Client;
use crate::OperationId;
use crate::acquiring::Acquiring;
use crate::action::Action;
use crate::call::{AcquireCall, Call, Outcome};
use crate::clock::ClientInstant;
use crate::operation::Operation;
use crate::outcome::{Loss, Release};

impl Client {
    /// Gives a call the lock that its owner has already, if it has. Nothing is sent.
    pub(super) fn join_held(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        call: &AcquireCall,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(owner) = &call.owner else {
            return false;
        };
        let held = self.owners.held(&(call.name.clone(), owner.clone()));
        held.is_some_and(|lock| self.join(now, lock, operation, actions))
    }

    /// The call about a guard as one about its lock. None if it ends the guard, and others keep the lock.
    pub(super) fn of_lock(
        &mut self,
        operation: OperationId,
        mut call: Call,
        actions: &mut Vec<Action>,
    ) -> Option<Call> {
        let (is_release, is_renewal) = match &call {
            Call::Renew { .. } => (false, true),
            Call::Release { .. } => (true, false),
            _ => (false, false),
        };
        let (Call::Renew { held }
        | Call::Detach { held }
        | Call::Release {
            held: Some(held), ..
        }) = &mut call
        else {
            return Some(call);
        };
        let guard = *held;
        *held = self.owners.lock_of(guard);
        if is_renewal {
            return Some(call);
        }
        if self.owners.leave(guard) {
            if is_release {
                let shared = Release::shared(&self.labels);
                actions.push(Action::Tell(operation, Outcome::Released(shared)));
            }
            return None;
        }
        if !is_release {
            // Nobody is told of it any more.
            self.owners.end(*held);
        }
        Some(call)
    }

    /// A call has acquired its lock: it is its owner's, whose calls that wait for it have it as well.
    pub(super) fn acquired_for_owner(
        &mut self,
        now: ClientInstant,
        lock: OperationId,
        acquiring: &Acquiring,
        actions: &mut Vec<Action>,
    ) {
        let Some(owner) = acquiring.call.owner.clone() else {
            return;
        };
        if !matches!(self.operations.get(&lock), Some(Operation::Held(_))) {
            return;
        }
        let key = (acquiring.call.name.clone(), owner);
        self.owners.acquired(key.clone(), lock);
        let wanted = acquiring.wanted();
        for waiting in self.waiters.all(&wanted) {
            if self.waits_as(waiting, &key.1) && self.join(now, lock, waiting, actions) {
                self.operations.remove(&waiting);
                self.disarm(waiting);
                // The turn is the first call's, and is passed on with it.
                self.waiters.leave(&wanted, waiting);
            }
        }
        if self.waiters.first(&wanted).is_none() {
            self.overlaps.remove(&wanted);
            for name in self.names_in_lines(&wanted) {
                self.context(now, lock, actions).leave_line(&name);
            }
        }
    }

    /// Whether a call waits for this owner, and has asked no node for something that would have to be undone.
    fn waits_as(&self, operation: OperationId, owner: &Arc<[u8]>) -> bool {
        match self.operations.get(&operation) {
            Some(Operation::Acquiring(one)) => {
                one.call.owner.as_ref() == Some(owner) && one.has_taken_nothing()
            }
            _ => false,
        }
    }

    fn join(
        &mut self,
        now: ClientInstant,
        lock: OperationId,
        guard: OperationId,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(Operation::Held(held)) = self.operations.get(&lock) else {
            return false;
        };
        let valid_until = held.valid_until();
        if now.has_reached(valid_until) {
            return false;
        }
        let token = held.subject.token.clone();
        self.owners.join(lock, guard);
        let outcome = Outcome::Acquired {
            token,
            valid_until,
            fence: None,
            permit: None,
        };
        actions.push(Action::Tell(guard, outcome));
        true
    }

    /// What has become of locks since then is told to each of their guards.
    pub(super) fn tell_guards(&mut self, told_before: usize, actions: &mut Vec<Action>) {
        if self.owners.is_empty() {
            return;
        }
        let told = actions.split_off(told_before);
        // A guard has ended before its release is told.
        let released = |held| Action::Lost {
            held,
            loss: Loss::Released,
        };
        actions.extend(self.owners.take_left().into_iter().map(released));
        for action in told {
            let (Action::Renewed { held, .. }
            | Action::RenewalFailing { held }
            | Action::Lost { held, .. }) = &action
            else {
                actions.push(action);
                continue;
            };
            let lock = *held;
            let guards = self.owners.guards(lock).to_vec();
            match guards.is_empty() {
                true => actions.push(action),
                false => actions.extend(guards.iter().map(|guard| of_guard(&action, *guard))),
            }
            // A loss is the last that is told.
            if let Some(Action::Lost { .. }) = actions.last() {
                self.owners.end(lock);
            }
        }
    }
}

/// The same, told to this guard.
fn of_guard(action: &Action, held: OperationId) -> Action {
    match action {
        Action::Renewed { valid_until, .. } => Action::Renewed {
            held,
            valid_until: *valid_until,
        },
        Action::Lost { loss, .. } => Action::Lost {
            held,
            loss: loss.clone(),
        },
        _ => Action::RenewalFailing { held },
    }
}
