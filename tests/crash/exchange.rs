//! What clients and node exchange: bytes that clients send, and what becomes of them.
//!
//! Invariant: the model executes what the node has executed, in the same order, and a client learns from bytes that
//! have left the node.

use quorlock_node::simulation::request_bytes;

use super::batch::{self, Played};
use super::check::Violation;
use super::events::{Event, Executed, Sent};
use super::model::Moment;
use super::request::{CONNECTIONS, Reads, Request};
use super::session::Session;
use super::workload::Leaving;
use super::world::{Happened, World};
use quorlock_simulation::Random;

impl World {
    /// Takes in what has happened: the model executes what the node has, and clients learn from what left it.
    pub(super) fn collect(&mut self) -> Result<(), Violation> {
        let events = self.events.take();
        let executed = events.iter().filter_map(|event| match event {
            Event::Executed(executed) => Some(executed.clone()),
            Event::Sent(_) | Event::Changed(_) => None,
        });
        self.play(executed.collect())?;
        for event in events {
            match event {
                Event::Executed(_) => {}
                Event::Changed(point) => self.happened.push(Happened::Changed(point)),
                Event::Sent(sent) => self.receive(sent)?,
            }
        }
        if let Some(node) = &self.node {
            if node.is_all_written() {
                self.written = self.oracle.last();
            }
            if node.is_all_synced() {
                self.synced = self.synced.max(self.written);
            }
        }
        Ok(())
    }

    fn receive(&mut self, sent: Sent) -> Result<(), Violation> {
        let expired = self.oracle.expired_until(self.moment());
        let mut sessions = self.sessions.iter_mut();
        // One that has left learns nothing more.
        let Some(session) = sessions.find(|session| session.number == sent.session) else {
            return Ok(());
        };
        session.note_expired(&expired);
        let received = session.receive(&sent.bytes)?;
        if received.has_waited_in_vain {
            self.oracle.end_wait(sent.session);
        }
        for (kind, learnt) in received.learnt {
            self.happened
                .push(Happened::Told(kind, learnt, sent.disk.clone()));
        }
        Ok(())
    }

    /// Executes with the model what the node has executed in one iteration, in the same order.
    fn play(&mut self, executed: Vec<Executed>) -> Result<(), Violation> {
        let Some(node) = &self.node else {
            return Ok(());
        };
        // What a node that has failed did before is in its replies.
        let served = node.served().unwrap_or(self.served);
        if executed.is_empty() && served == self.served {
            return Ok(());
        }
        let stored = node.stored().unwrap_or_default();
        let mut batch = Vec::new();
        for executed in executed {
            let mut sessions = self.sessions.iter_mut().chain(&mut self.left);
            let session = sessions.find(|session| session.number == executed.session);
            let Some(session) = session else {
                let detail = format!("{:?}", executed.words);
                return Err(Violation::new("a client of another run is served", detail));
            };
            let request = session.take_executed(&executed.words)?;
            let database = session.database;
            if let Some(selected) = request.selects().filter(|_| executed.reply == OK) {
                session.database = selected;
            }
            let part = session.note_part(&request, &executed.reply);
            // A request that needed no engine has not looked.
            let has_served = executed.served > self.served;
            self.served = self.served.max(executed.served);
            batch.push(Played {
                session: session.number,
                part,
                request,
                database,
                now: Moment {
                    node_ns: executed.raw_ns.wrapping_sub(self.ahead_ns.unwrap_or(0)),
                    true_ns: executed.true_ns,
                },
                reply: executed.reply,
                has_served,
            });
        }
        if served > self.served {
            // What lacked room is made up for by the maintenance.
            self.served = served;
            batch.push(Played::late_serving(self.began));
        }
        let (mode, sessions) = (&mut self.mode, &mut self.sessions);
        batch::play(&mut self.oracle, &batch, &stored, |played, effects| {
            let is_set = played.reply == OK;
            if let Some(set) = played.request.sets_mode().filter(|_| is_set) {
                *mode = set;
            }
            if let Some(session) = sessions.iter_mut().find(|one| one.number == played.session) {
                session.note_executed(played, &effects, *mode);
            }
            for session in sessions.iter_mut() {
                session.note_told(played, &effects, *mode);
            }
        })
    }

    /// A client sends a request; one that the node has closed is followed by another one first.
    pub(super) fn request(&mut self, request: &Request) {
        let Some(node) = &self.node else { return };
        let connection = request.connection;
        let is_closed = |session: &Session| node.is_closed(session.client);
        if self.sessions.get(connection).is_some_and(is_closed) {
            self.replace(connection);
        }
        let (Some(node), Some(session)) = (&self.node, self.sessions.get_mut(connection)) else {
            return;
        };
        if !session.has_ended {
            node.send(session.client, &bytes(request));
            session.note_sent(request.clone());
        }
    }

    /// All connections go over to another database, behind what they have sent before.
    pub(super) fn select(&mut self, database: u8) {
        self.database = database;
        for connection in 0..CONNECTIONS {
            let request = Request::new(&["SELECT", &database.to_string()], Reads::Nothing);
            self.request(&Request {
                connection,
                ..request
            });
        }
    }

    /// CONFIG SET, behind what the first connection has sent before.
    pub(super) fn configure(&mut self, name: &str, value: &str) {
        self.request(&Request::new(
            &["CONFIG", "SET", name, value],
            Reads::Nothing,
        ));
    }

    /// A client goes, in one way or another.
    pub(super) fn leave(&mut self, connection: usize, leaving: &Leaving) {
        let (Some(node), Some(session)) = (&self.node, self.sessions.get_mut(connection)) else {
            return;
        };
        match leaving {
            Leaving::SendsNoMore => {
                session.has_ended = true;
                return node.end(session.client);
            }
            Leaving::InsideOf(request) if !session.has_ended => {
                let bytes = bytes(request);
                node.send(session.client, &bytes[..bytes.len() / 2]);
            }
            Leaving::Closes | Leaving::InsideOf(_) => {}
        }
        node.reset(session.client);
        self.replace(connection);
    }

    /// Another client takes the place of one that has gone and never learns what it has not read.
    pub(super) fn replace(&mut self, connection: usize) {
        let Some(node) = &mut self.node else { return };
        self.session_count += 1;
        let number = self.session_count;
        // Some clients are far away: what they send arrives piece by piece.
        let call_bytes_max = match Random::of(&[self.seed, number]).below(4) {
            0 => 11,
            _ => usize::MAX,
        };
        let client = node.connect(call_bytes_max, Some(self.events.watcher(number)));
        let session = Session::new(number, client);
        match self.sessions.get_mut(connection) {
            Some(old) => self.left.push(std::mem::replace(old, session)),
            None => self.sessions.push(session),
        }
        for request in Request::introductions(connection) {
            self.request(&request);
        }
        if self.database != 0 {
            let database = self.database.to_string();
            let request = Request::new(&["SELECT", &database], Reads::Nothing);
            self.request(&Request {
                connection,
                ..request
            });
        }
    }
}

fn bytes(request: &Request) -> Vec<u8> {
    let words: Vec<&[u8]> = request.words.iter().map(Vec::as_slice).collect();
    request_bytes(&words)
}

const OK: &[u8] = b"+OK\r\n";
