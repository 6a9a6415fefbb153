//! What the locks protect: a number for each lock, which holders read, change and write back.
//!
//! It stands for a database without fences: it takes every write. Whose update is lost, the checks find in the record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::client::{Client, Held};
use crate::history::What;

/// All registers of a trial.
#[derive(Clone, Default)]
pub(super) struct Registers {
    values: Arc<Mutex<BTreeMap<String, u64>>>,
    writes: Arc<Mutex<u64>>,
}

impl Registers {
    /// The holder reads the register of its lock.
    pub(super) fn read(&self, client: &Client, held: &Held) {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.get(&held.lock).copied().unwrap_or(0);
        let (lock, hold) = (held.lock.clone(), held.hold);
        client.note(What::Read { lock, hold, value });
    }

    /// The holder writes it; every write of a trial has a value of its own.
    pub(super) fn write(&self, client: &Client, held: &Held) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        *writes += 1;
        let value = *writes;
        values.insert(held.lock.clone(), value);
        let (lock, hold) = (held.lock.clone(), held.hold);
        client.note(What::Wrote { lock, hold, value });
    }
}
