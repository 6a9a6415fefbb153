//! What is read from the nodes' own state: figures and notes for people, never what the verdict rests on.

use quorlock_engine::StoredValue;

use super::schedule::{SimulatedTrial, number_of};
use super::step::Held;
use crate::engine::Measured;
use crate::history::{Occurrence, Who};

impl SimulatedTrial<'_> {
    /// Whether a node holds a lock under its token at present.
    pub(super) fn knows(&self, index: usize, held: &Held) -> bool {
        let keys = self.cluster.servers[index].keys();
        let value = StoredValue::String(held.token.as_bytes().to_vec());
        keys.contains(&(held.lock.clone().into_bytes(), value))
    }

    /// Notes which nodes hold a lock.
    pub(super) fn note_grants(&self, held: &Held) {
        for index in 0..self.cluster.servers.len() {
            if self.knows(index, held) {
                let (lock, hold) = (held.lock.clone(), held.hold);
                self.note(
                    Who::Node(number_of(index)),
                    Occurrence::Granted { lock, hold },
                );
            }
        }
    }

    /// Whether a node that held a lock does so no longer although it has not expired; notes it if so.
    pub(super) fn forgot(&self, index: usize, held: &Held) -> bool {
        let is_over = held.until_ns <= self.cluster.now_ns;
        let is_forgotten = !is_over && !self.knows(index, held);
        if is_forgotten {
            let (lock, hold) = (held.lock.clone(), held.hold);
            self.note_node(index, Occurrence::Forgot { lock, hold });
        }
        is_forgotten
    }

    /// What the trial came to.
    pub(super) fn measure(mut self) -> Measured {
        for server in &mut self.cluster.servers {
            let Some(node) = &mut server.node else {
                continue;
            };
            let info = node.execute(&[b"INFO", b"persistence"]);
            let info = String::from_utf8_lossy(&info).into_owned();
            let value = info
                .lines()
                .find_map(|line| line.strip_prefix("aof_current_size:"));
            self.measured.log_bytes += value.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        }
        self.measured
    }
}
