//! What a command has to do with clients that keep keys.

use crate::context::CommandContext;
use crate::mutation::Mutations;

impl CommandContext<'_> {
    /// Whether anybody is told of changes.
    pub(crate) fn is_anybody_told(&self) -> bool {
        !self.keyspace.tracking.is_off()
    }

    /// Nobody is to see that a key has gone before those who keep it are told.
    pub(crate) fn tell_if_expired(&mut self, key: &[u8]) {
        let found = self.peek(key);
        if let (Some(slot), None) = (found.stored, found.live) {
            self.reveal(&found);
            self.keyspace.tell_expired(slot);
            let published = &mut self.effects.published;
            published.append(&mut self.keyspace.unprompted);
        }
    }

    /// Tells those who keep keys of the changes since. They are read from what will be logged, so that none is
    /// missed.
    pub(crate) fn invalidate_since(&mut self, journal_bytes: usize) {
        let effects = &mut *self.effects;
        if effects.journal.len() <= journal_bytes {
            return;
        }
        let seed = self.keyspace.seed();
        let mutations = Mutations::of_rest(&effects.journal, journal_bytes, seed);
        for mutation in mutations {
            debug_assert!(mutation.is_ok(), "it was written just now");
            // A flush was told when it began.
            if let Some(key) = mutation.ok().and_then(|mutation| mutation.key()) {
                let by = Some(self.caller.client_id);
                let published = &mut effects.published;
                self.keyspace.tracking.invalidate(key, by, published);
            }
        }
    }

    /// The caller keeps this key from now on.
    pub(crate) fn remember_read(&mut self, key: &[u8]) {
        let client = self.caller.client_id;
        let published = &mut self.effects.published;
        self.keyspace.remember_read(client, key, published);
    }
}
