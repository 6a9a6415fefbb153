//! Members in the order of their scores, with their ranks.
//!
//! Pieces of bounded length one after the other: a member is found by bisection among the pieces and
//! then in one. A rank is the sum of the lengths before it: with the bytes of a value bounded there
//! are a few thousand pieces at most, whose lengths are added in about a microsecond.

use std::cmp::Ordering;
use std::sync::Arc;

/// A member with its score, which is a number.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
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
pub(crate) struct Order {
    /// None of them is empty.
    pieces: Vec<Vec<Scored>>,
}

impl Order {
    /// Adds a member that is not there.
    pub(crate) fn insert(&mut self, scored: Scored) {
        let is_before = |one: &Scored| one.compare(scored.score, &scored.member).is_lt();
        // Behind the last of all it goes into the last piece.
        let last = self.pieces.len().saturating_sub(1);
        let number = self.piece_of(is_before).min(last);
        let Some(piece) = self.pieces.get_mut(number) else {
            self.pieces.push(vec![scored]);
            return;
        };
        let offset = piece.partition_point(is_before);
        piece.insert(offset, scored);
        if piece.len() > PIECE_MEMBERS_MAX {
            // In ascending order, the usual one, pieces stay full.
            let is_end = number == last && offset.saturating_add(1) == piece.len();
            let half = if is_end { offset } else { piece.len() / 2 };
            let rest = piece.split_off(half);
            self.pieces.insert(number.saturating_add(1), rest);
        }
    }

    /// Removes a member that is there with this score.
    pub(crate) fn remove(&mut self, score: f64, member: &[u8]) {
        let is_before = |one: &Scored| one.compare(score, member).is_lt();
        let number = self.piece_of(is_before);
        let Some(piece) = self.pieces.get_mut(number) else {
            return;
        };
        let offset = piece.partition_point(is_before);
        if piece
            .get(offset)
            .is_some_and(|one| one.compare(score, member).is_eq())
        {
            piece.remove(offset);
        }
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

    /// The rank of a member that is there with this score.
    pub(crate) fn rank(&self, score: f64, member: &[u8]) -> usize {
        self.count_before(|one| one.compare(score, member).is_lt())
    }

    /// How many members there are for which this holds, which are all before all others.
    pub(crate) fn count_before(&self, is_before: impl Fn(&Scored) -> bool) -> usize {
        let number = self.piece_of(&is_before);
        let before: usize = self.pieces[..number].iter().map(Vec::len).sum();
        let piece = self.pieces.get(number);
        before.saturating_add(piece.map_or(0, |piece| piece.partition_point(&is_before)))
    }

    /// The members of these ranks, in their order.
    pub(crate) fn range(
        &self,
        ranks: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Scored> {
        let (mut first, mut start) = (0, ranks.start);
        while let Some(length) = self.pieces.get(first).map(Vec::len)
            && start >= length
        {
            start = start.saturating_sub(length);
            first = first.saturating_add(1);
        }
        let (mut last, mut left) = (first, ranks.len().saturating_add(start));
        while let Some(length) = self.pieces.get(last).map(Vec::len)
            && left > length
        {
            left = left.saturating_sub(length);
            last = last.saturating_add(1);
        }
        let pieces = &self.pieces[first..self.pieces.len().min(last.saturating_add(1))];
        let count = pieces.len();
        pieces.iter().enumerate().flat_map(move |(number, piece)| {
            let from = if number == 0 { start } else { 0 };
            let is_last = number.saturating_add(1) == count;
            let to = if is_last {
                left.min(piece.len())
            } else {
                piece.len()
            };
            &piece[from.min(to)..to]
        })
    }

    /// The first piece with a member for which this does not hold.
    fn piece_of(&self, is_before: impl Fn(&Scored) -> bool) -> usize {
        self.pieces
            .partition_point(|piece| piece.last().is_some_and(&is_before))
    }
}

/// Members in a piece: a few cache lines to move, and few pieces to add up.
const PIECE_MEMBERS_MAX: usize = 128;

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

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn members_are_where_a_sorted_vector_has_them(
            numbers in prop::collection::vec((any::<bool>(), 0..1500_u16), 0..1500),
            thinned in any::<bool>(),
            (from, to) in (0..1500_usize, 0..1500_usize),
        ) {
            let (mut order, mut expected) = (Order::default(), Vec::new());
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
            prop_assert!(order.pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE_MEMBERS_MAX));
            prop_assert!(order.pieces.len() <= 1 + 2 * expected.len() / (PIECE_MEMBERS_MAX / 4));
            for bound in [0.0, 100.0, 374.0, 400.0] {
                let before = expected.iter().filter(|one| one.score < bound).count();
                prop_assert_eq!(order.count_before(|one| one.score < bound), before);
            }
        }
    }
}
