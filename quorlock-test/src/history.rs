//! What happened in a cluster: faults, and what its clients acquired and lost.
//!
//! Invariant: two guards that are valid at one moment are noticed at the moment that the later one is acquired, since
//! every overlap begins there. What clients believe comes from their guards, by their own clock; what nodes hold is asked of the
//! nodes (`holder`). Only the two together say who has a lock.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorlock_client::{Guard, LeaseWatch};

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct EventHistory {
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    lines: Vec<(Duration, String)>,
    believed: Vec<Believed>,
    names: Vec<Vec<u8>>,
    overlaps: Vec<String>,
}

/// A lock that a client's guard has held, and for all that is known still holds.
#[derive(Clone, Debug)]
pub(crate) struct Believed {
    pub(crate) client: usize,
    pub(crate) name: Vec<u8>,
    pub(crate) token: String,
    watch: LeaseWatch,
}

impl EventHistory {
    pub(crate) fn note(&self, at: Duration, text: String) {
        self.records().lines.push((at, text));
    }

    /// A client has acquired a lock. One that it does not renew has no guard: whether it is held only the nodes know.
    pub(crate) fn acquired(&self, at: Duration, client: usize, guard: &Guard, is_renewed: bool) {
        self.look(at);
        for name in guard.names() {
            self.acquired_name(at, client, name, guard, is_renewed);
        }
    }

    fn acquired_name(
        &self,
        at: Duration,
        client: usize,
        name: &[u8],
        guard: &Guard,
        is_renewed: bool,
    ) {
        let new = Believed {
            client,
            name: name.to_vec(),
            token: guard.token().to_string(),
            watch: guard.watch(),
        };
        let mut records = self.records();
        let name = shown(&new.name);
        let how = if is_renewed { "acquired" } else { "leased" };
        let line = format!("client {client} has {how} '{name}' (token {})", new.token);
        records.lines.push((at, line));
        if !records.names.contains(&new.name) {
            records.names.push(new.name.clone());
        }
        if !is_renewed {
            return;
        }
        let others = records.believed.iter();
        let others = others.filter(|old| old.name == new.name && old.watch.is_valid());
        let overlap = |old: &Believed| {
            format!(
                "at {at:?} client {client} acquired '{name}' (token {}) while the guard of client {} was valid for another {:?} \
                 (token {})",
                new.token,
                old.client,
                old.watch.remaining(),
                old.token
            )
        };
        let overlaps: Vec<String> = others.map(overlap).collect();
        for overlap in &overlaps {
            records.lines.push((at, format!("TWO HOLDERS: {overlap}")));
        }
        records.overlaps.extend(overlaps);
        records.believed.push(new);
    }

    /// Notes what was lost or released since the last look.
    pub(crate) fn look(&self, at: Duration) {
        let mut records = self.records();
        let Records {
            lines, believed, ..
        } = &mut *records;
        believed.retain(|held| {
            let loss = held.watch.loss();
            if let Some(loss) = &loss {
                let name = shown(&held.name);
                let client = held.client;
                let token = &held.token;
                let line =
                    format!("client {client} has no longer '{name}' (token {token}): {loss}");
                lines.push((at, line));
            }
            loss.is_none()
        });
    }

    /// The guards of a lock that are valid now.
    pub(crate) fn believed(&self, name: &[u8]) -> Vec<Believed> {
        let records = self.records();
        let held = records.believed.iter();
        let held = held.filter(|held| held.name == name && held.watch.is_valid());
        held.cloned().collect()
    }

    /// All locks that were ever acquired.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        self.records().names.clone()
    }

    /// What was found of two guards valid at one moment.
    pub(crate) fn overlaps(&self) -> Vec<String> {
        self.records().overlaps.clone()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (at, line) in &self.records().lines {
            let _fits = writeln!(text, "{:>12.3} s  {line}", at.as_secs_f64());
        }
        text
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock's name for people.
pub(crate) fn shown(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
