//! What passes between clients and nodes, and what is on the way.

use super::middle_box::{self, Meddling};
use super::network::{Healing, What};
use super::world::{SECOND_NS, World};
use quorlock_client::Cause;
use quorlock_client::rules::action::Event;
use quorlock_simulation::Wire;

impl World {
    pub(super) fn connect(&mut self, wire: Wire) {
        if self.paths[wire.id.0].refuses {
            return self
                .network
                .send_to_client(self.now_ns, wire, What::EndAtClient(wire));
        }
        let server = &mut self.servers[wire.id.0];
        let Some(connection) = self.network.connections.get_mut(&wire) else {
            return;
        };
        match &mut server.node {
            // The kernel answers for a process that is stopped.
            Some(node) => {
                connection.peer = Some((node.connect(usize::MAX, None), server.life));
                self.network
                    .send_to_client(self.now_ns, wire, What::Connected(wire));
            }
            None => self
                .network
                .send_to_client(self.now_ns, wire, What::EndAtClient(wire)),
        }
    }

    /// Whether this has to wait: packets are lost on the way and sent again when it is well, unless the client gives
    /// the connection up before that.
    pub(super) fn is_delayed(&mut self, what: &What) -> Option<u64> {
        let (wire, until_ns) = match what {
            What::Connect(wire) | What::ToNode(wire, _) | What::EndAtNode(wire) => {
                let uplink_ns = self.uplinks[wire.client].to_node_until_ns;
                (*wire, self.paths[wire.id.0].to_node_until_ns.max(uplink_ns))
            }
            What::Connected(wire) | What::ToClient(wire, _) | What::EndAtClient(wire) => {
                let uplink_ns = self.uplinks[wire.client].to_client_until_ns;
                (
                    *wire,
                    self.paths[wire.id.0].to_client_until_ns.max(uplink_ns),
                )
            }
            _ => return None,
        };
        if until_ns <= self.now_ns {
            return None;
        }
        if matches!(what, What::ToNode(..)) {
            let connection = self.network.connections.get(&wire)?;
            let ends_ns = self.now_ns.saturating_add(connection.unacknowledged_ns);
            if ends_ns < until_ns {
                self.network.at(ends_ns, What::Unacknowledged(wire));
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
        let peer = connection.peer;
        let is_paused = self.servers[number].is_paused;
        self.note(|| {
            let state = if is_paused { " (paused)" } else { "" };
            format!(
                "  client {} -> node {number}{state}: {}",
                wire.client,
                in_short(bytes)
            )
        });
        let refuses = self.paths[number].meddling == Some(Meddling::Refuses);
        if refuses && let Some(count) = middle_box::count(bytes) {
            let errors = middle_box::errors(count, &mut self.random);
            return self
                .network
                .send_to_client(self.now_ns, wire, What::ToClient(wire, errors));
        }
        let server = &self.servers[number];
        match (&server.node, peer) {
            (Some(node), Some((peer, life))) if life == server.life => {
                node.send(peer, bytes);
                self.work(number);
            }
            _ => self
                .network
                .send_to_client(self.now_ns, wire, What::EndAtClient(wire)),
        }
    }

    pub(super) fn end_at_node(&mut self, wire: Wire) {
        let Some(connection) = self.network.connections.remove(&wire) else {
            return;
        };
        let server = &self.servers[wire.id.0];
        if let (Some(node), Some((peer, life))) = (&server.node, connection.peer)
            && life == server.life
            && !connection.is_swallowed
        {
            node.reset(peer);
            self.work(wire.id.0);
        }
    }

    /// The client's end hears that the connection is over.
    pub(super) fn end_at_client(&mut self, wire: Wire, text: &str) {
        let connection = self.network.connections.get(&wire);
        if connection.is_some_and(|connection| !connection.is_swallowed) {
            self.network.connections.remove(&wire);
            if self.is_listener(wire) {
                return self.listener_closed(wire);
            }
            let cause = Cause::Unreachable(text.into());
            self.client(wire.client, Event::Closed(wire.id(), cause));
        }
    }

    /// A node does what it has to, and what it says goes on its way.
    pub(super) fn work(&mut self, number: usize) {
        let server = &mut self.servers[number];
        server.tell_time(self.now_ns);
        let goes_on = server.work();
        if server.is_syncing() && !server.is_sync_planned {
            server.is_sync_planned = true;
            let at_ns = self.now_ns + server.sync_ns;
            self.network.at(at_ns, What::Heal(number, Healing::Synced));
        }
        self.hear(number);
        if !goes_on {
            self.note(|| format!("node {number} ends: its log failed"));
            self.down(number, false);
            let at_ns = self.now_ns + SECOND_NS;
            self.network.at(at_ns, What::Heal(number, Healing::Start));
        }
    }

    /// What the node has said goes on its way.
    fn hear(&mut self, number: usize) {
        let server = &self.servers[number];
        let Some(node) = server.node.as_ref().filter(|_| !server.is_paused) else {
            return;
        };
        let mut said = Vec::new();
        for (wire, connection) in &self.network.connections {
            if let Some((peer, life)) = connection.peer
                && wire.id.0 == number
                && life == server.life
            {
                said.push((*wire, node.take_received(peer), node.is_closed(peer)));
            }
        }
        let path = self.paths[number];
        for (wire, mut bytes, is_closed) in said {
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
                    let what = What::ToClient(wire, bytes.to_vec());
                    self.network.send_to_client(self.now_ns, wire, what);
                }
            }
            if is_closed {
                self.network
                    .send_to_client(self.now_ns, wire, What::EndAtClient(wire));
            }
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
