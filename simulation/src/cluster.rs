//! A cluster and its clients, moment by moment: the shipped rules on both sides, joined by bytes.
//!
//! The cluster decides nothing about callers and faults. Its driver plans steps in the cluster's queue, takes the events of
//! each moment, and calls clients, nodes and paths in return. So the same cluster runs seeds with random faults and the
//! trials of an experiment.
//!
//! Invariant: the same layout, seed and calls give the same events.

mod exchange;
mod layout;
mod leases;

use std::collections::{BTreeSet, VecDeque};

use quorlock_client::{ClientInstant, Loss, Observed, Token, Waiting};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::action::{Action, Event};
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::channels::Heard;
use quorlock_client_rules::client::Client;

pub use self::layout::{Layout, client_rules, drift_ppm};
use crate::machine::ClientMachine;
use crate::network::{Network, Wire};
use crate::path::Path;
use crate::random::Random;
use crate::server::Server;

/// What happens at a moment.
#[derive(Debug)]
pub enum ScheduledEvent<Step> {
    /// A connect reaches its node.
    Connect(Wire),
    /// A node has taken a connection.
    Connected(Wire),
    /// Bytes reach a node.
    ToNode(Wire, Vec<u8>),
    /// Bytes reach a client.
    ToClient(Wire, Vec<u8>),
    /// The client's end has closed.
    EndAtNode(Wire),
    /// The node's end has closed, or there is none.
    EndAtClient(Wire),
    /// The client's kernel gives up a connection whose bytes were not acknowledged.
    Unacknowledged(Wire),
    /// A client's timer; only the last one that was set counts.
    Timer(usize, u64),
    /// A node does what comes with time.
    Tick(usize),
    /// A sync that takes long is done.
    Synced(usize),
    /// Something that the driver has planned.
    Step(Step),
}

/// What the driver is notified of.
#[derive(Debug)]
pub enum ClusterEvent<Step> {
    /// A step is due.
    Step(Step),
    /// A call of a client has its outcome.
    Outcome(usize, OperationId, Outcome),
    /// A call of a client waits for this.
    Waiting(usize, OperationId, Waiting),
    /// An observer of a client is told who leads.
    Observed(usize, OperationId, Observed),
    /// A watch has this to say: who has the lock for certain.
    Watched(usize, OperationId, Option<Token>),
    /// A listener of a client is told this.
    Heard(usize, OperationId, Heard),
    /// A client's lock is valid for longer.
    Renewed(usize, OperationId, ClientInstant),
    /// A client has lost a lock.
    Lost(usize, OperationId, Loss),
    /// A node's log has failed, which ends its process, or its machine: the driver decides which.
    Failed(usize),
    /// A node that has started serves.
    Serving(usize),
    /// A node has done what comes with time.
    Ticked(usize),
    /// A connection of the driver's own is open.
    Connected(Wire),
    /// Bytes on a connection of the driver's own.
    Received(Wire, Vec<u8>),
    /// A connection of the driver's own has ended.
    Closed(Wire),
}

/// Nodes, clients, and what is between them.
pub struct Cluster<Step> {
    /// True time.
    pub now_ns: u64,
    /// The nodes.
    pub servers: Vec<Server>,
    /// The clients' rules.
    pub clients: Vec<Client>,
    /// The machine of each client, and of the driver's own connections.
    pub machines: Vec<ClientMachine>,
    /// Connections, and the queue of moments.
    pub network: Network<ScheduledEvent<Step>>,
    /// The way to each node.
    pub paths: Vec<Path>,
    /// The way of each client to all nodes.
    pub uplinks: Vec<Path>,
    /// What a box between nodes and clients draws, and the driver.
    pub random: Random,
    /// What happened, if the layout asks for it.
    pub trace: Option<Vec<String>>,
    /// Connections that clients have opened.
    pub connects: u64,
    /// How often clients wrote to nodes.
    pub requests: u64,
    events: VecDeque<ClusterEvent<Step>>,
    /// Of each client: the last timer that was set, and the last call's number.
    timers: Vec<u64>,
    calls: Vec<u64>,
    /// Until when each client's process is stopped; its clocks go on.
    stopped_ns: Vec<u64>,
    /// The nodes from which clients are cut off.
    cuts: BTreeSet<(usize, usize)>,
    /// Whether each node was seen to serve since it has started.
    serves: Vec<bool>,
    tick_ns: u64,
    is_silent_without_power: bool,
}

impl<Step> Cluster<Step> {
    /// Plans a step.
    pub fn at(&mut self, at_ns: u64, step: Step) {
        self.network.at(at_ns, ScheduledEvent::Step(step));
    }

    /// The step that is due now is put off until then, and comes before all that was planned for that moment after it.
    pub fn put_off(&mut self, at_ns: u64, step: Step) {
        self.network.put_off(at_ns, ScheduledEvent::Step(step));
    }

    /// The next moment happens. Returns whether there was one; its events are to be taken.
    pub fn advance(&mut self) -> bool {
        let Some((at_ns, moment)) = self.network.take_next() else {
            return false;
        };
        self.now_ns = at_ns;
        match self.delay_of(&moment).or_else(|| self.absence_of(&moment)) {
            Some(until_ns) => self.network.put_off(until_ns, moment),
            None => self.happen(moment),
        }
        true
    }

    /// The next event that the driver has not taken.
    pub fn take_event(&mut self) -> Option<ClusterEvent<Step>> {
        self.events.pop_front()
    }

    /// Adds a line to the trace.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let ms = self.now_ns / 1_000_000;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{ms:>8} ms  {}", text()));
        }
    }

    fn happen(&mut self, moment: ScheduledEvent<Step>) {
        match moment {
            ScheduledEvent::Connect(wire) => self.connect(wire),
            ScheduledEvent::Connected(wire) => {
                if self.is_of_driver(wire) {
                    self.events.push_back(ClusterEvent::Connected(wire));
                } else if self.network.connections.contains_key(&wire) {
                    let peer = format!("node {}", wire.id.0);
                    self.client(wire.client, Event::Connected(wire.id(), &peer));
                }
            }
            ScheduledEvent::ToNode(wire, bytes) => self.arrive_at_node(wire, &bytes),
            ScheduledEvent::ToClient(wire, bytes) => {
                let connection = self.network.connections.get(&wire);
                if connection.is_none_or(|connection| connection.is_swallowed) {
                    return;
                }
                match self.is_of_driver(wire) {
                    true => self.events.push_back(ClusterEvent::Received(wire, bytes)),
                    false => self.client(wire.client, Event::Received(wire.id(), &bytes)),
                }
            }
            ScheduledEvent::EndAtNode(wire) => self.end_at_node(wire),
            ScheduledEvent::EndAtClient(wire) => {
                self.end_at_client(wire, "the connection was reset")
            }
            ScheduledEvent::Unacknowledged(wire) => {
                self.end_at_client(wire, "nothing was acknowledged")
            }
            ScheduledEvent::Timer(client, number) => {
                if self.timers[client] == number {
                    self.client(client, Event::Timer);
                }
            }
            ScheduledEvent::Tick(node) => {
                self.servers[node].tell_time(self.now_ns);
                self.servers[node].tick();
                self.work(node);
                self.network
                    .at(self.now_ns + self.tick_ns, ScheduledEvent::Tick(node));
                self.events.push_back(ClusterEvent::Ticked(node));
            }
            ScheduledEvent::Synced(node) => {
                self.note(|| format!("Synced node {node}"));
                self.servers[node].tell_time(self.now_ns);
                self.servers[node].finish_sync();
                self.work(node);
            }
            ScheduledEvent::Step(step) => self.events.push_back(ClusterEvent::Step(step)),
        }
    }

    /// Until when the client is asleep or stopped to which this happens.
    fn absence_of(&self, moment: &ScheduledEvent<Step>) -> Option<u64> {
        let client = match moment {
            ScheduledEvent::Connected(wire)
            | ScheduledEvent::ToClient(wire, _)
            | ScheduledEvent::EndAtClient(wire)
            | ScheduledEvent::Unacknowledged(wire) => wire.client,
            ScheduledEvent::Timer(client, _) => *client,
            _ => return None,
        };
        let stopped_ns = self.stopped_ns.get(client).copied().unwrap_or(0);
        let until_ns = self.machines[client].woken_ns().max(stopped_ns);
        (until_ns > self.now_ns).then_some(until_ns)
    }

    /// A client's process is stopped until then.
    pub fn stop_client(&mut self, client: usize, until_ns: u64) {
        self.stopped_ns[client] = until_ns;
    }

    /// The process of a client is killed, and another one with these rules runs on the same machine, at the same distance from the
    /// nodes. What the first one has sent is on its way still. Returns the number of the second: it knows nothing of the first.
    pub fn replace_client(&mut self, client: usize, rules: Client, jitter: Random) -> usize {
        self.stop_client(client, u64::MAX);
        let wires: Vec<Wire> = self.network.connections.keys().copied().collect();
        for wire in wires.into_iter().filter(|wire| wire.client == client) {
            self.close(wire);
        }
        self.network
            .add_client(self.network.ways_of(client), jitter);
        self.clients.push(rules);
        self.machines.push(self.machines[client].clone());
        self.uplinks.push(self.uplinks[client]);
        self.timers.push(0);
        self.calls.push(0);
        self.stopped_ns.push(0);
        self.clients.len() - 1
    }

    /// The number that the next call of a client will have: its outcome may come before [`call`](Self::call) returns.
    pub fn next_operation(&self, client: usize) -> OperationId {
        OperationId(self.calls[client] + 1)
    }

    /// A caller of a client calls.
    pub fn call(&mut self, client: usize, call: Call) -> OperationId {
        self.calls[client] += 1;
        let operation = OperationId(self.calls[client]);
        self.client(client, Event::Call(operation, call));
        operation
    }

    /// A caller has dropped a call, or a guard.
    pub fn drop_operation(&mut self, client: usize, operation: OperationId) {
        self.client(client, Event::Gone(operation));
    }

    /// When a client's clocks show this.
    pub fn true_time(&self, client: usize, at: ClientInstant) -> u64 {
        self.machines[client].true_time(self.now_ns, at)
    }

    /// Something happens to a client, and it acts.
    fn client(&mut self, number: usize, event: Event<'_>) {
        let now = self.machines[number].now(self.now_ns);
        let mut actions = Vec::new();
        self.clients[number].handle(now, event, &mut actions);
        for action in actions {
            self.carry_out(number, action);
        }
        let wires: Vec<Wire> = self.network.connections.keys().copied().collect();
        for wire in wires.into_iter().filter(|wire| wire.client == number) {
            if let Some(output) = self.clients[number].output(wire.id())
                && !output.is_empty()
            {
                let bytes = ScheduledEvent::ToNode(wire, std::mem::take(output));
                self.requests += 1;
                self.network.send_to_node(self.now_ns, wire, bytes);
            }
        }
        self.timers[number] += 1;
        if let Some(at) = self.clients[number].next_time() {
            let at_ns = self.machines[number].true_time(self.now_ns, at);
            let timer = ScheduledEvent::Timer(number, self.timers[number]);
            self.network.at(at_ns.max(self.now_ns + 1), timer);
        }
    }

    fn carry_out(&mut self, number: usize, action: Action) {
        let event = match action {
            Action::Open(id) => {
                self.connects += 1;
                let wire = Wire::of(number, id);
                return self
                    .network
                    .open(self.now_ns, wire, ScheduledEvent::Connect(wire));
            }
            Action::Close(id) => return self.close(Wire::of(number, id)),
            Action::LimitUnacknowledged(id, limit) => {
                let connection = self.network.connections.get_mut(&Wire::of(number, id));
                if let Some(connection) = connection {
                    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                    connection.unacknowledged_ns = limit_ns;
                }
                return;
            }
            Action::RenewalFailing { .. } | Action::Log(_) => return,
            Action::Waiting(operation, waiting) => {
                ClusterEvent::Waiting(number, operation, waiting)
            }
            Action::Observed(operation, observed) => {
                ClusterEvent::Observed(number, operation, observed)
            }
            Action::Watched(operation, holder) => ClusterEvent::Watched(number, operation, holder),
            Action::Heard(operation, heard) => ClusterEvent::Heard(number, operation, heard),
            Action::Tell(operation, outcome) => ClusterEvent::Outcome(number, operation, outcome),
            Action::Renewed { held, valid_until } => {
                ClusterEvent::Renewed(number, held, valid_until)
            }
            Action::Lost { held, loss } => ClusterEvent::Lost(number, held, loss),
        };
        self.events.push_back(event);
    }
}
