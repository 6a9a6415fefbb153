//! A client that is far away from the nodes, and wants a lock that clients near them take again and again.
//!
//! Invariant: its callers have the lock in a bounded time, as all who stand in line do. That it is fair between them is not checked.

use quorlock_simulation::Random;

use super::fault_class::FaultClass;
use super::plan::Plan;
use super::world::{SECOND_NS, World};

impl Plan {
    /// The same seed with three clients whose callers stand in line for one lock: one of them is far away from the nodes, and
    /// nothing goes wrong.
    pub(crate) fn far(seed: u64) -> Plan {
        let plan = Plan::forgetful(seed, 0);
        Plan {
            clients: 3,
            callers: Random::of(&[seed, 16]).pick(&[1, 2]),
            ttl_ms: 10_000,
            latency_us: Random::of(&[seed, 17]).pick(&[50, 1_000]),
            faults: FaultClass::None,
            away: 1,
            is_by_token: false,
            is_waiting: true,
            is_far: true,
            ..plan
        }
    }
}

impl World {
    /// A caller has the lock for which it has waited since then.
    pub(super) fn check_far(&mut self, client: usize, asked_ns: u64) {
        if !self.plan.is_far || client != FAR_CLIENT || self.is_over {
            return;
        }
        let waited_ms = (self.cluster.now_ns - asked_ns) / 1_000_000;
        self.report.far_ms.push(waited_ms);
        if waited_ms > FAR_WAIT_MAX_MS {
            self.violation = Some(format!(
                "a caller far away had the lock after {waited_ms} ms, which near ones took meanwhile"
            ));
        }
    }

    /// How long a caller that has done with the lock does something else.
    pub(super) fn leisure_ns(&mut self) -> u64 {
        let most_ns = match self.plan.is_far {
            true => NEAR_LEISURE_NS,
            false => SECOND_NS,
        };
        self.cluster.random.below(most_ns)
    }
}

/// How far a client is from every node, in microseconds, if it is the one that is far away.
pub(super) fn far_way_us(plan: &Plan, client: usize) -> Option<u64> {
    (plan.is_far && client == FAR_CLIENT).then_some(FAR_WAY_US)
}

const FAR_CLIENT: usize = 2;
/// With the jitter of a half a round trip takes 200 to 300 ms.
const FAR_WAY_US: u64 = 100_000;
/// Callers near by want the lock again at once, more or less.
const NEAR_LEISURE_NS: u64 = 2_000_000;
/// All others have the lock before it, and the caller beside it is as far away.
const FAR_WAIT_MAX_MS: u64 = 10_000;
