//! Which permit of a semaphore a call asks for next.
//!
//! Invariant: one permit is asked for at a time. Each is asked for once in a walk from a random start with a random step, but those
//! of many that too many nodes have said to have (`permit_survey`);
//! after that the walk goes on in the pauses of a call that waits for one lock, so it costs no more than that. A permit that
//! was released, or whose holder's time is over, comes first. Which of many are free then one node is asked at a time.

use std::collections::VecDeque;

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
    /// Those of the walk that nodes may have free, by what they have said.
    candidates: VecDeque<u32>,
    /// Too few nodes say which permits they have.
    is_without_survey: bool,
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
            candidates: VecDeque::new(),
            is_without_survey: false,
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

    /// Which permits of the walk nodes are asked about before any of them is asked for: the next ones, some at a time. None where a permit may be
    /// free for another reason, or so few are left that it costs more than to ask for each.
    pub(super) fn next_of_walk(&self, now: ClientInstant) -> Option<Vec<u32>> {
        let left = self.count.saturating_sub(self.walked);
        let is_known = !self.candidates.is_empty() || self.free(now).is_some();
        if left < WALK_SURVEY_LEAST || is_known || self.is_without_survey {
            return None;
        }
        let steps = 1..=left.min(self.at_once());
        let next = steps.map(|steps| (self.at + steps * self.step) % self.count);
        Some(next.collect())
    }

    /// How many steps the walk has made.
    pub(super) fn walked(&self) -> u32 {
        self.walked
    }

    /// Nodes have said which of these next permits of the walk they do not have. One that so many of them have cannot be had, and is passed over.
    /// Of the others those come first that the fewest have.
    pub(super) fn note_walk_survey(
        &mut self,
        asked: &[u32],
        answers: &[(NodeIndex, &[bool])],
        enough_to_refuse: usize,
    ) {
        let mut had_by = Vec::new();
        for (place, &index) in asked.iter().enumerate() {
            let mut lacking = NodeSet::default();
            let mut have = 0;
            for (node, lacks) in answers {
                match lacks.get(place) {
                    Some(false) => have += 1,
                    _ => lacking.insert(*node),
                }
            }
            match have < enough_to_refuse {
                true => had_by.push((have, index)),
                false => self.permits[index as usize].others = lacking,
            }
            self.at = index;
            self.walked += 1;
        }
        had_by.sort_by_key(|(have, _)| *have);
        let may_be_free = had_by.into_iter().map(|(_, index)| index);
        self.candidates.extend(may_be_free);
    }

    /// Too few nodes have said which permits they have: the call asks for one after the other.
    pub(super) fn goes_without_survey(&mut self) {
        self.is_without_survey = true;
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

    /// Whether the walk has not come to each permit yet, or one of it may be free.
    pub(super) fn has_untried(&self) -> bool {
        !self.candidates.is_empty() || self.walked < self.count
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
        if let Some(candidate) = self.candidates.pop_front() {
            self.chosen = candidate;
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
/// With fewer permits left the walk goes on: an attempt may have one of them in the time of a survey.
pub(super) const WALK_SURVEY_LEAST: u32 = 8;
/// What a permit's name has behind that of its semaphore, and a request around it.
const NUMBER_BYTES: usize = 32;

#[cfg(test)]
mod tests;
