//! One entry of the list of nodes, and who answers under it.
//!
//! Invariant: an entry is one vote. When another node answers under it than before, that node grants no lock until one
//! that was granted by the node before it at the last moment, for as long, has expired: the two would be two votes.

use std::sync::Arc;

use super::request::{Kind, Request};
use crate::clock::ClientInstant;
use crate::outcome::Cause;
use crate::settings::Drift;
use crate::votes::Identity;

#[derive(Debug)]
pub(super) struct Entry {
    drift: Drift,
    /// Who answered last.
    id: Option<Arc<str>>,
    /// When another node than before was first seen here.
    replaced_at: Option<ClientInstant>,
}

impl Entry {
    pub(super) fn new(drift: Drift) -> Self {
        Self {
            drift,
            id: None,
            replaced_at: None,
        }
    }

    /// Somebody answers: the node from before, or another one.
    pub(super) fn logged_in(
        &mut self,
        label: &str,
        identity: &Result<Identity, Cause>,
        now: ClientInstant,
    ) {
        let Ok(identity) = identity else { return };
        let before = self.id.replace(Arc::clone(&identity.id));
        if before.is_some_and(|before| before != identity.id) {
            tracing::warn!(
                node = label,
                "another node answers here than before: it grants no lock until one of the other would have expired"
            );
            self.replaced_at = Some(now);
        }
    }

    /// Why nothing is taken here now. What the node holds already may be extended: nobody else has it there.
    ///
    /// Who else took the lock on the node before, and when, is not known; but not after it was replaced, and with the
    /// same ttl where all callers of a name use one.
    pub(super) fn obstacle(&self, request: &Request, now: ClientInstant) -> Option<Cause> {
        let ttl = request.subject.ttl;
        let end = self
            .replaced_at?
            .after(ttl.saturating_add(self.drift.of(ttl)));
        let is_refused = request.kind == Kind::Take && !now.has_reached(end);
        is_refused.then(|| Cause::Replaced {
            left: now.until(end),
        })
    }
}
