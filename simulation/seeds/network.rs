//! What happens in a cluster, and how long the ways in it are.

use quorlock_client::Token;
use quorlock_client::rules::OperationId;
use quorlock_simulation::{Network, Random, Wire};

use super::checks::Phase;
use super::plan::Plan;

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
    /// Those who listen look what there is to do.
    Listen,
    /// A client's timer; only the last one that was set counts.
    Timer(usize, u64),
    Caller(usize),
    /// The outcome of a client's call is due.
    Due(usize, OperationId),
    /// The validity of a client's lock ends, as far as its caller was told.
    HoldEnds(usize, OperationId),
    /// Whoever knows the token of a lock does something with it.
    UseToken(Token),
    /// A guard whose lock somebody else has released is dropped.
    GuardGone(usize, OperationId),
    Fault(usize),
    /// This client's answers were late, and now it is cut off.
    CutOff(usize),
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
    /// The file system is again what it was in the image, and the node starts from that.
    RollBack,
    /// A sync that took long is done.
    Synced,
    /// The way to the node, or its disk, is well again.
    Path,
}

/// The connections of this plan.
pub(super) fn network(plan: &Plan) -> Network<What> {
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
    Network::new(ways_ns, plan.is_in_step, random)
}
