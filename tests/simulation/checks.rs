//! What has to hold when all is well again, and how much a client may ask for.
//!
//! Invariant: the truth is what nodes store and what callers were told, never what a client believes.

use quorlock_engine::StoredValue;

use super::caller::State;
use super::calls::lock_name;
use super::network::What;
use super::plan::Faults;
use super::world::{SECOND_NS, WAIT_NS, World};

/// The end of a run, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Every name is asked for, and held.
    Take,
    /// The locks that are held are on all nodes.
    IsEverywhere,
    /// Nothing is left on any node, or in a client.
    IsNothingLeft,
}

impl World {
    pub(super) fn phase(&mut self, phase: Phase) {
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        match phase {
            Phase::Take => {
                self.last_calls();
                // Two renewals after the wait is over.
                let at_ns = self.now_ns + WAIT_NS + SECOND_NS + ttl_ns / 3 * 2;
                self.network.at(at_ns, What::Phase(Phase::IsEverywhere));
            }
            Phase::IsEverywhere => {
                self.check_everywhere();
                for caller in 0..self.callers.len() {
                    self.caller(caller);
                }
                let at_ns = self.now_ns + SECOND_NS * 2 + self.plan.latency_us * 1_000 * 20;
                self.network.at(at_ns, What::Phase(Phase::IsNothingLeft));
            }
            Phase::IsNothingLeft => {
                self.check_nothing_left();
                self.check_rates();
                self.is_finished = true;
            }
        }
    }

    fn check_everywhere(&mut self) {
        for name in 0..self.plan.names {
            let hold = self.holds.iter().find(|hold| hold.name == name);
            let is_held =
                |state: &State| matches!(state, State::Holding { name: held, .. } if *held == name);
            let Some(hold) = hold.filter(|_| self.callers.iter().any(|one| is_held(&one.state)))
            else {
                self.violation = Some(format!("{name} cannot be taken once all is well"));
                return;
            };
            let expected = (
                lock_name(name).to_vec(),
                StoredValue::String(hold.token.as_bytes().to_vec()),
            );
            for (node, server) in self.servers.iter().enumerate() {
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
        for (node, server) in self.servers.iter().enumerate() {
            let keys = server.keys();
            if !keys.is_empty() {
                self.violation = Some(format!("on node {node} is left: {keys:?}"));
            }
        }
        for (number, client) in self.clients.iter().enumerate() {
            let size = client.size();
            if size > 0 {
                self.violation = Some(format!(
                    "client {number} still keeps {size} things: {client:?}"
                ));
            }
        }
    }

    /// Connects and requests of a client to a node, on average.
    fn check_rates(&mut self) {
        let pairs = (self.plan.clients * self.plan.nodes) as u64;
        let seconds = self.now_ns / SECOND_NS;
        let (connects, requests) = (self.report.connects, self.report.requests);
        if connects > pairs * (CONNECTS_FIRST + seconds * CONNECTS_PER_S) {
            self.violation = Some(format!("{connects} connects in {seconds} s"));
        }
        if requests > pairs * seconds * REQUESTS_PER_S {
            self.violation = Some(format!("{requests} writes to nodes in {seconds} s"));
        }
    }

    /// A caller was refused: not before its wait was over, and not long after.
    pub(super) fn check_wait(&mut self, asked_ns: u64, error: &str) {
        let waited_ns = self.now_ns - asked_ns;
        let ms = waited_ns / 1_000_000;
        if waited_ns < WAIT_NS / 1_000 * 995 {
            self.violation = Some(format!("a wait of 20 s is over after {ms} ms: {error}"));
        }
        let may_sleep = matches!(self.plan.faults, Faults::Clocks | Faults::All);
        if !may_sleep && waited_ns > WAIT_NS / 1_000 * 1_005 + LATE_NS {
            self.violation = Some(format!("a wait of 20 s ends after {ms} ms: {error}"));
        }
    }

    /// A caller has a lock: how long that took from when the lock was free.
    pub(super) fn check_turn(&mut self, name: u64, asked_ns: u64) {
        let index = usize::try_from(name).unwrap_or(usize::MAX);
        let freed_ns = self.freed_ns[index].take();
        if self.plan.faults != Faults::None {
            return;
        }
        let took_ms = |from_ns: u64| (self.now_ns - from_ns) / 1_000_000;
        let latency_ms = self.plan.latency_us / 1_000;
        if self.plan.clients * self.plan.callers == 1 {
            // A connect, a login and a request, each there and back, with the jitter of a half.
            let ms = took_ms(asked_ns);
            if ms > latency_ms * 9 + FREE_SLACK_MS {
                self.violation = Some(format!("a free lock is taken after {ms} ms"));
            }
        } else if let Some(freed_ns) = freed_ns.filter(|freed_ns| asked_ns < *freed_ns) {
            let ms = took_ms(freed_ns);
            self.report.turns_ms.push(ms);
            if ms > latency_ms * TURN_WAYS_MAX + TURN_SLACK_MS {
                self.violation = Some(format!("callers wait, and a lock is free for {ms} ms"));
            }
        }
    }
}

const CONNECTS_FIRST: u64 = 10;
const CONNECTS_PER_S: u64 = 3;
const REQUESTS_PER_S: u64 = 150;
const LATE_NS: u64 = 4 * SECOND_NS;
const FREE_SLACK_MS: u64 = 50;
const TURN_WAYS_MAX: u64 = 60;
const TURN_SLACK_MS: u64 = 2_000;
