//! Locks with fences, and an operator who gives nodes that may have lost theirs what the others took.
//!
//! Invariant: what is checked is what callers were told, in the order of true time. Neither nodes nor clients are asked.

use std::collections::BTreeMap;

use quorlock_client_rules::OperationId;

use super::caller::CallerHold;
use super::world::World;

/// Of each name: the fence that a caller was told last.
#[derive(Debug, Default)]
pub(super) struct SeenFences {
    last: BTreeMap<u64, u64>,
    /// On how many nodes each lock was seen with its fence.
    seen: BTreeMap<(usize, OperationId), usize>,
}

impl World {
    /// A caller has this lock, with this fence.
    pub(super) fn check_fence(
        &mut self,
        (client, held): (usize, OperationId),
        name: u64,
        fence: Option<u64>,
    ) {
        if fence.is_some() != self.plan.is_fenced {
            self.violation = Some(format!(
                "client {client} has {name} with the fence {fence:?}"
            ));
        }
        let Some(fence) = fence else {
            return;
        };
        self.report.fenced += 1;
        let last = self.fences.last.insert(name, fence);
        if last.is_some_and(|last| last >= fence) {
            self.violation = Some(format!(
                "client {client} has {name} with the fence {fence}, after one with {last:?}"
            ));
        }
        self.check_register(name, (client, held), fence);
    }

    /// The operator looks at all nodes.
    pub(super) fn operate(&mut self) {
        if !self.plan.is_fenced {
            return;
        }
        for node in 0..self.plan.nodes {
            if let Some((_, false)) = self.ceiling(node) {
                self.adopt(node);
            }
        }
        self.check_fences_on_nodes();
    }

    /// A node that has a lock with a fence tells none above the one that its holder was told. Nodes that took the lock later than others
    /// did take the fence as well.
    fn check_fences_on_nodes(&mut self) {
        let now_ns = self.cluster.now_ns;
        let live = self.holds.iter().filter(|hold| hold.until_ns > now_ns);
        for hold in live.cloned().collect::<Vec<_>>() {
            let held = (hold.client, hold.held);
            let mut with_fence = 0;
            for node in 0..self.plan.nodes {
                let fence = self.fence_on(node, &hold);
                with_fence += usize::from(fence.is_some());
                // One that was not reached by the last round keeps the guess, or none.
                if fence > self.fence_of(held) {
                    self.violation =
                        Some(format!("node {node} tells the fence {fence:?} of {held:?}"));
                }
            }
            let before = self.fences.seen.entry(held).or_insert(with_fence);
            self.report.refenced += u64::from(with_fence > *before);
            *before = with_fence.max(*before);
        }
    }

    /// The fence of a lock on a node that has it with one.
    fn fence_on(&mut self, node: usize, hold: &CallerHold) -> Option<u64> {
        let server = &mut self.cluster.servers[node];
        if !server.is_well() {
            return None;
        }
        let words = [b"LOCK.INFO", hold.lock.first()];
        let reply = server.node.as_mut()?.execute(&words);
        let reply = String::from_utf8_lossy(&reply);
        let token = String::from_utf8_lossy(hold.token.as_bytes());
        let (_, fence) = reply.split_once("\r\nfence\r\n:")?;
        let number = fence.split("\r\n").next()?.parse().ok()?;
        reply.contains(&*token).then_some(number)
    }

    /// Gives this node the largest ceiling of a majority of the others that are certain of theirs; where no such majority
    /// will come back, since all nodes have lost power, the largest of all, as their disks keep what they acknowledge.
    fn adopt(&mut self, node: usize) {
        let others: Vec<usize> = (0..self.plan.nodes)
            .filter(|other| *other != node)
            .collect();
        let told: Vec<_> = others
            .iter()
            .filter_map(|other| self.ceiling(*other))
            .collect();
        let certain = told.iter().filter(|(_, is_certain)| *is_certain);
        // Of the list that clients have: where that changes, all of it is asked.
        let is_majority = certain.clone().count() > self.plan.nodes / 2
            && (!self.plan.has_changing_members || told.len() == others.len());
        let largest = match is_majority {
            true => certain.map(|(ceiling, _)| *ceiling).max(),
            false if told.len() == others.len() => told.iter().map(|(ceiling, _)| *ceiling).max(),
            false => None,
        };
        let (Some(largest), Some(own)) = (largest, self.ceiling(node)) else {
            return;
        };
        let largest = largest.max(own.0).to_string();
        self.cluster
            .note(|| format!("node {node} adopts the ceiling {largest}"));
        if let Some(node) = &mut self.cluster.servers[node].node {
            node.execute(&[b"LOCK.ADOPT", largest.as_bytes()]);
            self.report.adopted += 1;
        }
    }

    /// What a node that is well answers: a ceiling, and whether it is certain.
    pub(super) fn ceiling(&mut self, node: usize) -> Option<(u64, bool)> {
        let server = &mut self.cluster.servers[node];
        if !server.is_well() {
            return None;
        }
        let reply = server.node.as_mut()?.execute(&[b"LOCK.CEILING"]);
        let reply = String::from_utf8(reply).ok()?;
        let mut lines = reply.strip_prefix("*2\r\n:")?.split("\r\n:");
        let ceiling = lines.next()?.parse().ok()?;
        Some((ceiling, lines.next()?.starts_with('1')))
    }
}
