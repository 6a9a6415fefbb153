//! Who holds a lock that others wait for.

use crate::keyspace::collection::Collection;
use crate::keyspace::entry::{Entry, ValueRef};
use crate::keyspace::{KeySlot, Keyspace};
use crate::lock_queues::{Holder, LockQueues, TOKEN_BYTES_MAX, Woken};
use crate::queue_name::QueueName;
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
        let holder = entry.and_then(holder_of);
        let holder = holder.map(|holder| Holder { is_new, ..holder });
        if let Some(holder) = holder.filter(|holder| holder.is_new && !holder.is_shared)
            && let Some(since) = self.lock_queues.waits_since(name, holder.token)
        {
            let waited = now.saturating_since(since);
            self.lock_counts.count_wait(key, waited);
        }
        self.lock_queues.note(name, holder, now, woken);
    }

    /// Who waits for locks, and who holds the one that was found.
    pub(crate) fn queues_and_holder(
        &mut self,
        found: &KeySlot,
    ) -> (&mut LockQueues, Option<Holder<'_>>) {
        let entry = found.live.map(|slot| self.slab.get(slot));
        (&mut self.lock_queues, entry.and_then(holder_of))
    }
}

/// Whether a value may be a lock. A string that is too long for a token, and all that is neither a string nor a hash, is
/// something else.
pub(crate) fn may_be_lock(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::String(token) => token.len() <= TOKEN_BYTES_MAX,
        ValueRef::Collection(Collection::Hash(_) | Collection::SharedLock(_)) => true,
        ValueRef::Collection(_) => false,
    }
}

/// Who holds the lock that a key is: nobody where it is something else. No lock can be taken then either, and those who wait
/// learn that when they try.
pub(crate) fn holder_of(entry: &Entry) -> Option<Holder<'_>> {
    let (token, is_shared): (&[u8], bool) = match entry.value() {
        ValueRef::String(token) => (token, false),
        ValueRef::Collection(Collection::SharedLock(_)) => (&[], true),
        ValueRef::Collection(_) => return None,
    };
    Some(Holder {
        token,
        until: entry.deadline.unless_never().map(Deadline::node_time),
        is_new: false,
        is_shared,
    })
}
