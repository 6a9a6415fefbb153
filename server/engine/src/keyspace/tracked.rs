//! What is told of keys beside the replies: that the time of one has come, events, and which keys clients keep.

use std::collections::BTreeSet;

use crate::channels::{ClientId, Published, Subscription};
use crate::keyspace::Keyspace;
use crate::keyspace::entry::Slot;
use crate::notifications::Class;

/// Keys whose time has come and of which was told.
#[derive(Debug, Default)]
pub(super) struct Expired {
    /// Those that are still in memory.
    told: BTreeSet<Slot>,
    /// What is to be published without a command.
    published: Vec<Published>,
}

impl Expired {
    /// The slot is another key's from now on, or nobody's.
    pub(super) fn forget(&mut self, slot: Slot) {
        if !self.told.is_empty() {
            self.told.remove(&slot);
        }
    }

    /// What was said of one slot holds for another.
    pub(super) fn follow(&mut self, from: Slot, to: Slot) {
        if self.told.remove(&from) {
            self.told.insert(to);
        }
    }
}

impl Keyspace {
    /// Tells of a key whose deadline has come, once.
    pub(crate) fn tell_expired(&mut self, slot: Slot) {
        let is_told = !self.tracking.is_off() || self.events.contain(Class::Expired);
        if !is_told || !self.expired.told.insert(slot) {
            return;
        }
        let entry = self.entry(slot);
        let (database, key) = (self.database_of(entry), entry.key().to_vec());
        let mut published = std::mem::take(&mut self.expired.published);
        published.extend(self.event(Class::Expired, "expired", database, &key));
        self.tracking.invalidate(&key, None, &mut published);
        self.expired.published = published;
    }

    /// Takes what was told of keys that have expired.
    pub(crate) fn take_expired(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.expired.published)
    }

    /// The messages about an event, for those who listen.
    pub(crate) fn event(
        &mut self,
        class: Class,
        event: &str,
        database: u8,
        key: &[u8],
    ) -> Vec<Published> {
        let mut published = Vec::new();
        if !self.events.contain(class) {
            return published;
        }
        let channels = &mut self.channels;
        if self.events.are_of_keys() {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
            published.extend(channels.publish(Subscription::Channel, &channel, event.as_bytes()));
        }
        if self.events.are_of_events() {
            let channel = format!("__keyevent@{database}__:{event}");
            published.extend(channels.publish(Subscription::Channel, channel.as_bytes(), key));
        }
        published
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
        self.evict_tracked(published);
    }

    /// Forgets some of the keys that are too many since the limit was lowered. Says whether there are more.
    pub(crate) fn keep_tracked_limit(&mut self) -> bool {
        let mut published = std::mem::take(&mut self.expired.published);
        self.evict_tracked(&mut published);
        self.expired.published = published;
        self.tracking.is_over_limit()
    }

    fn evict_tracked(&mut self, published: &mut Vec<Published>) {
        if self.tracking.is_over_limit() {
            let position = self.random_below(self.tracking.end());
            self.tracking.evict(position, published);
        }
    }
}

const ENTRIES_PER_READ: usize = 16;
