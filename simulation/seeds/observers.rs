//! Observers of an election: one in each client. What they are told was so on a majority of the nodes, fences do not go down,
//! and they know who leads once a majority has been well for a while.
//!
//! Invariant: the truth is what nodes store, and what callers were given.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use quorlock_client::Observed;
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::Call;
use quorlock_engine::StoredValue;

use super::fault_class::FaultClass;
use super::plan::Plan;
use super::world::{SECOND_NS, World};

/// What observers were told, and what is so.
#[derive(Debug, Default)]
pub(super) struct Observers {
    /// Of each client, until they are over.
    of_clients: Vec<Observer>,
    /// The nodes that were seen to hold each token.
    held_by: BTreeMap<Vec<u8>, BTreeSet<usize>>,
    /// Tokens that were reported before a majority was seen to hold them.
    doubtful: Vec<(u64, Vec<u8>)>,
    truth: Option<Truth>,
    since_ns: u64,
}

#[derive(Debug)]
struct Observer {
    operation: OperationId,
    told: Option<Observed>,
    fence: u64,
}

/// Who leads, where that is beyond doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Truth {
    Nobody,
    Token(Vec<u8>),
}

impl Observers {
    pub(super) fn count(&self, client: usize) -> usize {
        usize::from(client < self.of_clients.len())
    }
}

impl Plan {
    /// The same seed with candidates that have fences, where no node forgets them, and observers.
    pub(crate) fn electing(self) -> Plan {
        if self.is_crowded || self.is_in_step {
            return self;
        }
        Plan {
            names: 1,
            lock_delay_ms: 0,
            is_by_token: false,
            is_election: true,
            ..self.fenced()
        }
    }
}

impl World {
    pub(super) fn add_observers(&mut self) {
        if !self.plan.is_election {
            return;
        }
        for client in 0..self.plan.clients {
            let operation = self.cluster.next_operation(client);
            self.observers.of_clients.push(Observer {
                operation,
                told: None,
                fence: 0,
            });
            let name = Bytes::copy_from_slice(self.plan.lock(0).first());
            self.cluster.call(client, Call::Observe { name });
            self.drain();
        }
    }

    pub(super) fn end_observers(&mut self) {
        let ended = std::mem::take(&mut self.observers.of_clients);
        for (client, observer) in ended.into_iter().enumerate() {
            self.gone(client, observer.operation);
        }
    }

    pub(super) fn observed(&mut self, client: usize, operation: OperationId, observed: Observed) {
        let now_ns = self.cluster.now_ns;
        self.cluster
            .note(|| format!("client {client} observes: {observed:?}"));
        self.report.observed += 1;
        let observers = &mut self.observers;
        let observer = observers.of_clients.get_mut(client);
        let Some(observer) = observer.filter(|it| it.operation == operation) else {
            self.violation = Some(format!("client {client} observes without being asked"));
            return;
        };
        if let Observed::Leader(leader) = &observed {
            observers
                .doubtful
                .push((now_ns, leader.token.as_bytes().to_vec()));
            let fence = leader.fence.unwrap_or(observer.fence);
            if fence < observer.fence {
                let before = observer.fence;
                self.violation = Some(format!(
                    "client {client} is told of fence {fence} behind {before}"
                ));
            }
            observer.fence = fence;
        }
        observer.told = Some(observed);
    }

    /// Whether what observers were told was so, and whether they know what is.
    pub(super) fn check_observers(&mut self) {
        if self.observers.of_clients.is_empty() {
            return;
        }
        let now_ns = self.cluster.now_ns;
        let quorum = self.plan.nodes / 2 + 1;
        let doubtful = std::mem::take(&mut self.observers.doubtful);
        for (at_ns, token) in doubtful {
            let holders = self.observers.held_by.get(&token).map_or(0, BTreeSet::len);
            if holders >= quorum || self.tokens.contains(&token) {
                continue;
            }
            if now_ns - at_ns > 5 * SECOND_NS {
                let token = String::from_utf8_lossy(&token);
                self.violation = Some(format!(
                    "{token} was reported as the leader, and no majority has held it"
                ));
            }
            self.observers.doubtful.push((at_ns, token));
        }
        let bound_ns = 2 * SECOND_NS + self.plan.latency_us * 1_000 * 40;
        if self.plan.faults == FaultClass::None {
            self.check_known(bound_ns);
        }
    }

    /// Each observer was told what has been so for this long.
    pub(super) fn check_known(&mut self, bound_ns: u64) {
        let Some(truth) = self.observers.truth.clone() else {
            return;
        };
        if self.observers.since_ns + bound_ns > self.cluster.now_ns {
            return;
        }
        for (client, observer) in self.observers.of_clients.iter().enumerate() {
            let knows = match (&observer.told, &truth) {
                (Some(Observed::Vacant), Truth::Nobody) => true,
                (Some(Observed::Leader(told)), Truth::Token(token)) => {
                    told.token.as_bytes() == token
                }
                _ => false,
            };
            if !knows {
                let since_ms = self.observers.since_ns / 1_000_000;
                let told = &observer.told;
                self.violation = Some(format!(
                    "since {since_ms} ms it is {truth:?}, and client {client} was told {told:?} last"
                ));
            }
        }
    }

    /// A moment has passed: what the nodes hold.
    pub(super) fn sample_holders(&mut self) {
        if self.observers.of_clients.is_empty() {
            return;
        }
        let lock = self.plan.lock(0).first().to_vec();
        let mut holders: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for node in 0..self.plan.nodes {
            for (key, value) in self.cluster.servers[node].keys() {
                if key == lock
                    && let StoredValue::String(token) = value
                {
                    let held_by = self.observers.held_by.entry(token.clone());
                    held_by.or_default().insert(node);
                    *holders.entry(token).or_default() += 1;
                }
            }
        }
        let quorum = self.plan.nodes / 2 + 1;
        let leader = holders.iter().find(|(_, nodes)| **nodes >= quorum);
        let truth = match leader {
            Some((token, _)) => Some(Truth::Token(token.clone())),
            None if holders.is_empty() => Some(Truth::Nobody),
            None => None,
        };
        if truth != self.observers.truth {
            self.observers.truth = truth;
            self.observers.since_ns = self.cluster.now_ns;
        }
    }
}
