//! What a command tells of keys beside its reply: events, and what clients that keep keys have to hear.

use crate::caller::Caller;
use crate::context::CommandContext;
use crate::keyspace::KeySlot;
use crate::mutation::Mutations;
use crate::notifications::Class;
use crate::tracking::Author;

impl CommandContext<'_> {
    /// Whether anybody is told of changes.
    pub(crate) fn is_anybody_told(&self) -> bool {
        !self.keyspace.tracking.is_off() || !self.keyspace.events.is_empty()
    }

    /// Nobody is to see that a key has gone before those who keep it are told.
    pub(crate) fn tell_if_expired(&mut self, key: &[u8]) {
        let found = self.peek(key);
        if let (Some(slot), None) = (found.stored, found.live) {
            self.reveal(&found);
            self.keyspace.tell_expired(slot);
            self.effects.published.extend(self.keyspace.take_expired());
        }
    }

    /// Tells those who keep keys of the changes since. They are read from what will be logged, so that none is
    /// missed.
    pub(crate) fn invalidate_since(&mut self, journal_bytes: usize, told_before: usize) {
        let effects = &mut *self.effects;
        if effects.journal.len() <= journal_bytes || self.keyspace.tracking.is_off() {
            return;
        }
        let published = effects.published.len();
        let seed = self.keyspace.seed();
        let mutations = Mutations::of_rest(&effects.journal, journal_bytes, seed);
        for mutation in mutations {
            debug_assert!(mutation.is_ok(), "it was written just now");
            // A flush was told when it began.
            if let Some((_, key)) = mutation.ok().and_then(|mutation| mutation.target()) {
                let by = Some(author(self.caller));
                let published = &mut effects.published;
                self.keyspace.tracking.invalidate(key, by, published);
            }
        }
        // As in Redis these come before the command's events.
        let invalidations = effects.published.len().saturating_sub(published);
        effects.published[told_before..].rotate_right(invalidations);
    }

    /// A command has written to a key what was there already. As in Redis those who watch it or keep it are told all the
    /// same.
    pub(crate) fn note_rewritten(&mut self, found: &KeySlot, key: &[u8]) {
        self.note_change(found);
        if !self.keyspace.tracking.is_off() {
            let (by, published) = (Some(author(self.caller)), &mut self.effects.published);
            self.keyspace.tracking.invalidate(key, by, published);
        }
    }

    /// Publishes an event of a key of the caller's database, if such events are published. To be called behind the
    /// change.
    #[inline]
    pub(crate) fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.keyspace.events.contain(class) {
            self.notify_in(self.caller.database, class, event, key);
        }
    }

    /// The event of a key that its last part has left, or that was deleted.
    pub(crate) fn notify_if_gone(&mut self, key: &[u8]) {
        if self.keyspace.events.contain(Class::Generic) && self.peek(key).live.is_none() {
            self.notify(Class::Generic, "del", key);
        }
    }

    /// The same for a key of any database.
    pub(crate) fn notify_in(&mut self, database: u8, class: Class, event: &str, key: &[u8]) {
        let published = self.keyspace.event(class, event, database, key);
        if self.effects.notified_bytes > NOTIFIED_BYTES_MAX {
            // Those who would have been told learn that they have missed something: their connections end.
            for one in published {
                self.keyspace.channels.miss(one.receivers.listeners());
            }
            return;
        }
        let receivers = published.iter().map(|one| one.receivers.len());
        let receivers = receivers.fold(0, usize::saturating_add);
        let bytes = key.len().saturating_add(NOTIFIED_OVERHEAD_BYTES);
        let bytes = bytes.saturating_mul(published.len());
        let bytes = bytes.saturating_add(receivers.saturating_mul(size_of::<u64>()));
        let notified_bytes = &mut self.effects.notified_bytes;
        *notified_bytes = notified_bytes.saturating_add(bytes);
        self.effects.published.extend(published);
    }

    /// The caller keeps this key from now on.
    pub(crate) fn remember_read(&mut self, key: &[u8]) {
        let client = self.caller.client_id;
        let published = &mut self.effects.published;
        self.keyspace.remember_read(client, key, published);
    }
}

fn author(caller: Caller) -> Author {
    Author {
        client: caller.client_id,
        is_script: caller.is_in_script,
    }
}

/// What one script or transaction tells of, in bytes. Who listens to an event beyond is disconnected.
const NOTIFIED_BYTES_MAX: usize = 64 << 20;
const NOTIFIED_OVERHEAD_BYTES: usize = 320;
