//! Connections between clients and nodes: bytes in order, after their latency, or never.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quorlock_client_rules::ConnectionId;
use quorlock_node::simulation::Client as Peer;

use crate::random::Random;

/// Names a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wire {
    /// Of which client.
    pub client: usize,
    /// To which node, and which of the connections there.
    pub id: (usize, u32),
}

impl Wire {
    /// As the client names it.
    pub fn of(client: usize, id: ConnectionId) -> Wire {
        Wire {
            client,
            id: (id.node, id.number),
        }
    }

    /// The client's name for it.
    pub fn id(self) -> ConnectionId {
        ConnectionId {
            node: self.id.0,
            number: self.id.1,
        }
    }
}

/// A connection, from the client's dial until its end is closed.
#[derive(Debug)]
pub struct Connection {
    /// The node's end, in this life of the node.
    pub peer: Option<(Peer, u32)>,
    /// Whether all that is sent on it vanishes.
    pub is_swallowed: bool,
    /// How long its bytes may go unacknowledged before the client gives it up.
    pub unacknowledged_ns: u64,
    /// Nothing overtakes on a connection: when the last bytes arrive in each direction.
    to_node_ns: u64,
    to_client_ns: u64,
}

/// All connections, and what happens when.
#[derive(Debug)]
pub struct Network<What> {
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    whats: BTreeMap<u64, What>,
    count: u64,
    /// The number of what happened last.
    taken: u64,
    /// All that are there.
    pub connections: BTreeMap<Wire, Connection>,
    /// The usual way from each client to each node, in nanoseconds.
    ways_ns: Vec<Vec<u64>>,
    /// How much longer everything takes to and from each node at present.
    pub extra_ns: Vec<u64>,
    /// Until when all that is said to each client takes so much longer.
    pub late_ns: Vec<(u64, u64)>,
    /// Nothing takes longer than usual.
    is_in_step: bool,
    random: Random,
    /// Clients that came later draw their jitter themselves.
    randoms: BTreeMap<usize, Random>,
}

impl<What> Network<What> {
    /// A network without connections, with the usual way from each client to each node. In step, nothing takes longer
    /// than usual.
    pub fn new(ways_ns: Vec<Vec<u64>>, is_in_step: bool, random: Random) -> Network<What> {
        let (clients, nodes) = (ways_ns.len(), ways_ns.first().map_or(0, Vec::len));
        Network {
            queue: BinaryHeap::new(),
            whats: BTreeMap::new(),
            count: 0,
            taken: 0,
            connections: BTreeMap::new(),
            ways_ns,
            extra_ns: vec![0; nodes],
            late_ns: vec![(0, 0); clients],
            is_in_step,
            random,
            randoms: BTreeMap::new(),
        }
    }

    /// One more client, behind those that are there, with its usual way to each node. What happens to the others stays as it is.
    pub fn add_client(&mut self, ways_ns: Vec<u64>, random: Random) {
        self.randoms.insert(self.ways_ns.len(), random);
        self.ways_ns.push(ways_ns);
        self.late_ns.push((0, 0));
    }

    /// The usual way from a client to each node, in nanoseconds.
    pub fn ways_of(&self, client: usize) -> Vec<u64> {
        self.ways_ns[client].clone()
    }

    /// Something happens at a moment.
    pub fn at(&mut self, at_ns: u64, what: What) {
        self.count += 1;
        self.queue.push(Reverse((at_ns, self.count)));
        self.whats.insert(self.count, what);
    }

    /// What happens now is put off until then, and comes before all that was planned for that moment after it: what is delayed on
    /// a connection stays in order.
    pub fn put_off(&mut self, at_ns: u64, what: What) {
        self.queue.push(Reverse((at_ns, self.taken)));
        self.whats.insert(self.taken, what);
    }

    /// What happens next, and when.
    pub fn take_next(&mut self) -> Option<(u64, What)> {
        let Reverse((at_ns, number)) = self.queue.pop()?;
        let what = self.whats.remove(&number)?;
        self.taken = number;
        Some((at_ns, what))
    }

    /// The client dials: this reaches the node.
    pub fn open(&mut self, now_ns: u64, wire: Wire, connect: What) {
        let connection = Connection {
            peer: None,
            is_swallowed: false,
            unacknowledged_ns: u64::MAX,
            to_node_ns: now_ns,
            to_client_ns: now_ns,
        };
        self.connections.insert(wire, connection);
        self.send_to_node(now_ns, wire, connect);
    }

    /// Something goes to the node, behind all that went there before.
    pub fn send_to_node(&mut self, now_ns: u64, wire: Wire, what: What) {
        let way_ns = self.way(wire);
        let Some(connection) = self.connections.get_mut(&wire) else {
            return;
        };
        let at_ns = connection.to_node_ns.max(now_ns + way_ns);
        connection.to_node_ns = at_ns;
        self.at(at_ns, what);
    }

    /// Something goes to the client, behind all that went there before.
    pub fn send_to_client(&mut self, now_ns: u64, wire: Wire, what: What) {
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
        let random = self.randoms.get_mut(&wire.client);
        let random = random.unwrap_or(&mut self.random);
        usual_ns + random.below(usual_ns / 2 + 1) + self.extra_ns[wire.id.0]
    }
}
