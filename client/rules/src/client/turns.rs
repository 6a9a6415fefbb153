//! Whose turn it is among the calls of this client that wait for the same lock.
//!
//! Invariant: whoever comes first asks the nodes, and its turn is passed on whatever becomes of it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::Client;
use crate::OperationId;
use crate::acquiring::Acquiring;
use crate::action::Action;
use crate::call::AcquireCall;
use crate::clock::ClientInstant;
use crate::context::{Context, round_trip};
use crate::lines::{Turn, Way};
use crate::link::fraction;
use crate::link::request::Subject;
use crate::operation::Operation;
use crate::permits::permit_of;
use crate::protocol::push::Push;
use crate::votes::NodeIndex;
use crate::wait::Wait;
use crate::waiters::Wanted;

impl Client {
    pub(super) fn acquire(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        call: AcquireCall,
        tells: bool,
        actions: &mut Vec<Action>,
    ) {
        if self.join_held(now, operation, &call, actions) {
            return;
        }
        let ahead = match call.wait {
            Wait::None => 0,
            _ => {
                let tells = tells.then(|| self.words_every());
                let wanted = match (call.permits, call.name.single()) {
                    (Some(_), Some(name)) => Wanted::PermitOf(name.clone()),
                    _ => Wanted::Lock(call.name.clone()),
                };
                let ahead = self.waiters.join(&wanted, operation, tells, now);
                if ahead == 0 {
                    self.overlaps.add(&wanted);
                }
                ahead
            }
        };
        let mut context = self.context(now, operation, actions);
        let acquiring = Acquiring::start(call, tells, ahead, &mut context);
        self.operations
            .insert(operation, Operation::Acquiring(Box::new(acquiring)));
        self.arm(operation);
    }

    /// The lock was released by this client: the first of those who wait for it here may ask.
    pub(super) fn pass_on(
        &mut self,
        now: ClientInstant,
        released: &Subject,
        actions: &mut Vec<Action>,
    ) {
        let name = &released.name;
        self.refusals.releases.note(name, now);
        if self.refusals.is_contended(name, &released.token, now) {
            let range = self.others_ask_within(now);
            let pause = range.mul_f64(0.25 + 0.75 * fraction(&mut *self.random));
            self.refusals.stand_back(name, now.after(pause));
        }
        match name.single() {
            Some(_) if self.overlaps.is_empty() => {
                if let Some(first) = self.waiters.first(&Wanted::Lock(name.clone())) {
                    self.take_turn(now, first, actions);
                }
            }
            // Whoever waits for any of the names may have it now: the first of them asks first.
            _ => {
                let wanted = self.overlaps.wanted(name);
                let first = wanted
                    .iter()
                    .filter_map(|wanted| self.waiters.first(wanted));
                for operation in BTreeSet::from_iter(first) {
                    self.take_turn(now, operation, actions);
                }
            }
        }
        for (semaphore, index) in name.parts().iter().filter_map(permit_of) {
            let Some(first) = self.waiters.first(&Wanted::PermitOf(semaphore)) else {
                continue;
            };
            self.with_acquiring(now, first, actions, |one, context| {
                one.permit_released(index);
                one.take_turn(context);
            });
        }
    }

    /// How long others who want a lock that this client has released may take until they ask for it.
    fn others_ask_within(&self, now: ClientInstant) -> Duration {
        let round_trip = round_trip(&self.links, self.settings.quorum(self.links.len()));
        let mut links = self.links.iter();
        match links.any(|link| link.has_tracking() && !link.may_have_lines(now)) {
            // They are told at once as this client was, look, and ask.
            true => TOLD_WITHIN.max(TOLD_WITHIN_ROUNDS * round_trip),
            false => self.settings.retry_delay.first.saturating_add(round_trip),
        }
    }

    pub(super) fn leave_queue(
        &mut self,
        now: ClientInstant,
        acquiring: &Acquiring,
        operation: OperationId,
        actions: &mut Vec<Action>,
    ) {
        if acquiring.call.wait == Wait::None {
            return;
        }
        let wanted = acquiring.wanted();
        let next = self.waiters.leave(&wanted, operation);
        if self.waiters.first(&wanted).is_none() {
            self.overlaps.remove(&wanted);
        }
        self.tell_places(now, &wanted, actions);
        let is_held = matches!(self.operations.get(&operation), Some(Operation::Held(_)));
        // The node has seen the token take the lock; else another call of this client keeps the place, or nobody does.
        let has_taken = is_held && acquiring.has_turn();
        for name in self.names_in_lines(&wanted) {
            if acquiring.has_turn() {
                // The next call of this client may want to read.
                self.context(now, operation, actions).let_readers_in(&name);
            }
            let is_taken = has_taken && acquiring.call.name.parts().contains(&name);
            if is_taken && self.lines.untried(&name).is_none() {
                self.lines.leave(&name);
            } else if self.first_in_line(&name).is_none() {
                self.context(now, operation, actions).leave_line(&name);
            }
        }
        match next {
            Some(next) if is_held => {
                self.with_acquiring(now, next, actions, Acquiring::take_turn_behind_own);
            }
            Some(next) => self.take_turn(now, next, actions),
            None => {}
        }
        self.forget_names(now, actions);
    }

    /// The locks in whose lines calls for this stand: of a semaphore also for permits that only some of them count.
    pub(super) fn names_in_lines(&self, wanted: &Wanted) -> Vec<Bytes> {
        match wanted {
            Wanted::PermitOf(semaphore) => self.lines.of_semaphore(semaphore),
            Wanted::Lock(wanted) => {
                let is_its = |name: &&Bytes| self.lines.is_of(name, wanted) == Some(true);
                wanted.parts().iter().filter(is_its).cloned().collect()
            }
        }
    }

    /// Takes in what a node says unasked: which locks are free, or have changed, and that its lines have ended.
    pub(super) fn settle_lines(
        &mut self,
        now: ClientInstant,
        node: NodeIndex,
        actions: &mut Vec<Action>,
    ) {
        while let Some(push) = self.links[node].take_push() {
            let (name, token) = match push {
                Push::LockFree(name, token) => (name, token),
                Push::Changed(names) => {
                    for name in &names {
                        self.tell_changed(now, node, Some(name), actions);
                        if self.lines.waits_for_changes(name, node) {
                            self.with_first(now, name, actions, Acquiring::changed);
                        }
                    }
                    continue;
                }
                Push::AllChanged => {
                    self.tell_changed(now, node, None, actions);
                    for name in self.lines.at(node, Way::Changes) {
                        self.with_first(now, &name, actions, Acquiring::changed);
                    }
                    continue;
                }
                Push::LockWanted(name) => {
                    self.confirm_line(now, node, &name, actions);
                    continue;
                }
            };
            match self.lines.turn(&name, node, &token) {
                Turn::Ours => self.with_first(now, &name, actions, |one, context| {
                    one.called_for(&name, context);
                }),
                Turn::Past => {}
                // Whoever is next need not wait until this turn lapses.
                Turn::Nobodys => {
                    let nobody = OperationId(u64::MAX);
                    self.context(now, nobody, actions).unwait(node, &name);
                }
                Turn::Elsewhere => self.with_first(now, &name, actions, |one, context| {
                    one.called_elsewhere(node, &name, context);
                }),
            }
        }
        if self.links[node].take_lost_lines() {
            self.lines.lost_at(node);
            self.end_lines(now, node, Way::Turns, actions);
        }
    }

    /// Readers want a lock, and a node asks whether this client still stands in line for it.
    fn confirm_line(
        &mut self,
        now: ClientInstant,
        node: NodeIndex,
        name: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        if self.lines.stands_at(name, node) {
            return self.with_first(now, name, actions, |one, context| {
                one.confirm_line(node, name, context);
            });
        }
        let no_call = OperationId(u64::MAX);
        self.context(now, no_call, actions).unwait(node, name);
    }

    /// A node has ceased to say so that a lock is free: whoever waits there does so elsewhere.
    pub(super) fn end_lines(
        &mut self,
        now: ClientInstant,
        node: NodeIndex,
        way: Way,
        actions: &mut Vec<Action>,
    ) {
        for name in self.lines.at(node, way) {
            match self.first_in_line(&name) {
                Some(first) => self.with_acquiring(now, first, actions, |one, context| {
                    one.line_ended(&name, context);
                }),
                None => drop(self.lines.leave(&name)),
            }
        }
    }

    /// Lets the first of those who wait for a lock do something.
    fn with_first(
        &mut self,
        now: ClientInstant,
        name: &Bytes,
        actions: &mut Vec<Action>,
        act: impl FnOnce(&mut Acquiring, &mut Context<'_>),
    ) {
        if let Some(first) = self.first_in_line(name) {
            self.with_acquiring(now, first, actions, act);
        }
    }

    /// The call that stands in the line for a lock: for itself, or as for one permit of several.
    fn first_in_line(&self, name: &Bytes) -> Option<OperationId> {
        if let Some(set) = self.lines.set_of(name) {
            return self.waiters.first(&Wanted::Lock(set.clone()));
        }
        let first = self.waiters.first(&Wanted::Lock(name.clone().into()));
        let of_semaphore = || {
            let (semaphore, _) = permit_of(name)?;
            self.waiters.first(&Wanted::PermitOf(semaphore))
        };
        first.or_else(of_semaphore)
    }

    /// A line was left: the first of those who want its lock together with others may have waited for that.
    pub(super) fn line_left(
        &mut self,
        now: ClientInstant,
        name: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        if self.overlaps.is_empty() {
            return;
        }
        for wanted in self.overlaps.wanted(&name.clone().into()) {
            if let Some(first) = self.waiters.first(&wanted) {
                self.with_acquiring(now, first, actions, |one, context| {
                    one.line_was_left(name, context);
                });
            }
        }
    }

    /// Tells calls that wait for their turn how many came first, where that has changed.
    pub(super) fn tell_places(
        &mut self,
        now: ClientInstant,
        wanted: &Wanted,
        actions: &mut Vec<Action>,
    ) {
        let every = self.words_every();
        for (ahead, behind) in self.waiters.take_news(wanted, now, every) {
            self.with_acquiring(now, behind, actions, |one, context| {
                one.moved_up(ahead, context);
            });
        }
    }

    /// How often a call may tell of its place: no call that asks the nodes tells less often of its attempts.
    fn words_every(&self) -> Duration {
        self.settings.retry_delay.longest
    }

    fn take_turn(&mut self, now: ClientInstant, operation: OperationId, actions: &mut Vec<Action>) {
        self.with_acquiring(now, operation, actions, Acquiring::take_turn);
    }

    fn with_acquiring(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        actions: &mut Vec<Action>,
        act: impl FnOnce(&mut Acquiring, &mut Context<'_>),
    ) {
        let Some(mut taken) = self.operations.remove(&operation) else {
            return;
        };
        if let Operation::Acquiring(acquiring) = &mut taken {
            act(acquiring, &mut self.context(now, operation, actions));
        }
        self.operations.insert(operation, taken);
        self.arm(operation);
    }
}

/// Who is told of a release has asked within so many round trips, and a process needs this to be woken.
const TOLD_WITHIN: Duration = Duration::from_millis(2);
const TOLD_WITHIN_ROUNDS: u32 = 4;
