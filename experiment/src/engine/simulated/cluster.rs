//! A cluster and its clients, moment by moment: the shipped rules on both sides, joined by bytes.
//!
//! What callers do is not decided here: they are told what happened, and plan steps of their own in the same queue.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client::rules::OperationId;
use quorlock_client::rules::action::{Action, Event};
use quorlock_client::rules::call::{AcquireCall, Call, Outcome};
use quorlock_client::rules::client::Client;
use quorlock_client::{Cause, Redlock, Token, Wait};
use quorlock_persistence::LogOptions;
use quorlock_simulation::{Machine, Network, Random, Server, Wire};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// What happens at a moment. `Step` is whatever the callers have planned.
#[derive(Debug)]
enum Moment<Step> {
    Connect(Wire),
    Connected(Wire),
    ToNode(Wire, Vec<u8>),
    ToClient(Wire, Vec<u8>),
    EndAtNode(Wire),
    EndAtClient(Wire),
    Unacknowledged(Wire),
    /// A client's timer; only the last one that was set counts.
    Timer(usize, u64),
    Tick(usize),
    /// A sync that takes long is done.
    Synced(usize),
    Step(Step),
}

/// What whoever drives the cluster is told.
#[derive(Debug)]
pub(super) enum Told<Step> {
    /// A call has its outcome.
    Outcome(usize, OperationId, Outcome),
    /// A node's log has failed, which ends it, or its machine: that is decided elsewhere.
    Failed(usize),
    /// A node that has started again serves.
    Serving(usize),
    /// A step is due.
    Step(Step),
}

/// All of it.
pub(super) struct Cluster<Step> {
    pub(super) now_ns: u64,
    pub(super) servers: Vec<Server>,
    /// Whether each node was seen to serve since it has started.
    serves: Vec<bool>,
    clients: Vec<Client>,
    machines: Vec<Machine>,
    timers: Vec<u64>,
    calls: Vec<u64>,
    /// Until when each client's process is stopped; its clocks go on.
    stopped_ns: Vec<u64>,
    cuts: BTreeSet<(usize, usize)>,
    network: Network<Moment<Step>>,
    told: Vec<Told<Step>>,
}

impl<Step> Cluster<Step> {
    /// So many nodes, which serve, and clients.
    pub(super) fn new(
        seed: u64,
        nodes: u8,
        directives: &[(&str, &str)],
        clients: usize,
    ) -> Cluster<Step> {
        let client = |number: usize| {
            let nodes = (1..=nodes).map(|node| format!("redis://10.0.0.{node}:7001"));
            let random = StdRng::seed_from_u64(Random::of(&[seed, 3, number as u64]).number());
            let rules = Redlock::builder()
                .nodes(nodes)
                .build_rules(Box::new(random));
            rules.expect("these addresses can be read")
        };
        let server = |node: u8| {
            let mut random = Random::of(&[seed, 4, u64::from(node)]);
            let sizes = LogOptions {
                first_segment_bytes: SEGMENT_BYTES,
                segment_bytes: SEGMENT_BYTES,
                // Segments are as long as the largest frame at least.
                frame_bytes_max: SEGMENT_BYTES / 4,
                reserve_bytes: SEGMENT_BYTES / 8,
                ..LogOptions::default()
            };
            let node_seed = random.number();
            Server::new(node_seed, directives, sizes, rate_ppm(&mut random))
        };
        let mut random = Random::of(&[seed, 2]);
        let mut way = || WAY_NS + random.below(WAY_NS);
        let ways = (0..clients).map(|_| (0..nodes).map(|_| way()).collect());
        let ways_ns = ways.collect();
        let mut network = Network::new(ways_ns, false, random);
        for node in 0..usize::from(nodes) {
            network.at(node as u64 * 1_000_000, Moment::Tick(node));
        }
        Cluster {
            now_ns: 0,
            servers: (0..nodes).map(server).collect(),
            serves: vec![false; usize::from(nodes)],
            clients: (0..clients).map(client).collect(),
            machines: (0..clients)
                .map(|client| {
                    let mut random = Random::of(&[seed, 6, client as u64]);
                    Machine::new(rate_ppm(&mut random), 0)
                })
                .collect(),
            timers: vec![0; clients],
            calls: vec![0; clients],
            stopped_ns: vec![0; clients],
            cuts: BTreeSet::new(),
            network,
            told: Vec::new(),
        }
    }

    /// Plans a step.
    pub(super) fn at(&mut self, at_ns: u64, step: Step) {
        self.network.at(at_ns, Moment::Step(step));
    }

    /// The next moment happens; what there is to tell of it.
    pub(super) fn go_on(&mut self) -> Vec<Told<Step>> {
        if let Some((at_ns, moment)) = self.network.take_next() {
            self.now_ns = at_ns;
            self.happen(moment);
        }
        std::mem::take(&mut self.told)
    }

    fn happen(&mut self, moment: Moment<Step>) {
        let client = match &moment {
            Moment::Connected(wire)
            | Moment::ToClient(wire, _)
            | Moment::EndAtClient(wire)
            | Moment::Unacknowledged(wire) => Some(wire.client),
            Moment::Timer(client, _) => Some(*client),
            _ => None,
        };
        if let Some(client) = client
            && self.stopped_ns[client] > self.now_ns
        {
            return self.network.at(self.stopped_ns[client], moment);
        }
        match moment {
            Moment::Connect(wire) => self.connect(wire),
            Moment::Connected(wire) => {
                if self.network.connections.contains_key(&wire) {
                    let peer = format!("node {}", wire.id.0);
                    self.client(wire.client, Event::Connected(wire.id(), &peer));
                }
            }
            Moment::ToNode(wire, bytes) => self.arrive_at_node(wire, &bytes),
            Moment::ToClient(wire, bytes) => {
                if self.network.connections.contains_key(&wire) {
                    self.client(wire.client, Event::Received(wire.id(), &bytes));
                }
            }
            Moment::EndAtNode(wire) => {
                self.reset_at_node(wire);
                self.network.connections.remove(&wire);
            }
            Moment::EndAtClient(wire) => self.end_at_client(wire, "the connection was reset"),
            Moment::Unacknowledged(wire) => self.end_at_client(wire, "nothing was acknowledged"),
            Moment::Timer(client, number) => {
                if self.timers[client] == number {
                    self.client(client, Event::Timer);
                }
            }
            Moment::Tick(node) => {
                self.servers[node].tell_time(self.now_ns);
                self.servers[node].tick();
                self.work(node);
                self.network.at(self.now_ns + TICK_NS, Moment::Tick(node));
            }
            Moment::Synced(node) => {
                self.servers[node].tell_time(self.now_ns);
                self.servers[node].finish_sync();
                self.work(node);
            }
            Moment::Step(step) => self.told.push(Told::Step(step)),
        }
    }

    /// Something happens to a client, and it acts.
    fn client(&mut self, number: usize, event: Event<'_>) {
        let now = self.machines[number].now(self.now_ns);
        let mut actions = Vec::new();
        self.clients[number].handle(now, event, &mut actions);
        for action in actions {
            match action {
                Action::Open(id) => {
                    let wire = Wire::of(number, id);
                    self.network.open(self.now_ns, wire, Moment::Connect(wire));
                }
                Action::Close(id) => {
                    let wire = Wire::of(number, id);
                    let end = Moment::EndAtNode(wire);
                    self.network.send_to_node(self.now_ns, wire, end);
                }
                Action::LimitUnacknowledged(id, limit) => {
                    let connection = self.network.connections.get_mut(&Wire::of(number, id));
                    if let Some(connection) = connection {
                        connection.unacknowledged_ns = nanos(limit);
                    }
                }
                Action::Tell(operation, outcome) => {
                    self.told.push(Told::Outcome(number, operation, outcome));
                }
                // Locks are leases here: nobody renews them, and nobody is told of their end.
                Action::Waiting(..)
                | Action::RenewalFailing { .. }
                | Action::Renewed { .. }
                | Action::Lost { .. }
                | Action::Log(_) => {}
            }
        }
        let all = self.network.connections.keys().copied();
        let wires: Vec<Wire> = all.filter(|wire| wire.client == number).collect();
        for wire in wires {
            if let Some(output) = self.clients[number].output(wire.id())
                && !output.is_empty()
            {
                let bytes = Moment::ToNode(wire, std::mem::take(output));
                self.network.send_to_node(self.now_ns, wire, bytes);
            }
        }
        self.timers[number] += 1;
        if let Some(at) = self.clients[number].next_time() {
            let at_ns = self.machines[number].true_time(self.now_ns, at);
            let timer = Moment::Timer(number, self.timers[number]);
            self.network.at(at_ns.max(self.now_ns + 1), timer);
        }
    }

    fn connect(&mut self, wire: Wire) {
        let server = &mut self.servers[wire.id.0];
        let is_cut = self.cuts.contains(&(wire.client, wire.id.0));
        let Some(connection) = self.network.connections.get_mut(&wire) else {
            return;
        };
        let answer = match &mut server.node {
            // The kernel answers for a process that is stopped.
            Some(node) if !is_cut => {
                connection.peer = Some((node.connect(usize::MAX, None), server.life));
                Moment::Connected(wire)
            }
            _ => Moment::EndAtClient(wire),
        };
        self.network.send_to_client(self.now_ns, wire, answer);
    }

    fn arrive_at_node(&mut self, wire: Wire, bytes: &[u8]) {
        let Some(connection) = self.network.connections.get(&wire) else {
            return;
        };
        let (peer, limit_ns) = (connection.peer, connection.unacknowledged_ns);
        let server = &self.servers[wire.id.0];
        match (&server.node, peer) {
            (Some(node), Some((peer, life))) if life == server.life => {
                node.send(peer, bytes);
                self.work(wire.id.0);
            }
            // A machine without power answers nothing; the client's kernel gives up.
            (None, Some(_)) if limit_ns < u64::MAX => {
                let at_ns = self.now_ns.saturating_add(limit_ns);
                self.network.at(at_ns, Moment::Unacknowledged(wire));
            }
            _ => {
                let end = Moment::EndAtClient(wire);
                self.network.send_to_client(self.now_ns, wire, end);
            }
        }
    }

    fn reset_at_node(&mut self, wire: Wire) {
        let connection = self.network.connections.get_mut(&wire);
        let peer = connection.and_then(|connection| connection.peer.take());
        let server = &self.servers[wire.id.0];
        if let (Some(node), Some((peer, life))) = (&server.node, peer)
            && life == server.life
        {
            node.reset(peer);
            self.work(wire.id.0);
        }
    }

    fn end_at_client(&mut self, wire: Wire, text: &str) {
        if self.network.connections.remove(&wire).is_some() {
            let cause = Cause::Unreachable(text.into());
            self.client(wire.client, Event::Closed(wire.id(), cause));
        }
    }

    /// A node does what it has to, and what it says goes on its way.
    pub(super) fn work(&mut self, number: usize) {
        let server = &mut self.servers[number];
        server.tell_time(self.now_ns);
        let goes_on = server.work();
        if server.is_syncing() && !server.is_sync_planned {
            server.is_sync_planned = true;
            let at_ns = self.now_ns + server.sync_ns;
            self.network.at(at_ns, Moment::Synced(number));
        }
        let serves = server.node.as_ref().is_some_and(|node| node.is_serving());
        if serves && !self.serves[number] {
            self.told.push(Told::Serving(number));
        }
        self.serves[number] = serves;
        self.hear(number);
        if !goes_on {
            self.told.push(Told::Failed(number));
        }
    }

    fn hear(&mut self, number: usize) {
        let server = &self.servers[number];
        let Some(node) = server.node.as_ref().filter(|_| !server.is_paused) else {
            return;
        };
        let mut said = Vec::new();
        for (wire, connection) in &self.network.connections {
            if let Some((peer, life)) = connection.peer
                && wire.id.0 == number
                && life == server.life
            {
                said.push((*wire, node.take_received(peer), node.is_closed(peer)));
            }
        }
        for (wire, bytes, is_closed) in said {
            if !bytes.is_empty() {
                let bytes = Moment::ToClient(wire, bytes);
                self.network.send_to_client(self.now_ns, wire, bytes);
            }
            if is_closed {
                let end = Moment::EndAtClient(wire);
                self.network.send_to_client(self.now_ns, wire, end);
            }
        }
    }

    /// The kernel of a process that has ended closes its connections.
    pub(super) fn end_ways_to(&mut self, node: usize) {
        let wires: Vec<Wire> = self.network.connections.keys().copied().collect();
        for wire in wires.into_iter().filter(|wire| wire.id.0 == node) {
            let end = Moment::EndAtClient(wire);
            self.network.send_to_client(self.now_ns, wire, end);
        }
    }

    /// Cuts a client off from a node: its connections are reset, and new ones refused.
    pub(super) fn cut(&mut self, client: usize, node: usize) {
        self.cuts.insert((client, node));
        let wires: Vec<Wire> = self.network.connections.keys().copied().collect();
        let is_cut = |wire: &Wire| wire.client == client && wire.id.0 == node;
        for wire in wires.into_iter().filter(is_cut) {
            self.reset_at_node(wire);
            let end = Moment::EndAtClient(wire);
            self.network.send_to_client(self.now_ns, wire, end);
        }
    }

    /// All ways are whole again; those that were cut.
    pub(super) fn join(&mut self) -> BTreeSet<(usize, usize)> {
        std::mem::take(&mut self.cuts)
    }

    /// Everything that the nodes have written so far is synced.
    pub(super) fn sync(&mut self) {
        for server in &mut self.servers {
            server.sync();
        }
    }

    /// A client's process is stopped until then.
    pub(super) fn stop_client(&mut self, client: usize, until_ns: u64) {
        self.stopped_ns[client] = until_ns;
    }

    /// Asks for a lease.
    pub(super) fn acquire(
        &mut self,
        client: usize,
        lock: &str,
        ttl: Duration,
        wait: Wait,
    ) -> OperationId {
        let call = AcquireCall {
            name: Bytes::copy_from_slice(lock.as_bytes()),
            ttl,
            wait,
            renews: false,
            min_validity: Duration::ZERO,
            reserve: Duration::ZERO,
            max_lifetime: None,
        };
        self.call(client, Call::Acquire(call))
    }

    /// Extends a lease.
    pub(super) fn extend(
        &mut self,
        client: usize,
        lock: &str,
        token: Token,
        ttl: Duration,
    ) -> OperationId {
        let name = Bytes::copy_from_slice(lock.as_bytes());
        self.call(client, Call::Extend { name, token, ttl })
    }

    /// The client keeps nothing of a lease but its token.
    pub(super) fn detach(&mut self, client: usize, held: OperationId) {
        self.call(client, Call::Detach { held });
    }

    /// Gives a lease back.
    pub(super) fn release(&mut self, client: usize, lock: &str, token: Token) -> OperationId {
        let call = Call::Release {
            held: None,
            name: Bytes::copy_from_slice(lock.as_bytes()),
            token,
            waits_for_all: false,
        };
        self.call(client, call)
    }

    fn call(&mut self, client: usize, call: Call) -> OperationId {
        self.calls[client] += 1;
        let operation = OperationId(self.calls[client]);
        self.client(client, Event::Call(operation, call));
        operation
    }

    /// When a client's clocks show this.
    pub(super) fn true_time(&self, client: usize, at: quorlock_client::ClientInstant) -> u64 {
        self.machines[client].true_time(self.now_ns, at)
    }
}

/// A clock's rate: those of a client and a node differ by less than what is allowed for.
fn rate_ppm(random: &mut Random) -> i32 {
    i32::try_from(random.below(8_001)).unwrap_or(0) - 4_000
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A way takes from this long to three times as long, which is that of a local network with busy hosts.
const WAY_NS: u64 = 300_000;
/// Short segments are soon made, and nodes need new ones all the time: on a full disk too.
const SEGMENT_BYTES: u64 = 32 << 10;
const TICK_NS: u64 = 10_000_000;
