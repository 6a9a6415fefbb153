//! Members in the order of their scores, with their ranks.
//!
//! Pieces of bounded length lie one after the other in blocks of bounded length: a member is found by bisection among the
//! blocks, then among the pieces of one, and then in one piece. A rank is the sum of the lengths before it: of
//! the blocks, of which a million members make about a hundred, and of the pieces in one.

use std::cmp::Ordering;
use std::sync::Arc;

/// A member with its score, which is a number.
#[derive(Clone, Debug)]
pub struct Scored {
    pub(crate) member: Arc<[u8]>,
    pub(crate) score: f64,
}

impl Scored {
    /// By score, and by bytes where scores are equal.
    fn compare(&self, score: f64, member: &[u8]) -> Ordering {
        let by_score = self.score.partial_cmp(&score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| (*self.member).cmp(member))
    }
}

/// All members in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberOrder {
    /// None of them is empty.
    blocks: Vec<Block>,
}

/// Some pieces, and how many members they have.
#[derive(Clone, Debug, Default)]
struct Block {
    /// None of them is empty.
    pieces: Vec<Vec<Scored>>,
    members: usize,
}

/// Where a member is, or would be: a block, a piece of it, an offset in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OrderLocation {
    block: usize,
    piece: usize,
    offset: usize,
}

impl MemberOrder {
    /// Adds a member that is not there.
    pub(crate) fn insert(&mut self, scored: Scored) {
        let is_before = |one: &Scored| one.compare(scored.score, &scored.member).is_lt();
        // Behind the last of all it goes into the last block.
        let last = self.blocks.len().saturating_sub(1);
        let number = self.block_of(&is_before).min(last);
        let is_last = number == last;
        let Some(block) = self.blocks.get_mut(number) else {
            let pieces = vec![vec![scored]];
            self.blocks.push(Block { pieces, members: 1 });
            return;
        };
        block.insert(scored, is_last);
        if block.pieces.len() > BLOCK_PIECES_MAX {
            let rest = block.split(is_last);
            self.blocks.insert(number.saturating_add(1), rest);
        }
    }

    /// Removes a member that is there with this score.
    pub(crate) fn remove(&mut self, score: f64, member: &[u8]) {
        let is_before = |one: &Scored| one.compare(score, member).is_lt();
        let number = self.block_of(&is_before);
        let Some(block) = self.blocks.get_mut(number) else {
            return;
        };
        block.remove(&is_before, score, member);
        if block.pieces.is_empty() {
            self.blocks.remove(number);
        } else if block.pieces.len() < BLOCK_PIECES_MAX / 4 && !self.join(number.wrapping_sub(1)) {
            self.join(number);
        }
    }

    /// Makes one block of two neighbours where both are short.
    fn join(&mut self, number: usize) -> bool {
        let next = number.wrapping_add(1);
        let lengths =
            [number, next].map(|number| self.blocks.get(number).map(|one| one.pieces.len()));
        let [Some(length), Some(other)] = lengths else {
            return false;
        };
        let is_short = length.saturating_add(other) <= BLOCK_PIECES_MAX / 2;
        if is_short {
            let mut behind = self.blocks.remove(next);
            let block = &mut self.blocks[number];
            block.pieces.append(&mut behind.pieces);
            block.members = block.members.saturating_add(behind.members);
        }
        is_short
    }

    /// The rank of a member that is there with this score.
    pub(crate) fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.count_before(|one| one.compare(score, member).is_lt())
    }

    /// How many members there are for which this holds, which are all before all others.
    pub(crate) fn count_before(&self, is_before: impl Fn(&Scored) -> bool) -> usize {
        let number = self.block_of(&is_before);
        let before: usize = self.blocks[..number].iter().map(|one| one.members).sum();
        let block = self.blocks.get(number);
        before.saturating_add(block.map_or(0, |block| block.count_before(&is_before)))
    }

    /// The members of these ranks, in their order.
    pub(crate) fn range(
        &self,
        ranks: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Scored> {
        let count = self.blocks.iter().map(|one| one.members).sum();
        let to = ranks.end.min(count);
        let from = ranks.start.min(to);
        let first = self.location_of(from);
        // The last member itself is in it.
        let last = self.location_of(to.saturating_sub(1));
        let blocks = if from < to {
            first.block..last.block.saturating_add(1)
        } else {
            0..0
        };
        let pieces = blocks.flat_map(move |block| {
            let end = self.blocks[block].pieces.len();
            let start = if block == first.block { first.piece } else { 0 };
            let end = if block == last.block {
                last.piece.saturating_add(1)
            } else {
                end
            };
            (start..end).map(move |piece| (block, piece))
        });
        pieces.flat_map(move |(block, piece)| {
            let members = &self.blocks[block].pieces[piece];
            let is_in = |one: OrderLocation| (one.block, one.piece) == (block, piece);
            let start = if is_in(first) { first.offset } else { 0 };
            let end = if is_in(last) {
                last.offset.saturating_add(1)
            } else {
                members.len()
            };
            &members[start..end]
        })
    }

    /// Where the member of a rank is; behind all there is none.
    fn location_of(&self, rank: usize) -> OrderLocation {
        let (mut block, mut left) = (0, rank);
        while let Some(members) = self.blocks.get(block).map(|one| one.members)
            && left >= members
        {
            left = left.saturating_sub(members);
            block = block.saturating_add(1);
        }
        let mut piece = 0;
        let pieces = self.blocks.get(block).map_or(&[][..], |one| &one.pieces);
        while let Some(length) = pieces.get(piece).map(Vec::len)
            && left >= length
        {
            left = left.saturating_sub(length);
            piece = piece.saturating_add(1);
        }
        OrderLocation {
            block,
            piece,
            offset: left,
        }
    }

    /// The first block with a member for which this does not hold.
    fn block_of(&self, is_before: &impl Fn(&Scored) -> bool) -> usize {
        self.blocks
            .partition_point(|block| block.last().is_some_and(is_before))
    }
}

impl Block {
    fn last(&self) -> Option<&Scored> {
        self.pieces.last().and_then(|piece| piece.last())
    }

    /// The first piece with a member for which this does not hold.
    fn piece_of(&self, is_before: &impl Fn(&Scored) -> bool) -> usize {
        self.pieces
            .partition_point(|piece| piece.last().is_some_and(is_before))
    }

    fn count_before(&self, is_before: &impl Fn(&Scored) -> bool) -> usize {
        let number = self.piece_of(is_before);
        let before: usize = self.pieces[..number].iter().map(Vec::len).sum();
        let piece = self.pieces.get(number);
        before.saturating_add(piece.map_or(0, |piece| piece.partition_point(is_before)))
    }

    /// `is_end`: no block comes after this one.
    fn insert(&mut self, scored: Scored, is_end: bool) {
        let is_before = |one: &Scored| one.compare(scored.score, &scored.member).is_lt();
        self.members = self.members.saturating_add(1);
        let last = self.pieces.len().saturating_sub(1);
        let number = self.piece_of(&is_before).min(last);
        let piece = &mut self.pieces[number];
        let offset = piece.partition_point(is_before);
        piece.insert(offset, scored);
        if piece.len() > PIECE_MEMBERS_MAX {
            // In ascending order, the usual one, pieces stay full.
            let is_end = is_end && number == last && offset.saturating_add(1) == piece.len();
            let half = if is_end { offset } else { piece.len() / 2 };
            let rest = piece.split_off(half);
            self.pieces.insert(number.saturating_add(1), rest);
        }
    }

    /// Removes a member that is there with this score.
    fn remove(&mut self, is_before: &impl Fn(&Scored) -> bool, score: f64, member: &[u8]) {
        let number = self.piece_of(is_before);
        let Some(piece) = self.pieces.get_mut(number) else {
            return;
        };
        let offset = piece.partition_point(is_before);
        let found = piece.get(offset);
        if !found.is_some_and(|one| one.compare(score, member).is_eq()) {
            return;
        }
        piece.remove(offset);
        self.members = self.members.saturating_sub(1);
        if piece.is_empty() {
            self.pieces.remove(number);
        } else if piece.len() < PIECE_MEMBERS_MAX / 4 && !self.join(number.wrapping_sub(1)) {
            self.join(number);
        }
    }

    /// Makes one piece of two neighbours where both are short, so that what is left of a large set
    /// does not keep its memory.
    fn join(&mut self, number: usize) -> bool {
        let next = number.wrapping_add(1);
        let lengths = [number, next].map(|number| self.pieces.get(number).map(Vec::len));
        let [Some(length), Some(other)] = lengths else {
            return false;
        };
        let is_short = length.saturating_add(other) <= PIECE_MEMBERS_MAX / 2;
        if is_short {
            let mut behind = self.pieces.remove(next);
            self.pieces[number].append(&mut behind);
        }
        is_short
    }

    /// Takes the second half of the pieces out; at the end of all only the last.
    fn split(&mut self, is_end: bool) -> Block {
        let count = self.pieces.len();
        let half = if is_end {
            count.saturating_sub(1)
        } else {
            count / 2
        };
        let pieces = self.pieces.split_off(half);
        let members = pieces.iter().map(Vec::len).sum();
        self.members = self.members.saturating_sub(members);
        Block { pieces, members }
    }
}

/// Members in a piece: a few cache lines to move, and few pieces to add up.
const PIECE_MEMBERS_MAX: usize = if cfg!(test) { 8 } else { 128 };

/// Pieces in a block, for the same reasons. Of both there are few in tests of this file, so that a small set has all levels.
const BLOCK_PIECES_MAX: usize = if cfg!(test) { 8 } else { 128 };

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scored(number: u16) -> Scored {
        Scored {
            score: f64::from(number / 4),
            member: number.to_string().into_bytes().into(),
        }
    }

    /// No piece and no block is empty or too long, all together are few, and the counts are right.
    fn check_bounds(order: &MemberOrder, members: usize) {
        let pieces = order.blocks.iter().flat_map(|block| &block.pieces);
        assert!(
            pieces
                .clone()
                .all(|piece| (1..=PIECE_MEMBERS_MAX).contains(&piece.len()))
        );
        let lengths = order.blocks.iter().map(|block| block.pieces.len());
        assert!(
            lengths
                .clone()
                .all(|length| (1..=BLOCK_PIECES_MAX).contains(&length))
        );
        let (pieces, blocks) = (pieces.count(), order.blocks.len());
        assert!(
            pieces <= 2 * blocks + 2 * members / (PIECE_MEMBERS_MAX / 4),
            "{pieces} of {members}"
        );
        assert!(
            blocks <= 1 + 2 * pieces / (BLOCK_PIECES_MAX / 4),
            "{blocks} of {pieces}"
        );
        for block in &order.blocks {
            assert_eq!(
                block.members,
                block.pieces.iter().map(Vec::len).sum::<usize>()
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn members_are_where_a_sorted_vector_has_them(
            numbers in prop::collection::vec((any::<bool>(), 0..1500_u16), 0..1500),
            thinned in any::<bool>(),
            (from, to) in (0..1500_usize, 0..1500_usize),
        ) {
            let (mut order, mut expected) = (MemberOrder::default(), Vec::new());
            // In the end most go again, from front to back.
            let goes = (0..1500).filter(|number| thinned && number % 50 != 0);
            let goes = goes.map(|number| (true, number));
            for (is_removal, number) in numbers.into_iter().chain(goes) {
                let one = scored(number);
                let place = expected.binary_search_by(|other: &Scored| other.compare(one.score, &one.member));
                match (is_removal, place) {
                    (false, Err(offset)) => {
                        expected.insert(offset, one.clone());
                        order.insert(one);
                    }
                    (true, Ok(offset)) => {
                        prop_assert_eq!(order.rank(one.score, &one.member), offset);
                        expected.remove(offset);
                        order.remove(one.score, &one.member);
                    }
                    _ => {}
                }
            }
            let to = to.min(expected.len());
            let ranks = from.min(to)..to;
            let names = |all: Vec<&Scored>| all.iter().map(|one| one.member.to_vec()).collect::<Vec<_>>();
            let wanted: Vec<_> = expected[ranks.clone()].iter().collect();
            prop_assert_eq!(names(order.range(ranks.clone()).collect()), names(wanted.clone()));
            let mut backwards: Vec<_> = order.range(ranks).rev().collect();
            backwards.reverse();
            prop_assert_eq!(names(backwards), names(wanted));
            check_bounds(&order, expected.len());
            for bound in [0.0, 100.0, 374.0, 400.0] {
                let before = expected.iter().filter(|one| one.score < bound).count();
                prop_assert_eq!(order.count_before(|one| one.score < bound), before);
            }
        }
    }
}
