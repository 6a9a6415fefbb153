//! Locks that are held shared: their holders change together with the end of the key.

use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::entry::{Body, ValueRef};
use crate::keyspace::shared_holders::{SharedHolders, SharedTaking};
use crate::mutation;
use crate::queue_name::QueueName;

impl CommandContext<'_> {
    /// Makes changes of the holders of a lock that is held shared, and lets the key end with the last of them. All of it, or
    /// with an error nothing.
    pub(crate) fn change_holders(
        &mut self,
        found: &KeySlot,
        key: &[u8],
        changes: &[Change<'_>],
    ) -> Result<(), ErrorReply> {
        let bytes = changes
            .iter()
            .map(|change| mutation::bytes_of_change(key, change))
            .fold(mutation::bytes_of_replace(key, 0), usize::saturating_add);
        self.admit_bytes(bytes.saturating_add(key.len()))?;
        self.change(found, key, changes.iter().copied())?;
        // Without a holder there is no key any more.
        let left = self.peek(key);
        let holders = self.collection::<SharedHolders>(&left)?;
        if let Some(end) = holders.and_then(SharedHolders::last_end)
            && end != self.deadline(&left)
        {
            self.set_deadline(&left, key, end)?;
        }
        Ok(())
    }

    /// Notes how a holder of a shared lock has taken it.
    pub(crate) fn note_shared_taking(&mut self, key: &[u8], token: &[u8], owner: Option<&str>) {
        let taking = SharedTaking {
            since: self.now.node,
            client_id: self.caller.client_id,
            owner: owner.map(Box::from),
        };
        if let Some(slot) = self.peek(key).live {
            self.keyspace.note_shared_taking(slot, token, taking);
        }
    }

    /// Notes that a writer was refused, if that was for a lock that is held shared, and says whether it was.
    pub(crate) fn note_writer(&mut self, found: &KeySlot, key: &[u8]) -> bool {
        let is_shared = matches!(self.collection::<SharedHolders>(found), Ok(Some(_)));
        if is_shared {
            let name = QueueName::new(found.database, key);
            let intents = &mut self.keyspace.lock_queues.intents;
            intents.note(name, self.now.node);
        }
        is_shared
    }

    /// A lock that is taken exclusively has what its writers were waiting for.
    #[inline]
    pub(super) fn end_intent(&mut self, found: &KeySlot, body: &Body) {
        let intents = &mut self.keyspace.lock_queues.intents;
        if !intents.is_empty() && matches!(body.value(), ValueRef::String(_)) {
            intents.end(&QueueName::new(found.database, body.key()));
            intents.forget_lapsed(self.now.node);
        }
    }
}
