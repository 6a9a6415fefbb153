//! What goes wrong at agents, nodes and between them, and how it ends.

use std::time::Duration;

use super::plan::Fault;
use super::world::{MS, Planned, World};

/// What ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Agent(usize),
    /// A node's process starts.
    Node(usize),
    /// It goes on.
    Stop(usize),
    Slow(usize),
}

impl World {
    /// Something goes wrong, and the next thing is planned.
    pub(super) fn fault(&mut self) {
        if self.is_over || self.plan.faults.is_empty() {
            return;
        }
        let kind = self.random.pick(self.plan.faults);
        let node = self.below(self.plan.nodes);
        let agent = self.below(self.plan.agents);
        let ttl_ns = self.plan.ttl_ms * MS;
        let lasts_ns = ttl_ns / 20 + self.random.below(ttl_ns * 3 / 2);
        self.note(|| {
            format!(
                "{kind:?}: node {node}, agent {agent}, for {} ms",
                lasts_ns / MS
            )
        });
        *self.report.faults.entry(kind).or_default() += 1;
        // What goes wrong ends when all is to be well.
        let until_ns = (self.now() + lasts_ns).min(self.healed_ns);
        self.begin(kind, node, agent, until_ns);
        let next_ns = self.random.below(lasts_ns + ttl_ns / 2);
        self.plan_at(self.now() + next_ns, Planned::Fault);
    }

    fn begin(&mut self, kind: Fault, node: usize, agent: usize, until_ns: u64) {
        let now_ns = self.now();
        let client = self.agents.client_of(agent);
        match kind {
            Fault::AgentKilled => {
                self.agents.kill(agent);
                self.end_listeners(agent);
                self.well_ns[agent] = until_ns;
                self.plan_at(until_ns, Planned::End(End::Agent(agent)));
            }
            Fault::AgentStopped => {
                self.agents.stop(agent, until_ns);
                self.well_ns[agent] = self.well_ns[agent].max(until_ns);
            }
            Fault::NodeKilled | Fault::NodeWithoutPower => {
                self.end_node(node, kind == Fault::NodeWithoutPower);
                self.plan_at(until_ns, Planned::End(End::Node(node)));
            }
            Fault::NodeStopped => {
                self.agents.cluster.servers[node].is_paused = true;
                self.plan_at(until_ns, Planned::End(End::Stop(node)));
            }
            Fault::Closed => self.agents.cluster.disconnect(node, true),
            Fault::ToNode => self.agents.cluster.paths[node].cut_to_node(until_ns),
            Fault::FromNode => self.agents.cluster.paths[node].cut_to_client(until_ns),
            Fault::Slow => {
                // About as much as a round may take, on some of the nodes.
                for node in node..node + 1 + self.below(self.plan.nodes) {
                    let node = node % self.plan.nodes;
                    let extra_ns = self.random.below(self.plan.ttl_ms * MS / 10);
                    self.agents.cluster.network.extra_ns[node] = extra_ns;
                    self.plan_at(until_ns, Planned::End(End::Slow(node)));
                }
            }
            Fault::CutOff => {
                let (to, from) = self
                    .random
                    .pick(&[(true, false), (false, true), (true, true)]);
                let uplink = &mut self.agents.cluster.uplinks[client];
                if to {
                    uplink.cut_to_node(until_ns);
                }
                if from {
                    uplink.cut_to_client(until_ns);
                }
            }
            Fault::Late => {
                let most_ns = self.plan.ttl_ms * MS / self.random.pick(&[1, 4, 10]);
                let late_ns = self.random.below(most_ns).min(until_ns - now_ns);
                self.agents.cluster.network.late_ns[client] = (until_ns, late_ns);
            }
        }
    }

    fn end_node(&mut self, node: usize, is_power_loss: bool) {
        let uptime = Duration::from_millis(1_000 + self.random.below(100_000));
        let cluster = &mut self.agents.cluster;
        cluster.servers[node].is_paused = false;
        match is_power_loss {
            true => cluster.servers[node].lose_power(&mut self.random, uptime),
            false => cluster.servers[node].kill(),
        }
        for wire in cluster.wires_of(node) {
            // A machine that goes down says nothing; a process that ends does.
            if !is_power_loss && self.random.chance(3, 4) {
                cluster.end(wire);
            }
        }
    }

    pub(super) fn end(&mut self, end: End) {
        self.note(|| format!("over: {end:?}"));
        let now_ns = self.now();
        let node = match end {
            End::Agent(agent) => return self.agents.start(agent),
            End::Slow(node) => {
                self.agents.cluster.network.extra_ns[node] = 0;
                return;
            }
            End::Node(node) | End::Stop(node) => node,
        };
        let server = &mut self.agents.cluster.servers[node];
        server.tell_time(now_ns);
        match end {
            End::Stop(_) => server.is_paused = false,
            _ => {
                server.start();
            }
        }
        self.agents.cluster.work(node);
    }
}
