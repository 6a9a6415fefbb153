//! What a run has planned, and how long the ways in its cluster are.

use quorlock_client::Token;
use quorlock_client_rules::OperationId;
use quorlock_simulation::Random;

use super::checks::FinalPhase;
use super::far::far_way_us;
use super::forced::Sighting;
use super::plan::Plan;

/// What is planned for a moment.
#[derive(Debug)]
pub(super) enum Step {
    /// Those who listen look what there is to do.
    Listen,
    Caller(usize),
    /// The outcome of a client's call is due.
    Due(usize, OperationId),
    /// The validity of a client's lock ends, as its caller knows it.
    HoldEnds(usize, OperationId),
    /// A client that knows the token of a lock does something with it.
    UseToken(Token),
    /// A guard whose lock another client has released is dropped.
    GuardGone(usize, OperationId),
    /// The operator looks at the locks that are held.
    LookAtLocks,
    /// The operator ends a lock that was seen before.
    Force(Sighting),
    /// The holder of a lock that was ended on all nodes has had the time to learn of it.
    ForceNoticed((usize, OperationId)),
    /// The operator adds members.
    ChangeMembers,
    Fault(usize),
    /// This client's answers were late, and now it is cut off.
    CutOff(usize),
    Heal(usize, FaultEnd),
    /// A step of the end.
    Phase(FinalPhase),
}

/// How what went wrong at a node ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum FaultEnd {
    Resume,
    Start,
    /// Another node than before answers under the address, and the node of before is to answer there again.
    Return,
    /// The file system is again what it was in the image, and the node starts from that.
    RollBack,
    /// The way to the node, or its disk, is well again.
    Path,
}

/// The way from each client to each node in nanoseconds, and where its jitter comes from.
pub(super) fn ways(plan: &Plan) -> (Vec<Vec<u64>>, Random) {
    let mut random = Random::of(&[plan.seed, 2]);
    let (latency_us, nodes) = (plan.latency_us, plan.nodes);
    let way = |random: &mut Random, client: usize, node: usize| {
        // Each client is the nearest to as many nodes, and otherwise they are alike.
        let step = (node + plan.clients - client) % plan.clients;
        let part_us = match plan.is_in_step {
            true => latency_us * step as u64 / (2 * plan.clients as u64),
            false => random.below(latency_us / 2 + 1),
        };
        1_000 * far_way_us(plan, client).unwrap_or(latency_us / 2 + part_us)
    };
    let mut ways_ns = Vec::new();
    for client in 0..plan.clients {
        ways_ns.push(
            (0..nodes)
                .map(|node| way(&mut random, client, node))
                .collect(),
        );
    }
    (ways_ns, random)
}
