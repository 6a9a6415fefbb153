//! Callers that read, beside each other and never beside a writer, and writers that have the lock in the end.
//!
//! The truth is what callers were told: see `outcomes`.

use std::collections::{BTreeMap, BTreeSet};

use quorlock_client_rules::OperationId;

use super::caller::CallerHold;
use super::fault_class::FaultClass;
use super::plan::Plan;
use super::world::World;

/// Who reads, and when a writer last had a lock.
#[derive(Debug, Default)]
pub(super) struct Readers {
    reading: BTreeSet<(usize, OperationId)>,
    written_ns: BTreeMap<u64, u64>,
}

impl Plan {
    /// The same seed with readers, where callers do not ask in step. Nobody releases or extends what is held shared by its
    /// token.
    pub(crate) fn with_readers(self) -> Plan {
        if self.is_in_step {
            return self;
        }
        Plan {
            permits: None,
            callers: self.callers.max(3),
            lock_delay_ms: 0,
            is_fenced: false,
            trusts_fsync: false,
            has_readers: true,
            is_by_token: false,
            ..self
        }
    }
}

impl World {
    /// Whether this call is a reader's. Two of three are, until all is well.
    pub(super) fn is_to_read(&mut self, client: usize, operation: OperationId) -> bool {
        if !self.plan.has_readers || self.is_over || !self.cluster.random.chance(2, 3) {
            return false;
        }
        self.readers.reading.insert((client, operation))
    }

    pub(super) fn is_reader(&self, client: usize, operation: OperationId) -> bool {
        self.readers.reading.contains(&(client, operation))
    }

    /// Whether both may hold the same name.
    pub(super) fn may_share(&self, hold: &CallerHold, held: (usize, OperationId)) -> bool {
        let both_read = self.is_reader(hold.client, hold.held) && self.is_reader(held.0, held.1);
        both_read || self.is_of_one_owner(hold, held)
    }

    /// A caller has the lock.
    pub(super) fn note_taken(&mut self, name: u64, held: (usize, OperationId)) {
        match self.is_reader(held.0, held.1) {
            true => self.report.read += 1,
            false => drop(self.readers.written_ns.insert(name, self.cluster.now_ns)),
        }
    }

    /// A call has waited in vain. Readers hold the lock for a short time, so a writer has it before its wait is over unless
    /// another writer had it meanwhile.
    pub(super) fn check_starved(&mut self, name: u64, asked_ns: u64, call: (usize, OperationId)) {
        let is_writer = self.plan.has_readers && !self.is_reader(call.0, call.1);
        let waited_ns = self.cluster.now_ns - asked_ns;
        let written_ns = self.readers.written_ns.get(&name);
        let has_seen_writers =
            written_ns.is_some_and(|written| *written + self.plan.wait_ns() > asked_ns);
        if is_writer && !has_seen_writers && self.plan.faults == FaultClass::None {
            let ms = waited_ns / 1_000_000;
            self.violation = Some(format!(
                "a writer of {name} waits for {ms} ms behind readers"
            ));
        }
    }
}
