//! Who took a key, for as long as it holds what they wrote. A script or a transaction that is undone leaves no trace here
//! either.

use crate::keyspace::Keyspace;
use crate::keyspace::collection::Collection;
use crate::keyspace::entry::Slot;
use crate::keyspace::shared_holders::SharedTaking;
use crate::keyspace::undo::UndoRecord;
use crate::time::NodeTime;

impl Keyspace {
    /// What is known of who took a key ends: the key goes, or is overwritten.
    #[inline]
    pub(crate) fn end_hold(&mut self, slot: Slot) {
        if !self.is_recording() {
            return self.holders.end(slot);
        }
        let (holder, owner) = self.holders.take(slot);
        if let Some(holder) = holder {
            self.undo.push(UndoRecord::Held { holder });
        }
        if let Some(owner) = owner {
            self.undo.push(UndoRecord::Owned { slot, owner });
        }
        self.undo.push(UndoRecord::Taken { slot });
    }

    /// How a holder of a shared lock has taken it: that is kept with its token.
    pub(crate) fn note_shared_taking(&mut self, slot: Slot, token: &[u8], taking: SharedTaking) {
        self.slab.change(slot, |body| {
            if let Some(Collection::SharedLock(holders)) = body.collection_mut() {
                holders.note_taken(token, taking);
            }
        });
    }

    /// The deadline of a key was moved to a later time.
    pub(crate) fn note_extended(&mut self, slot: Slot, now: NodeTime) {
        if self.is_recording()
            && let Some(holder) = self.holders.of(slot).copied()
        {
            self.undo.push(UndoRecord::Held { holder });
        }
        self.holders.note_extended(slot, now);
    }
}
