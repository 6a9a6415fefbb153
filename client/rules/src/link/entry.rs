//! One entry of the list of nodes, and who answers under it.
//!
//! Invariant: an entry is one vote. When another node answers under it than before, or the same one in an earlier state, it
//! grants no lock until one that was granted at the last moment before, for as long, has expired: the two would be two votes.

use std::sync::Arc;

use super::request::Request;
use crate::clock::ClientInstant;
use crate::outcome::Cause;
use crate::settings::Drift;
use crate::votes::Identity;

#[derive(Debug)]
pub(super) struct Entry {
    drift: Drift,
    /// Where a server follows another, no other client waits either: to wait alone would protect nothing.
    fails_over: bool,
    /// Who answered last.
    id: Option<Arc<str>>,
    /// When whoever answers now was first seen here, if it does not know what was granted here before, and why it does not.
    newcomer: Option<(ClientInstant, Newcomer)>,
}

/// Who does not know what was granted before.
#[derive(Clone, Copy, Debug)]
enum Newcomer {
    /// Another node than before.
    Other,
    /// The node of before, in an earlier state.
    Earlier,
}

impl Entry {
    /// `fails_over`: whether the others take whoever answers for the same node.
    pub(super) fn new(drift: Drift, fails_over: bool) -> Self {
        Self {
            drift,
            fails_over,
            id: None,
            newcomer: None,
        }
    }

    /// Somebody answers: the node from before, or another one. Says whether it is another one, which grants nothing for now.
    pub(super) fn logged_in(
        &mut self,
        identity: &Result<Identity, Cause>,
        now: ClientInstant,
    ) -> bool {
        let Ok(identity) = identity else { return false };
        let before = self.id.replace(Arc::clone(&identity.id));
        let is_other = before.is_some_and(|before| before != identity.id);
        let is_waited_for = is_other && !self.fails_over;
        if is_waited_for {
            self.newcomer = Some((now, Newcomer::Other));
        }
        is_waited_for
    }

    /// The node is in an earlier state than it has shown before.
    pub(super) fn went_back(&mut self, now: ClientInstant) {
        self.newcomer = Some((now, Newcomer::Earlier));
    }

    /// Why nothing is taken here now. What the node holds already may be extended: nobody else has it there.
    ///
    /// Who else took the lock on the node before, and when, is not known; but not after it was replaced, and with the
    /// same ttl where all callers of a name use one.
    pub(super) fn obstacle(&self, request: &Request, now: ClientInstant) -> Option<Cause> {
        let kept = request.subject.kept;
        let (since, newcomer) = self.newcomer?;
        let end = since.after(kept.saturating_add(self.drift.of(kept)));
        if !request.kind.takes() || now.has_reached(end) {
            return None;
        }
        let left = now.until(end);
        Some(match newcomer {
            Newcomer::Other => Cause::Replaced { left },
            Newcomer::Earlier => Cause::WentBack { left },
        })
    }
}
