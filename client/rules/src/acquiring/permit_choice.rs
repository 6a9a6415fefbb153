//! Which permit of a semaphore a call asks for next.
//!
//! Invariant: one permit is asked for at a time. Each is asked for once in a walk from a random start with a random step;
//! after that the walk goes on in the pauses of a call that waits for one lock, so it costs no more than that. A permit that
//! was released, or whose holder's time is over, comes first. Which of many are free one node is asked at a time
//! (`permit_survey`).

use bytes::Bytes;
use rand::Rng;

use crate::clock::ClientInstant;
use crate::permits::permit_name;
use crate::token::Token;
use crate::votes::{NodeIndex, NodeSet};

#[derive(Debug)]
pub(super) struct PermitChoice {
    semaphore: Bytes,
    count: u32,
    permits: Vec<Permit>,
    /// Where the walk is, how far its next step leads, and how many it has made.
    at: u32,
    step: u32,
    walked: u32,
    chosen: u32,
    /// From which permit on a node is asked next which of them are free.
    survey_from: u32,
    /// The permit from which on one is asked now.
    surveyed: Option<u32>,
    /// Nodes that have refused to say so.
    refusing: NodeSet,
}

/// What is known of a permit.
#[derive(Clone, Debug, Default)]
struct Permit {
    holder: Option<Token>,
    /// When it is free again, if nobody renews it.
    free_at: Option<ClientInstant>,
    /// This client has released it since it was asked for.
    is_released: bool,
    /// A node has said since then that it is this client's turn to take it.
    is_called: bool,
    /// Nodes that were not of one mind with the majority when it was refused last: their line says nothing.
    others: NodeSet,
}

impl PermitChoice {
    /// A choice among so many, of which one is chosen.
    pub(super) fn start(semaphore: Bytes, permits: u32, random: &mut dyn Rng) -> Self {
        let count = permits.max(1);
        let mut below = |count: u32| random.next_u32() % count;
        let at = below(count);
        // A step that leads to all of them.
        let mut step = 1 + below(count);
        while greatest_common_divisor(step, count) > 1 {
            step += 1;
        }
        Self {
            semaphore,
            count,
            permits: vec![Permit::default(); count as usize],
            at,
            step,
            walked: 1,
            chosen: at,
            survey_from: at,
            surveyed: None,
            refusing: NodeSet::default(),
        }
    }

    pub(super) fn semaphore(&self) -> &Bytes {
        &self.semaphore
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The names of all permits.
    pub(super) fn names(&self) -> impl Iterator<Item = Bytes> {
        (0..self.count).map(|index| permit_name(&self.semaphore, index))
    }

    /// The permits in whose lines a call stands: of many the next ones of the walk, so that callers stand in different ones.
    pub(super) fn in_lines(&self) -> impl Iterator<Item = u32> {
        let steps = 0..self.count.min(LINES_MAX);
        steps.map(|steps| (self.at + steps * self.step) % self.count)
    }

    /// Whether a call stands in the line of this permit, as one of these or because it asks for it.
    pub(super) fn keeps_line(&self, index: u32) -> bool {
        let permit = self.permits.get(index as usize);
        let is_called = permit.is_some_and(|permit| permit.is_called);
        is_called || index == self.chosen || self.in_lines().any(|other| other == index)
    }

    /// How many permits there are for each line: more than one where a call does not stand in the lines of all.
    pub(super) fn for_each_line(&self) -> u32 {
        self.count.div_ceil(LINES_MAX)
    }

    /// Whether a node may be asked which permits it does not have.
    pub(super) fn may_survey(&self, node: NodeIndex) -> bool {
        !self.refusing.contains(node)
    }

    /// The node refuses that: the call does not ask it again.
    pub(super) fn refuses_surveys(&mut self, node: NodeIndex) {
        self.refusing.insert(node);
    }

    /// The names of the permits that a node is asked about next, if none is asked now: of many some at a time.
    pub(super) fn begin_survey(&mut self) -> Option<Vec<Bytes>> {
        if self.count < 2 || self.surveyed.is_some() {
            return None;
        }
        let from = self.survey_from;
        self.survey_from = (from + self.at_once()) % self.count;
        self.surveyed = Some(from);
        let names = self
            .indexes_from(from)
            .map(|index| permit_name(&self.semaphore, index));
        Some(names.collect())
    }

    /// The node has said of each whether it has it, or has not answered. Those that it alone may not have are left out.
    pub(super) fn end_survey(&mut self, node: NodeIndex, is_free: &[bool]) -> Vec<u32> {
        let Some(from) = self.surveyed.take() else {
            return Vec::new();
        };
        let free = self.indexes_from(from).zip(is_free);
        let free = free.filter(|(index, is_free)| **is_free && !self.others(*index).contains(node));
        free.map(|(index, _)| index).collect()
    }

    fn indexes_from(&self, from: u32) -> impl Iterator<Item = u32> {
        (0..self.at_once()).map(move |step| (from + step) % self.count)
    }

    /// Of how many permits a node is asked at once.
    fn at_once(&self) -> u32 {
        let fit = SURVEY_BYTES_MAX / (self.semaphore.len() + NUMBER_BYTES);
        let fit = u32::try_from(fit).expect("64 KiB at most");
        self.count.min(fit.clamp(2, SURVEY_MAX))
    }

    /// The index of the permit that is asked for.
    pub(super) fn index(&self) -> u32 {
        self.chosen
    }

    /// The name of the permit that is asked for.
    pub(super) fn name(&self) -> Bytes {
        permit_name(&self.semaphore, self.index())
    }

    /// Whether the walk has not come to each permit yet.
    pub(super) fn has_untried(&self) -> bool {
        self.walked < self.count
    }

    /// Chooses the permit that is asked for next.
    pub(super) fn choose(&mut self, now: ClientInstant) {
        if let Some(free) = self.free(now) {
            self.chosen = free;
            let permit = self.permit();
            *permit = Permit {
                holder: permit.holder.take(),
                others: permit.others,
                ..Permit::default()
            };
            return;
        }
        self.walked = self.walked.saturating_add(1);
        self.at = (self.at + self.step) % self.count;
        self.chosen = self.at;
    }

    /// The name of a permit that may be free now.
    pub(super) fn free_name(&self, now: ClientInstant) -> Option<Bytes> {
        Some(permit_name(&self.semaphore, self.free(now)?))
    }

    /// The permit that is asked for.
    fn permit(&mut self) -> &mut Permit {
        &mut self.permits[self.chosen as usize]
    }

    fn free(&self, now: ClientInstant) -> Option<u32> {
        let is_over = |permit: &Permit| permit.free_at.is_some_and(|at| now.has_reached(at));
        // From the one after that which was asked for last, so that none keeps another from its turn.
        let first = |is_it: &dyn Fn(&Permit) -> bool| {
            let mut indexes = (1..=self.count).map(|step| (self.chosen + step) % self.count);
            indexes.find(|index| is_it(&self.permits[*index as usize]))
        };
        first(&|permit| permit.is_called)
            .or_else(|| first(&|permit| permit.is_released))
            .or_else(|| first(&is_over))
    }

    /// The chosen permit was refused. Says whether somebody else has it than when it was asked for before.
    pub(super) fn refused(&mut self, holder: Option<&Token>) -> bool {
        let before = std::mem::replace(&mut self.permit().holder, holder.cloned());
        before.is_some() && before.as_ref() != holder
    }

    /// Which nodes were not of one mind with the majority when the chosen permit was refused.
    pub(super) fn note_others(&mut self, others: NodeSet) {
        self.permit().others = others;
    }

    /// The nodes whose line for a permit says nothing.
    pub(super) fn others(&self, index: u32) -> NodeSet {
        let permit = self.permits.get(index as usize);
        permit.map_or_else(NodeSet::default, |permit| permit.others)
    }

    /// When the chosen permit is free again, as its nodes have told.
    pub(super) fn told(&mut self, free_at: Option<ClientInstant>) {
        self.permit().free_at = free_at;
    }

    /// When a permit is free again is not looked after: the call stands in its line no longer.
    pub(super) fn forget_end(&mut self, index: u32) {
        if let Some(permit) = self.permits.get_mut(index as usize) {
            permit.free_at = None;
        }
    }

    /// This client has released a permit.
    pub(super) fn released(&mut self, index: u32) {
        if let Some(permit) = self.permits.get_mut(index as usize) {
            permit.is_released = true;
        }
    }

    /// It is this client's turn to take a permit.
    pub(super) fn called(&mut self, index: u32) {
        if let Some(permit) = self.permits.get_mut(index as usize) {
            permit.is_called = true;
        }
    }

    /// Whether it is this client's turn to take one that was not asked for since.
    pub(super) fn is_called_for(&self) -> bool {
        self.permits.iter().any(|permit| permit.is_called)
    }

    /// When the first of those that are held is free again, as far as nodes have told.
    pub(super) fn first_free_at(&self, now: ClientInstant) -> Option<ClientInstant> {
        let known = self.permits.iter().filter_map(|permit| permit.free_at);
        known
            .filter(|at| !now.has_reached(*at))
            .reduce(ClientInstant::earlier)
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        _ => greatest_common_divisor(other, one % other),
    }
}

/// The most lines in which a call stands. A node bounds how many wait there for all names together.
const LINES_MAX: u32 = 128;
/// Of so many permits a node is asked at once which are free, and with names of so many bytes.
const SURVEY_MAX: u32 = 128;
const SURVEY_BYTES_MAX: usize = 64 << 10;
/// What a permit's name has behind that of its semaphore, and a request around it.
const NUMBER_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const NOW: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);

    fn choice(permits: u32, seed: u64) -> PermitChoice {
        let mut random = StdRng::seed_from_u64(seed);
        PermitChoice::start(Bytes::from_static(b"a"), permits, &mut random)
    }

    #[test]
    fn each_permit_is_asked_for_once_before_any_is_asked_for_again() {
        for permits in [1, 2, 3, 4, 6, 30, 1_024] {
            for seed in 0..20 {
                let mut choice = choice(permits, seed);
                for _ in 0..2 {
                    let mut asked = BTreeSet::from([choice.index()]);
                    for _ in 1..permits {
                        choice.choose(NOW);
                        asked.insert(choice.index());
                    }
                    assert!(asked.iter().copied().eq(0..permits), "{permits}: {asked:?}");
                    assert!(!choice.has_untried());
                    choice.choose(NOW);
                }
            }
        }
    }

    #[test]
    fn lines_are_bounded_and_those_of_all_permits_come_one_after_the_other() {
        for (permits, lines, each) in [(1, 1, 1), (128, 128, 1), (129, 128, 2), (1_024, 128, 8)] {
            let mut choice = choice(permits, 7);
            assert_eq!(choice.for_each_line(), each, "{permits}");
            let mut all = BTreeSet::new();
            for _ in 0..permits {
                let now: BTreeSet<_> = choice.in_lines().collect();
                assert_eq!(now.len(), lines, "{permits}");
                assert!(now.contains(&choice.index()));
                assert!(now.iter().all(|index| choice.keeps_line(*index)));
                let kept = (0..permits).filter(|index| choice.keeps_line(*index));
                assert_eq!(kept.count(), lines);
                all.extend(now);
                choice.choose(NOW);
            }
            assert!(all.into_iter().eq(0..permits), "{permits}");
        }
    }

    #[test]
    fn nodes_are_asked_about_all_permits_a_part_at_a_time() {
        for (permits, semaphore_bytes, at_once) in [
            (2, 1, 2),
            (128, 1, 128),
            (1_024, 1, 128),
            (1_024, 992, 64),
            (3, 60_000, 2),
        ] {
            let mut random = StdRng::seed_from_u64(3);
            let semaphore = Bytes::from(vec![b'a'; semaphore_bytes]);
            let mut choice = PermitChoice::start(semaphore, permits, &mut random);
            let mut all = BTreeSet::new();
            for _ in 0..permits.div_ceil(at_once) {
                let names = choice.begin_survey().expect("no other is under way");
                assert_eq!(names.len(), at_once as usize, "{permits}");
                assert_eq!(choice.begin_survey(), None, "one at a time");
                let free = choice.end_survey(0, &vec![true; names.len()]);
                let of_names = free.iter().map(|index| choice.names().nth(*index as usize));
                assert!(of_names.eq(names.into_iter().map(Some)));
                all.extend(free);
            }
            assert!(all.into_iter().eq(0..permits), "{permits}");
        }
        assert_eq!(choice(1, 1).begin_survey(), None, "a lock");
    }

    #[test]
    fn a_permit_that_a_node_alone_does_not_have_is_not_free_there() {
        let mut choice = choice(3, 1);
        let mut others = NodeSet::default();
        others.insert(2);
        choice.note_others(others);
        for (node, free) in [(1, 3), (2, 2)] {
            assert!(choice.begin_survey().is_some());
            assert_eq!(choice.end_survey(node, &[true; 3]).len(), free);
        }
        assert!(choice.begin_survey().is_some());
        assert_eq!(choice.end_survey(1, &[]), [0; 0], "it has not answered");
        assert_eq!(choice.end_survey(1, &[true; 3]), [0; 0], "nor was it asked");
    }

    #[test]
    fn callers_begin_apart() {
        let starts: BTreeSet<_> = (0..100).map(|seed| choice(8, seed).index()).collect();
        assert_eq!(starts.len(), 8);
    }

    #[test]
    fn a_permit_that_is_free_comes_first_and_is_asked_for_once() {
        let mut choice = choice(4, 1);
        let later = NOW.after(Duration::from_secs(1));
        choice.told(Some(later));
        let held = choice.index();
        choice.choose(NOW);
        let second = choice.index();
        assert!(held != second && choice.free_name(NOW).is_none());
        assert_eq!(choice.first_free_at(NOW), Some(later));
        choice.choose(later);
        assert_eq!(choice.index(), held);
        choice.choose(later);
        assert_ne!(choice.index(), held);
        choice.released(second);
        assert_eq!(choice.free_name(later), Some(permit_name(b"a", second)));
        choice.choose(later);
        assert_eq!(choice.index(), second);
        // One that is none of these is of a caller that has said that there are more.
        choice.released(4);
        assert_eq!(choice.free_name(later), None);
    }

    #[test]
    fn a_permit_has_changed_hands_where_another_holder_refuses_it() {
        let mut choice = choice(2, 1);
        let [one, other] = ["one", "other"].map(Token::from);
        assert!(!choice.refused(Some(&one)));
        assert!(!choice.refused(Some(&one)));
        assert!(choice.refused(Some(&other)));
        choice.choose(NOW);
        assert!(!choice.refused(Some(&one)));
    }
}
