//! Keys that nobody holds: a node that can be reached is freed of them, long before they expire.
//!
//! Invariant: a node counts as reached only since the last thing that was wrong with it, with the way to it, or with any
//! client. What is there longer than an attempt may last belongs to a caller, who was told so.

use std::collections::BTreeMap;

use quorlock_engine::StoredValue;

use super::world::{SECOND_NS, World};

#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Of each node: since when nothing is wrong.
    well_since_ns: Vec<u64>,
    /// Of each node: until when it may have locks that were released, because an image of its disk had them.
    restored_until_ns: Vec<u64>,
    /// Since when a node has a key for a token that no caller holds.
    seen_ns: BTreeMap<(usize, Vec<u8>, Vec<u8>), u64>,
}

impl Leftovers {
    pub(super) fn of(nodes: usize) -> Leftovers {
        Leftovers {
            well_since_ns: vec![0; nodes],
            restored_until_ns: vec![0; nodes],
            ..Leftovers::default()
        }
    }

    /// The locks of an image are back on this node, for a lease at most.
    pub(super) fn restored(&mut self, node: usize, until_ns: u64) {
        self.restored_until_ns[node] = until_ns;
    }

    /// Something is wrong with all connections.
    pub(super) fn disturb(&mut self, now_ns: u64) {
        self.well_since_ns.fill(now_ns);
    }
}

impl World {
    /// Looks at all nodes, now and then.
    pub(super) fn check_leftovers(&mut self) {
        let now_ns = self.cluster.now_ns;
        if self.are_clients_away() {
            self.leftovers.disturb(now_ns);
        }
        let limit_ns = LEFT_NS + self.plan.latency_us * 1_000 * LEFT_WAYS;
        let mut seen_ns = BTreeMap::new();
        for node in 0..self.cluster.servers.len() {
            if !self.is_well(node) {
                self.leftovers.well_since_ns[node] = now_ns;
            }
            let restored_ns = self.leftovers.restored_until_ns[node];
            let well_ns = self.leftovers.well_since_ns[node].max(restored_ns);
            for (key, value) in self.locks_on(node) {
                if self.check_released(node, &value) || self.is_delayed(&value) {
                    continue;
                }
                let StoredValue::String(token) = value else {
                    continue;
                };
                if self.holds.iter().any(|hold| hold.token.as_bytes() == token) {
                    continue;
                }
                let place = (node, key, token);
                let before_ns = self.leftovers.seen_ns.get(&place).copied();
                let since_ns = before_ns.unwrap_or(now_ns).max(well_ns);
                if now_ns > since_ns + limit_ns {
                    let name = String::from_utf8_lossy(&place.1);
                    let ms = (now_ns - since_ns) / 1_000_000;
                    self.violation = Some(format!(
                        "node {node} has kept {name} for {ms} ms although nobody holds it and the node is well"
                    ));
                }
                seen_ns.insert(place, since_ns);
            }
        }
        self.leftovers.seen_ns = seen_ns;
    }

    fn are_clients_away(&self) -> bool {
        let now_ns = self.cluster.now_ns;
        let is_asleep = self
            .cluster
            .machines
            .iter()
            .any(|one| one.woken_ns() > now_ns);
        let is_cut_off = self.cluster.uplinks.iter().any(|one| !one.is_well(now_ns));
        is_asleep || is_cut_off
    }

    fn is_well(&self, node: usize) -> bool {
        let path = &self.cluster.paths[node];
        path.is_well(self.cluster.now_ns)
            && self.cluster.network.extra_ns[node] == 0
            && self.cluster.servers[node].is_well()
    }
}

/// An attempt lasts as long as a connect, a login and a request may, at any node, and its release is then sent again
/// after a second at most.
const LEFT_NS: u64 = 5 * SECOND_NS;
const LEFT_WAYS: u64 = 20;
