//! Locks with fences, and an operator who gives nodes that may have lost theirs what the others took.
//!
//! Invariant: what is checked is what callers were told, in the order of true time. Neither nodes nor clients are asked.

use std::collections::BTreeMap;

use super::world::World;

/// Of each name: the fence that a caller was told last.
#[derive(Debug, Default)]
pub(super) struct Fences {
    last: BTreeMap<u64, u64>,
}

impl World {
    /// A caller has this lock, with this fence.
    pub(super) fn check_fence(&mut self, client: usize, name: u64, fence: Option<u64>) {
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
        let is_majority = certain.clone().count() > self.plan.nodes / 2;
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
    fn ceiling(&mut self, node: usize) -> Option<(u64, bool)> {
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
