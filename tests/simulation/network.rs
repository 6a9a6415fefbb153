//! Connections between clients and nodes: bytes in order, after their latency, or never.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quorlock_client::rules::{ConnectionId, OperationId};
use quorlock_server::simulation::Client as Peer;

use super::checks::Phase;
use super::plan::Plan;
use crate::crash::random::Random;

/// A client's connection: of which client, and which of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wire {
    pub(super) client: usize,
    pub(super) id: (usize, u32),
}

impl Wire {
    pub(super) fn of(client: usize, id: ConnectionId) -> Wire {
        Wire {
            client,
            id: (id.node, id.number),
        }
    }

    pub(super) fn id(self) -> ConnectionId {
        ConnectionId {
            node: self.id.0,
            number: self.id.1,
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    /// The node's end, in this life of the node.
    pub(super) peer: Option<(Peer, u32)>,
    pub(super) is_swallowed: bool,
    /// How long its bytes may go unacknowledged before the client gives it up.
    pub(super) unacknowledged_ns: u64,
    /// Nothing overtakes on a connection: when the last bytes arrive in each direction.
    to_node_ns: u64,
    to_client_ns: u64,
}

/// What happens at a moment.
#[derive(Debug)]
pub(super) enum What {
    /// A connect reaches its node.
    Connect(Wire),
    Connected(Wire),
    ToNode(Wire, Vec<u8>),
    ToClient(Wire, Vec<u8>),
    /// The client's end has closed.
    EndAtNode(Wire),
    /// The node's end has closed, or there is none.
    EndAtClient(Wire),
    /// The client's kernel gives up a connection whose bytes were not acknowledged.
    Unacknowledged(Wire),
    Tick(usize),
    /// A client's timer; only the last one that was set counts.
    Timer(usize, u64),
    Caller(usize),
    /// The outcome of a client's call is due.
    Due(usize, OperationId),
    /// The validity of a client's lock ends, as far as its caller was told.
    HoldEnds(usize, OperationId),
    Fault(usize),
    Heal(usize, Healing),
    /// A step of the end.
    Phase(Phase),
}

/// How what went wrong at a node ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Healing {
    Resume,
    Start,
    /// Another node than before answers under the address, and the node of before is to answer there again.
    Return,
    /// A sync that took long is done.
    Synced,
    /// The way to the node, or its disk, is well again.
    Path,
}

#[derive(Debug)]
pub(super) struct Network {
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    whats: BTreeMap<u64, What>,
    count: u64,
    pub(super) connections: BTreeMap<Wire, Connection>,
    /// The usual way from each client to each node, in nanoseconds.
    ways_ns: Vec<Vec<u64>>,
    /// How much longer everything takes to and from each node at present.
    pub(super) extra_ns: Vec<u64>,
    /// Until when all that is said to each client takes so much longer.
    pub(super) late_ns: Vec<(u64, u64)>,
    /// Nothing takes longer than usual.
    is_in_step: bool,
    random: Random,
}

impl Network {
    pub(super) fn new(plan: &Plan) -> Network {
        let mut random = Random::of(&[plan.seed, 2]);
        let (latency_us, nodes) = (plan.latency_us, plan.nodes);
        let way = |random: &mut Random, client: usize, node: usize| {
            // Each client is the nearest to as many nodes, and otherwise they are alike.
            let step = (node + plan.clients - client) % plan.clients;
            let part_us = match plan.is_in_step {
                true => latency_us * step as u64 / (2 * plan.clients as u64),
                false => random.below(latency_us / 2 + 1),
            };
            1_000 * (latency_us / 2 + part_us)
        };
        let mut ways_ns = Vec::new();
        for client in 0..plan.clients {
            ways_ns.push(
                (0..nodes)
                    .map(|node| way(&mut random, client, node))
                    .collect(),
            );
        }
        Network {
            queue: BinaryHeap::new(),
            whats: BTreeMap::new(),
            count: 0,
            connections: BTreeMap::new(),
            ways_ns,
            extra_ns: vec![0; nodes],
            late_ns: vec![(0, 0); plan.clients],
            is_in_step: plan.is_in_step,
            random,
        }
    }

    pub(super) fn at(&mut self, at_ns: u64, what: What) {
        self.count += 1;
        self.queue.push(Reverse((at_ns, self.count)));
        self.whats.insert(self.count, what);
    }

    pub(super) fn next(&mut self) -> Option<(u64, What)> {
        let Reverse((at_ns, number)) = self.queue.pop()?;
        let what = self.whats.remove(&number)?;
        Some((at_ns, what))
    }

    /// The client dials.
    pub(super) fn open(&mut self, now_ns: u64, wire: Wire) {
        let connection = Connection {
            peer: None,
            is_swallowed: false,
            unacknowledged_ns: u64::MAX,
            to_node_ns: now_ns,
            to_client_ns: now_ns,
        };
        self.connections.insert(wire, connection);
        self.send_to_node(now_ns, wire, What::Connect(wire));
    }

    /// Something goes to the node, behind all that went there before.
    pub(super) fn send_to_node(&mut self, now_ns: u64, wire: Wire, what: What) {
        let way_ns = self.way(wire);
        let Some(connection) = self.connections.get_mut(&wire) else {
            return;
        };
        let at_ns = connection.to_node_ns.max(now_ns + way_ns);
        connection.to_node_ns = at_ns;
        self.at(at_ns, what);
    }

    pub(super) fn send_to_client(&mut self, now_ns: u64, wire: Wire, what: What) {
        let (until_ns, late_ns) = self.late_ns[wire.client];
        let late_ns = if now_ns < until_ns { late_ns } else { 0 };
        let way_ns = self.way(wire) + late_ns;
        let Some(connection) = self.connections.get_mut(&wire) else {
            return;
        };
        let at_ns = connection.to_client_ns.max(now_ns + way_ns);
        connection.to_client_ns = at_ns;
        self.at(at_ns, what);
    }

    /// A way with its jitter: up to a half more.
    fn way(&mut self, wire: Wire) -> u64 {
        let usual_ns = self.ways_ns[wire.client][wire.id.0];
        if self.is_in_step {
            return usual_ns;
        }
        usual_ns + self.random.below(usual_ns / 2 + 1) + self.extra_ns[wire.id.0]
    }
}
