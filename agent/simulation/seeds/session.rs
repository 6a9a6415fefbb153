//! Callers whose locks end with their connections.
//!
//! Invariant: what was released is known from what nodes store.

use quorlock_engine::StoredValue;

use super::plan::Fault;
use super::world::{MS, Planned, World};

/// The connections of a process whose locks end with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Their numbers: one, or two that share a named session.
    clients: Vec<u64>,
    /// The agent was told.
    is_begun: bool,
}

impl World {
    /// Some processes want one.
    pub(super) fn new_session(&mut self) -> Option<Session> {
        let count = self.random.pick(&[0, 0, 0, 0, 1, 2]);
        let first = self.clients + 1;
        self.clients += count;
        (count > 0).then(|| Session {
            clients: (first..=self.clients).collect(),
            is_begun: false,
        })
    }

    /// The connection by which a caller sends its next request. It begins its session with the first one.
    pub(super) fn client_of(&mut self, number: usize, at_ns: u64) -> u64 {
        let caller = &mut self.callers[number];
        let agent = caller.agent;
        let Some(session) = &mut caller.session else {
            return 0;
        };
        let clients = session.clients.clone();
        let is_begun = std::mem::replace(&mut session.is_begun, true);
        let name = clients[0].to_string();
        let mut words: Vec<&[u8]> = vec![b"LOCK.SESSION", b"ON"];
        if clients.len() > 1 {
            words.push(name.as_bytes());
        }
        for client in clients.iter().filter(|_| !is_begun) {
            self.agents.send_at(at_ns, agent, *client, &words);
        }
        self.random.pick(&clients)
    }

    /// A process ends, and so do its connections, one after the other.
    pub(super) fn end_session(&mut self, number: usize) {
        let token = self.token(number);
        let caller = &mut self.callers[number];
        let (agent, owner) = (caller.agent, (number, caller.process));
        let Some(session) = caller.session.take() else {
            return;
        };
        let mut at_ns = self.now().max(self.well_ns[agent]);
        // What it counted on is free from now on.
        self.holds.retain(|hold| hold.owner != owner);
        for client in session.clients {
            at_ns += self.loopback_ns();
            self.plan_at(at_ns, Planned::Left(client, agent));
        }
        // Where nothing goes wrong the nodes hear of it.
        if self.plan.faults == NO_FAULTS {
            self.report.sessions += 1;
            self.plan_at(at_ns + RELEASED_NS, Planned::Gone(token));
        }
    }

    pub(super) fn check_gone(&mut self, own: &str) {
        let is_own = |value: &StoredValue| match value {
            StoredValue::String(token) => token.strip_prefix(own.as_bytes()).is_some_and(|rest| {
                // That of an attempt.
                rest.is_empty() || rest.starts_with(b"~")
            }),
            _ => false,
        };
        for (number, server) in self.agents.cluster.servers.iter().enumerate() {
            if let Some((key, _)) = server.keys().iter().find(|(_, value)| is_own(value)) {
                self.violation = Some(format!(
                    "the session of {own} has ended, and node {number} still keeps its lock {}",
                    String::from_utf8_lossy(key)
                ));
            }
        }
    }
}

const NO_FAULTS: &[Fault] = &[];
/// Five ways to the nodes and back.
const RELEASED_NS: u64 = 100 * MS;
