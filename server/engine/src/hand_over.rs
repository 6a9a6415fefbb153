//! The hand-over of locks: what changes of keys, and time, mean for those who wait for locks.
//!
//! Changes are read from what is logged, once the command, script or transaction is over: none is missed, and only the
//! state at its end counts. With nobody waiting that costs one comparison for each group of changes.

use crate::channels::{ClientId, Published, PushMessage};
use crate::engine::Engine;
use crate::lock_queues::Woken;
use crate::mutation::{Mutation, Mutations};
use crate::queue_name::QueueName;
use crate::reply::Reply;
use crate::time::NodeTime;

impl Engine {
    /// Whether somebody waits for a lock.
    #[inline]
    pub fn has_lock_waiters(&self) -> bool {
        !self.keyspace.lock_queues.is_empty()
    }

    /// How many wait for locks.
    pub fn lock_waiters(&self) -> usize {
        self.keyspace.lock_queues.len()
    }

    /// Wakes those whose turn has come by a group of changes. It was just made, and these are its bytes.
    pub fn hand_over(&mut self, now: NodeTime, journal: &[u8], published: &mut Vec<Published>) {
        let keyspace = &mut *self.keyspace;
        let mut woken = Vec::new();
        for mutation in Mutations::of_rest(journal, 0, keyspace.seed()).flatten() {
            let Some((database, key)) = mutation.target() else {
                keyspace.lock_queues.recheck_all();
                continue;
            };
            let is_new = matches!(mutation, Mutation::Replace { .. });
            let name = QueueName::new(database, key);
            keyspace.look_at_lock(&name, is_new, now, &mut woken);
        }
        published.extend(woken.into_iter().map(Woken::into_message));
    }

    /// Wakes those whose turn has come by time: the lock before them has ended, or one that was woken did not use that. At
    /// most so many steps; says whether there is more.
    pub fn hand_over_due(
        &mut self,
        now: NodeTime,
        steps: usize,
        published: &mut Vec<Published>,
    ) -> bool {
        let keyspace = &mut *self.keyspace;
        let mut woken = Vec::new();
        let mut left = keyspace.lock_queues.forget_departed(steps);
        while left > 0
            && let Some(name) = keyspace.lock_queues.take_due(now)
        {
            left = left.saturating_sub(1);
            keyspace.look_at_lock(&name, false, now, &mut woken);
        }
        published.extend(woken.into_iter().map(Woken::into_message));
        left == 0
    }

    /// When [`Engine::hand_over_due`] has something to do.
    #[inline]
    pub fn next_hand_over(&self) -> Option<NodeTime> {
        self.keyspace.lock_queues.next_due()
    }

    /// A client may not wait any more for keys of which this is false. The next in each line has its turn.
    pub fn leave_lock_queues_unless(&mut self, client: ClientId, may_wait: impl Fn(&[u8]) -> bool) {
        let may_wait = |name: &QueueName| may_wait(name.parts().1);
        self.keyspace.lock_queues.leave_unless(client, may_wait);
    }

    /// A client has gone: it waits for no lock.
    pub fn leave_lock_queues(&mut self, client: ClientId) {
        self.keyspace.lock_queues.leave_all(client);
    }
}

impl PushMessage {
    /// The key of the lock for which the client waits, where it is about one.
    pub fn awaited_lock(&self) -> Option<&[u8]> {
        let PushMessage::LockFree(push) = self else {
            return None;
        };
        match &**push {
            Reply::Push(parts) => match parts.get(1) {
                Some(Reply::Shared(key)) => Some(&key[..]),
                _ => None,
            },
            _ => None,
        }
    }
}
