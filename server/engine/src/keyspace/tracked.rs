//! Keys that clients keep: which they have read, and that the time of one has come.

use crate::channels::{ClientId, Published};
use crate::keyspace::Keyspace;
use crate::keyspace::entry::Slot;

impl Keyspace {
    /// Tells of a key whose deadline has come.
    pub(crate) fn tell_expired(&mut self, slot: Slot) {
        if !self.tracking.is_off() {
            let key = self.entry(slot).key().to_vec();
            self.tracking.invalidate(&key, None, &mut self.unprompted);
        }
    }

    /// Remembers that a client has read a key. Where there are too many, others are forgotten, and those who keep
    /// them told.
    pub(crate) fn remember_read(
        &mut self,
        client: ClientId,
        key: &[u8],
        published: &mut Vec<Published>,
    ) {
        self.tracking.remember(client, key);
        self.tracking.forget_departed(ENTRIES_PER_READ);
        let mut tries = EVICTION_TRIES;
        while tries > 0 && self.tracking.is_over_limit() {
            tries = tries.saturating_sub(1);
            let position = self.random_below(self.tracking.end());
            self.tracking.invalidate_at(position, None, published);
        }
    }
}

/// How many positions are tried to find a key to forget. All are taken where the limit has not been lowered.
const EVICTION_TRIES: usize = 64;
const ENTRIES_PER_READ: usize = 16;
