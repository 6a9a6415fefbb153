//! The members of a sorted set, found by their names and by their order.

use std::ops::Deref;
use std::sync::Arc;

use crate::keyspace::order::{MemberOrder, Scored};
use crate::keyspace::table::{Named, Table};

/// Members with their scores.
#[derive(Clone, Debug, Default)]
pub struct SortedSet {
    table: Table<Scored>,
    order: MemberOrder,
}

impl Named for Scored {
    /// The member's two places, its allocation with its counts, and its offset in the index of a large set.
    const MEMORY: usize = 2 * size_of::<Scored>() + 40 - MEMBER_OVERHEAD;

    fn name(&self) -> &[u8] {
        &self.member
    }

    fn bytes(&self) -> usize {
        member_bytes(&self.member)
    }
}

impl Deref for SortedSet {
    type Target = Table<Scored>;

    fn deref(&self) -> &Table<Scored> {
        &self.table
    }
}

impl SortedSet {
    /// The members with their scores, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<[u8]>, f64)> {
        self.range(0..self.len())
    }

    /// The members of these ranks with their scores, in their order.
    pub(crate) fn range(
        &self,
        ranks: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (&Arc<[u8]>, f64)> {
        let scored = self.order.range(ranks);
        scored.map(|one| (&one.member, one.score))
    }

    /// A member at an offset, in no particular order. It keeps its offset unless one is removed;
    /// then the last one takes its offset, or in a small set all after it move up.
    pub(crate) fn at(&self, offset: usize) -> Option<(&Arc<[u8]>, f64)> {
        self.table.at(offset).map(|one| (&one.member, one.score))
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.table.find(member).map(|one| one.score)
    }

    /// How many members come before this one.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        let one = self.table.find(member)?;
        Some(self.order.rank(one.score, member))
    }

    /// How many members there are for which this holds, which are all before all others.
    pub(crate) fn count_before(&self, is_before: impl Fn(&[u8], f64) -> bool) -> usize {
        self.order
            .count_before(|one| is_before(&one.member, one.score))
    }

    /// Gives a member a score, a number, and returns the one it had. `seed` is for the index of a
    /// large set.
    pub(crate) fn set(&mut self, member: &[u8], score: f64, seed: u64) -> Option<f64> {
        if let Some(offset) = self.table.offset(member) {
            let (old, moved) = self.table.update(offset, |one| {
                let old = std::mem::replace(&mut one.score, score);
                (old, one.clone())
            });
            self.order.remove(old, member);
            self.order.insert(moved);
            return Some(old);
        }
        let scored = Scored {
            member: member.into(),
            score,
        };
        self.order.insert(scored.clone());
        self.table.push(scored, seed);
        None
    }

    /// Removes a member and returns its offset and its score.
    pub(crate) fn take(&mut self, member: &[u8]) -> Option<(usize, f64)> {
        let (offset, one) = self.table.take(member)?;
        self.order.remove(one.score, member);
        Some((offset, one.score))
    }

    /// Puts a member back where it was taken, so that all are where they were before.
    pub(crate) fn put_back(&mut self, offset: usize, member: &[u8], score: f64, seed: u64) {
        let scored = Scored {
            member: member.into(),
            score,
        };
        self.order.insert(scored.clone());
        self.table.put_back(offset, scored, seed);
    }
}

pub(super) fn member_bytes(member: &[u8]) -> usize {
    member.len().saturating_add(MEMBER_OVERHEAD)
}

/// A length prefix and a score in the journal.
const MEMBER_OVERHEAD: usize = 13;
