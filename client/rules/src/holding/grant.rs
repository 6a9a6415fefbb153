//! What one node is to a lock that is held.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::ClientInstant;
use crate::votes::{Ballot, Identity};

/// What a node is to this lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum GrantState {
    /// It never granted, or what it did is not known.
    Open,
    /// It held the lock for us when it last told, which we learned then.
    Held {
        identity: Identity,
        confirmed: ClientInstant,
    },
    /// It granted, restarted since, and does not know the lock: may be taken again.
    Restarted,
    /// It granted in this incarnation and no longer holds the lock, although what it granted has
    /// not expired: somebody removed it there on purpose. Not taken again before this time, when
    /// it would have expired anyway; from then on that it is gone says nothing any more.
    Withdrawn {
        identity: Identity,
        until: ClientInstant,
    },
}

impl GrantState {
    /// Whether the node may be asked for the lock.
    pub(super) fn may_heal(&self, now: ClientInstant) -> bool {
        match self {
            Self::Open | Self::Held { .. } | Self::Restarted => true,
            Self::Withdrawn { until, .. } => now.has_reached(*until),
        }
    }
}

/// What a grant becomes when the node, being who it says, does not have the lock for us.
pub(super) fn without_lock(
    grant: &GrantState,
    now_is: Identity,
    now: ClientInstant,
    lease: Duration,
) -> GrantState {
    let (before, until) = match grant {
        GrantState::Open => return GrantState::Open,
        GrantState::Restarted => return GrantState::Restarted,
        GrantState::Held {
            identity,
            confirmed,
        } => (identity, confirmed.after(lease)),
        GrantState::Withdrawn { identity, until } => (identity, *until),
    };
    if (&before.id, before.incarnation) != (&now_is.id, now_is.incarnation) {
        GrantState::Restarted
    } else if now.has_reached(until) {
        GrantState::Open
    } else {
        GrantState::Withdrawn {
            identity: now_is,
            until,
        }
    }
}

/// Who holds the lock, as far as is known, by what each node is to it.
pub(super) fn holders(grants: &[GrantState], with_restarted: bool) -> Ballot {
    let mut ballot = Ballot::default();
    for (node, grant) in grants.iter().enumerate() {
        match grant {
            GrantState::Held { identity, .. } => ballot.add(node, identity.clone()),
            // It may still be in its restart delay, which protects us; taking it again tells.
            GrantState::Restarted if with_restarted => {
                let id = Arc::from(format!("restarted node {node}"));
                ballot.add(node, Identity::new(id, 0));
            }
            _ => {}
        }
    }
    ballot
}
