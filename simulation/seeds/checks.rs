//! What has to hold when all is well again, and how much a client may ask for.
//!
//! Invariant: the truth is what nodes store and what callers were given, never what a client believes.

use quorlock_client_rules::OperationId;
use quorlock_client_rules::name::LockName;
use quorlock_engine::StoredValue;

use super::caller::{CallerHold, OpenCall, State};
use super::fault_class::FaultClass;
use super::listeners::COUNTER;
use super::step::Step;
use super::world::{SECOND_NS, World};

/// The end of a run, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalPhase {
    /// Every name is asked for, and held.
    Take,
    /// The locks that are held are on all nodes.
    IsEverywhere,
    /// Nothing is left on any node, or in a client.
    IsNothingLeft,
}

impl World {
    pub(super) fn phase(&mut self, phase: FinalPhase) {
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        match phase {
            FinalPhase::Take => {
                self.last_calls();
                // Two renewals after the wait is over.
                let at_ns = self.cluster.now_ns + self.plan.wait_ns() + SECOND_NS + ttl_ns / 3 * 2;
                self.cluster
                    .at(at_ns, Step::Phase(FinalPhase::IsEverywhere));
            }
            FinalPhase::IsEverywhere => {
                self.check_everywhere();
                self.check_known(SECOND_NS);
                self.end_observers();
                self.is_counted = true;
                for caller in 0..self.callers.len() {
                    self.caller(caller);
                }
                let at_ns = self.cluster.now_ns + SECOND_NS * 2 + self.plan.latency_us * 1_000 * 20;
                // What is owed to a node that never answers again under its address is owed until its lease is over.
                let at_ns = match self.plan.faults {
                    FaultClass::Entries | FaultClass::All => {
                        at_ns + self.plan.kept_ms() * 1_000_000
                    }
                    _ => at_ns,
                };
                self.cluster
                    .at(at_ns, Step::Phase(FinalPhase::IsNothingLeft));
            }
            FinalPhase::IsNothingLeft => {
                self.check_nothing_left();
                self.check_numbers();
                self.check_rates();
                self.is_finished = true;
            }
        }
    }

    fn check_everywhere(&mut self) {
        for name in (0..self.plan.names).map(|name| self.plan.wish_for(name)) {
            let is_valid =
                |hold: &&CallerHold| hold.name == name && hold.until_ns > self.cluster.now_ns;
            let hold = self.holds.iter().find(is_valid);
            let is_held =
                |state: &State| matches!(state, State::Holding { name: held, .. } if *held == name);
            let Some(hold) = hold.filter(|_| self.callers.iter().any(|one| is_held(&one.state)))
            else {
                self.violation = Some(format!("{name} cannot be taken once all is well"));
                return;
            };
            let token = StoredValue::String(hold.token.as_bytes().to_vec());
            let expected = (hold.lock.first().to_vec(), token);
            for (node, server) in self.cluster.servers.iter().enumerate() {
                if !server.keys().contains(&expected) {
                    let until_ms = hold.until_ns / 1_000_000;
                    self.violation = Some(format!(
                        "{name} is held until {until_ms} ms, and two renewals after all is well it is not on node {node}"
                    ));
                }
            }
        }
    }

    fn check_nothing_left(&mut self) {
        for node in 0..self.cluster.servers.len() {
            let keys = self.locks_on(node);
            if !keys.is_empty() {
                self.violation = Some(format!("on node {node} is left: {keys:?}"));
            }
        }
        for (number, client) in self.cluster.clients.iter().enumerate() {
            let size = client.size();
            if size.of_calls() > 0 {
                self.violation = Some(format!("client {number} still keeps {size:?}"));
            }
        }
        if let Some(((client, operation), _)) = self.open.first_key_value() {
            self.violation = Some(format!("client {client} has no outcome of {operation:?}"));
        }
    }

    /// What a node stores for callers.
    pub(super) fn locks_on(&self, node: usize) -> Vec<(Vec<u8>, StoredValue)> {
        let mut keys = self.cluster.servers[node].keys();
        keys.retain(|(key, _)| key != COUNTER.as_bytes());
        keys
    }

    /// What clients keep for what their callers want.
    pub(super) fn check_sizes(&mut self) {
        for number in 0..self.cluster.clients.len() {
            let kept_for_tokens = self.kept_for_tokens(number);
            let size = self.cluster.clients[number].size();
            let open = || {
                let all = (number, OperationId(0))..(number + 1, OperationId(0));
                self.open.range(all).map(|(_, open)| open)
            };
            let holds = self.holds.iter().filter(|hold| hold.client == number);
            let holds = holds.filter(|hold| hold.is_guarded);
            let observers = self.observers.count(number);
            let operations = open().count() + holds.count() + kept_for_tokens + observers;
            let waiting = open().filter(|open| open.wait_ns > 0).count();
            self.report.requests_kept_max = self.report.requests_kept_max.max(size.requests as u64);
            let is_more = size.operations > operations
                || size.timers > operations
                || size.waiting > waiting
                || size.sets > waiting * 3
                || size.settling > 0
                // A call for a permit stands in the line of each.
                || size.lines > waiting * self.plan.permits.map_or(1, |permits| permits as usize)
                || size.undelivered > 0
                || size.remembered as u64 > REMEMBERED_MAX + self.plan.names
                || size.requests > self.plan.nodes * (REQUESTS_KEPT + 4 * operations);
            if is_more {
                self.violation = Some(format!(
                    "client {number} keeps {size:?} for {operations} calls and locks, of which {waiting} wait"
                ));
            }
        }
    }

    /// A caller has this lock, or goes on having it. Of a lock nobody else has it then, of a semaphore at most as many others
    /// as leave one permit, each another one.
    pub(super) fn check_holders(
        &self,
        name: u64,
        lock: &LockName,
        held: (usize, OperationId),
    ) -> Option<&CallerHold> {
        let is_other = |hold: &&CallerHold| {
            (hold.name == name || overlaps(&hold.lock, lock))
                && hold.until_ns > self.cluster.now_ns
                && (hold.client, hold.held) != held
                && !self.may_share(hold, held)
                && !self.is_excused((hold.client, hold.held))
        };
        if self.is_excused(held) {
            return None;
        }
        let others: Vec<&CallerHold> = self.holds.iter().filter(is_other).collect();
        let same = others.iter().find(|hold| overlaps(&hold.lock, lock));
        let is_one_too_many = others.len() >= self.plan.holders_max();
        same.or(others.first().filter(|_| is_one_too_many)).copied()
    }

    /// A node that is new under its address holds no lock before those of the node before it have expired, and one of
    /// another cluster never does.
    pub(super) fn check_empty(&mut self, node: usize) {
        let server = &self.cluster.servers[node];
        if server.is_empty_until_ns <= self.cluster.now_ns {
            return;
        }
        let keys = self.locks_on(node);
        if !keys.is_empty() {
            self.violation = Some(format!(
                "node {node} is new here and was asked for {keys:?}"
            ));
        }
    }

    /// Calls of one client that wait for the same lock have it in the order in which they asked.
    pub(super) fn check_order(&mut self, client: usize, operation: OperationId, open: &OpenCall) {
        // Whose wait is nearly over asks for itself.
        let waits = |earlier: &OpenCall| {
            let end_ns = earlier.asked_ns + earlier.wait_ns / 1_000 * 990;
            earlier.name == open.name && end_ns > self.cluster.now_ns
        };
        let before = (client, OperationId(0))..(client, operation);
        let earlier = self.open.range(before).find(|(_, earlier)| waits(earlier));
        if let Some(((_, earlier), _)) = earlier.filter(|_| open.name.is_some()) {
            self.violation = Some(format!(
                "client {client} has the lock for {operation:?} while {earlier:?} waits for it"
            ));
        }
    }

    /// Connects and requests of a client to a node, on average.
    fn check_rates(&mut self) {
        let pairs = (self.plan.clients * self.plan.nodes) as u64;
        let seconds = self.cluster.now_ns / SECOND_NS;
        let (connects, requests) = (self.cluster.connects, self.cluster.requests);
        if connects > pairs * (CONNECTS_FIRST + seconds * CONNECTS_PER_S) {
            self.violation = Some(format!("{connects} connects in {seconds} s"));
        }
        let turns = self.report.acquired * self.plan.nodes as u64 * REQUESTS_PER_TURN;
        if requests > pairs * seconds * REQUESTS_PER_S + turns {
            self.violation = Some(format!("{requests} writes to nodes in {seconds} s"));
        }
    }

    /// A caller was refused: not before its wait was over, and not while the lock was free. That it is not long after
    /// is seen where a call is due.
    pub(super) fn check_wait(&mut self, name: u64, asked_ns: u64, error: &str) {
        let waited_ns = self.cluster.now_ns - asked_ns;
        let ms = waited_ns / 1_000_000;
        let wait_ns = self.plan.wait_ns();
        if waited_ns < wait_ns / 1_000 * 995 {
            self.violation = Some(format!(
                "a wait of {} s is over after {ms} ms: {error}",
                wait_ns / SECOND_NS
            ));
        }
        if self.plan.is_several && self.plan.is_in_step {
            self.violation = Some(format!("not every caller had its locks: {error}"));
        }
        if let Some(freed_ns) = self.freed(name)
            && (self.plan.tells_when_free() || self.plan.serves_lines())
        {
            let free_ms = (self.cluster.now_ns - freed_ns.max(asked_ns)) / 1_000_000;
            if free_ms > self.turn_ms_max() {
                self.violation = Some(format!(
                    "a wait is over, and the lock was free for {free_ms} ms: {error}"
                ));
            }
        }
    }

    /// The longest that a lock is free while callers wait for it: where something goes wrong with the node at which they stand in
    /// line, until they ask for the line, or until what the node has heard no release of is over.
    fn turn_ms_max(&self) -> u64 {
        let usual_ms = self.plan.latency_us / 1_000 * TURN_WAYS_MAX + TURN_SLACK_MS;
        match self.plan.faults {
            FaultClass::None => usual_ms,
            _ => usual_ms + LINE_CHECKED_MS + self.plan.kept_ms(),
        }
    }

    /// A caller has a lock: how long that took from when the lock was free. Of permits that are free still another waiter has one as
    /// soon from now on.
    pub(super) fn check_turn(&mut self, name: u64, asked_ns: u64) {
        let freed_ns = self.freed(name);
        let is_full = self.holders(name) + 1 >= self.plan.holders_max();
        let since_ns = (!is_full).then_some(self.cluster.now_ns);
        for name in self.plan.names_of(name) {
            self.freed_ns.insert(name, since_ns);
        }
        if !self.plan.tells_when_free() && !self.plan.serves_lines() {
            return;
        }
        let took_ms = |from_ns: u64| (self.cluster.now_ns - from_ns) / 1_000_000;
        let latency_ms = self.plan.latency_us / 1_000;
        if self.plan.clients * self.plan.callers == 1 {
            // A connect, a login and a request, each there and back, with the jitter of a half.
            let ms = took_ms(asked_ns);
            if ms > latency_ms * 9 + FREE_SLACK_MS {
                self.violation = Some(format!("a free lock is taken after {ms} ms"));
            }
        } else if let Some(freed_ns) = freed_ns {
            // It was free, and a caller waited for it: this one, or others that wait on.
            let others = self.open.values().filter(|open| open.name == Some(name));
            let first_ns = others.map(|open| open.asked_ns).fold(asked_ns, u64::min);
            let ms = took_ms(freed_ns.max(first_ns));
            if asked_ns < freed_ns {
                self.report.turns_ms.push(ms);
            } else if self.plan.is_in_step && !self.is_over {
                self.report.draws_ways.push(ms / latency_ms.max(1));
            }
            if ms > self.turn_ms_max() {
                self.violation = Some(format!("callers wait, and a lock is free for {ms} ms"));
            }
        }
    }
}

fn overlaps(one: &LockName, other: &LockName) -> bool {
    one.parts().iter().any(|part| other.parts().contains(part))
}

const CONNECTS_FIRST: u64 = 10;
const CONNECTS_PER_S: u64 = 3;
const REQUESTS_PER_S: u64 = 150;
/// What else is sent for a lock that changes hands.
const REQUESTS_PER_TURN: u64 = 10;
/// Requests that a client keeps for a node, besides those of its calls and locks.
const REQUESTS_KEPT: usize = 300;
/// Identities that a client remembers.
const REMEMBERED_MAX: u64 = 4 * 64 + 64;
const FREE_SLACK_MS: u64 = 50;
const TURN_WAYS_MAX: u64 = 60;
const TURN_SLACK_MS: u64 = 2_000;
/// How often who stands in line asks for it.
const LINE_CHECKED_MS: u64 = 20_000;
