//! The members of a set, in the order in which they came while it is small.

use std::ops::Deref;
use std::sync::Arc;

use crate::keyspace::table::{Named, Table};
use crate::number::parse_integer;

/// Members, each of them once.
#[derive(Clone, Debug, Default)]
pub struct Members {
    table: Table<Arc<[u8]>>,
    /// How many are not numbers of 64 bits: only OBJECT ENCODING asks.
    not_integers: usize,
}

impl Named for Arc<[u8]> {
    /// The member's place, its allocation with its counts, and its offset in the index of a large set.
    const MEMORY: usize = size_of::<Arc<[u8]>>() + 40 - MEMBER_OVERHEAD;

    fn name(&self) -> &[u8] {
        self
    }

    fn bytes(&self) -> usize {
        member_bytes(self)
    }
}

impl Deref for Members {
    type Target = Table<Arc<[u8]>>;

    fn deref(&self) -> &Table<Arc<[u8]>> {
        &self.table
    }
}

impl Members {
    /// Whether all members are numbers of 64 bits.
    pub(crate) fn is_of_integers(&self) -> bool {
        self.not_integers == 0
    }

    /// Adds a member; false if it is there already. `seed` is for the index of a large set.
    pub(crate) fn add(&mut self, member: impl AsRef<[u8]> + Into<Arc<[u8]>>, seed: u64) -> bool {
        if self.contains(member.as_ref()) {
            return false;
        }
        self.count_in(member.as_ref());
        self.table.push(member.into(), seed);
        true
    }

    /// Removes a member and returns its offset and itself.
    pub(crate) fn take(&mut self, member: &[u8]) -> Option<(usize, Arc<[u8]>)> {
        let (offset, member) = self.table.take(member)?;
        let count = usize::from(parse_integer(&member).is_none());
        self.not_integers = self.not_integers.saturating_sub(count);
        Some((offset, member))
    }

    /// Puts a member back where it was taken, so that all are where they were before.
    pub(crate) fn put_back(&mut self, offset: usize, member: Arc<[u8]>, seed: u64) {
        self.count_in(&member);
        self.table.put_back(offset, member, seed);
    }

    fn count_in(&mut self, member: &[u8]) {
        let count = usize::from(parse_integer(member).is_none());
        self.not_integers = self.not_integers.saturating_add(count);
    }
}

pub(super) fn member_bytes(member: &[u8]) -> usize {
    member.len().saturating_add(MEMBER_OVERHEAD)
}

/// A length prefix in the journal.
const MEMBER_OVERHEAD: usize = 5;
