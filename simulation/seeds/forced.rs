//! An operator who ends locks that callers hold: LOCK.FORCE-RELEASE on a majority of the nodes or on all, with the token that
//! was seen some time before.
//!
//! Invariant: a forced release excuses two holders only until the validity is over that the old one had. One that was done on
//! all nodes is the end of the lock: the old holder renews it no more, where nodes keep what they are told. Of two holders the
//! one that came first writes nothing more to a resource that checks fences.

use std::collections::BTreeMap;

use quorlock_client::Token;
use quorlock_client_rules::OperationId;

use super::caller::CallerHold;
use super::fault_class::FaultClass;
use super::step::Step;
use super::world::World;

/// A lock that the operator has seen.
#[derive(Debug)]
pub(super) struct Sighting {
    held: (usize, OperationId),
    key: Vec<u8>,
    token: Token,
}

/// What the operator has done.
#[derive(Debug, Default)]
pub(super) struct ForcedReleases {
    /// Until when the validity may last that the holder of a lock had when that was released by force.
    excused_until_ns: BTreeMap<(usize, OperationId), u64>,
    /// Holds that end with that, because no node has the lock any more.
    ended: Vec<(usize, OperationId)>,
    /// Of each name: until when some nodes may have the lock of a holder that lost it on others, so that the next holder has
    /// no more than a bare majority.
    remnants_until_ns: BTreeMap<u64, u64>,
    /// Of each name: the largest fence that the resource has seen.
    written: BTreeMap<u64, u64>,
    fences: BTreeMap<(usize, OperationId), u64>,
}

impl World {
    /// The operator looks at one of the locks that are held, and releases it now or later: somebody else may hold it by then.
    pub(super) fn look_at_locks(&mut self) {
        if self.is_over {
            return;
        }
        let (now_ns, ttl_ns) = (self.cluster.now_ns, self.plan.ttl_ms * 1_000_000);
        let live = self.holds.iter().filter(|hold| hold.until_ns > now_ns);
        let live: Vec<&CallerHold> = live.collect();
        if !live.is_empty() {
            let random = &mut self.cluster.random;
            let number = usize::try_from(random.below(live.len() as u64)).unwrap_or(0);
            let hold = live[number];
            let sighting = Sighting {
                held: (hold.client, hold.held),
                key: hold.lock.first().to_vec(),
                token: hold.token.clone(),
            };
            let later_ns = random.pick(&[0, 0, ttl_ns / 4, ttl_ns]);
            let at_ns = now_ns + random.below(later_ns + 1);
            self.cluster.at(at_ns, Step::Force(sighting));
        }
        let pause_ns = ttl_ns / 2 + self.cluster.random.below(2 * ttl_ns);
        self.cluster.at(now_ns + pause_ns, Step::LookAtLocks);
    }

    /// The operator ends this lock on a majority of the nodes, or on all.
    pub(super) fn force(&mut self, sighting: &Sighting) {
        if self.is_over {
            return;
        }
        let nodes = self.plan.nodes;
        let count = self.cluster.random.pick(&[nodes, nodes, nodes / 2 + 1]);
        let first = usize::try_from(self.cluster.random.below(nodes as u64)).unwrap_or(0);
        let (mut done, mut freed) = (0, 0);
        for node in (first..first + count).map(|node| node % nodes) {
            let reply = self.force_on(node, sighting);
            done += usize::from(reply.is_some());
            freed += usize::from(reply == Some(true));
        }
        let is_it = |hold: &&CallerHold| (hold.client, hold.held) == sighting.held;
        let now_ns = self.cluster.now_ns;
        let hold = self.holds.iter().find(is_it);
        let hold = hold.filter(|hold| hold.until_ns > now_ns);
        let name = hold.map(|hold| hold.name);
        self.cluster
            .note(|| format!("the operator releases {:?} on {freed} nodes", sighting.held));
        let Some(name) = name.filter(|_| freed > 0) else {
            return;
        };
        self.report.forced += 1;
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        let forced = &mut self.forced;
        // The last extension may be under way. Clocks differ by less than this.
        let until_ns = now_ns + ttl_ns / 100 * 102;
        forced.excused_until_ns.insert(sighting.held, until_ns);
        if done < nodes {
            // They expire, and then the next holder takes those nodes at its next renewal.
            let until_ns = until_ns + ttl_ns;
            forced.remnants_until_ns.insert(name, until_ns);
        }
        if done == nodes && self.is_steady() {
            self.forced.ended.push(sighting.held);
            let round_ns = ttl_ns / 3 + self.plan.latency_us * 5_000 + NOTICE_NS;
            self.cluster
                .at(now_ns + round_ns, Step::ForceNoticed(sighting.held));
        }
    }

    /// Whether the node has freed the lock; nothing where it was not asked.
    fn force_on(&mut self, node: usize, sighting: &Sighting) -> Option<bool> {
        let server = &mut self.cluster.servers[node];
        if !server.is_well() {
            return None;
        }
        server.tell_time(self.cluster.now_ns);
        let token = sighting.token.as_bytes();
        let words = [b"LOCK.FORCE-RELEASE", &sighting.key[..], token];
        let reply = server.node.as_mut()?.execute(&words);
        self.cluster.work(node);
        match &reply[..] {
            b":1\r\n" => Some(true),
            b":0\r\n" => Some(false),
            _ => None,
        }
    }

    /// Whether this holder has its validity although its lock was released by force.
    pub(super) fn is_excused(&self, held: (usize, OperationId)) -> bool {
        let until_ns = self.forced.excused_until_ns.get(&held);
        until_ns.is_some_and(|until_ns| *until_ns > self.cluster.now_ns)
    }

    /// The fence that this holder was told.
    pub(super) fn fence_of(&self, held: (usize, OperationId)) -> Option<u64> {
        self.forced.fences.get(&held).copied()
    }

    /// Whether a forced release may be why this hold of a name is lost.
    pub(super) fn was_broken(&self, name: Option<u64>, held: (usize, OperationId)) -> bool {
        let remnants = name.and_then(|name| self.forced.remnants_until_ns.get(&name));
        let has_remnants = remnants.is_some_and(|until_ns| *until_ns > self.cluster.now_ns);
        has_remnants || self.forced.excused_until_ns.contains_key(&held)
    }

    /// A validity goes on until then. Where that is longer than a forced release excuses, nodes have given the holder a majority
    /// again, and it counts as any other.
    pub(super) fn check_forced(&mut self, held: (usize, OperationId), until_ns: u64) {
        let excused_until_ns = self.forced.excused_until_ns.get_mut(&held);
        let Some(excused) = excused_until_ns.filter(|excused| until_ns > **excused) else {
            return;
        };
        *excused = 0;
        if self.forced.ended.contains(&held) {
            self.violation = Some(format!(
                "{held:?} goes on, although the operator has ended it on all nodes"
            ));
        }
    }

    /// An extension has come to all nodes since the lock was released on each of them: its holder knows.
    pub(super) fn force_noticed(&mut self, held: (usize, OperationId)) {
        let is_held = |hold: &CallerHold| (hold.client, hold.held) == held;
        if self.plan.faults == FaultClass::None && self.holds.iter().any(is_held) {
            self.violation = Some(format!(
                "the operator has ended {held:?} on all nodes, and its next extension has not told its holder"
            ));
        }
    }

    /// A caller has the lock with this fence and writes to a resource that checks fences. Whose lock was released by force
    /// writes as well, and is refused.
    pub(super) fn check_register(&mut self, name: u64, held: (usize, OperationId), fence: u64) {
        self.forced.fences.insert(held, fence);
        self.check_write(name, held);
        let now_ns = self.cluster.now_ns;
        let is_before = |hold: &&CallerHold| hold.name == name && hold.until_ns > now_ns;
        let before = self.holds.iter().filter(is_before);
        let before: Vec<_> = before.map(|hold| (hold.client, hold.held)).collect();
        for before in before {
            self.report.overlapped += 1;
            if self.write(name, before) {
                self.violation = Some(format!(
                    "the resource of {name} takes a write of {before:?}, whose lock was released by force, after one of {held:?}"
                ));
            }
        }
    }

    /// A holder that nobody has followed writes again.
    pub(super) fn check_write(&mut self, name: u64, held: (usize, OperationId)) {
        if !self.is_excused(held) && !self.write(name, held) {
            let fence = self.forced.fences.get(&held);
            let written = self.forced.written.get(&name);
            self.violation = Some(format!(
                "the resource of {name} refuses {held:?} with the fence {fence:?} after {written:?}"
            ));
        }
    }

    /// Whether the resource takes a write: not one with a fence below the largest that it has seen.
    fn write(&mut self, name: u64, held: (usize, OperationId)) -> bool {
        let Some(fence) = self.forced.fences.get(&held) else {
            return true;
        };
        let written = self.forced.written.entry(name).or_default();
        let is_taken = fence >= written;
        *written = (*written).max(*fence);
        is_taken
    }
}

/// What an answer may take besides its way.
const NOTICE_NS: u64 = 200_000_000;
