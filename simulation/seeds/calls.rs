//! What callers do when it is their turn.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client::Wait;
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{AcquireCall, Call};

use super::caller::{OpenCall, SimulatedCaller, State};
use super::step::Step;
use super::world::{SECOND_NS, World};

impl World {
    /// It is a caller's turn.
    pub(super) fn caller(&mut self, number: usize) {
        let SimulatedCaller { client, state } = self.callers[number].clone();
        match state {
            State::Idle if self.is_over => {}
            State::Idle => {
                let wishes = self.plan.wishes();
                let name = wishes.start + self.cluster.random.below(wishes.end - wishes.start);
                self.ask(number, client, name);
            }
            // Some do not wait for their answer.
            State::Asking { operation, .. } => {
                self.callers[number].state = State::Idle;
                self.open.remove(&(client, operation));
                self.gone(client, operation);
            }
            State::Holding { held, .. }
                if self.give_away(client, held) || self.dies(client, held) =>
            {
                self.callers[number].state = State::Idle;
                self.plan_next(number);
            }
            State::Holding { held, name } => {
                let hold = self
                    .holds
                    .iter()
                    .find(|hold| hold.client == client && hold.held == held);
                let hold = hold.map(|hold| (hold.lock.clone(), hold.token.clone()));
                self.holds
                    .retain(|hold| hold.client != client || hold.held != held);
                if hold.is_some() {
                    self.free(name);
                }
                match hold.filter(|_| self.cluster.random.chance(3, 4)) {
                    Some((lock, token)) => {
                        self.releases_guard(client, &token);
                        let call = Call::Release {
                            held: Some(held),
                            name: lock,
                            token,
                            waits_for_all: false,
                            keeps_lost: self.plan.lock_delay_ms > 0,
                            lasts: None,
                        };
                        self.call(client, call);
                    }
                    None => self.gone(client, held),
                }
                self.callers[number].state = State::Idle;
                self.plan_next(number);
            }
        }
    }

    /// A caller that has done with a lock wants the next one: soon, or when all others do.
    pub(super) fn plan_next(&mut self, caller: usize) {
        let at_ns = match self.plan.is_in_step {
            true => self.cluster.now_ns.next_multiple_of(STEP_NS),
            false => self.cluster.now_ns + self.leisure_ns(),
        };
        self.cluster.at(at_ns, Step::Caller(caller));
    }

    /// Nobody wants a call or a hold any more; the client tells when it has undone it.
    pub(super) fn gone(&mut self, client: usize, operation: OperationId) {
        let open = OpenCall {
            asked_ns: self.cluster.now_ns,
            wait_ns: 0,
            tells: false,
            name: None,
        };
        self.expect(client, operation.undoing(), open);
        self.drop_operation(client, operation);
    }

    /// An outcome is to come in time.
    pub(super) fn expect(&mut self, client: usize, operation: OperationId, open: OpenCall) {
        let due_ns = self.due_ns(client, &open);
        self.open.insert((client, operation), open);
        self.cluster.at(due_ns, Step::Due(client, operation));
    }

    pub(super) fn ask(&mut self, number: usize, client: usize, name: u64) {
        let is_patient = self.is_over || self.plan.is_in_step || self.plan.is_waiting;
        let wait = match self.cluster.random.below(4) {
            0 if !is_patient => Wait::None,
            _ => Wait::For(Duration::from_nanos(self.plan.wait_ns())),
        };
        // Its number is known before the call: the answer may come at once.
        let operation = self.cluster.next_operation(client);
        let is_shared = self.is_to_read(client, operation);
        let owner = self.owner(client, operation);
        let ttl = Duration::from_millis(self.plan.ttl_ms);
        let call = AcquireCall {
            permits: self.plan.permits,
            owner,
            lock_delay: Duration::from_millis(self.plan.lock_delay_ms),
            is_fenced: self.plan.is_fenced,
            is_shared,
            text: (self.plan.is_election && !is_shared).then(|| Arc::from("a candidate")),
            wait,
            renews: true,
            ..AcquireCall::new(self.plan.lock(name), ttl)
        };
        // Half of the callers want to know what they wait for.
        let call = match operation.0.is_multiple_of(2) {
            true => Call::AcquireTelling(call),
            false => Call::Acquire(call),
        };
        self.callers[number].state = State::Asking {
            operation,
            name,
            asked_ns: self.cluster.now_ns,
            waits: wait != Wait::None,
        };
        self.call(client, call);
        if self.cluster.random.chance(1, 8)
            && (!is_patient || self.plan.is_waiting && !self.plan.is_far && !self.is_over)
        {
            // Also when the answer is on its way.
            let ways_ns = self.plan.latency_us * 8_000;
            let most_ns = self
                .cluster
                .random
                .pick(&[SECOND_NS, ways_ns, self.plan.wait_ns()]);
            let patience_ns = self.cluster.random.below(most_ns);
            let is_asking = matches!(self.callers[number].state, State::Asking { .. });
            if is_asking {
                self.cluster
                    .at(self.cluster.now_ns + patience_ns, Step::Caller(number));
            }
        }
    }

    /// All is well for a while now: every name can be taken.
    pub(super) fn last_calls(&mut self) {
        for name in 0..self.plan.names {
            let client = 0;
            self.callers.push(SimulatedCaller {
                client,
                state: State::Idle,
            });
            self.ask(self.callers.len() - 1, client, self.plan.wish_for(name));
        }
    }
}

/// Every call of callers in step is over before the next one: its wait, and a moment in which it holds the lock.
const STEP_NS: u64 = 30 * SECOND_NS;

pub(super) fn lock_name(name: u64) -> Bytes {
    Bytes::from(format!("lock-{name}"))
}
