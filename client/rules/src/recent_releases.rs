//! Locks that this client has released a moment ago, and when it last looked whether others stand in line for them.
//!
//! Who takes a lock again as soon as it has released it is refused by nobody, and learns of nobody: those who are told that the
//! lock is free come too late, each time. So its next call stands in line first, now and then.
//!
//! Invariant: this only chooses when the line is asked. It takes bounded memory: of two names that share a slot one is
//! forgotten.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use crate::clock::ClientInstant;
use crate::name::LockName;

#[derive(Debug)]
pub(super) struct RecentReleases {
    slots: [Option<Recent>; SLOTS],
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    name_hash: u64,
    released: ClientInstant,
    looked: ClientInstant,
}

impl Default for RecentReleases {
    fn default() -> Self {
        Self {
            slots: [None; SLOTS],
        }
    }
}

impl RecentReleases {
    /// This client has released the lock.
    pub(super) fn note(&mut self, name: &LockName, now: ClientInstant) {
        let (slot, name_hash) = self.slot(name);
        match slot {
            // However long it was held: who takes it again at once is refused by nobody.
            Some(known) if known.name_hash == name_hash => known.released = now,
            _ => {
                *slot = Some(Recent {
                    name_hash,
                    released: now,
                    looked: now,
                });
            }
        }
    }

    /// Whether the next call, which begins now, stands in line before it asks: it takes a lock again and again, and nobody has
    /// looked for others for so long.
    pub(super) fn take_look(
        &mut self,
        name: &LockName,
        now: ClientInstant,
        every: Duration,
    ) -> bool {
        let (slot, name_hash) = self.slot(name);
        let known = slot
            .as_mut()
            .filter(|known| known.name_hash == name_hash && !known.is_over(now));
        let Some(known) = known.filter(|known| now.since(known.looked) >= every) else {
            return false;
        };
        known.looked = now;
        true
    }

    fn slot(&mut self, name: &LockName) -> (&mut Option<Recent>, u64) {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let hash = hasher.finish();
        let index = usize::try_from(hash % SLOTS as u64).expect("less than the slots");
        (&mut self.slots[index], hash)
    }
}

impl Recent {
    /// Others who waited for the lock have had it since, if there were any.
    fn is_over(&self, now: ClientInstant) -> bool {
        now.since(self.released) >= RECENT
    }
}

const SLOTS: usize = 64;
/// The longest turn of somebody in line.
const RECENT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const START: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
    const EVERY: Duration = Duration::from_millis(250);

    #[test]
    fn who_takes_a_lock_again_and_again_looks_now_and_then_and_nobody_else_does() {
        let mut releases = RecentReleases::default();
        let name = LockName::from("a");
        let mut looks = Vec::new();
        for ms in (0..1_000).step_by(10) {
            let now = START.after(Duration::from_millis(ms));
            if releases.take_look(&name, now, EVERY) {
                looks.push(ms);
            }
            releases.note(&name, now);
        }
        assert_eq!(looks, [250, 500, 750]);
        let later = START.after(Duration::from_secs(3));
        assert!(!releases.take_look(&name, later, EVERY));
        // It was held for longer than a turn, and is taken again at once.
        releases.note(&name, later);
        assert!(!releases.take_look(&LockName::from("b"), later, EVERY));
        assert!(releases.take_look(&name, later, EVERY));
        assert!(!releases.take_look(&name, later, EVERY));
    }
}
