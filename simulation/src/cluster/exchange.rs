//! What passes between clients and nodes, and what is on the way.

use std::collections::BTreeSet;

use quorlock_client::Cause;
use quorlock_client_rules::action::Event;

use super::{Cluster, ClusterEvent, ScheduledEvent};
use crate::middle_box::{self, Meddling};
use crate::network::Wire;

impl<Step> Cluster<Step> {
    /// Whether a connection is the driver's own, and not that of a client's rules.
    pub(super) fn is_of_driver(&self, wire: Wire) -> bool {
        wire.client >= self.clients.len()
    }

    /// Opens a connection of the driver's own.
    pub fn open(&mut self, wire: Wire) {
        self.network
            .open(self.now_ns, wire, ScheduledEvent::Connect(wire));
    }

    /// Sends bytes on a connection of the driver's own.
    pub fn send(&mut self, wire: Wire, bytes: &[u8]) {
        let bytes = ScheduledEvent::ToNode(wire, bytes.to_vec());
        self.network.send_to_node(self.now_ns, wire, bytes);
    }

    /// Closes a client's end of a connection.
    pub fn close(&mut self, wire: Wire) {
        let end = ScheduledEvent::EndAtNode(wire);
        self.network.send_to_node(self.now_ns, wire, end);
    }

    pub(super) fn connect(&mut self, wire: Wire) {
        let is_refused =
            self.paths[wire.id.0].refuses || self.cuts.contains(&(wire.client, wire.id.0));
        let server = &mut self.servers[wire.id.0];
        let Some(connection) = self.network.connections.get_mut(&wire) else {
            return;
        };
        let answer = match &mut server.node {
            // The kernel answers for a process that is stopped.
            Some(node) if !is_refused => {
                connection.peer = Some((node.connect(usize::MAX, None), server.life));
                ScheduledEvent::Connected(wire)
            }
            _ => ScheduledEvent::EndAtClient(wire),
        };
        self.network.send_to_client(self.now_ns, wire, answer);
    }

    /// Whether this has to wait: packets are lost on the way and sent again when it is well, unless the client gives
    /// the connection up before that.
    pub(super) fn delay_of(&mut self, moment: &ScheduledEvent<Step>) -> Option<u64> {
        let (wire, until_ns) = match moment {
            ScheduledEvent::Connect(wire)
            | ScheduledEvent::ToNode(wire, _)
            | ScheduledEvent::EndAtNode(wire) => {
                let uplink_ns = self.uplinks[wire.client].to_node_until_ns;
                (*wire, self.paths[wire.id.0].to_node_until_ns.max(uplink_ns))
            }
            ScheduledEvent::Connected(wire)
            | ScheduledEvent::ToClient(wire, _)
            | ScheduledEvent::EndAtClient(wire) => {
                let uplink_ns = self.uplinks[wire.client].to_client_until_ns;
                let path_ns = self.paths[wire.id.0].to_client_until_ns;
                (*wire, path_ns.max(uplink_ns))
            }
            _ => return None,
        };
        if until_ns <= self.now_ns {
            return None;
        }
        if matches!(moment, ScheduledEvent::ToNode(..)) {
            let connection = self.network.connections.get(&wire)?;
            let ends_ns = self.now_ns.saturating_add(connection.unacknowledged_ns);
            if ends_ns < until_ns {
                self.network
                    .at(ends_ns, ScheduledEvent::Unacknowledged(wire));
            }
        }
        Some(until_ns)
    }

    pub(super) fn arrive_at_node(&mut self, wire: Wire, bytes: &[u8]) {
        let number = wire.id.0;
        let Some(connection) = self.network.connections.get(&wire) else {
            return;
        };
        if connection.is_swallowed {
            return;
        }
        let (peer, limit_ns) = (connection.peer, connection.unacknowledged_ns);
        let is_paused = self.servers[number].is_paused;
        self.note(|| {
            let state = if is_paused { " (paused)" } else { "" };
            let (client, text) = (wire.client, in_short(bytes));
            format!("  client {client} -> node {number}{state}: {text}")
        });
        let refuses = self.paths[number].meddling == Some(Meddling::Refuses);
        if refuses && let Some(count) = middle_box::count(bytes) {
            let errors = middle_box::errors(count, &mut self.random);
            let errors = ScheduledEvent::ToClient(wire, errors);
            return self.network.send_to_client(self.now_ns, wire, errors);
        }
        let server = &self.servers[number];
        let is_silent = self.is_silent_without_power && server.is_without_power();
        match (&server.node, peer) {
            (Some(node), Some((peer, life))) if life == server.life => {
                node.send(peer, bytes);
                self.work(number);
            }
            (None, Some(_)) if is_silent && limit_ns < u64::MAX => {
                let at_ns = self.now_ns.saturating_add(limit_ns);
                self.network.at(at_ns, ScheduledEvent::Unacknowledged(wire));
            }
            _ => {
                let end = ScheduledEvent::EndAtClient(wire);
                self.network.send_to_client(self.now_ns, wire, end);
            }
        }
    }

    pub(super) fn end_at_node(&mut self, wire: Wire) {
        let is_swallowed = self
            .network
            .connections
            .get(&wire)
            .is_some_and(|connection| connection.is_swallowed);
        if !is_swallowed {
            self.reset_at_node(wire);
        }
        self.network.connections.remove(&wire);
    }

    /// The node's end of a connection is gone.
    fn reset_at_node(&mut self, wire: Wire) {
        if self.take_peer(wire) {
            self.work(wire.id.0);
        }
    }

    /// Returns whether a node that runs had the other end.
    fn take_peer(&mut self, wire: Wire) -> bool {
        let connection = self.network.connections.get_mut(&wire);
        let peer = connection.and_then(|connection| connection.peer.take());
        let server = &self.servers[wire.id.0];
        match (&server.node, peer) {
            (Some(node), Some((peer, life))) if life == server.life => {
                node.reset(peer);
                true
            }
            _ => false,
        }
    }

    /// The client's end learns that the connection is over.
    pub(super) fn end_at_client(&mut self, wire: Wire, text: &str) {
        let connection = self.network.connections.get(&wire);
        if connection.is_some_and(|connection| !connection.is_swallowed) {
            self.network.connections.remove(&wire);
            if self.is_of_driver(wire) {
                return self.events.push_back(ClusterEvent::Closed(wire));
            }
            let cause = Cause::Unreachable(text.into());
            self.client(wire.client, Event::Closed(wire.id(), cause));
        }
    }

    /// A node does what it has to, and what it sends goes on its way.
    pub fn work(&mut self, number: usize) {
        let server = &mut self.servers[number];
        server.tell_time(self.now_ns);
        let goes_on = server.work();
        if server.is_syncing() && !server.is_sync_planned {
            server.is_sync_planned = true;
            let at_ns = self.now_ns + server.sync_ns;
            self.network.at(at_ns, ScheduledEvent::Synced(number));
        }
        let serves = server.node.as_ref().is_some_and(|node| node.is_serving());
        if serves && !self.serves[number] {
            self.events.push_back(ClusterEvent::Serving(number));
        }
        self.serves[number] = serves;
        self.forward_output(number);
        if !goes_on {
            self.note(|| format!("node {number} ends: its log failed"));
            self.events.push_back(ClusterEvent::Failed(number));
        }
    }

    /// What the node has sent goes on its way.
    fn forward_output(&mut self, number: usize) {
        let server = &self.servers[number];
        let Some(node) = server.node.as_ref().filter(|_| !server.is_paused) else {
            return;
        };
        let mut sent = Vec::new();
        for (wire, connection) in &self.network.connections {
            if let Some((peer, life)) = connection.peer
                && wire.id.0 == number
                && life == server.life
            {
                sent.push((*wire, node.take_received(peer), node.is_closed(peer)));
            }
        }
        let path = self.paths[number];
        for (wire, mut bytes, is_closed) in sent {
            if !bytes.is_empty() {
                match (path.meddling, middle_box::count(&bytes)) {
                    (Some(Meddling::Lies), Some(count)) => {
                        bytes = middle_box::errors(count, &mut self.random);
                    }
                    (Some(Meddling::Garbles), _) => bytes = middle_box::garbage(&mut self.random),
                    _ => {}
                }
                self.note(|| {
                    let client = wire.client;
                    format!("  node {number} -> client {client}: {}", in_short(&bytes))
                });
                let most = if path.trickles { 7 } else { usize::MAX };
                for bytes in bytes.chunks(most) {
                    let bytes = ScheduledEvent::ToClient(wire, bytes.to_vec());
                    self.network.send_to_client(self.now_ns, wire, bytes);
                }
            }
            if is_closed {
                let end = ScheduledEvent::EndAtClient(wire);
                self.network.send_to_client(self.now_ns, wire, end);
            }
        }
    }

    /// The connections to a node.
    pub fn wires_of(&self, node: usize) -> Vec<Wire> {
        let wires = self.network.connections.keys().copied();
        wires.filter(|wire| wire.id.0 == node).collect()
    }

    /// The client's end of a connection is told that it is over.
    pub fn end(&mut self, wire: Wire) {
        let end = ScheduledEvent::EndAtClient(wire);
        self.network.send_to_client(self.now_ns, wire, end);
    }

    /// The kernel of a process that has ended closes its connections.
    pub fn end_all(&mut self, node: usize) {
        for wire in self.wires_of(node) {
            self.end(wire);
        }
    }

    /// The node's ends of its connections are gone, and the clients' ends are told of it or not.
    pub fn disconnect(&mut self, node: usize, is_told: bool) {
        for wire in self.wires_of(node) {
            self.take_peer(wire);
            if is_told {
                self.end(wire);
            }
        }
    }

    /// Cuts a client off from a node: its connections are reset, and new ones refused.
    pub fn cut(&mut self, client: usize, node: usize) {
        self.cuts.insert((client, node));
        for wire in self.wires_of(node) {
            if wire.client == client {
                self.reset_at_node(wire);
                self.end(wire);
            }
        }
    }

    /// All ways are whole again; returns those that were cut.
    pub fn join(&mut self) -> BTreeSet<(usize, usize)> {
        std::mem::take(&mut self.cuts)
    }

    /// Everything that the nodes have written so far is synced.
    pub fn sync(&mut self) {
        for server in &mut self.servers {
            server.sync();
        }
    }
}

/// What is sent, without its lengths and without long texts.
fn in_short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter(|line| !line.starts_with(['*', '$']));
    let words: Vec<String> = lines.map(|line| line.chars().take(8).collect()).collect();
    let most = words.len().min(30);
    words[..most].join(" ")
}
