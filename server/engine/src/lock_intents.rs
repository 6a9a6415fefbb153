//! Writers that were refused because a lock is held shared: for a short time no new reader gets the lock, so that those who
//! hold it come to an end and the writer has it at its next try. Nothing here is logged, and nothing grants a lock.
//!
//! An intent is renewed by each such try, whatever its token, ends where the lock is taken exclusively, and lapses by itself
//! [`INTENT_LASTS`] after the last try: so long a writer that has vanished can keep readers out. Where there are too many, the
//! one that lapses first is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::queue_name::QueueName;
use crate::time::NodeTime;

/// The intents of a node's locks.
#[derive(Debug, Default)]
pub(crate) struct WriterIntents {
    until: BTreeMap<QueueName, NodeTime>,
    order: BTreeSet<(NodeTime, QueueName)>,
    /// Of names.
    bytes: usize,
}

impl WriterIntents {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Until when readers are kept out; none where they are not.
    pub(crate) fn until(&self, name: &QueueName, now: NodeTime) -> Option<NodeTime> {
        let until = self.until.get(name).copied();
        until.filter(|until| *until > now)
    }

    /// A writer was refused.
    pub(crate) fn note(&mut self, name: QueueName, now: NodeTime) {
        self.end(&name);
        self.forget_lapsed(now);
        let until = now.saturating_add(INTENT_LASTS);
        self.bytes = self.bytes.saturating_add(name.len());
        self.order.insert((until, name.clone()));
        self.until.insert(name, until);
        while self.until.len() > INTENTS_MAX || self.bytes > INTENT_BYTES_MAX {
            let Some((_, first)) = self.order.first().cloned() else {
                return;
            };
            self.end(&first);
        }
    }

    /// Forgets two that have lapsed, if there are any: called with each that is added and with each write, so that in the end
    /// all of them are gone and writes cost nothing.
    pub(crate) fn forget_lapsed(&mut self, now: NodeTime) {
        for _ in 0..2 {
            let first = self.order.first().filter(|(until, _)| *until <= now);
            if let Some((_, lapsed)) = first.cloned() {
                self.end(&lapsed);
            }
        }
    }

    /// The lock was taken, or the intent is of no use any more.
    pub(crate) fn end(&mut self, name: &QueueName) {
        if let Some((name, until)) = self.until.remove_entry(name) {
            self.bytes = self.bytes.saturating_sub(name.len());
            self.order.remove(&(until, name));
        }
    }
}

/// Longer than the pause between two tries of a writer, whether of the bundled client or of other ones for Redlock.
pub(crate) const INTENT_LASTS: Duration = Duration::from_millis(500);

const INTENTS_MAX: usize = 1 << 16;
const INTENT_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_lapses_ends_and_is_forgotten_where_there_are_too_many() {
        let (mut intents, now) = (WriterIntents::default(), NodeTime::from_nanos(5));
        let (name, end) = (QueueName::new(0, b"job"), now.saturating_add(INTENT_LASTS));
        intents.note(name.clone(), now);
        assert_eq!(intents.until(&name, now), Some(end));
        assert_eq!(intents.until(&name, end), None, "it lapses by itself");
        intents.end(&name);
        assert!(intents.is_empty() && intents.bytes == 0);
        for number in 0..=INTENTS_MAX {
            let name = QueueName::new(0, number.to_string().as_bytes());
            intents.note(
                name,
                now.saturating_add(Duration::from_nanos(number as u64)),
            );
        }
        assert_eq!(intents.until.len(), INTENTS_MAX);
        assert_eq!(
            intents.until(&QueueName::new(0, b"0"), now),
            None,
            "the first one"
        );
        let mut lapsing = WriterIntents::default();
        for number in 0..7 {
            lapsing.note(QueueName::new(0, &[number]), now);
        }
        (0..4).for_each(|_| lapsing.forget_lapsed(end));
        assert!(lapsing.is_empty() && lapsing.bytes == 0, "without a writer");
        let late = end.saturating_add(Duration::from_secs(1));
        for number in 0..=INTENTS_MAX {
            intents.note(QueueName::new(1, number.to_string().as_bytes()), late);
        }
        assert!(intents.until.keys().all(|name| name.parts().0 == 1));
    }
}
