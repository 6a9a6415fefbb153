//! Members that are added one after the other while clients with lists of all lengths take locks.
//!
//! Client 0 lists all nodes, client 1 all but the last, client 2 all but the last two. At first the nodes give votes to clients 1
//! and 2; then an operator ends the first change, tells all nodes of the fences that were given, and begins the second change, for which
//! nodes let him wait. Clients 2 and 0 have majorities without a node in common. A node goes by a number only if it is in the list of
//! that length.

use super::plan::Plan;
use super::step::Step;
use super::world::{SECOND_NS, World};
use quorlock_simulation::Random;

/// How far the operator has come.
#[derive(Debug, Default)]
pub(super) struct MembersChange {
    /// Of the second change: whether each node has begun it. Empty while the first one goes on.
    begun: Vec<bool>,
    /// Of the first change: whether each node has ended it.
    ended: Vec<bool>,
    /// Whether all nodes know the fences of clients with the lists of the first change.
    is_raised: bool,
}

impl MembersChange {
    pub(super) fn of(nodes: usize) -> MembersChange {
        MembersChange {
            begun: vec![false; nodes],
            ended: vec![false; nodes],
            is_raised: false,
        }
    }
}

impl Plan {
    /// The same seed with members that are added, where callers do not ask in step and no node forgets locks.
    pub(crate) fn with_changing_members(self) -> Plan {
        if self.is_crowded || self.is_in_step || !self.nodes_are_known() {
            return self;
        }
        Plan {
            nodes: self.nodes + 2,
            clients: 3,
            callers: self.callers.min(2),
            is_fenced: Random::of(&[self.seed, 19]).chance(1, 2),
            is_by_token: false,
            is_several: false,
            is_waiting: false,
            is_election: false,
            length_s: 100,
            has_changing_members: true,
            ..self.of_plain_locks()
        }
    }

    /// How many nodes a client lists.
    pub(super) fn listed_by(&self, client: usize) -> usize {
        match self.has_changing_members {
            true => self.nodes - client,
            false => self.nodes,
        }
    }

    /// What a node is told of the number of members: before the operator comes, once he has ended the first change, and in the
    /// second one.
    pub(super) fn sizes(&self, node: usize) -> [String; 3] {
        let (most, middle, least) = (self.nodes, self.nodes - 1, self.nodes - 2);
        let all = [
            format!("{least} {middle}"),
            middle.to_string(),
            format!("{middle} {most}"),
        ];
        match (node + 1 == most, node + 1 == middle) {
            (true, _) => all.map(|_| most.to_string()),
            (_, true) => {
                let [_, middle, last] = all;
                [middle.clone(), middle, last]
            }
            _ => all,
        }
    }
}

impl World {
    pub(super) fn begin_members(&mut self) {
        if !self.plan.has_changing_members {
            return;
        }
        for node in 0..self.plan.nodes {
            let [first, ..] = self.plan.sizes(node);
            let server = &mut self.cluster.servers[node];
            // It has granted nothing yet.
            server.stop();
            server.configure(&[("cluster-size", first)]);
            server.start();
        }
        self.cluster.at(CHANGE_NS, Step::ChangeMembers);
    }

    /// The operator ends the first change on each node, and then begins the second one on each.
    pub(super) fn change_members(&mut self) {
        let nodes = 0..self.plan.nodes;
        let open = |done: &[bool]| {
            nodes
                .clone()
                .filter(|node| !done[*node])
                .collect::<Vec<_>>()
        };
        for node in open(&self.members.ended) {
            self.members.ended[node] = self.set_size(node, 1);
        }
        if open(&self.members.ended).is_empty() {
            match self.plan.is_fenced {
                true => self.raise_fences(),
                false => self.members.is_raised = true,
            }
        }
        if self.members.is_raised {
            for node in open(&self.members.begun) {
                self.members.begun[node] = self.set_size(node, 2);
            }
        }
        if !open(&self.members.begun).is_empty() {
            let at_ns = self.cluster.now_ns + SECOND_NS / 10;
            self.cluster.at(at_ns, Step::ChangeMembers);
        }
    }

    /// Has all nodes take over the largest of their ceilings, once each of them is well and certain of its own.
    fn raise_fences(&mut self) {
        let nodes = 0..self.plan.nodes;
        let told: Vec<_> = nodes.clone().map(|node| self.ceiling(node)).collect();
        let certain = told.iter().flatten().filter(|(_, is_certain)| *is_certain);
        if self.members.is_raised || certain.count() < told.len() {
            return;
        }
        let largest = told.iter().flatten().map(|(ceiling, _)| *ceiling).max();
        let largest = largest.unwrap_or(0).to_string();
        for node in nodes {
            if let Some(node) = &mut self.cluster.servers[node].node {
                node.execute(&[b"LOCK.ADOPT", largest.as_bytes()]);
            }
            self.cluster.work(node);
        }
        self.members.is_raised = true;
    }

    /// Whether the node goes by this from now on, also after a start.
    fn set_size(&mut self, node: usize, step: usize) -> bool {
        let size = &self.plan.sizes(node)[step];
        let server = &mut self.cluster.servers[node];
        if !server.is_well() {
            return false;
        }
        server.tell_time(self.cluster.now_ns);
        let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"cluster-size", size.as_bytes()];
        let reply = server.node.as_mut().map(|node| node.execute(&words));
        let is_set = reply.as_deref() == Some(b"+OK\r\n");
        let shown = reply.map(|reply| String::from_utf8_lossy(&reply).into_owned());
        if is_set {
            server.configure(&[("cluster-size", size.as_str())]);
            self.report.resized += 1;
            self.cluster
                .note(|| format!("node {node} goes by cluster-size {size}"));
        }
        self.cluster
            .note(|| format!("node {node}: cluster-size {size}: {shown:?}"));
        self.cluster.work(node);
        // Clients with some of the lists are disconnected.
        self.leftovers.disturb(self.cluster.now_ns);
        is_set
    }
}

/// When the operator comes.
const CHANGE_NS: u64 = 20 * SECOND_NS;
