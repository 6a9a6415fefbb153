//! Who holds a lock that others wait for.

use crate::keyspace::Keyspace;
use crate::keyspace::entry::ValueRef;
use crate::lock_queues::{Holder, QueueName, Woken};
use crate::time::{Deadline, NodeTime};

impl Keyspace {
    /// Looks at a lock that others wait for.
    pub(crate) fn look_at_lock(
        &mut self,
        name: &QueueName,
        is_new: bool,
        now: NodeTime,
        woken: &mut Vec<Woken>,
    ) {
        let (database, key) = name.parts();
        let found = self.locate(now, database, key);
        let entry = found.live.map(|slot| self.slab.get(slot));
        let holder = entry.and_then(|entry| match entry.value() {
            ValueRef::String(token) => Some(Holder {
                token,
                until: entry.deadline.unless_never().map(Deadline::node_time),
                is_new,
            }),
            // No lock can be taken either, and those who wait learn that when they try.
            ValueRef::Collection(_) => None,
        });
        self.lock_queues.note(name, holder, now, woken);
    }
}
