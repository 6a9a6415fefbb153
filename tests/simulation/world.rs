//! The cluster, its clients and their callers, moment by moment.

use std::collections::BTreeMap;

use quorlock_client::rules::OperationId;
use quorlock_client::rules::action::{Action, Event};
use quorlock_client::rules::call::{Call, Outcome};
use quorlock_client::rules::client::Client;
use quorlock_client::{Loss, Redlock};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::caller::{Caller, Hold, State};
use super::checks::Phase;
use super::faults::{Fault, Path};
use super::machine::Machine;
use super::network::{Network, What, Wire};
use super::plan::{Faults, Plan};
use super::server::Server;
use crate::crash::random::Random;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Locks that callers were told they hold.
    pub acquired: u64,
    /// Calls that ended without the lock.
    pub refused: u64,
    /// Validities that moved on.
    pub renewed: u64,
    /// Locks that were lost.
    pub lost: u64,
    /// What went wrong, and how often.
    pub faults: BTreeMap<Fault, u64>,
    /// Connections that clients made.
    pub connects: u64,
    /// How often clients wrote to nodes.
    pub requests: u64,
    /// What happened, all in all.
    pub events: u64,
    /// How long locks were free while callers waited, where nothing went wrong.
    pub turns_ms: Vec<u64>,
    /// Simulated time.
    pub simulated_ms: u64,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) now_ns: u64,
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<Client>,
    /// Of each client: the last timer that was set, and the last call's number.
    pub(super) timers: Vec<u64>,
    pub(super) calls: Vec<u64>,
    pub(super) callers: Vec<Caller>,
    pub(super) holds: Vec<Hold>,
    pub(super) network: Network,
    pub(super) paths: Vec<Path>,
    pub(super) machines: Vec<Machine>,
    pub(super) random: Random,
    pub(super) report: Report,
    pub(super) violation: Option<String>,
    pub(super) trace: Option<Vec<String>>,
    pub(super) is_over: bool,
    pub(super) is_finished: bool,
    /// Of each name: when its last holder gave it back.
    pub(super) freed_ns: Vec<Option<u64>>,
}

/// Runs a plan. With `traces` the error says all that happened.
///
/// # Errors
/// The first promise that was not kept, and when.
pub fn run(plan: &Plan, traces: bool) -> Result<Report, String> {
    let mut world = World::new(plan, traces);
    world.prepare();
    let healed_ns = plan.length_s * SECOND_NS;
    let end_ns = world.last_ns();
    world.network.at(end_ns, What::Phase(Phase::Take));
    while let Some((at_ns, what)) = world.network.next() {
        world.now_ns = at_ns;
        world.is_over = at_ns >= healed_ns;
        world.report.events += 1;
        world.happen(what);
        if let Some(violation) = world.violation.take() {
            let trace = world.trace.take().unwrap_or_default().join("\n");
            return Err(format!(
                "{trace}\n{plan:?}\nat {} ms: {violation}",
                at_ns / 1_000_000
            ));
        }
        if world.is_finished {
            break;
        }
    }
    world.report.simulated_ms = world.now_ns / 1_000_000;
    Ok(world.report)
}

impl World {
    fn new(plan: &Plan, traces: bool) -> World {
        let seed = plan.seed;
        let client = |number: usize| {
            let nodes = (1..=plan.nodes).map(|node| format!("redis://10.0.0.{node}:7001"));
            let random = StdRng::seed_from_u64(Random::of(&[seed, 3, number as u64]).next());
            Redlock::builder()
                .nodes(nodes)
                .build_rules(Box::new(random))
                .expect("these addresses can be read")
        };
        World {
            servers: (0..plan.nodes)
                .map(|node| {
                    let mut random = Random::of(&[seed, 4, node as u64]);
                    let node_seed = random.next();
                    Server::new(node_seed, plan.fsync, rate_ppm(&mut random))
                })
                .collect(),
            clients: (0..plan.clients).map(client).collect(),
            paths: vec![Path::default(); plan.nodes],
            machines: (0..plan.clients)
                .map(|client| Machine::new(rate_ppm(&mut Random::of(&[seed, 6, client as u64]))))
                .collect(),
            timers: vec![0; plan.clients],
            calls: vec![0; plan.clients],
            callers: (0..plan.clients * plan.callers)
                .map(|number| Caller {
                    client: number % plan.clients,
                    state: State::Idle,
                })
                .collect(),
            holds: Vec::new(),
            network: Network::new(seed, plan.clients, plan.nodes, plan.latency_us),
            random: Random::of(&[seed, 5]),
            report: Report::default(),
            violation: None,
            trace: traces.then(Vec::new),
            now_ns: 0,
            plan: plan.clone(),
            is_over: false,
            is_finished: false,
            freed_ns: vec![None; usize::try_from(plan.names).unwrap_or(0)],
        }
    }

    fn prepare(&mut self) {
        for node in 0..self.plan.nodes {
            self.network.at(node as u64 * 1_000_000, What::Tick(node));
        }
        for caller in 0..self.callers.len() {
            let at_ns = self.random.below(SECOND_NS);
            self.network.at(at_ns, What::Caller(caller));
        }
        if self.plan.faults != Faults::None {
            self.network.at(2 * SECOND_NS, What::Fault(0));
        }
    }

    /// When the end begins: restart delays, leases, and whoever still waits are over.
    fn last_ns(&self) -> u64 {
        let lasts_ns = self.plan.length_s * SECOND_NS + 31 * SECOND_NS;
        lasts_ns + 3 * self.plan.ttl_ms * 1_000_000 + WAIT_NS
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        let ms = self.now_ns / 1_000_000;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{ms:>8} ms  {}", text()));
        }
    }

    fn happen(&mut self, what: What) {
        if let Some(until_ns) = self.is_delayed(&what).or_else(|| self.is_asleep(&what)) {
            return self.network.at(until_ns, what);
        }
        match what {
            What::Connect(wire) => self.connect(wire),
            What::Connected(wire) => {
                if self.network.connections.contains_key(&wire) {
                    let peer = format!("node {}", wire.id.0);
                    self.client(wire.client, Event::Connected(wire.id(), &peer));
                }
            }
            What::ToNode(wire, bytes) => self.arrive_at_node(wire, &bytes),
            What::ToClient(wire, bytes) => {
                let connection = self.network.connections.get(&wire);
                if connection.is_some_and(|connection| !connection.is_swallowed) {
                    self.client(wire.client, Event::Received(wire.id(), &bytes));
                }
            }
            What::EndAtNode(wire) => self.end_at_node(wire),
            What::EndAtClient(wire) => self.end_at_client(wire, "the connection was reset"),
            What::Unacknowledged(wire) => self.end_at_client(wire, "nothing was acknowledged"),
            What::Tick(node) => {
                self.servers[node].tell_time(self.now_ns);
                self.servers[node].tick();
                self.work(node);
                self.network.at(self.now_ns + TICK_NS, What::Tick(node));
            }
            What::Timer(client, number) => {
                if self.timers[client] == number {
                    self.client(client, Event::Timer);
                }
            }
            What::Caller(caller) => self.caller(caller),
            What::Fault(node) => self.fault(node),
            What::Heal(node, healing) => self.heal(node, healing),
            What::Phase(phase) => self.phase(phase),
        }
    }

    /// Something happens to a client, and it acts.
    pub(super) fn client(&mut self, number: usize, event: Event<'_>) {
        let now = self.machines[number].now(self.now_ns);
        let mut actions = Vec::new();
        self.clients[number].handle(now, event, &mut actions);
        for action in actions {
            match action {
                Action::Open(id) => {
                    self.report.connects += 1;
                    self.network.open(self.now_ns, Wire::of(number, id));
                }
                Action::Close(id) => {
                    let wire = Wire::of(number, id);
                    self.network
                        .send_to_node(self.now_ns, wire, What::EndAtNode(wire));
                }
                Action::LimitUnacknowledged(id, limit) => {
                    let connection = self.network.connections.get_mut(&Wire::of(number, id));
                    if let Some(connection) = connection {
                        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                        connection.unacknowledged_ns = limit_ns;
                    }
                }
                Action::RenewalFailing { .. } | Action::Waiting(..) => {}
                Action::Tell(operation, outcome) => self.told(number, operation, outcome),
                Action::Renewed { held, valid_until } => {
                    self.report.renewed += 1;
                    let until_ns = self.machines[number].true_time(self.now_ns, valid_until);
                    let is_it = |hold: &&mut Hold| hold.client == number && hold.held == held;
                    if let Some(hold) = self.holds.iter_mut().find(is_it) {
                        hold.until_ns = until_ns;
                    }
                }
                Action::Lost { held, loss } => self.lost(number, held, &loss),
            }
        }
        let wires: Vec<Wire> = self.network.connections.keys().copied().collect();
        for wire in wires.into_iter().filter(|wire| wire.client == number) {
            if let Some(output) = self.clients[number].output(wire.id())
                && !output.is_empty()
            {
                let bytes = std::mem::take(output);
                self.report.requests += 1;
                self.network
                    .send_to_node(self.now_ns, wire, What::ToNode(wire, bytes));
            }
        }
        self.timers[number] += 1;
        if let Some(at) = self.clients[number].next_time() {
            let at_ns = self.machines[number].true_time(self.now_ns, at);
            let at_ns = at_ns.max(self.now_ns + 1);
            self.network
                .at(at_ns, What::Timer(number, self.timers[number]));
        }
    }

    fn told(&mut self, client: usize, operation: OperationId, outcome: Outcome) {
        let asks = |caller: &Caller| match caller.state {
            State::Asking {
                operation: asked, ..
            } => caller.client == client && asked == operation,
            _ => false,
        };
        let caller = self.callers.iter().position(asks);
        match (outcome, caller) {
            (Outcome::Acquired { token, valid_until }, Some(caller)) => {
                let State::Asking { name, asked_ns, .. } = self.callers[caller].state else {
                    return;
                };
                self.report.acquired += 1;
                self.check_turn(name, asked_ns);
                let until_ns = self.machines[client].true_time(self.now_ns, valid_until);
                self.note(|| format!("client {client} holds {name} as {operation:?}"));
                let (now_ns, held) = (self.now_ns, operation);
                let other = self
                    .holds
                    .iter()
                    .find(|hold| hold.name == name && hold.until_ns > now_ns);
                if let Some(other) = other {
                    let ms = (other.until_ns - now_ns) / 1_000_000;
                    self.violation = Some(format!(
                        "{name} is held by {other:?} for another {ms} ms, and now by client {client}, {operation:?}"
                    ));
                }
                self.holds.retain(|hold| hold.until_ns > now_ns);
                self.holds.push(Hold {
                    client,
                    held,
                    name,
                    token,
                    until_ns,
                });
                self.callers[caller].state = State::Holding { held, name };
                let ttl_ns = self.plan.ttl_ms * 1_000_000;
                // Some hold it while many nodes go and come back.
                let hold_ns = match self.random.below(4) {
                    0 => self.random.below(ttl_ns * 40),
                    _ => self.random.below(ttl_ns / 4),
                };
                if self.is_over && now_ns > self.last_ns() {
                    return;
                }
                let rest_ns = (self.plan.length_s * SECOND_NS).saturating_sub(now_ns);
                let hold_ns = hold_ns.min(rest_ns + ttl_ns);
                self.network.at(now_ns + hold_ns, What::Caller(caller));
            }
            (Outcome::NotAcquired(error), Some(caller)) => {
                self.report.refused += 1;
                if let State::Asking {
                    asked_ns,
                    waits: true,
                    ..
                } = self.callers[caller].state
                {
                    self.check_wait(asked_ns, &error.to_string());
                }
                self.note(|| format!("client {client}, {operation:?}: {error}"));
                self.callers[caller].state = State::Idle;
                let pause_ns = self.random.below(SECOND_NS);
                self.network
                    .at(self.now_ns + pause_ns, What::Caller(caller));
            }
            _ => {}
        }
    }

    fn lost(&mut self, client: usize, held: OperationId, loss: &Loss) {
        self.holds
            .retain(|hold| hold.client != client || hold.held != held);
        if *loss == Loss::Released {
            return;
        }
        self.report.lost += 1;
        self.note(|| format!("client {client} lost {held:?}: {loss}"));
        if self.plan.keeps_a_majority() {
            self.violation = Some(format!(
                "client {client} lost {held:?} ({loss}) although a majority was well all the time"
            ));
        }
    }

    pub(super) fn call(&mut self, client: usize, call: Call) -> OperationId {
        self.calls[client] += 1;
        let operation = OperationId(self.calls[client]);
        self.note(|| format!("client {client} {operation:?}: {call:?}"));
        self.client(client, Event::Call(operation, call));
        operation
    }
}

/// A clock's rate: those of a client and a node differ by less than what is allowed for.
fn rate_ppm(random: &mut Random) -> i32 {
    i32::try_from(random.below(8_001)).unwrap_or(0) - 4_000
}

pub(super) const SECOND_NS: u64 = 1_000_000_000;
const TICK_NS: u64 = 50_000_000;
pub(super) const WAIT_NS: u64 = 20 * SECOND_NS;
