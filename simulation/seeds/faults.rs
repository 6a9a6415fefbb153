//! What goes wrong at a node, on the way to it, or with a client's machine, and how it ends.

use std::time::Duration;

use super::fault_class::FaultClass;
use super::step::{FaultEnd, Step};
use super::world::{CLUSTER, SECOND_NS, World};
use quorlock_simulation::Meddling;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PlannedFault {
    /// A node is stopped.
    Pause,
    /// Connections swallow everything, and new ones work.
    Silence,
    /// A node's process is killed and started again.
    Kill,
    /// A node's machine loses power: what was not synced is lost in part, and it comes back with another boot.
    PowerLoss,
    /// The machines of all nodes lose power at once.
    Blackout,
    /// All connections of a node are closed.
    Closed,
    /// A node has forgotten its connections and says so when something arrives on them.
    HalfOpen,
    /// Nothing reaches a node; what it says arrives.
    ToNode,
    /// Nothing that a node says arrives; what is said to it does.
    ToClient,
    /// Connections are closed, and new ones refused.
    Refused,
    /// Everything takes up to half a second longer.
    Slow,
    /// Answers arrive a few bytes at a time.
    Trickle,
    /// Errors in place of answers; requests are not carried out.
    Errors,
    /// Errors in place of answers; requests are carried out.
    Lies,
    /// Bytes that are no answers.
    Garbage,
    /// Syncs take long.
    SlowSync,
    /// No space is left.
    FullDisk,
    /// A node has forgotten everything but who it is, and serves at once.
    Emptied,
    /// An image of a running node's file system is put back later, and the node starts from that.
    RolledBack,
    /// The machine of a client sleeps.
    Suspend,
    /// The machine of a client stands still, with all its clocks.
    StoppedClocks,
    /// A node's wall clock is set, forwards or backwards.
    WallClock,
    /// Nothing that a client says reaches any node; what nodes say reaches it.
    Unheard,
    /// Nothing that nodes say reaches a client; what it says reaches them.
    Deaf,
    /// Both.
    CutOff,
    /// What nodes say reaches a client late, often after its requests' deadlines, and then it is cut off.
    Late,
    /// Another node of the cluster, with an empty directory, answers under the address.
    Replaced,
    /// A node of another cluster answers under the address for a while.
    Stranger,
}

impl World {
    pub(super) fn fault(&mut self, node: usize) {
        if self.is_over {
            return;
        }
        let kind = self.cluster.random.pick(self.plan.faults.kinds());
        *self.report.faults.entry(kind).or_default() += 1;
        self.cluster.note(|| format!("{kind:?} at node {node}"));
        let lasts_ns = self.begin(kind, node);
        self.leftovers.disturb(self.cluster.now_ns);
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        let pause_ns = match self.plan.faults {
            FaultClass::All => self.cluster.random.below(ttl_ns),
            // A client that hears nothing may not be heard any more either.
            FaultClass::CutOff => self.cluster.random.below(lasts_ns + ttl_ns),
            // One at a time: the next one begins when this node has had the time to be taken again.
            FaultClass::Network | FaultClass::Answers => lasts_ns + ttl_ns + RECONNECT_NS,
            // What the node before has granted expires, and then this one is taken.
            FaultClass::Entries => lasts_ns + self.entry_ns(),
            _ => lasts_ns + ttl_ns,
        };
        let next = usize::try_from(self.cluster.random.below(self.plan.nodes as u64)).unwrap_or(0);
        self.cluster
            .at(self.cluster.now_ns + pause_ns, Step::Fault(next));
    }

    /// The nodes to which the same happens at the same moment.
    fn together(&self, node: usize) -> Vec<usize> {
        let count = match self.plan.is_together {
            true => self.plan.away,
            false => 1,
        };
        let nodes = node..node + count;
        nodes.map(|node| node % self.plan.nodes).collect()
    }

    /// How long it takes until whoever answers under an address since another one did has the locks of all clients that
    /// hold some.
    pub(super) fn entry_ns(&self) -> u64 {
        2 * self.plan.kept_ms() * 1_000_000 + RECONNECT_NS
    }

    /// How long it lasts.
    fn length_ns(&mut self, kind: PlannedFault) -> u64 {
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        match kind {
            PlannedFault::Kill
            | PlannedFault::PowerLoss
            | PlannedFault::Blackout
            | PlannedFault::Emptied => self.cluster.random.below(3 * SECOND_NS),
            PlannedFault::Silence
            | PlannedFault::Closed
            | PlannedFault::HalfOpen
            | PlannedFault::WallClock => ttl_ns,
            PlannedFault::RolledBack => MET_NS + 2 * ttl_ns + self.cluster.random.below(ttl_ns),
            _ => ttl_ns / 4 + self.cluster.random.below(ttl_ns * 2),
        }
    }

    /// Begins, and says how long it lasts.
    fn begin(&mut self, kind: PlannedFault, node: usize) -> u64 {
        let lasts_ns = self.length_ns(kind);
        let until_ns = self.cluster.now_ns + lasts_ns;
        match kind {
            PlannedFault::Pause => self.pause(node, until_ns),
            PlannedFault::Kill | PlannedFault::PowerLoss => {
                self.down(node, kind == PlannedFault::PowerLoss)
            }
            PlannedFault::Blackout => self.black_out(),
            PlannedFault::Unheard
            | PlannedFault::Deaf
            | PlannedFault::CutOff
            | PlannedFault::Late => {
                self.cut_off(kind, node % self.plan.clients, until_ns);
            }
            PlannedFault::Suspend | PlannedFault::StoppedClocks => {
                self.stop_client(kind, node % self.plan.clients, until_ns);
            }
            PlannedFault::Silence => self.swallow(node),
            PlannedFault::Closed => self.cluster.disconnect(node, true),
            PlannedFault::HalfOpen => self.cluster.disconnect(node, false),
            PlannedFault::Replaced | PlannedFault::Stranger => {
                for other in self.together(node) {
                    self.replace(other, kind, until_ns);
                }
            }
            PlannedFault::Emptied => {
                self.down(node, false);
                self.cluster.servers[node].put_image_back();
                self.forget_numbers(node);
            }
            PlannedFault::RolledBack => self.cluster.servers[node].take_image(),
            PlannedFault::WallClock => {
                let hours = i64::try_from(self.cluster.random.below(200)).unwrap_or(0) - 100;
                self.cluster.servers[node].step_wall(hours * 3_600_000_000);
            }
            _ => {
                self.spoil(kind, node, until_ns);
                self.cluster.at(until_ns, Step::Heal(node, FaultEnd::Path));
            }
        }
        let healing = match kind {
            PlannedFault::Kill | PlannedFault::PowerLoss | PlannedFault::Emptied => FaultEnd::Start,
            PlannedFault::RolledBack => FaultEnd::RollBack,
            _ => return lasts_ns,
        };
        self.cluster.at(until_ns, Step::Heal(node, healing));
        lasts_ns
    }

    fn pause(&mut self, node: usize, until_ns: u64) {
        for other in self.together(node) {
            self.cluster.servers[other].is_paused = true;
            let resume = Step::Heal(other, FaultEnd::Resume);
            self.cluster.at(until_ns, resume);
        }
    }

    /// Connections that stand swallow everything from now on.
    fn swallow(&mut self, node: usize) {
        // A firewall that forgets all at once leaves every node reachable, on new connections. A lease has
        // to last for as long as it takes to notice.
        let is_everywhere = self.plan.ttl_ms >= 2_000;
        for (wire, connection) in &mut self.cluster.network.connections {
            connection.is_swallowed |= is_everywhere || wire.id.0 == node;
        }
    }

    /// All machines lose power, and each comes back at a time of its own.
    fn black_out(&mut self) {
        for node in 0..self.plan.nodes {
            self.down(node, true);
            let at_ns = self.cluster.now_ns + self.cluster.random.below(3 * SECOND_NS);
            self.cluster.at(at_ns, Step::Heal(node, FaultEnd::Start));
        }
    }

    /// No node hears this client, or it hears none, or both, or it hears them late.
    fn cut_off(&mut self, kind: PlannedFault, client: usize, until_ns: u64) {
        if kind == PlannedFault::Late {
            return self.answer_late(client, until_ns);
        }
        let uplink = &mut self.cluster.uplinks[client];
        if kind != PlannedFault::Deaf {
            uplink.cut_to_node(until_ns);
        }
        if kind != PlannedFault::Unheard {
            uplink.cut_to_client(until_ns);
        }
    }

    /// What all nodes say arrives at this client after up to one and a half leases, or so that it mostly still counts.
    fn answer_late(&mut self, client: usize, until_ns: u64) {
        let ttl_ns = self.plan.ttl_ms * 1_000_000;
        let most_ns = self
            .cluster
            .random
            .pick(&[ttl_ns * 3 / 2, (ttl_ns / 2).min(SECOND_NS)]);
        let late_ns = self.cluster.random.below(most_ns);
        self.cluster.network.late_ns[client] = (until_ns, late_ns);
        // What was sent last arrives so late as well.
        self.cluster.uplinks[client].late_until_ns = until_ns + late_ns;
        self.cluster.at(until_ns, Step::CutOff(client));
    }

    /// Answers that were late are the last for a lease.
    pub(super) fn cut_off_after_late(&mut self, client: usize) {
        if !self.is_over {
            self.cluster
                .note(|| format!("client {client} is cut off after late answers"));
            self.leftovers.disturb(self.cluster.now_ns);
            let until_ns = self.cluster.now_ns + self.plan.ttl_ms * 1_000_000;
            self.cut_off(PlannedFault::CutOff, client, until_ns);
        }
    }

    /// What lasts at one node, or on the way to it, until it heals.
    fn spoil(&mut self, kind: PlannedFault, node: usize, until_ns: u64) {
        let path = &mut self.cluster.paths[node];
        match kind {
            PlannedFault::ToNode => path.cut_to_node(until_ns),
            PlannedFault::ToClient => path.cut_to_client(until_ns),
            PlannedFault::Refused => {
                path.refuses = true;
                self.cluster.disconnect(node, true);
            }
            PlannedFault::Slow => {
                self.cluster.network.extra_ns[node] = self.cluster.random.below(SECOND_NS / 2)
            }
            PlannedFault::Trickle => path.trickles = true,
            PlannedFault::Errors => path.meddling = Some(Meddling::Refuses),
            PlannedFault::Lies => path.meddling = Some(Meddling::Lies),
            PlannedFault::Garbage => path.meddling = Some(Meddling::Garbles),
            PlannedFault::SlowSync => {
                let sync_ns = self.cluster.random.below(2 * SECOND_NS);
                self.cluster.servers[node].sync_ns = sync_ns;
            }
            PlannedFault::FullDisk => self.cluster.servers[node].set_full(true),
            _ => {}
        }
    }

    /// Another node answers under the address: of another cluster until then, or of this one, some for good. Where several
    /// addresses lead elsewhere at the same time, their nodes are of one cluster, and a minority of them unless clients
    /// know theirs; else each stranger has one of its own.
    fn replace(&mut self, node: usize, kind: PlannedFault, until_ns: u64) {
        let is_stranger = kind == PlannedFault::Stranger;
        let is_for_good = !is_stranger && self.cluster.random.chance(1, 2);
        self.down(node, false);
        self.forget_numbers(node);
        let server = &mut self.cluster.servers[node];
        server.tell_time(self.cluster.now_ns);
        let other = match self.plan.faults {
            FaultClass::Entries => "red".to_owned(),
            _ => format!("red-{node}"),
        };
        server.replace(if is_stranger { &other } else { CLUSTER });
        if is_for_good {
            server.forget_away();
        }
        let lease_ns = self.cluster.now_ns + self.plan.kept_ms() * 1_000_000;
        server.is_empty_until_ns = if is_stranger { until_ns } else { lease_ns };
        server.start();
        if !is_for_good {
            self.cluster
                .at(until_ns, Step::Heal(node, FaultEnd::Return));
        }
    }

    /// A node's process is gone, or its machine.
    pub(super) fn down(&mut self, node: usize, is_power_loss: bool) {
        self.cluster.servers[node].is_paused = false;
        if is_power_loss {
            let uptime = Duration::from_millis(1_000 + self.cluster.random.below(100_000));
            let cluster = &mut self.cluster;
            cluster.servers[node].lose_power(&mut cluster.random, uptime);
        } else {
            self.cluster.servers[node].kill();
        }
        for wire in self.cluster.wires_of(node) {
            // A machine that goes down says nothing; a process that ends does.
            if !is_power_loss && self.cluster.random.chance(3, 4) {
                self.cluster.end(wire);
            }
        }
    }

    /// A node's process ends because its log failed, and starts again a second later.
    pub(super) fn failed(&mut self, node: usize) {
        if self.cluster.servers[node].node.is_some() {
            self.down(node, false);
            let at_ns = self.cluster.now_ns + SECOND_NS;
            self.cluster.at(at_ns, Step::Heal(node, FaultEnd::Start));
        }
    }

    pub(super) fn heal(&mut self, node: usize, healing: FaultEnd) {
        self.cluster.note(|| format!("{healing:?} node {node}"));
        self.leftovers.disturb(self.cluster.now_ns);
        self.cluster.servers[node].tell_time(self.cluster.now_ns);
        match healing {
            FaultEnd::Resume => self.cluster.servers[node].is_paused = false,
            FaultEnd::Start => {
                if !self.cluster.servers[node].start() {
                    let at_ns = self.cluster.now_ns + SECOND_NS;
                    self.cluster.at(at_ns, Step::Heal(node, FaultEnd::Start));
                }
            }
            FaultEnd::Return => {
                self.down(node, false);
                self.forget_numbers(node);
                let server = &mut self.cluster.servers[node];
                server.bring_back(CLUSTER);
                server.is_empty_until_ns = 0;
                server.start();
            }
            FaultEnd::RollBack => {
                self.down(node, false);
                self.forget_numbers(node);
                self.cluster.servers[node].put_image_back();
                self.cluster.servers[node].start();
                let lease_ns = self.plan.kept_ms() * 1_000_000;
                self.leftovers
                    .restored(node, self.cluster.now_ns + lease_ns);
            }
            FaultEnd::Path => {
                let path = &mut self.cluster.paths[node];
                (path.refuses, path.trickles, path.meddling) = (false, false, None);
                self.cluster.network.extra_ns[node] = 0;
                self.cluster.servers[node].sync_ns = 0;
                self.cluster.servers[node].set_full(false);
            }
        }
        self.cluster.work(node);
    }
}

/// After so long every client that asks nodes for locks has met them in a later state than that of an image.
const MET_NS: u64 = 3 * SECOND_NS;
/// The longest until a client dials again, with its deadlines.
const RECONNECT_NS: u64 = 5 * SECOND_NS;
