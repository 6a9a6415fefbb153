//! Locks that are held for an owner: its further calls have them at once, and its last guard frees them.
//!
//! Invariant: a guard belongs to one lock at most, and a lock that an owner holds has a guard. Nodes know nothing of owners.

use std::collections::HashMap;
use std::sync::Arc;

use crate::OperationId;
use crate::name::LockName;

#[derive(Debug, Default)]
pub(super) struct Owners {
    /// The call that has acquired the lock, which keeps it.
    held: HashMap<Key, OperationId>,
    shares: HashMap<OperationId, Share>,
    /// The lock of each guard.
    locks: HashMap<OperationId, OperationId>,
    /// Guards that have ended since this was asked, while others keep their lock.
    left: Vec<OperationId>,
}

/// A name, and who wants the lock of that name.
pub(super) type Key = (LockName, Arc<[u8]>);

/// A lock, and the guards that keep it.
#[derive(Debug)]
struct Share {
    key: Key,
    guards: Vec<OperationId>,
}

impl Owners {
    /// This call has acquired the lock, and is its first guard.
    pub(super) fn acquired(&mut self, key: Key, lock: OperationId) {
        self.held.insert(key.clone(), lock);
        self.locks.insert(lock, lock);
        let guards = vec![lock];
        self.shares.insert(lock, Share { key, guards });
    }

    /// The lock of this name that this owner has.
    pub(super) fn held(&self, key: &Key) -> Option<OperationId> {
        self.held.get(key).copied()
    }

    /// One guard more keeps the lock.
    pub(super) fn join(&mut self, lock: OperationId, guard: OperationId) {
        if let Some(share) = self.shares.get_mut(&lock) {
            share.guards.push(guard);
            self.locks.insert(guard, lock);
        }
    }

    /// This guard ends, and others keep its lock. Otherwise nothing changes: what it keeps alone is to be released.
    pub(super) fn leave(&mut self, guard: OperationId) -> bool {
        let lock = self.lock_of(guard);
        let Some(share) = self.shares.get_mut(&lock) else {
            return false;
        };
        if !share.guards.contains(&guard) {
            // It has acquired the lock, and has ended before.
            return true;
        }
        if share.guards.len() < 2 {
            return false;
        }
        share.guards.retain(|one| *one != guard);
        self.locks.remove(&guard);
        self.left.push(guard);
        true
    }

    /// The call that keeps the lock of this guard: itself, where there is no owner.
    pub(super) fn lock_of(&self, guard: OperationId) -> OperationId {
        self.locks.get(&guard).copied().unwrap_or(guard)
    }

    /// The guards of a lock; none where it has no owner.
    pub(super) fn guards(&self, lock: OperationId) -> &[OperationId] {
        let share = self.shares.get(&lock);
        share.map_or(&[], |share| &share.guards)
    }

    /// The lock has ended, however that came.
    pub(super) fn end(&mut self, lock: OperationId) {
        let Some(share) = self.shares.remove(&lock) else {
            return;
        };
        for guard in share.guards {
            self.locks.remove(&guard);
        }
        // Its owner may have acquired it anew meanwhile.
        if self.held.get(&share.key) == Some(&lock) {
            self.held.remove(&share.key);
        }
    }

    /// The guards that have ended while others keep their lock.
    pub(super) fn take_left(&mut self) -> Vec<OperationId> {
        std::mem::take(&mut self.left)
    }

    /// Whether there is nothing to be told to other guards than those of calls.
    pub(super) fn is_empty(&self) -> bool {
        self.shares.is_empty() && self.left.is_empty()
    }

    /// How many guards and locks are kept.
    pub(super) fn size(&self) -> usize {
        self.held.len() + self.shares.len() + self.locks.len() + self.left.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> Key {
        let name = LockName::from(vec![number]);
        (name, Arc::from(*b"owner"))
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// An owner wants a lock.
        Want(u8),
        /// One of the guards ends.
        Leave(usize),
        /// The nodes have lost a lock.
        Lose(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..3u8).prop_map(Step::Want),
            4 => any::<usize>().prop_map(Step::Leave),
            1 => (0..3u8).prop_map(Step::Lose),
        ]
    }

    proptest! {
        #[test]
        fn a_lock_is_kept_until_as_many_guards_have_ended_as_were_given(steps in vec(step(), 0..200)) {
            let mut owners = Owners::default();
            // Of each guard that lives: which lock it has.
            let mut guards: Vec<(OperationId, u8)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                let operation = OperationId(number as u64);
                match step {
                    Step::Want(lock) => {
                        let held = owners.held(&key(lock));
                        prop_assert_eq!(held.is_some(), guards.iter().any(|(_, of)| *of == lock));
                        match held {
                            Some(held) => owners.join(held, operation),
                            None => owners.acquired(key(lock), operation),
                        }
                        guards.push((operation, lock));
                    }
                    Step::Leave(_) if guards.is_empty() => {}
                    Step::Leave(index) => {
                        let (guard, lock) = guards.swap_remove(index % guards.len());
                        let others = guards.iter().any(|(_, of)| *of == lock);
                        let kept_by = owners.lock_of(guard);
                        prop_assert_eq!(owners.held(&key(lock)), Some(kept_by));
                        prop_assert_eq!(owners.leave(guard), others);
                        if !others {
                            prop_assert_eq!(owners.guards(kept_by), &[guard][..]);
                            owners.end(kept_by);
                        }
                    }
                    Step::Lose(lock) => {
                        if let Some(held) = owners.held(&key(lock)) {
                            let mut told = owners.guards(held).to_vec();
                            owners.end(held);
                            let mut expected: Vec<_> =
                                guards.iter().filter(|(_, of)| *of == lock).map(|(guard, _)| *guard).collect();
                            told.sort_unstable();
                            expected.sort_unstable();
                            prop_assert_eq!(told, expected);
                        }
                        guards.retain(|(_, of)| *of != lock);
                    }
                }
            }
            for (guard, _) in guards {
                if !owners.leave(guard) {
                    owners.end(owners.lock_of(guard));
                }
            }
            owners.take_left();
            prop_assert!(owners.is_empty());
            prop_assert_eq!(owners.size(), 0);
        }
    }

    #[test]
    fn a_guard_without_an_owner_is_its_own_lock() {
        let mut owners = Owners::default();
        let guard = OperationId(7);
        assert_eq!(owners.lock_of(guard), guard);
        assert!(!owners.leave(guard) && owners.guards(guard).is_empty());
        owners.end(guard);
        assert_eq!(owners.size(), 0);
    }

    #[test]
    fn the_end_of_an_earlier_lock_takes_nothing_from_a_later_one() {
        let mut owners = Owners::default();
        let [earlier, later] = [1, 2].map(OperationId);
        owners.acquired(key(1), earlier);
        owners.acquired(key(1), later);
        owners.end(earlier);
        assert_eq!(owners.held(&key(1)), Some(later));
    }
}
