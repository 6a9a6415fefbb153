//! Locks that end with the connection that took them, where an agent is told so.
//!
//! Invariant: what is released is the attempt that this connection took. A lock that has changed hands since, or that another agent has
//! extended, is not touched.

use std::collections::HashMap;

use quorlock_client_rules::call::Call;
use quorlock_client_rules::name::LockName;
use quorlock_clock::ClientInstant;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    is_on: bool,
    of_clients: HashMap<u64, Vec<Lock>>,
}

#[derive(Debug)]
struct Lock {
    name: LockName,
    /// Unless it is extended.
    ends: ClientInstant,
    release: Call,
}

impl Sessions {
    /// From now on locks end with their connections.
    pub(crate) fn begin(&mut self) {
        self.is_on = true;
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A client has taken a lock, which this call releases.
    pub(crate) fn note_taken(
        &mut self,
        now: ClientInstant,
        client: u64,
        name: &LockName,
        ends: ClientInstant,
        release: &Call,
    ) {
        if !self.is_on {
            return;
        }
        let locks = self.of_clients.entry(client).or_default();
        locks.retain(|lock| lock.name != *name);
        if locks.len() >= LOCKS_MAX {
            locks.retain(|lock| !now.has_reached(lock.ends));
        }
        if locks.len() < LOCKS_MAX {
            locks.push(Lock {
                name: name.clone(),
                ends,
                release: release.clone(),
            });
        }
    }

    /// A client has released a lock.
    pub(crate) fn note_released(&mut self, client: u64, name: &LockName) {
        if let Some(locks) = self.of_clients.get_mut(&client) {
            locks.retain(|lock| lock.name != *name);
        }
    }

    /// A client has gone: what releases its locks.
    pub(crate) fn end(&mut self, client: u64) -> impl Iterator<Item = (LockName, Call)> + use<> {
        let locks = self.of_clients.remove(&client).unwrap_or_default();
        locks.into_iter().map(|lock| (lock.name, lock.release))
    }
}

/// How many locks of one connection end with it.
const LOCKS_MAX: usize = 1_000;
