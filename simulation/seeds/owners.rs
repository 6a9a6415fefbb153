//! Callers that take locks for an owner: those of one client and owner hold a lock together, and its last guard frees it.
//!
//! Invariant: who holds what together is what callers were told. A release says whether others keep the lock, and a lock that
//! somebody keeps is lost to all of its guards or to none: the checks of all holds look after that.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorlock_client::{Release, Token};
use quorlock_client_rules::OperationId;

use super::caller::CallerHold;
use super::fault_class::FaultClass;
use super::plan::Plan;
use super::world::World;

/// For whom calls are, and what releases are to say.
#[derive(Debug, Default)]
pub(super) struct Owned {
    owners: BTreeMap<(usize, OperationId), u64>,
    /// Of each release that has no outcome yet: whether other guards keep the lock.
    releasing: BTreeMap<(usize, OperationId), bool>,
}

impl Plan {
    /// The same seed with callers that ask for one of two owners, where they do not ask in step and are told of a loss in time.
    pub(crate) fn owned(self) -> Plan {
        if self.is_in_step || self.is_crowded || self.faults == FaultClass::StoppedClocks {
            return self;
        }
        Plan {
            callers: self.callers.max(3),
            is_by_token: false,
            is_several: false,
            is_waiting: false,
            is_election: false,
            has_owners: true,
            ..self.of_plain_locks()
        }
    }
}

impl World {
    /// For whom this call is, if it is for somebody.
    pub(super) fn owner(&mut self, client: usize, operation: OperationId) -> Option<Arc<[u8]>> {
        if !self.plan.has_owners {
            return None;
        }
        let owner = self.cluster.random.below(OWNERS);
        self.owned.owners.insert((client, operation), owner);
        Some(Arc::from(format!("owner {owner}").into_bytes()))
    }

    /// Whether both hold the lock for one owner of one client.
    pub(super) fn is_of_one_owner(&self, hold: &CallerHold, held: (usize, OperationId)) -> bool {
        let owner = self.owned.owners.get(&held);
        let other = self.owned.owners.get(&(hold.client, hold.held));
        hold.client == held.0 && owner.is_some() && owner == other
    }

    /// Whether the owner of this call has a guard already with the token that the call is told.
    pub(super) fn joins(&self, held: (usize, OperationId), token: &Token) -> bool {
        let mut holds = self.holds.iter();
        holds.any(|hold| hold.token == *token && self.is_of_one_owner(hold, held))
    }

    /// A caller is given this token: no other one has had it, but guards of the same owner.
    pub(super) fn check_token(&mut self, name: u64, held: (usize, OperationId), token: &Token) {
        let joins = self.joins(held, token);
        self.report.joined += u64::from(joins);
        if !self.tokens.insert(token.as_bytes().to_vec()) && !joins {
            self.violation = Some(format!("{name} was held under {token} before"));
        }
    }

    /// A guard is released by the next call of this client, and is no hold any more.
    pub(super) fn releases_guard(&mut self, client: usize, token: &Token) {
        if !self.plan.has_owners {
            return;
        }
        let mut holds = self.holds.iter();
        let is_kept = holds.any(|hold| hold.client == client && hold.token == *token);
        let operation = self.cluster.next_operation(client);
        self.owned.releasing.insert((client, operation), is_kept);
    }

    /// A release has an outcome: it has freed nothing where other guards keep the lock, and only there.
    pub(super) fn check_shared_release(
        &mut self,
        client: usize,
        operation: OperationId,
        release: &Release,
    ) {
        let Some(is_kept) = self.owned.releasing.remove(&(client, operation)) else {
            return;
        };
        self.report.kept_by_others += u64::from(is_kept);
        if release.is_shared() != is_kept {
            self.violation = Some(format!(
                "client {client} releases a guard, which is {}the last one of its owner, and is told: {release:?}",
                if is_kept { "not " } else { "" }
            ));
        }
    }
}

const OWNERS: u64 = 2;
