//! The limits of one worker's connections, put together: who has to go, and why. The worker closes them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use slab::Slab;

use crate::config::{ClientMemory, Config};
use crate::core::clients::Client;
use crate::core::process::Process;
use crate::core::state::NodeState;
use crate::event_loop::closing::ClosingLines;
use crate::event_loop::connection::{Connection, Stage};
use crate::event_loop::idle_reaper::IdleReaper;
use crate::event_loop::limits::{Activity, ConnectionLimits, Reason};
use crate::event_loop::memory::{Account, Candidate, Held, largest, oldest};
use crate::event_loop::stream::Stream;
use crate::protocol::ProtocolError;
use quorlock_engine::RawTime;

/// What a worker knows of limits.
#[derive(Debug)]
pub(crate) struct Guard {
    limits: ConnectionLimits,
    /// Output below this needs no look.
    unlimited_output_bytes: usize,
    memory_limit_bytes: usize,
    /// Of the settings these were taken from.
    version: u64,
    idle_reaper: IdleReaper,
    account: Account,
    pub(super) lines: ClosingLines,
    /// What all hold is to be compared with its limits, whether or not this worker's part has changed:
    /// a part of the connections has just been looked at, or some were closed and may not be enough.
    looks_again: bool,
    /// What connections of all workers held when this was last looked at.
    held_bytes: usize,
}

impl Guard {
    pub(crate) fn new(node: &NodeState) -> Self {
        let version = node.settings.version();
        let config = node.settings.config();
        let limits = ConnectionLimits::new(&config);
        Self {
            limits,
            unlimited_output_bytes: limits.unlimited_output_bytes(),
            memory_limit_bytes: memory_limit_bytes(&config, node.process),
            version,
            idle_reaper: IdleReaper::default(),
            account: Account::default(),
            lines: ClosingLines::default(),
            looks_again: false,
            held_bytes: 0,
        }
    }

    /// How long the worker may wait for events.
    pub(crate) fn pause(&self, now: RawTime) -> Option<Duration> {
        if self.looks_again {
            return Some(Duration::ZERO);
        }
        self.idle_reaper.pause(now)
    }

    /// Counts what a connection keeps now. For one that keeps nothing, as after an ordinary request,
    /// these are a few comparisons.
    pub(crate) fn count<S: Stream>(&mut self, connection: &mut Connection<S>) {
        let held = connection.held();
        if held != connection.counted {
            self.account.count(connection.counted, held);
            connection.counted = held;
            let client = &connection.session.client;
            client.note_buffers(held.input_bytes, held.output_bytes);
            client.note_query((held.query_bytes, held.query_free_bytes));
        }
        if held != Held::default() || self.limits.has_idle_timeout() {
            self.idle_reaper.request_round();
        }
    }

    /// Takes a connection that is closed out of the count.
    pub(crate) fn discount<S: Stream>(&mut self, connection: &mut Connection<S>) {
        self.account.count(connection.counted, Held::default());
        connection.counted = Held::default();
    }

    /// Why a connection whose replies have just been made has to go, if it has to.
    pub(crate) fn judge_output<S: Stream>(
        &self,
        connection: &mut Connection<S>,
        now: RawTime,
    ) -> Option<Reason> {
        let output_bytes = connection.output_bytes();
        if output_bytes <= self.unlimited_output_bytes {
            return None;
        }
        self.limits
            .output_verdict(now, &connection.facts(), &mut connection.over_soft_limit)
    }

    /// Those whose time is up, among the connections that are to be looked at now.
    pub(crate) fn due<S: Stream>(
        &mut self,
        node: &NodeState,
        connections: &mut Slab<Connection<S>>,
        now: RawTime,
    ) -> Vec<Closing> {
        self.follow_settings(node);
        if !self.idle_reaper.is_running() {
            return Vec::new();
        }
        let Some(part) = self.idle_reaper.take_due(now, connections.capacity()) else {
            return Vec::new();
        };
        self.looks_again = true;
        let mut due = Vec::new();
        for slot in part {
            let Some(connection) = connections.get_mut(slot) else {
                continue;
            };
            if matches!(connection.stage, Stage::Closed) {
                continue;
            }
            let facts = connection.facts();
            let over = &mut connection.over_soft_limit;
            match self.limits.verdict(now, &facts, over) {
                Some(reason) => due.push(Closing {
                    connection: slot,
                    reason,
                }),
                None if connection.counted != Held::default()
                    || facts.activity != Activity::Reading
                    || self.limits.has_idle_timeout() =>
                {
                    self.idle_reaper.request_round();
                }
                None => {}
            }
        }
        self.idle_reaper.arm(now);
        due
    }

    /// Those that have to go because all connections together, or those that have not authenticated,
    /// hold too much.
    pub(crate) fn excessive<S: Stream>(
        &mut self,
        node: &NodeState,
        connections: &Slab<Connection<S>>,
    ) -> Vec<Closing> {
        let has_changed = self.account.publish(&node.clients.buffer_bytes);
        let held_bytes = node.clients.held_bytes();
        let before = std::mem::replace(&mut self.held_bytes, held_bytes);
        if !has_changed && !self.looks_again && held_bytes == before {
            return Vec::new();
        }
        let chosen = self.choose(node, connections);
        self.looks_again = !chosen.is_empty();
        chosen
    }

    fn choose<S: Stream>(
        &self,
        node: &NodeState,
        connections: &Slab<Connection<S>>,
    ) -> Vec<Closing> {
        let open = || {
            let all = connections.iter();
            all.filter(|(_, connection)| !matches!(connection.stage, Stage::Closed))
        };
        let excess = self.account.unauthenticated_excess(node.facts.workers);
        if excess > 0 {
            let unauthenticated = open().filter(|(_, one)| one.counted.unauthenticated_bytes > 0);
            let candidates = unauthenticated.map(|(slot, connection)| {
                let bytes = connection.counted.unauthenticated_bytes;
                (connection.session.client.id, slot, bytes)
            });
            let chosen = oldest(candidates, excess).into_iter();
            return chosen
                .map(|connection| Closing {
                    connection,
                    reason: Reason::UnauthenticatedMemory,
                })
                .collect();
        }
        let sum_bytes = node.clients.held_bytes();
        if self.memory_limit_bytes == 0 || sum_bytes <= self.memory_limit_bytes {
            return Vec::new();
        }
        let limit_bytes = self.memory_limit_bytes;
        let shared_bytes = node.clients.shared_bytes.load(Ordering::Relaxed);
        let workers = node.facts.workers;
        let excess = self
            .account
            .excess(sum_bytes, shared_bytes, limit_bytes, workers);
        let candidates = open().map(|(slot, connection)| Candidate {
            connection: slot,
            bytes: connection.counted.bytes(),
            is_spared: connection.session.client.is_spared(),
        });
        let chosen = largest(candidates, excess).into_iter();
        chosen
            .map(|one| Closing {
                connection: one.connection,
                reason: Reason::ClientMemory(one.bytes),
            })
            .collect()
    }

    /// Brings the sum of all workers up to date.
    pub(crate) fn publish(&mut self, node: &NodeState) {
        self.account.publish(&node.clients.buffer_bytes);
    }

    /// Counts a client that is closed because of a limit, and says so.
    pub(crate) fn note_closed(
        &mut self,
        node: &NodeState,
        client: &Client,
        reason: Reason,
        now: RawTime,
    ) {
        let closed = &node.statistics.closed;
        self.lines.note(reason, client, closed, now);
    }

    /// The same for a client that is closed for what it sent.
    pub(crate) fn note_protocol_error(
        &mut self,
        node: &NodeState,
        client: &Client,
        error: &ProtocolError,
        now: RawTime,
    ) {
        let closed = &node.statistics.closed;
        self.lines.note_protocol_error(error, client, closed, now);
    }

    /// Takes over what CONFIG SET has changed.
    fn follow_settings(&mut self, node: &NodeState) {
        let version = node.settings.version();
        if version == self.version {
            return;
        }
        self.version = version;
        let config = node.settings.config();
        self.limits = ConnectionLimits::new(&config);
        self.unlimited_output_bytes = self.limits.unlimited_output_bytes();
        self.memory_limit_bytes = memory_limit_bytes(&config, node.process);
        // A shorter time may be up for those that are here, and a lower limit exceeded.
        self.idle_reaper.request_round();
        self.looks_again = true;
    }
}

/// A connection that has to be closed.
pub(crate) struct Closing {
    pub(crate) connection: usize,
    pub(crate) reason: Reason,
}

/// 0 where there is no limit.
fn memory_limit_bytes(config: &Config, process: Process) -> usize {
    let bytes = match config.maxmemory_clients {
        ClientMemory::Bytes(bytes) => bytes,
        ClientMemory::Percent(percent) => (process.machine_bytes)() / 100 * u64::from(percent),
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
