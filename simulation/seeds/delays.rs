//! Locks with a lock delay: holders that die, and how long others then wait.
//!
//! Invariant: the end is the last validity that the holder was told, in true time; what nodes or clients believe is not asked.

use std::collections::{BTreeMap, BTreeSet};

use quorlock_client_rules::OperationId;
use quorlock_engine::StoredValue;

use super::caller::CallerHold;
use super::world::World;

#[derive(Debug, Default)]
pub(super) struct Delays {
    /// Of each lock: before when nobody may have it.
    not_before_ns: BTreeMap<u64, u64>,
    /// Under which it stays on nodes until it expires there.
    tokens: BTreeSet<Vec<u8>>,
}

impl World {
    /// Its holder dies now and then: nothing renews or releases the lock any more. Says whether it does.
    pub(super) fn dies(&mut self, client: usize, held: OperationId) -> bool {
        if self.is_over || self.plan.lock_delay_ms == 0 {
            return false;
        }
        let is_it = |hold: &CallerHold| hold.client == client && hold.held == held;
        let Some(hold) = self.holds.iter().position(is_it) else {
            return false;
        };
        if !self.cluster.random.chance(1, 3) {
            return false;
        }
        let hold = self.holds.swap_remove(hold);
        (self.by_token).hand_over(client, hold.token.clone(), hold.until_ns);
        self.ends_without_release(&hold);
        self.detach(client, held);
        true
    }

    /// This lock has ended, and nodes were not asked to free it.
    pub(super) fn ends_without_release(&mut self, hold: &CallerHold) {
        if self.plan.lock_delay_ms == 0 {
            return;
        }
        self.report.delayed += 1;
        // What clocks may differ is taken off a validity; of the delay it may be missing.
        let delay_ns = self.plan.lock_delay_ms * 990_000;
        let not_before_ns = self.delays.not_before_ns.entry(hold.name).or_default();
        *not_before_ns = hold.until_ns + delay_ns;
        self.delays.tokens.insert(hold.token.as_bytes().to_vec());
    }

    /// A caller has this lock.
    pub(super) fn check_delay(&mut self, client: usize, name: u64) {
        let not_before_ns = self.delays.not_before_ns.remove(&name).unwrap_or(0);
        let early_ns = not_before_ns.saturating_sub(self.cluster.now_ns);
        if early_ns > 0 {
            let ms = early_ns / 1_000_000;
            self.violation = Some(format!(
                "client {client} has {name}, {ms} ms before the lock delay of its last holder is over"
            ));
        }
    }

    /// Whether this is a lock that nodes keep until it expires.
    pub(super) fn is_delayed(&self, value: &StoredValue) -> bool {
        matches!(value, StoredValue::String(token) if self.delays.tokens.contains(token))
    }
}
