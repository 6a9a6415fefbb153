//! What goes wrong at a node, and how it ends.

use super::network::{Healing, What, Wire};
use super::plan::Faults;
use super::world::{SECOND_NS, World};

impl World {
    pub(super) fn fault(&mut self, node: usize) {
        if self.is_over {
            return;
        }
        self.report.faults += 1;
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        let kind = match self.plan.faults {
            Faults::All => self
                .random
                .pick(&[Faults::Pauses, Faults::Silence, Faults::Crashes]),
            kind => kind,
        };
        self.note(|| format!("{kind:?} at node {node}"));
        let lasts_ns = match kind {
            Faults::Pauses => {
                let lasts_ns = ttl_ns / 4 + self.random.below(ttl_ns * 2);
                self.servers[node].is_paused = true;
                self.network
                    .at(self.now_ns + lasts_ns, What::Heal(node, Healing::Resume));
                lasts_ns
            }
            Faults::Crashes => {
                let lasts_ns = self.random.below(3 * SECOND_NS);
                self.kill(node);
                self.network
                    .at(self.now_ns + lasts_ns, What::Heal(node, Healing::Start));
                lasts_ns
            }
            _ => {
                // A firewall that forgets all at once leaves every node reachable, on new connections. A lease has
                // to last for as long as it takes to notice.
                let is_everywhere = self.plan.ttl_ms >= 2_000;
                for (wire, connection) in &mut self.network.connections {
                    connection.is_swallowed |= is_everywhere || wire.id.0 == node;
                }
                ttl_ns
            }
        };
        let pause_ns = match self.plan.faults {
            Faults::All => self.random.below(ttl_ns),
            // One at a time: the next one begins when this node has had the time to be taken again.
            _ => lasts_ns + ttl_ns,
        };
        let next = usize::try_from(self.random.below(self.plan.nodes as u64)).unwrap_or(0);
        self.network.at(self.now_ns + pause_ns, What::Fault(next));
    }

    pub(super) fn kill(&mut self, node: usize) {
        self.servers[node].is_paused = false;
        self.servers[node].kill();
        let wires: Vec<Wire> = self.network.connections.keys().copied().collect();
        for wire in wires.into_iter().filter(|wire| wire.id.0 == node) {
            // A machine that goes down says nothing; a process that ends does.
            if self.random.chance(3, 4) {
                self.network
                    .send_to_client(self.now_ns, wire, What::EndAtClient(wire));
            }
        }
    }

    pub(super) fn heal(&mut self, node: usize, healing: Healing) {
        self.note(|| format!("{healing:?} node {node}"));
        self.servers[node].tell_time(self.now_ns);
        match healing {
            Healing::Resume => self.servers[node].is_paused = false,
            Healing::Start => self.servers[node].start(),
        }
        self.work(node);
    }
}
