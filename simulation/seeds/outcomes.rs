//! What callers are told: outcomes of calls, validities that move on, locks that are lost.
//!
//! What overlaps is looked for here once more, and not by the check of the experiments: it must be seen at the moment at which
//! it happens, with the state of the whole cluster, and two checks that were written apart do not miss the same.
//!
//! Invariant: a call is told one outcome, in time; a hold ends with a word to its caller, before its validity does.

use std::time::Duration;

use quorlock_client::Loss;
use quorlock_client::{ClientInstant, Token, Waiting};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::Outcome;
use quorlock_client_rules::permits::permit_name;

use super::caller::{CallerHold, OpenCall, SimulatedCaller, State};
use super::calls::lock_name;
use super::fault_class::FaultClass;
use super::step::Step;
use super::world::{SECOND_NS, World};

impl World {
    pub(super) fn told(&mut self, client: usize, operation: OperationId, outcome: Outcome) {
        let Some(open) = self.open.remove(&(client, operation)) else {
            self.violation = Some(format!(
                "client {client} is told of {operation:?}, of which it has heard or wants nothing: {outcome:?}"
            ));
            return;
        };
        let asks = |caller: &SimulatedCaller| match caller.state {
            State::Asking {
                operation: asked, ..
            } => caller.client == client && asked == operation,
            _ => false,
        };
        let caller = self.callers.iter().position(asks);
        match (outcome, caller) {
            (
                Outcome::Acquired {
                    token,
                    valid_until,
                    fence,
                    permit,
                },
                Some(caller),
            ) => {
                // Those of an owner that has the lock have it before others.
                if !self.joins((client, operation), &token) {
                    self.check_order(client, operation, &open);
                }
                self.acquired(caller, operation, token, valid_until, fence, permit);
            }
            (Outcome::NotAcquired(error), Some(caller)) => {
                self.report.refused += 1;
                if let State::Asking {
                    asked_ns,
                    waits: true,
                    name,
                    ..
                } = self.callers[caller].state
                {
                    self.check_wait(name, asked_ns, &error.to_string());
                    self.check_starved(name, asked_ns, (client, operation));
                }
                self.cluster
                    .note(|| format!("client {client}, {operation:?}: {error}"));
                self.callers[caller].state = State::Idle;
                self.plan_next(caller);
            }
            (Outcome::Extended(Ok(extended)), _) => self.extended(client, operation, &extended),
            (Outcome::Released(release), _) => {
                self.check_shared_release(client, operation, &release);
                self.released(client, operation, &release);
            }
            _ => {}
        }
    }

    /// Only a call that wants to know is told what it waits for, and only as long as it waits.
    pub(super) fn waits(&mut self, client: usize, operation: OperationId, waiting: &Waiting) {
        self.report.told_waiting += 1;
        let open = self.open.get(&(client, operation));
        if !open.is_some_and(|open| open.tells) {
            self.violation = Some(format!(
                "client {client} is told what {operation:?} waits for, which does not want to know: {waiting}"
            ));
        }
    }

    fn acquired(
        &mut self,
        caller: usize,
        held: OperationId,
        token: Token,
        valid_until: ClientInstant,
        fence: Option<u64>,
        permit: Option<u32>,
    ) {
        let SimulatedCaller { client, state } = self.callers[caller].clone();
        let State::Asking { name, asked_ns, .. } = state else {
            return;
        };
        self.report.acquired += 1;
        self.note_taken(name, (client, held));
        self.check_turn(name, asked_ns);
        self.check_far(client, asked_ns);
        self.check_delay(client, name);
        self.check_fence((client, held), name, fence);
        let now_ns = self.cluster.now_ns;
        let is_misled = self.is_of_unknown_length(client, valid_until);
        let (until_ns, noticed_ns) = match is_misled {
            true => {
                let went_on_ns = self.cluster.machines[client].stood_until_ns();
                (now_ns, went_on_ns + self.notice_ns())
            }
            false => (
                self.cluster.machines[client].true_time(now_ns, valid_until),
                0,
            ),
        };
        self.cluster
            .note(|| format!("client {client} holds {name} as {held:?}"));
        let lock = match permit {
            Some(index) => permit_name(&lock_name(name), index).into(),
            None => self.plan.lock(name),
        };
        let other = self.check_holders(name, &lock, (client, held));
        if let Some(other) = other.filter(|_| !is_misled) {
            let ms = (other.until_ns - now_ns) / 1_000_000;
            self.violation = Some(format!(
                "{name} is held by {other:?} for another {ms} ms, and now by client {client}, {held:?}"
            ));
        }
        self.check_token(name, (client, held), &token);
        self.holds.push(CallerHold {
            client,
            held,
            name,
            lock,
            token,
            began_ns: now_ns,
            valid_until,
            until_ns,
            noticed_ns,
            is_guarded: true,
        });
        self.cluster.at(until_ns, Step::HoldEnds(client, held));
        self.callers[caller].state = State::Holding { held, name };
        let hold_ns = self.hold_ns();
        if self.is_over && now_ns > self.last_ns() {
            return;
        }
        let rest_ns = (self.plan.length_s * SECOND_NS).saturating_sub(now_ns);
        let hold_ns = hold_ns.min(rest_ns + self.plan.ttl_ms * 1_000_000);
        self.cluster.at(now_ns + hold_ns, Step::Caller(caller));
    }

    /// How long a caller wants to hold what it has.
    fn hold_ns(&mut self) -> u64 {
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        if self.plan.is_crowded || self.plan.is_in_step || self.plan.is_far {
            return self.cluster.random.below(ttl_ns / 100);
        }
        if self.plan.is_waiting {
            return self.cluster.random.below(ttl_ns);
        }
        // Some hold it while many nodes go and come back.
        match self.cluster.random.below(4) {
            0 if !self.plan.has_readers => self.cluster.random.below(ttl_ns * 40),
            _ => self.cluster.random.below(ttl_ns / 4),
        }
    }

    pub(super) fn renewed(&mut self, client: usize, held: OperationId, valid_until: ClientInstant) {
        self.report.renewed += 1;
        let until_ns = self.cluster.machines[client].true_time(self.cluster.now_ns, valid_until);
        let now_ns = self.cluster.now_ns;
        let is_misled = self.is_of_unknown_length(client, valid_until);
        self.check_forced((client, held), until_ns);
        let is_it = |hold: &CallerHold| hold.client == client && hold.held == held;
        if let Some(at) = self.holds.iter().position(is_it) {
            self.check_write(self.holds[at].name, (client, held));
            if is_misled {
                self.holds[at].valid_until = valid_until;
                return;
            }
            let CallerHold { name, lock, .. } = &self.holds[at];
            if let Some(other) = self.check_holders(*name, lock, (client, held)) {
                self.violation = Some(format!(
                    "client {client} has renewed {held:?}, and {other:?} is held"
                ));
            }
            let hold = &mut self.holds[at];
            let was_misled = hold.noticed_ns > now_ns;
            hold.noticed_ns = 0;
            // Nor is what has ended renewed.
            let is_forward = hold.valid_until.until(valid_until) > Duration::ZERO
                || hold.valid_until == valid_until;
            if !is_forward || hold.until_ns <= now_ns && !was_misled {
                let from = hold.valid_until;
                self.violation = Some(format!(
                    "client {client} told that {held:?} goes on until {valid_until:?}, and before that until {from:?}"
                ));
            }
            hold.valid_until = valid_until;
            hold.until_ns = until_ns;
        }
    }

    pub(super) fn lost(&mut self, client: usize, held: OperationId, loss: &Loss) {
        let is_it = |hold: &CallerHold| hold.client == client && hold.held == held;
        let (mut is_kept, mut name) = (self.plan.keeps_a_majority(), None);
        if let Some(hold) = self.holds.iter().position(is_it) {
            let hold = self.holds.swap_remove(hold);
            name = Some(hold.name);
            self.free(hold.name);
            if *loss != Loss::Released {
                self.ends_without_release(&hold);
            }
            // Whoever answers under an address since another one did is asked for a lock only a lease after the client
            // has met it, and a client meets nobody while it wants nothing: until then that node is not free for it.
            let held_ns = self.cluster.now_ns - hold.began_ns;
            is_kept &= self.plan.faults != FaultClass::Entries || held_ns >= self.entry_ns();
        }
        if *loss == Loss::Released {
            return;
        }
        self.report.lost += 1;
        is_kept &= !self.was_forced(client, held) && !self.was_broken(name, (client, held));
        self.cluster
            .note(|| format!("client {client} lost {held:?}: {loss}"));
        if is_kept {
            self.violation = Some(format!(
                "client {client} lost {held:?} ({loss}) although a majority was well all the time"
            ));
        }
    }

    /// A caller does not hold this name any more, as far as callers know: nobody does, or a permit is free.
    pub(super) fn free(&mut self, name: u64) {
        // Others may hold it beside the caller, or since the operator has ended its lock.
        if self.plan.shares_names() && self.holders(name) > 0 {
            return;
        }
        let (now_ns, has_permits) = (self.cluster.now_ns, self.plan.permits.is_some());
        for name in self.plan.names_of(name) {
            let freed_ns = self.freed_ns.entry(name).or_default();
            // Another permit may have been free for longer.
            let since_ns = freed_ns.filter(|_| has_permits);
            *freed_ns = since_ns.or(Some(now_ns));
        }
    }

    /// How many callers hold this, as far as they know.
    pub(super) fn holders(&self, name: u64) -> usize {
        self.holds.iter().filter(|hold| hold.name == name).count()
    }

    /// Since when this is free, all of it.
    pub(super) fn freed(&self, name: u64) -> Option<u64> {
        let names = self.plan.names_of(name);
        let freed: Option<Vec<u64>> = names.map(|name| self.freed_ns[&name]).collect();
        freed?.into_iter().max()
    }

    /// When a call has to have its outcome. A machine that slept has some time more.
    pub(super) fn due_ns(&self, client: usize, open: &OpenCall) -> u64 {
        let stood_ns = self.cluster.machines[client].stood_ns();
        let due_ns = open.asked_ns + open.wait_ns / 1_000 * 1_005 + stood_ns;
        // A call that does not wait asks for each permit.
        let rounds = match open.wait_ns {
            0 => self.plan.holders_max() as u64,
            _ => 1,
        };
        due_ns.max(self.cluster.machines[client].woken_ns()) + LATE_NS * rounds
    }

    pub(super) fn due(&mut self, client: usize, operation: OperationId) {
        let Some(open) = self.open.get(&(client, operation)) else {
            return;
        };
        let (open, due_ns) = (*open, self.due_ns(client, open));
        if due_ns > self.cluster.now_ns {
            return self.cluster.at(due_ns, Step::Due(client, operation));
        }
        let ms = (self.cluster.now_ns - open.asked_ns) / 1_000_000;
        let wait_ms = open.wait_ns / 1_000_000;
        self.violation = Some(format!(
            "{operation:?} of client {client}, with a wait of {wait_ms} ms, has no outcome after {ms} ms"
        ));
    }

    /// A validity ends: its caller has been told of its loss, or of a later end. A machine that slept is told when it
    /// wakes.
    pub(super) fn hold_ends(&mut self, client: usize, held: OperationId) {
        let is_it = |hold: &&CallerHold| hold.client == client && hold.held == held;
        let Some(hold) = self.holds.iter().find(is_it) else {
            return;
        };
        let woken_ns = self.cluster.machines[client].woken_ns() + WAKING_NS;
        let until_ns = hold.until_ns.max(woken_ns).max(hold.noticed_ns);
        if until_ns > self.cluster.now_ns {
            return self.cluster.at(until_ns, Step::HoldEnds(client, held));
        }
        let name = hold.name;
        if !hold.is_guarded {
            return self.lease_ends(client, held);
        }
        self.violation = Some(format!(
            "the validity of {name} ends, and client {client} is not told that {held:?} is lost"
        ));
    }
}

/// From when a call has to end until it is told, at most.
const LATE_NS: u64 = 4 * SECOND_NS;
const WAKING_NS: u64 = 1_000_000;
