//! Which nodes kept the last attempt from acquiring a lock: the next one asks them first. And which locks others want
//! as well: whoever has just released one lets them ask first.
//!
//! Invariant: this only chooses when and in which order nodes are asked. Without a grant by one of these nodes no
//! majority can be reached, so nothing is answered from memory.

use std::collections::HashMap;

use crate::clock::ClientInstant;
use crate::name::LockName;
use crate::recent_releases::RecentReleases;
use crate::token::Token;
use crate::votes::NodeSet;

#[derive(Debug, Default)]
pub(super) struct Refusals {
    by_name: HashMap<LockName, Refused>,
    pub(super) releases: RecentReleases,
}

#[derive(Clone, Debug)]
struct Refused {
    /// None once the lock was acquired, and after a draw.
    nodes: Option<NodeSet>,
    until: ClientInstant,
    /// Who had the lock at the last refusal; none once that was this client itself.
    holder: Option<Token>,
    /// Somebody else had it at an earlier one: remembered until then.
    contended_until: Option<ClientInstant>,
    /// This client has released the lock, and is one of many who want it until then.
    stands_back_until: Option<ClientInstant>,
}

impl Refusals {
    /// The nodes to ask first.
    pub(super) fn first(&self, name: &LockName, now: ClientInstant) -> Option<NodeSet> {
        let refused = self.by_name.get(name)?;
        refused.nodes.filter(|_| !now.has_reached(refused.until))
    }

    /// An attempt failed because of this holder, and cannot succeed without one of these nodes, if such are told. That
    /// is forgotten in the end.
    pub(super) fn note(
        &mut self,
        name: &LockName,
        nodes: Option<NodeSet>,
        holder: Option<Token>,
        until: ClientInstant,
        now: ClientInstant,
    ) {
        if !self.has_room_for(name, now) {
            return;
        }
        let before = self.by_name.remove(name);
        // Whoever had it before that was not this client, which would have told of its release.
        let was_other = |before: &Refused| before.holder.is_some() && before.holder != holder;
        let contended_until = match before {
            Some(before) if was_other(&before) => Some(until),
            Some(before) => before.contended_until,
            None => None,
        };
        let refused = Refused {
            nodes,
            until,
            holder,
            contended_until,
            stands_back_until: None,
        };
        self.by_name.insert(name.clone(), refused);
    }

    /// This client releases the lock that it held under `token`. Says whether others have had it a while ago.
    pub(super) fn is_contended(
        &mut self,
        name: &LockName,
        token: &Token,
        now: ClientInstant,
    ) -> bool {
        let Some(refused) = self.by_name.get_mut(name) else {
            return false;
        };
        if refused.holder.as_ref() == Some(token) {
            refused.holder = None;
        }
        let refused_until = refused.holder.as_ref().map(|_| refused.until);
        let until = [refused_until, refused.contended_until];
        let mut until = until.into_iter().flatten();
        until.any(|until| !now.has_reached(until))
    }

    /// Others stand in line for the lock. That is remembered until then, also while all who want the lock stand in line and
    /// none is refused any more.
    pub(super) fn note_others(
        &mut self,
        name: &LockName,
        until: ClientInstant,
        now: ClientInstant,
    ) {
        if !self.has_room_for(name, now) {
            return;
        }
        let unknown = Refused {
            nodes: None,
            until,
            holder: None,
            contended_until: None,
            stands_back_until: None,
        };
        let refused = self.by_name.entry(name.clone()).or_insert(unknown);
        refused.contended_until = Some(until);
    }

    fn has_room_for(&mut self, name: &LockName, now: ClientInstant) -> bool {
        if self.by_name.len() < NAMES_MAX || self.by_name.contains_key(name) {
            return true;
        }
        self.by_name
            .retain(|_, refused| !now.has_reached(refused.until));
        self.by_name.len() < NAMES_MAX
    }

    /// This client has released the lock, which others want, and does not ask again before `until`:
    /// they ask now and then only, and would never find it free between two turns of one client.
    pub(super) fn stand_back(&mut self, name: &LockName, until: ClientInstant) {
        if let Some(refused) = self.by_name.get_mut(name) {
            refused.stands_back_until = Some(until);
        }
    }

    /// Before when this client lets others have the lock that it has just released.
    pub(super) fn stands_back_until(
        &self,
        name: &LockName,
        now: ClientInstant,
    ) -> Option<ClientInstant> {
        let until = self.by_name.get(name)?.stands_back_until;
        until.filter(|until| !now.has_reached(*until))
    }

    /// The lock was acquired: which nodes refused before says nothing any more.
    pub(super) fn forget(&mut self, name: &LockName) {
        if let Some(refused) = self.by_name.get_mut(name) {
            refused.nodes = None;
        }
    }

    /// How many names are remembered.
    pub(super) fn size(&self) -> usize {
        self.by_name.len()
    }
}

/// Names that are remembered; others are asked for at all nodes at once.
const NAMES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);

    #[test]
    fn what_is_remembered_is_bounded_and_is_forgotten() {
        let mut refusals = Refusals::default();
        let mut set = NodeSet::default();
        set.insert(3);
        let nodes = Some(set);
        let name = |number: usize| LockName::from(format!("lock-{number}"));
        let until = START.after(Duration::from_secs(10));
        for number in 0..2 * NAMES_MAX {
            refusals.note(&name(number), nodes, None, until, START);
        }
        assert_eq!(refusals.by_name.len(), NAMES_MAX);
        assert!(refusals.first(&name(0), START).is_some());
        assert!(refusals.first(&name(0), until).is_none());
        // What is over makes room.
        refusals.note(&name(2 * NAMES_MAX), nodes, None, until, until);
        assert_eq!(refusals.by_name.len(), 1);
        let name = name(2 * NAMES_MAX);
        let until = START.after(Duration::from_secs(20));
        refusals.note(&name, nodes, None, until, START);
        refusals.forget(&name);
        assert!(refusals.first(&name, START).is_none());
    }

    #[test]
    fn whoever_released_a_lock_stands_back_only_where_others_wanted_it() {
        let mut refusals = Refusals::default();
        let name = LockName::from("a");
        let [ours, other] = ["ours", "other"].map(Token::from);
        assert!(!refusals.is_contended(&name, &ours, START));
        let until = START.after(Duration::from_secs(10));
        let nodes = Some(NodeSet::default());
        // A caller of this client waits for another one.
        refusals.note(&name, nodes, Some(ours.clone()), until, START);
        assert!(!refusals.is_contended(&name, &ours, START));
        refusals.note(&name, nodes, Some(other.clone()), until, START);
        refusals.forget(&name);
        assert!(refusals.is_contended(&name, &ours, START));
        // Also where this client has had it since.
        refusals.note(&name, nodes, Some(ours.clone()), until, START);
        assert!(refusals.is_contended(&name, &ours, START));
        let soon = START.after(Duration::from_millis(8));
        refusals.stand_back(&name, soon);
        assert_eq!(refusals.stands_back_until(&name, START), Some(soon));
        assert_eq!(refusals.stands_back_until(&name, soon), None);
        // Also where all who want it stand in line, and none is refused.
        refusals.note_others(&name, until.after(Duration::from_secs(1)), until);
        assert!(refusals.is_contended(&name, &ours, until));
        refusals.note_others(&name, until, until);
        // That is forgotten as well, and a refusal has pauses of its own.
        assert!(!refusals.is_contended(&name, &ours, until));
        refusals.note(&name, nodes, Some(other), until, START);
        assert_eq!(refusals.stands_back_until(&name, START), None);
    }
}
