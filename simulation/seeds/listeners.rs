//! Publishers that count on each node and publish every number, and their listeners: a number that arrives is on record.
//!
//! Invariant: the truth is the numbers. A counter without a TTL goes on where it was, whatever happens to its node. So a
//! number that comes again was published before it was on record, and one that is left out on a connection was lost there.

use quorlock_simulation::{ClientMachine, Path, Random, Wire, middle_box};

use super::plan::Plan;
use super::step::Step;
use super::world::{SECOND_NS, World};

/// All of them.
#[derive(Debug)]
pub(super) struct SimulatedListeners {
    /// A publisher counts with each so many looks.
    pace: u64,
    looks: u64,
    ends: Vec<ListeningClient>,
    /// How many connections there were.
    opened: u32,
}

/// One that keeps a connection to a node.
#[derive(Debug, Default)]
struct ListeningClient {
    node: usize,
    publishes: bool,
    wire: Option<Wire>,
    /// When a value came last, or the connection began.
    heard_ns: u64,
    /// What has come and is no whole value yet.
    buffer: Vec<u8>,
    is_connected: bool,
    /// The number that came last on this connection, and on any.
    last: Option<u64>,
    highest: u64,
}

impl SimulatedListeners {
    /// Those of this plan, if it has any.
    pub(super) fn of(plan: &Plan) -> Option<SimulatedListeners> {
        let mut random = Random::of(&[plan.seed, 9]);
        if plan.is_crowded || plan.is_in_step || !random.chance(1, 4) {
            return None;
        }
        let pace = random.pick(&[1, 5, 50]);
        // To many at once messages leave together.
        let crowd = random.pick(&[1, 1, 20]);
        let mut ends = Vec::new();
        for node in 0..plan.nodes {
            let listening = if node == 0 { crowd } else { 1 };
            ends.extend((0..=listening).map(|number| ListeningClient {
                node,
                publishes: number == 0,
                ..ListeningClient::default()
            }));
        }
        Some(SimulatedListeners {
            pace,
            looks: 0,
            ends,
            opened: 0,
        })
    }

    fn end(&mut self, wire: Wire) -> Option<&mut ListeningClient> {
        self.ends.iter_mut().find(|end| end.wire == Some(wire))
    }
}

impl ListeningClient {
    fn close(&mut self) {
        self.wire = None;
        self.buffer.clear();
        self.is_connected = false;
        self.last = None;
    }

    /// Takes in all whole values. An error says what is wrong; otherwise whether the connection is any good.
    fn receive(&mut self, now_ns: u64, bytes: &[u8]) -> Result<bool, String> {
        self.buffer.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = buffer.as_slice();
        let mut is_good = true;
        // What comes behind bytes that mean nothing may mean anything.
        while is_good && let Some(after) = middle_box::skip(rest) {
            let value = String::from_utf8_lossy(&rest[..rest.len() - after.len()]);
            is_good = self.take(&value)?;
            // Bytes that never become a value are silence.
            self.heard_ns = now_ns;
            rest = after;
        }
        self.buffer = rest.to_vec();
        Ok(is_good)
    }

    fn take(&mut self, value: &str) -> Result<bool, String> {
        let lines = value.split("\r\n");
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
        let words: Vec<&str> = lines.collect();
        let number = match (words.as_slice(), self.publishes) {
            (["+PONG"], true) | (["pong"] | ["subscribe", COUNTER, ":1"], false) => {
                return Ok(true);
            }
            // A node does not count in its restart delay or with a full disk.
            ([error], true) if error.starts_with('-') => return Ok(true),
            ([number], true) => number.strip_prefix(':'),
            (["message", COUNTER, number], false) => Some(*number),
            _ => None,
        };
        let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) else {
            return Ok(false);
        };
        let (last, highest) = (self.last.replace(number), self.highest);
        let is_next = self.publishes || last.is_none_or(|last| number == last + 1);
        self.highest = number;
        match number > highest && is_next {
            true => Ok(true),
            false => Err(format!("{number} comes after {highest}")),
        }
    }
}

impl World {
    /// They join, if there are any.
    pub(super) fn add_listeners(&mut self) {
        self.listeners = SimulatedListeners::of(&self.plan);
        if self.listeners.is_none() {
            return;
        }
        let mut random = Random::of(&[self.plan.seed, 10]);
        let half_us = self.plan.latency_us / 2;
        let ways = 0..self.plan.nodes;
        let ways_ns = ways.map(|_| 1_000 * (half_us + random.below(half_us + 1)));
        self.cluster.network.add_client(ways_ns.collect(), random);
        self.cluster.uplinks.push(Path::default());
        self.cluster.machines.push(ClientMachine::new(0, 0));
        self.cluster.at(LOOK_NS, Step::Listen);
    }

    /// Each of them looks what there is to do.
    pub(super) fn look(&mut self) {
        let Some(mut listeners) = self.listeners.take() else {
            return;
        };
        listeners.looks += 1;
        let counts = listeners.looks.is_multiple_of(listeners.pace) && !self.is_counted;
        let pings = listeners.looks.is_multiple_of(LOOKS_PER_PING);
        for end in &mut listeners.ends {
            let Some(wire) = end.wire else {
                listeners.opened += 1;
                let wire = Wire {
                    client: self.plan.clients,
                    id: (end.node, listeners.opened),
                };
                (end.wire, end.heard_ns) = (Some(wire), self.cluster.now_ns);
                self.cluster.open(wire);
                continue;
            };
            if self.cluster.now_ns - end.heard_ns > SILENT_NS {
                end.close();
                self.cluster.close(wire);
            } else if end.is_connected && (end.publishes && counts || pings) {
                let request = if pings { PING } else { COUNT };
                self.cluster.send(wire, request);
            }
        }
        self.listeners = Some(listeners);
        self.cluster.at(self.cluster.now_ns + LOOK_NS, Step::Listen);
    }

    pub(super) fn listener_connected(&mut self, wire: Wire) {
        let end = self.listeners.as_mut().and_then(|all| all.end(wire));
        if let Some(end) = end {
            end.is_connected = true;
            if !end.publishes {
                self.cluster.send(wire, SUBSCRIBE);
            }
        }
    }

    pub(super) fn listener_received(&mut self, wire: Wire, bytes: &[u8]) {
        let end = self.listeners.as_mut().and_then(|all| all.end(wire));
        let Some(end) = end else {
            return;
        };
        let before = end.highest;
        let received = end.receive(self.cluster.now_ns, bytes);
        self.report.heard += end.highest.saturating_sub(before);
        match received {
            Ok(true) => {}
            Ok(false) => {
                self.cluster.close(wire);
                self.listener_closed(wire);
            }
            Err(violation) => {
                let who = if end.publishes {
                    "publisher"
                } else {
                    "listener"
                };
                let node = wire.id.0;
                self.violation = Some(format!("of node {node} a {who} is told that {violation}"));
            }
        }
    }

    pub(super) fn listener_closed(&mut self, wire: Wire) {
        if let Some(end) = self.listeners.as_mut().and_then(|all| all.end(wire)) {
            end.close();
        }
    }

    /// Another directory is served under the address, with a counter of its own.
    pub(super) fn forget_numbers(&mut self, node: usize) {
        let ends = self.listeners.iter_mut().flat_map(|all| &mut all.ends);
        for end in ends.filter(|end| end.node == node) {
            end.close();
            end.highest = 0;
        }
    }

    /// All is well, and no publisher counts any more: each listener of a node has the number that its publisher got
    /// last.
    pub(super) fn check_numbers(&mut self) {
        for node in 0..self.plan.nodes {
            let ends = self.listeners.iter().flat_map(|all| &all.ends);
            let numbers = ends.filter(|end| end.node == node);
            let mut numbers: Vec<u64> = numbers.map(|end| end.highest).collect();
            numbers.dedup();
            if numbers.len() > 1 || numbers == [0] {
                self.violation = Some(format!(
                    "of node {node} the publisher, and then its listeners, were told last: {numbers:?}"
                ));
            }
        }
    }
}

/// The key and the channel.
pub(super) const COUNTER: &str = "counter";
const COUNT: &[u8] = b"*4\r\n$4\r\nEVAL\r\n$95\r\n\
local number = redis.call('incr', KEYS[1]) redis.call('publish', KEYS[1], number) return number\r\n\
$1\r\n1\r\n$7\r\ncounter\r\n";
const SUBSCRIBE: &[u8] = b"*2\r\n$9\r\nSUBSCRIBE\r\n$7\r\ncounter\r\n";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

const LOOK_NS: u64 = SECOND_NS / 10;
const LOOKS_PER_PING: u64 = 23;
/// Longer than from one PING to the next, with the ways.
const SILENT_NS: u64 = 8 * SECOND_NS;
