//! Who holds a lock shared: a token and an end for each holder. It is the value of a key, as a hash is.
//!
//! Invariant: the ends in order are those of the table. A holder counts until its end, whether it was dropped or not, and
//! the key ends with the last of its holders; who changes holders moves the end of the key in the same frame. Only tokens
//! and ends are logged. What is known of a holder beside them (since when, by which connection, its own text) is forgotten
//! by a restart, and no lock depends on it.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use crate::keyspace::table::{Named, Table};
use crate::time::{Deadline, NodeTime};

/// The holders of a lock that is held shared.
#[derive(Clone, Debug, Default)]
pub struct SharedHolders {
    table: Table<SharedHolder>,
    /// The first that ends is the first to be dropped, and the last one is the end of the key.
    ends: BTreeSet<(Deadline, Arc<[u8]>)>,
    /// Of what holders say about themselves.
    owner_bytes: usize,
}

/// One holder.
#[derive(Clone, Debug)]
pub struct SharedHolder {
    token: Arc<[u8]>,
    end: Deadline,
    taken: Option<SharedTaking>,
}

/// How a holder took a lock, where the node has not restarted since.
#[derive(Clone, Debug)]
pub(crate) struct SharedTaking {
    pub(crate) since: NodeTime,
    pub(crate) client_id: u64,
    pub(crate) owner: Option<Box<str>>,
}

impl Named for SharedHolder {
    /// The holder, its token's allocation, its end in the order, and its offset in the index of a large table.
    const MEMORY: usize = size_of::<SharedHolder>() + 88;

    fn name(&self) -> &[u8] {
        &self.token
    }

    fn bytes(&self) -> usize {
        holder_bytes(&self.token)
    }
}

impl Deref for SharedHolders {
    type Target = Table<SharedHolder>;

    fn deref(&self) -> &Table<SharedHolder> {
        &self.table
    }
}

impl SharedHolder {
    pub(crate) fn token(&self) -> &[u8] {
        &self.token
    }

    pub(crate) fn end(&self) -> Deadline {
        self.end
    }

    pub(crate) fn taken(&self) -> Option<&SharedTaking> {
        self.taken.as_ref()
    }

    fn owner_bytes(&self) -> usize {
        let owner = self.taken.as_ref().and_then(|taken| taken.owner.as_ref());
        owner.map_or(0, |owner| owner.len())
    }
}

impl SharedHolders {
    /// As [`Table::memory`], with what holders say about themselves.
    pub(crate) fn memory(&self) -> usize {
        self.table.memory().saturating_add(self.owner_bytes)
    }

    /// Tokens and ends, in no particular order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Deadline)> {
        self.table.iter().map(|holder| (&*holder.token, holder.end))
    }

    /// Those who hold the lock at this time.
    pub(crate) fn live(&self, now: NodeTime) -> impl Iterator<Item = &SharedHolder> {
        let holders = self.table.iter();
        holders.filter(move |holder| holder.end.is_after(now))
    }

    /// How many they are.
    pub(crate) fn live_count(&self, now: NodeTime) -> usize {
        self.len().saturating_sub(self.ended(now).count())
    }

    /// Those with the least tokens, in their order.
    pub(crate) fn first_live(&self, now: NodeTime, count: usize) -> Vec<&SharedHolder> {
        let mut holders: Vec<&SharedHolder> = self.live(now).collect();
        if count < holders.len() {
            holders.select_nth_unstable_by_key(count, |holder| &*holder.token);
            holders.truncate(count);
        }
        holders.sort_unstable_by_key(|holder| &*holder.token);
        holders
    }

    /// Some of those whose time is over.
    pub(crate) fn ended(&self, now: NodeTime) -> impl Iterator<Item = &[u8]> {
        let ended = self.ends.iter();
        let ended = ended.take_while(move |(end, _)| !end.is_after(now));
        ended.map(|(_, token)| &**token)
    }

    /// The end of a holder; none where this token is no holder's at this time.
    pub(crate) fn end_of(&self, token: &[u8], now: NodeTime) -> Option<Deadline> {
        let holder = self.table.find(token);
        let end = holder.map(|holder| holder.end);
        end.filter(|end| end.is_after(now))
    }

    /// When the last of them ends.
    pub(crate) fn last_end(&self) -> Option<Deadline> {
        self.ends.last().map(|(end, _)| *end)
    }

    /// The holder at an offset. A holder keeps its offset unless one is removed; then the last one takes its offset, or
    /// among few all after it move up.
    pub(crate) fn at(&self, offset: usize) -> Option<(&[u8], Deadline)> {
        let holder = self.table.at(offset)?;
        Some((&holder.token, holder.end))
    }

    /// Gives a holder this end, and returns the one before. One that is not there becomes a holder. `seed` is for the index
    /// of a large table.
    pub(crate) fn set(&mut self, token: &[u8], end: Deadline, seed: u64) -> Option<Deadline> {
        if let Some(offset) = self.table.offset(token) {
            let (old, token) = self.table.update(offset, |holder| {
                let old = std::mem::replace(&mut holder.end, end);
                (old, Arc::clone(&holder.token))
            });
            self.ends.remove(&(old, Arc::clone(&token)));
            self.ends.insert((end, token));
            return Some(old);
        }
        let (token, taken) = (Arc::from(token), None);
        let holder = SharedHolder { token, end, taken };
        self.count_in(&holder);
        self.table.push(holder, seed);
        None
    }

    /// Removes a holder, and returns its offset and itself.
    pub(crate) fn take(&mut self, token: &[u8]) -> Option<(usize, SharedHolder)> {
        let (offset, holder) = self.table.take(token)?;
        self.ends.remove(&(holder.end, Arc::clone(&holder.token)));
        self.owner_bytes = self.owner_bytes.saturating_sub(holder.owner_bytes());
        Some((offset, holder))
    }

    /// Puts a holder back where it was taken, so that all are where they were before.
    pub(crate) fn put_back(&mut self, offset: usize, holder: SharedHolder, seed: u64) {
        self.count_in(&holder);
        self.table.put_back(offset, holder, seed);
    }

    /// Notes how a holder took the lock.
    pub(crate) fn note_taken(&mut self, token: &[u8], taken: SharedTaking) {
        if let Some(offset) = self.table.offset(token) {
            let (before, after) = self.table.update(offset, |holder| {
                let before = holder.owner_bytes();
                holder.taken = Some(taken);
                (before, holder.owner_bytes())
            });
            self.owner_bytes = self.owner_bytes.saturating_sub(before);
            self.owner_bytes = self.owner_bytes.saturating_add(after);
        }
    }

    fn count_in(&mut self, holder: &SharedHolder) {
        self.ends.insert((holder.end, Arc::clone(&holder.token)));
        self.owner_bytes = self.owner_bytes.saturating_add(holder.owner_bytes());
    }
}

pub(super) fn holder_bytes(token: &[u8]) -> usize {
    token.len().saturating_add(HOLDER_OVERHEAD)
}

/// A length prefix and an end in the journal.
const HOLDER_OVERHEAD: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u128) -> Deadline {
        Deadline::at_nanos(nanos)
    }

    #[test]
    fn ends_follow_their_holders_and_come_back_when_a_change_is_taken_back() {
        let mut holders = SharedHolders::default();
        let now = NodeTime::from_nanos(10);
        for (token, end) in [(b"a", 5), (b"b", 30), (b"c", 20)] {
            assert_eq!(holders.set(token, at(end), 1), None);
        }
        assert_eq!(holders.last_end(), Some(at(30)));
        assert_eq!(holders.end_of(b"a", now), None, "it has ended");
        assert_eq!(holders.ended(now).collect::<Vec<_>>(), [b"a"]);
        assert_eq!(holders.set(b"c", at(40), 1), Some(at(20)));
        assert_eq!(holders.last_end(), Some(at(40)));
        let (offset, taken) = holders.take(b"c").unwrap();
        assert_eq!(holders.last_end(), Some(at(30)));
        holders.put_back(offset, taken, 1);
        assert_eq!(holders.last_end(), Some(at(40)));
        assert_eq!(holders.live(now).count(), 2);
        assert_eq!(holders.bytes(), 3 * holder_bytes(b"a"));
        for token in [b"a", b"b", b"c"] {
            assert!(holders.take(token).is_some());
        }
        assert!(holders.is_empty() && holders.last_end().is_none() && holders.bytes() == 0);
    }
}
