//! Deadlines of many, and which of them have come.
//!
//! Invariant: a deadline that has come by any of the clocks is found. One that is put off keeps
//! its earlier time until that has come: whoever is called too early looks at the clock itself.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::clock::ClientInstant;

#[derive(Debug)]
pub(crate) struct Timers<K> {
    armed: HashMap<K, ClientInstant>,
    /// By each of an instant's parts.
    by_part: [BTreeSet<(u64, K)>; 3],
}

impl<K: Copy + Ord + Hash> Timers<K> {
    pub(crate) fn new() -> Self {
        Self {
            armed: HashMap::new(),
            by_part: Default::default(),
        }
    }

    /// Sees to it that `key` is due at `at`, or earlier.
    pub(crate) fn arm(&mut self, key: K, at: ClientInstant) {
        if let Some(&armed) = self.armed.get(&key) {
            if armed.earlier(at) == armed {
                return;
            }
            self.disarm(key);
        }
        self.armed.insert(key, at);
        for (deadlines, at_ns) in self.by_part.iter_mut().zip(at.parts_ns()) {
            deadlines.insert((at_ns, key));
        }
    }

    /// Whether `key` will be due.
    pub(crate) fn is_armed(&self, key: K) -> bool {
        self.armed.contains_key(&key)
    }

    pub(crate) fn disarm(&mut self, key: K) {
        if let Some(at) = self.armed.remove(&key) {
            for (deadlines, at_ns) in self.by_part.iter_mut().zip(at.parts_ns()) {
                deadlines.remove(&(at_ns, key));
            }
        }
    }

    /// Takes out one that is due.
    pub(crate) fn take_due(&mut self, now: ClientInstant) -> Option<K> {
        let mut firsts = self.by_part.iter().zip(now.parts_ns());
        let due = firsts.find_map(|(deadlines, now_ns)| {
            let first = deadlines.first().filter(|(at_ns, _)| *at_ns <= now_ns);
            first.map(|(_, key)| *key)
        })?;
        self.disarm(due);
        Some(due)
    }

    /// How many are armed.
    pub(crate) fn len(&self) -> usize {
        let most = self.by_part.iter().map(BTreeSet::len).max();
        self.armed.len().max(most.unwrap_or(0))
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Option<ClientInstant> {
        let [boot, raw, whole] = &self.by_part;
        let parts_ns = [boot.first()?.0, raw.first()?.0, whole.first()?.0];
        Some(ClientInstant::from_parts_ns(parts_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: ClientInstant = ClientInstant::from_nanos(1_000, 5_000);

    #[test]
    fn the_clock_that_comes_first_decides() {
        let mut timers = Timers::new();
        timers.arm(1, START.after(Duration::from_nanos(100)));
        timers.arm(2, START.after(Duration::from_nanos(50)));
        assert_eq!(
            timers.take_due(ClientInstant::from_nanos(1_049, 5_049)),
            None
        );
        // Boot time alone has come to the second, the raw clock to both.
        assert_eq!(
            timers.take_due(ClientInstant::from_nanos(1_050, 5_000)),
            Some(2)
        );
        assert_eq!(
            timers.take_due(ClientInstant::from_nanos(1_000, 5_100)),
            Some(1)
        );
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn putting_off_leaves_the_earlier_time_and_bringing_forward_does_not() {
        let mut timers = Timers::new();
        let at = |nanos| START.after(Duration::from_nanos(nanos));
        timers.arm(1, at(50));
        timers.arm(1, at(100));
        assert_eq!(timers.next(), Some(at(50)));
        timers.arm(1, at(20));
        assert_eq!(timers.next(), Some(at(20)));
        timers.disarm(1);
        assert_eq!((timers.next(), timers.take_due(at(1_000))), (None, None));
    }
}
