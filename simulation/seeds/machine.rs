//! Machines of clients that sleep, or stand still.
//!
//! Invariant: a lock is held for as long as it would be on clocks that go. Whoever's clocks stood still may believe in it for
//! longer, and is told by the renewal after that at the latest.

use std::time::Duration;

use quorlock_client::ClientInstant;

use super::faults::PlannedFault;
use super::step::Step;
use super::world::{SECOND_NS, World};

impl World {
    /// A client's machine sleeps, or stands still with all its clocks: what it holds it may then believe in for too long, until the
    /// next renewal.
    pub(super) fn stop_client(&mut self, kind: PlannedFault, client: usize, until_ns: u64) {
        if kind == PlannedFault::Suspend {
            return self.cluster.machines[client].sleep(self.cluster.now_ns, until_ns);
        }
        if !self.cluster.machines[client].stand_still(self.cluster.now_ns, until_ns) {
            return;
        }
        let noticed_ns = until_ns + self.notice_ns();
        for hold in self.holds.iter_mut().filter(|hold| hold.client == client) {
            hold.noticed_ns = noticed_ns;
        }
    }

    /// Whether a lease ends so soon that the client may have asked for it before its clocks stood still the last time: nobody but
    /// the nodes knows how long it lasts yet.
    pub(super) fn is_of_unknown_length(&self, client: usize, valid_until: ClientInstant) -> bool {
        let machine = &self.cluster.machines[client];
        let went_on_ns = machine.stood_until_ns();
        let left = machine.now(went_on_ns).until(valid_until);
        went_on_ns > 0 && left <= Duration::from_millis(self.plan.ttl_ms)
    }

    /// How long it takes from when a client's clocks go on until it has asked the nodes for all that it holds: the rest of the
    /// time between two renewals, and a renewal.
    pub(super) fn notice_ns(&self) -> u64 {
        let between_ns = self.plan.ttl_ms * 1_000_000 / 3;
        between_ns + between_ns / 100 + self.plan.latency_us * 1_000 * NOTICE_WAYS + SECOND_NS / 10
    }

    /// Until when the client sleeps whose step this is.
    pub(super) fn is_asleep(&self, step: &Step) -> Option<u64> {
        let client = match step {
            Step::GuardGone(client, _) => *client,
            Step::Caller(caller) => self.callers.get(*caller)?.client,
            _ => return None,
        };
        let until_ns = self.cluster.machines[client].woken_ns();
        (until_ns > self.cluster.now_ns).then_some(until_ns)
    }
}

/// A way there and back, with jitter.
const NOTICE_WAYS: u64 = 6;
