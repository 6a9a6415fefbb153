//! The cluster, its clients and their callers, moment by moment.

use std::collections::{BTreeMap, BTreeSet};

use quorlock_client::Redlock;
use quorlock_client::Wait;
use quorlock_client::rules::OperationId;
use quorlock_client::rules::action::{Action, Event};
use quorlock_client::rules::call::{AcquireCall, Call};
use quorlock_client::rules::client::Client;
use quorlock_persistence::LogOptions;
use quorlock_simulation::{Machine, Network, Random, Server, Wire};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::caller::{Caller, Hold, OpenCall, State};
use super::calls::lock_name;
use super::checks::Phase;
use super::faults::{Fault, Path};
use super::leftovers::Leftovers;
use super::listeners::Listeners;
use super::network::{What, network};
use super::plan::{Faults, Plan};
use super::tokens::Tokens;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Locks that callers were told they hold.
    pub(crate) acquired: u64,
    /// Calls that ended without the lock.
    pub(crate) refused: u64,
    /// How often calls were told what they wait for.
    pub(crate) told_waiting: u64,
    /// Validities that moved on.
    pub(crate) renewed: u64,
    /// Locks that were extended, and released, by somebody who only knew their token.
    pub(crate) extended: u64,
    /// The same.
    pub(crate) released_by_token: u64,
    /// Locks that were lost.
    pub(crate) lost: u64,
    /// What went wrong, and how often.
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Connections that clients made.
    pub(crate) connects: u64,
    /// How often clients wrote to nodes.
    pub(crate) requests: u64,
    /// Numbers that publishers were told and listeners have heard.
    pub(crate) heard: u64,
    /// What happened, all in all.
    pub(crate) events: u64,
    /// How long locks were free while callers waited, where nothing went wrong.
    pub(crate) turns_ms: Vec<u64>,
    /// Of callers that asked in step: after how many of the longest ways the first of them had the lock.
    pub(crate) draws_ways: Vec<u64>,
    /// The most requests that a client kept for its nodes at a time.
    pub(crate) requests_kept_max: u64,
    /// Simulated time.
    pub(crate) simulated_ms: u64,
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
    /// Calls that have no outcome yet, by client.
    pub(super) open: BTreeMap<(usize, OperationId), OpenCall>,
    pub(super) holds: Vec<Hold>,
    pub(super) leftovers: Leftovers,
    pub(super) by_token: Tokens,
    /// Every token that a caller was told.
    pub(super) tokens: BTreeSet<Vec<u8>>,
    pub(super) network: Network<What>,
    pub(super) paths: Vec<Path>,
    /// The ways of each client to all nodes.
    pub(super) uplinks: Vec<Path>,
    pub(super) machines: Vec<Machine>,
    pub(super) random: Random,
    pub(super) report: Report,
    pub(super) violation: Option<String>,
    pub(super) trace: Option<Vec<String>>,
    pub(super) is_over: bool,
    pub(super) is_finished: bool,
    /// Of each name: since when nobody holds it.
    pub(super) freed_ns: Vec<Option<u64>>,
    pub(super) listeners: Option<Listeners>,
    /// Nobody counts any more.
    pub(super) is_counted: bool,
}

/// Runs a plan. With `traces` the error says all that happened.
///
/// # Errors
/// The first promise that was not kept, and when.
pub(crate) fn run(plan: &Plan, traces: bool) -> Result<Report, String> {
    let mut world = World::new(plan, traces);
    world.prepare();
    let healed_ns = plan.length_s * SECOND_NS;
    let end_ns = world.last_ns();
    world.network.at(end_ns, What::Phase(Phase::Take));
    while let Some((at_ns, what)) = world.network.take_next() {
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
            let random = StdRng::seed_from_u64(Random::of(&[seed, 3, number as u64]).number());
            let mut builder = Redlock::builder()
                .nodes(nodes)
                .spare_votes(plan.spare_votes);
            if plan.tells_cluster() {
                builder = builder.cluster_id(CLUSTER);
            }
            builder
                .build_rules(Box::new(random))
                .expect("these addresses can be read")
        };
        World {
            servers: (0..plan.nodes)
                .map(|node| {
                    let mut random = Random::of(&[seed, 4, node as u64]);
                    let node_seed = random.number();
                    let rate_ppm = rate_ppm(plan, &mut random);
                    let sizes = LogOptions {
                        first_segment_bytes: 256 << 10,
                        segment_bytes: 256 << 10,
                        ..LogOptions::default()
                    };
                    Server::new(node_seed, &directives(plan), sizes, rate_ppm)
                })
                .collect(),
            clients: (0..plan.clients).map(client).collect(),
            paths: vec![Path::default(); plan.nodes],
            uplinks: vec![Path::default(); plan.clients],
            machines: (0..plan.clients)
                .map(|client| {
                    let mut random = Random::of(&[seed, 6, client as u64]);
                    let rate_ppm = rate_ppm(plan, &mut random);
                    Machine::new(rate_ppm, steered_ppm(plan, &mut random))
                })
                .collect(),
            timers: vec![0; plan.clients],
            calls: vec![0; plan.clients],
            callers: (0..plan.clients * plan.callers)
                .map(|number| Caller {
                    client: number % plan.clients,
                    state: State::Idle,
                })
                .collect(),
            open: BTreeMap::new(),
            holds: Vec::new(),
            leftovers: Leftovers::of(plan.nodes),
            by_token: Tokens::default(),
            tokens: BTreeSet::new(),
            network: network(plan),
            random: Random::of(&[seed, 5]),
            report: Report::default(),
            violation: None,
            trace: traces.then(Vec::new),
            now_ns: 0,
            plan: plan.clone(),
            is_over: false,
            is_finished: false,
            freed_ns: vec![Some(0); usize::try_from(plan.names).unwrap_or(0)],
            listeners: None,
            is_counted: false,
        }
    }

    fn prepare(&mut self) {
        self.add_listeners();
        for node in 0..self.plan.nodes {
            self.network.at(node as u64 * 1_000_000, What::Tick(node));
        }
        for caller in 0..self.callers.len() {
            let at_ns = match self.plan.is_in_step {
                true => SECOND_NS / 2,
                false => self.random.below(SECOND_NS),
            };
            self.network.at(at_ns, What::Caller(caller));
        }
        if self.plan.faults != Faults::None {
            // Everybody has seen every node by then.
            let chains = match self.plan.is_together {
                true => 1,
                false => self.plan.away,
            };
            for chain in 0..chains {
                self.network.at(3 * SECOND_NS, What::Fault(chain));
            }
        }
    }

    /// When the end begins: restart delays, leases, and whoever still waits are over.
    pub(super) fn last_ns(&self) -> u64 {
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
            return self.network.put_off(until_ns, what);
        }
        match what {
            What::Connect(wire) => self.connect(wire),
            What::Connected(wire) if self.is_listener(wire) => self.listener_connected(wire),
            What::Connected(wire) => {
                if self.network.connections.contains_key(&wire) {
                    let peer = format!("node {}", wire.id.0);
                    self.client(wire.client, Event::Connected(wire.id(), &peer));
                }
            }
            What::ToNode(wire, bytes) => self.arrive_at_node(wire, &bytes),
            What::ToClient(wire, bytes) => {
                let connection = self.network.connections.get(&wire);
                if connection.is_none_or(|connection| connection.is_swallowed) {
                    return;
                }
                match self.is_listener(wire) {
                    true => self.listener_received(wire, &bytes),
                    false => self.client(wire.client, Event::Received(wire.id(), &bytes)),
                }
            }
            What::EndAtNode(wire) => self.end_at_node(wire),
            What::EndAtClient(wire) => self.end_at_client(wire, "the connection was reset"),
            What::Unacknowledged(wire) => self.end_at_client(wire, "nothing was acknowledged"),
            What::Tick(node) => {
                self.servers[node].tell_time(self.now_ns);
                self.servers[node].tick();
                self.work(node);
                self.check_empty(node);
                if node == 0 {
                    self.check_sizes();
                    if self.now_ns.is_multiple_of(LOOK_EVERY_NS) {
                        self.check_leftovers();
                    }
                }
                self.network.at(self.now_ns + TICK_NS, What::Tick(node));
            }
            What::Timer(client, number) => {
                if self.timers[client] == number {
                    self.client(client, Event::Timer);
                }
            }
            What::Listen => self.look(),
            What::Caller(caller) => self.caller(caller),
            What::Due(client, operation) => self.due(client, operation),
            What::HoldEnds(client, held) => self.hold_ends(client, held),
            What::UseToken(token) => self.use_token(&token),
            What::GuardGone(client, held) => self.guard_gone(client, held),
            What::Fault(node) => self.fault(node),
            What::CutOff(client) => self.cut_off_after_late(client),
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
                    let wire = Wire::of(number, id);
                    self.network.open(self.now_ns, wire, What::Connect(wire));
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
                Action::Waiting(operation, waiting) => self.waits(number, operation, &waiting),
                Action::RenewalFailing { .. } | Action::Log(_) => {}
                Action::Tell(operation, outcome) => self.told(number, operation, outcome),
                Action::Renewed { held, valid_until } => {
                    self.renewed(number, held, valid_until);
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

    pub(super) fn call(&mut self, client: usize, call: Call) -> OperationId {
        self.calls[client] += 1;
        let operation = OperationId(self.calls[client]);
        self.note(|| format!("client {client} {operation:?}: {call:?}"));
        let (wait, name) = match &call {
            Call::Acquire(AcquireCall { wait, name, .. })
            | Call::AcquireTelling(AcquireCall { wait, name, .. }) => (*wait, Some(name)),
            _ => (Wait::None, None),
        };
        let wait_ns = match wait {
            Wait::For(wait) => u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX),
            _ => 0,
        };
        let names = 0..self.plan.names;
        let open = OpenCall {
            asked_ns: self.now_ns,
            wait_ns,
            tells: matches!(call, Call::AcquireTelling(_)),
            name: names
                .filter(|_| wait_ns > 0)
                .find(|one| name == Some(&lock_name(*one))),
        };
        self.expect(client, operation, open);
        self.client(client, Event::Call(operation, call));
        operation
    }
}

/// What every node is told.
fn directives(plan: &Plan) -> [(&'static str, &'static str); 5] {
    [
        ("appendonly", "yes"),
        ("appendfsync", plan.fsync),
        ("first-start", "serve"),
        ("restart-delay-max", "30s"),
        ("cluster-id", CLUSTER),
    ]
}

/// A clock's rate: those of a client and a node differ by less than what is allowed for.
fn rate_ppm(plan: &Plan, random: &mut Random) -> i32 {
    if plan.is_in_step {
        return 0;
    }
    i32::try_from(random.below(8_001)).unwrap_or(0) - 4_000
}

/// How much a time daemon slows the clocks down that it may steer.
fn steered_ppm(plan: &Plan, random: &mut Random) -> i32 {
    match plan.faults {
        Faults::Clocks | Faults::All => random.pick(&[0, 500, 80_000]),
        _ => 0,
    }
}

pub(super) const SECOND_NS: u64 = 1_000_000_000;
pub(super) const CLUSTER: &str = "blue";
const TICK_NS: u64 = 50_000_000;
/// How often nodes are searched for keys that nobody holds.
const LOOK_EVERY_NS: u64 = SECOND_NS / 2;
pub(super) const WAIT_NS: u64 = 20 * SECOND_NS;
