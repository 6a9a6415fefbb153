//! Locks of which others know the token: handed over, extended and released by any client, also beside each other, and guards'
//! locks that somebody else releases.
//!
//! Invariant: a node that has told a release what came of it does not have the lock under that token any more, and does not get
//! it again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use quorlock_client::{NodeRelease, Release, Token};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{Call, Extended};
use quorlock_client_rules::name::LockName;
use quorlock_engine::StoredValue;

use super::caller::CallerHold;
use super::fault_class::FaultClass;
use super::step::Step;
use super::world::{SECOND_NS, World};

#[derive(Debug, Default)]
pub(super) struct Tokens {
    handed_over: Vec<HandedOver>,
    /// Guards whose lock somebody else has released.
    forced: BTreeSet<(usize, OperationId)>,
    /// What is extended by these calls, and released by those.
    extending: BTreeMap<(usize, OperationId), Token>,
    releasing: BTreeMap<(usize, OperationId), Token>,
    /// The nodes that have told what came of a release, and when the first one did.
    told: BTreeMap<Vec<u8>, (u64, BTreeSet<usize>)>,
}

/// A lock that this client has handed over, and until when it remembers the token.
#[derive(Debug)]
struct HandedOver {
    client: usize,
    token: Token,
    until_ns: u64,
}

impl Tokens {
    /// A client keeps nothing of a lock but its token, until then.
    pub(super) fn hand_over(&mut self, client: usize, token: Token, until_ns: u64) {
        self.handed_over.push(HandedOver {
            client,
            token,
            until_ns,
        });
    }

    /// A client extends a lock: if it is the one that has handed it over, it remembers the token until then.
    fn prolong(&mut self, client: usize, token: &Token, until_ns: u64) {
        for lock in &mut self.handed_over {
            if lock.client == client && lock.token == *token {
                lock.until_ns = lock.until_ns.max(until_ns);
            }
        }
    }
}

impl World {
    /// Whether this run has such locks: not where addresses lead to other nodes, which answer for none but themselves.
    pub(super) fn knows_tokens(&self) -> bool {
        self.plan.is_by_token && !matches!(self.plan.faults, FaultClass::Entries | FaultClass::All)
    }

    /// A caller gives its lock to whoever knows the token. Says whether it does.
    pub(super) fn give_away(&mut self, client: usize, held: OperationId) -> bool {
        if self.is_over || !self.knows_tokens() || self.is_anybody_asleep() {
            return false;
        }
        let is_it = |hold: &&mut CallerHold| hold.client == client && hold.held == held;
        let Some(hold) = self.holds.iter_mut().find(is_it) else {
            return false;
        };
        let (token, name) = (hold.token.clone(), hold.name);
        let lock = hold.lock.clone();
        match self.cluster.random.below(3) {
            0 => {
                hold.is_guarded = false;
                let until_ns = hold.until_ns;
                (self.by_token).hand_over(client, token.clone(), until_ns);
                self.detach(client, held);
                self.use_soon(token);
                true
            }
            1 => {
                self.by_token.forced.insert((client, held));
                self.release_by_token(name, lock, &token);
                // Its guard is told, or is dropped some time.
                let at_ns = self.cluster.now_ns + self.cluster.random.below(4 * SECOND_NS);
                self.cluster.at(at_ns, Step::GuardGone(client, held));
                true
            }
            _ => false,
        }
    }

    /// Whoever knows the token extends the lock, or releases it, or both do.
    pub(super) fn use_token(&mut self, token: &Token) {
        let Some(hold) = self.holds.iter().find(|hold| hold.token == *token) else {
            return;
        };
        let (name, lock) = (hold.name, hold.lock.clone());
        if self.is_anybody_asleep() {
            return self.use_soon(token.clone());
        }
        let use_number = match self.is_over {
            true => 0,
            false => self.cluster.random.below(4),
        };
        if use_number > 0 {
            let client = self.any_client();
            let call = Call::Extend {
                name: Bytes::copy_from_slice(lock.first()),
                token: token.clone(),
                ttl: Duration::from_millis(self.plan.ttl_ms),
                waits_for_all: true,
            };
            let until_ns = self.cluster.now_ns + self.plan.ttl_ms * 1_000_000;
            self.by_token.prolong(client, token, until_ns);
            let operation = self.call(client, call);
            let extending = &mut self.by_token.extending;
            extending.insert((client, operation), token.clone());
        }
        if use_number < 2 {
            return self.release_by_token(name, lock, token);
        }
        self.use_soon(token.clone());
    }

    /// A machine that sleeps calls nobody.
    fn is_anybody_asleep(&self) -> bool {
        let mut machines = self.cluster.machines.iter();
        machines.any(|machine| machine.woken_ns() > self.cluster.now_ns)
    }

    fn use_soon(&mut self, token: Token) {
        let at_ns = self.cluster.now_ns + self.cluster.random.below(self.plan.ttl_ms * 500_000);
        self.cluster.at(at_ns, Step::UseToken(token));
    }

    fn any_client(&mut self) -> usize {
        usize::try_from(self.cluster.random.below(self.plan.clients as u64)).unwrap_or(0)
    }

    fn release_by_token(&mut self, name: u64, lock: LockName, token: &Token) {
        self.holds.retain(|hold| hold.token != *token);
        self.free(name);
        let client = self.any_client();
        let operation = self.cluster.next_operation(client);
        let releasing = &mut self.by_token.releasing;
        releasing.insert((client, operation), token.clone());
        self.call(
            client,
            Call::Release {
                held: None,
                name: lock,
                token: token.clone(),
                waits_for_all: true,
                keeps_lost: false,
                lasts: None,
            },
        );
    }

    /// A guard whose lock somebody else has released is dropped, if it has not been told of that yet.
    pub(super) fn guard_gone(&mut self, client: usize, held: OperationId) {
        if self.by_token.forced.remove(&(client, held)) {
            self.gone(client, held);
        }
    }

    /// Whether a guard is lost because somebody else has released its lock.
    pub(super) fn was_forced(&mut self, client: usize, held: OperationId) -> bool {
        self.by_token.forced.remove(&(client, held))
    }

    /// What a client keeps for locks that it has handed over, or that somebody has released under its guards.
    pub(super) fn kept_for_tokens(&mut self, client: usize) -> usize {
        let (now_ns, machines) = (self.cluster.now_ns, &self.cluster.machines);
        let Tokens {
            handed_over,
            forced,
            ..
        } = &mut self.by_token;
        // A machine that sleeps forgets when it wakes.
        handed_over.retain(|lock| {
            machines[lock.client].woken_ns().max(lock.until_ns) + SECOND_NS > now_ns
        });
        let of_client = |lock: &&HandedOver| lock.client == client;
        let handed_over = handed_over.iter().filter(of_client).count();
        handed_over + forced.iter().filter(|(of, _)| *of == client).count()
    }

    /// A lease that nobody has released ends. A minority may have extended it: there the lock ends by its ttl.
    pub(super) fn lease_ends(&mut self, client: usize, held: OperationId) {
        let is_it = |hold: &CallerHold| hold.client == client && hold.held == held;
        if let Some(hold) = self.holds.iter().position(is_it) {
            let hold = self.holds.swap_remove(hold);
            self.free(hold.name);
            let nobody = (self.cluster.now_ns, BTreeSet::new());
            let told = &mut self.by_token.told;
            told.insert(hold.token.as_bytes().to_vec(), nobody);
        }
    }

    /// A call by token has extended the lock.
    pub(super) fn extended(&mut self, client: usize, operation: OperationId, extended: &Extended) {
        let Some(token) = self.by_token.extending.get(&(client, operation)) else {
            return;
        };
        let until_ns =
            self.cluster.machines[client].true_time(self.cluster.now_ns, extended.valid_until);
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.token == *token) {
            hold.until_ns = hold.until_ns.max(until_ns);
            self.report.extended += 1;
        }
    }

    /// A release has an outcome.
    pub(super) fn released(&mut self, client: usize, operation: OperationId, release: &Release) {
        let Some(token) = self.by_token.releasing.remove(&(client, operation)) else {
            return;
        };
        self.report.released_by_token += 1;
        let nodes = release.nodes.iter().enumerate();
        let told = nodes.filter(|(_, (_, answer))| !matches!(answer, NodeRelease::Not(_)));
        let nodes = told.map(|(node, _)| node).collect();
        let told = &mut self.by_token.told;
        told.insert(token.as_bytes().to_vec(), (self.cluster.now_ns, nodes));
    }

    /// What was released by its token is nowhere where that was told, some time later. Says whether this key is such a
    /// lock, which expires where nobody was reached.
    pub(super) fn check_released(&mut self, node: usize, value: &StoredValue) -> bool {
        let StoredValue::String(token) = value else {
            return false;
        };
        let Some((at_ns, nodes)) = self.by_token.told.get(token) else {
            let mut releasing = self.by_token.releasing.values();
            return releasing.any(|one| one.as_bytes() == token);
        };
        let limit_ns = TAKEN_BACK_NS + self.plan.latency_us * 1_000 * 20;
        if nodes.contains(&node) && self.cluster.now_ns > at_ns + limit_ns && self.is_steady() {
            let ms = (self.cluster.now_ns - at_ns) / 1_000_000;
            let token = String::from_utf8_lossy(token);
            self.violation = Some(format!(
                "node {node} has told a release under {token}, and has the lock {ms} ms later"
            ));
        }
        true
    }

    /// Whether nodes keep what they were told, and clients are told in time.
    pub(super) fn is_steady(&self) -> bool {
        matches!(
            self.plan.faults,
            FaultClass::None | FaultClass::Pauses | FaultClass::Silence | FaultClass::Network
        )
    }
}

/// Until a guard notices that its lock was released elsewhere, and has undone what it took meanwhile.
const TAKEN_BACK_NS: u64 = 5 * SECOND_NS;
