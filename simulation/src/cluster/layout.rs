//! What a cluster is made of.

use std::collections::{BTreeSet, VecDeque};

use quorlock_client::{Redlock, RedlockBuilder};
use quorlock_client_rules::client::Client;
use quorlock_persistence::LogOptions;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::{Cluster, ScheduledEvent};
use crate::machine::ClientMachine;
use crate::network::Network;
use crate::path::Path;
use crate::random::Random;
use crate::server::Server;

/// A cluster before it runs.
pub struct Layout<'a> {
    /// Where all random numbers come from.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// The directives of every node.
    pub directives: &'a [(&'a str, &'a str)],
    /// The sizes of their logs.
    pub sizes: LogOptions,
    /// The rates of the clocks of one client's machine, in millionths: its own, and how much slower those run that a time
    /// daemon steers.
    pub client_rates_ppm: &'a dyn Fn(&mut Random) -> (i32, i32),
    /// The rate of a node's clock.
    pub node_rate_ppm: &'a dyn Fn(&mut Random) -> i32,
    /// How many of the nodes a client lists, the first ones.
    pub listed: &'a dyn Fn(usize) -> usize,
    /// What clients are built with, besides the nodes.
    pub configure: &'a dyn Fn(RedlockBuilder) -> RedlockBuilder,
    /// The way of each client to each node, in nanoseconds.
    pub ways_ns: Vec<Vec<u64>>,
    /// Whether all ways take exactly that long.
    pub is_in_step: bool,
    /// Where the network's jitter comes from.
    pub jitter: Random,
    /// How often each node does what comes with time.
    pub tick_ns: u64,
    /// A machine without power acknowledges nothing. Otherwise a router answers for it with a reset.
    pub is_silent_without_power: bool,
    /// Whether what happens is written down.
    pub traces: bool,
}

impl Layout<'_> {
    /// The cluster: all nodes run on empty disks, and no client has called.
    ///
    /// # Panics
    /// If a directive does not exist, or the client refuses what it is built with.
    pub fn build<Step>(self) -> Cluster<Step> {
        let (seed, clients) = (self.seed, self.ways_ns.len());
        let rules =
            |number: usize| client_rules(seed, (self.listed)(number), number, self.configure);
        let server = |node: usize| {
            let mut random = Random::of(&[seed, 4, node as u64]);
            let node_seed = random.number();
            let rate_ppm = (self.node_rate_ppm)(&mut random);
            Server::new(node_seed, self.directives, self.sizes, rate_ppm)
        };
        let machine = |client: usize| {
            let mut random = Random::of(&[seed, 6, client as u64]);
            let (rate_ppm, steered_ppm) = (self.client_rates_ppm)(&mut random);
            ClientMachine::new(rate_ppm, steered_ppm)
        };
        let mut network = Network::new(self.ways_ns, self.is_in_step, self.jitter);
        for node in 0..self.nodes {
            network.at(node as u64 * 1_000_000, ScheduledEvent::Tick(node));
        }
        Cluster {
            now_ns: 0,
            servers: (0..self.nodes).map(server).collect(),
            clients: (0..clients).map(rules).collect(),
            machines: (0..clients).map(machine).collect(),
            network,
            paths: vec![Path::default(); self.nodes],
            uplinks: vec![Path::default(); clients],
            random: Random::of(&[seed, 5]),
            trace: self.traces.then(Vec::new),
            connects: 0,
            requests: 0,
            events: VecDeque::new(),
            timers: vec![0; clients],
            calls: vec![0; clients],
            stopped_ns: vec![0; clients],
            cuts: BTreeSet::new(),
            serves: vec![false; self.nodes],
            tick_ns: self.tick_ns,
            is_silent_without_power: self.is_silent_without_power,
        }
    }
}

/// The rules of a client of a cluster with this seed and so many nodes.
///
/// # Panics
/// If the client refuses what it is built with.
pub fn client_rules(
    seed: u64,
    nodes: usize,
    number: usize,
    configure: &dyn Fn(RedlockBuilder) -> RedlockBuilder,
) -> Client {
    let nodes = (1..=nodes).map(|node| format!("redis://10.0.0.{node}:7001"));
    let random = StdRng::seed_from_u64(Random::of(&[seed, 3, number as u64]).number());
    let builder = configure(Redlock::builder().nodes(nodes));
    let rules = builder.build_rules(Box::new(random));
    rules.expect("these addresses can be read")
}

/// A clock's rate: those of a client and a node differ by less than what is allowed for.
pub fn drift_ppm(random: &mut Random) -> i32 {
    i32::try_from(random.below(8_001)).unwrap_or(0) - 4_000
}
