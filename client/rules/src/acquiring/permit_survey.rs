//! Looking for permits that are free: nodes are asked which of many they do not have, in one request each.
//!
//! Where many are left, a call whose first permit was refused asks all nodes about the next ones before it asks for any of them: a
//! request to a node for up to 128 permits in place of two for each. Only what so many nodes have that the others are no majority is passed over.
//!
//! A call for one of many permits stands in the lines of some, and where no node has lines it comes to one after the other:
//! what is freed elsewhere it would find late. So one node is asked now and then. Invariant: a permit that a node does not have is asked for
//! as in a turn, and votes decide.

use super::permit_choice::WALK_SURVEY_LEAST;
use super::{Acquiring, Progress, Stage};
use crate::answer::{Content, KeptLock};
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::Cause;
use crate::permits::permit_name;
use crate::protocol::listing::existing_words;
use crate::round::Round;
use crate::step::Input;
use crate::votes::{Identity, NodeIndex};

/// Nodes are asked which of the next permits of a walk they do not have.
#[derive(Debug)]
pub(super) struct WalkSurvey {
    permits: Vec<u32>,
    /// In the order of the permits.
    round: Round<Result<Vec<bool>, Cause>>,
    number: u32,
    quorum: usize,
    /// So many nodes that have a permit leave no majority to grant it.
    enough_to_refuse: usize,
}

impl WalkSurvey {
    pub(super) fn deadline(&self) -> ClientInstant {
        self.round.deadline
    }

    /// Takes an answer in, if it is one. Says whether the survey is over: enough is said, or nobody is waited for any more. What else
    /// arrives ends nothing, also behind its time: it is for the lines of the call.
    pub(super) fn is_over_with(&mut self, input: &Input, now: ClientInstant) -> bool {
        if let Input::Reply(reply) = input {
            let answer = match &reply.content {
                Content::Compared(answer) if reply.round == self.number => answer,
                _ => return false,
            };
            let answer = match answer {
                Ok((_, kept)) => Ok(kept.iter().map(Option::is_none).collect()),
                Err(cause) => Err(cause.clone()),
            };
            self.round.answered(reply.node, answer);
        }
        self.round.is_over(now) || self.says_enough()
    }

    /// Whether a majority has a permit to grant, or few permits may still be had: asking for these takes no longer than the other answers do.
    /// The first that answer may be those that lack what a bare majority has.
    fn says_enough(&self) -> bool {
        let answers = self.lacking();
        if answers.len() < self.quorum {
            return false;
        }
        let mut in_doubt = 0;
        for place in 0..self.permits.len() {
            let is_lacking = |(_, lacks): &&(NodeIndex, &[bool])| lacks.get(place) != Some(&false);
            let lacking = answers.iter().filter(is_lacking).count();
            if lacking >= self.quorum {
                return true;
            }
            in_doubt += u32::from(answers.len() - lacking < self.enough_to_refuse);
        }
        in_doubt < WALK_SURVEY_LEAST
    }

    /// Which of the permits each node does not have that has answered.
    fn lacking(&self) -> Vec<(NodeIndex, &[bool])> {
        let answers = self.round.answers().iter().enumerate();
        let lacking = answers.filter_map(|(node, answer)| match answer {
            Some(Ok(lacks)) => Some((node, &lacks[..])),
            _ => None,
        });
        lacking.collect()
    }

    /// The nodes that say it of no permits.
    fn refusing(&self) -> impl Iterator<Item = NodeIndex> {
        let answers = self.round.answers().iter().enumerate();
        let is_refused = |answer: &Option<_>| matches!(answer, Some(Err(Cause::Refused(_))));
        answers.filter_map(move |(node, answer)| is_refused(answer).then_some(node))
    }
}

impl Acquiring {
    /// Asks nodes which of the next permits of the walk they do not have, where that costs less than to ask for one after the other. Says whether
    /// they were asked.
    pub(super) fn survey_walk(&mut self, context: &mut Context<'_>) -> bool {
        let now = context.now;
        let patience = context.patience(self.call.ttl);
        let deadline = now.after(patience.min(self.patience_max(now)));
        let next = self
            .permits
            .as_ref()
            .map(|permits| (permits, permits.next_of_walk(now)));
        let Some((permits, Some(next))) = next else {
            return false;
        };
        let nodes = (0..context.nodes()).filter(|node| permits.may_survey(*node));
        let nodes = nodes.filter(|node| context.links[*node].is_ready(now));
        let nodes: Vec<NodeIndex> = nodes.collect();
        if nodes.len() < enough_to_refuse(context) {
            return false;
        }
        let names = next.iter();
        let names = names.map(|index| permit_name(permits.semaphore(), *index));
        let subject = Subject::of_words(existing_words(names), self.call.ttl);
        // A late answer to an earlier one is none to this one.
        let number = WALK_SURVEY_BIT | permits.walked();
        let mut round = Round::start(context.nodes(), deadline);
        for node in nodes {
            round.ask(node);
            context.ask(node, Kind::Compare, &subject, number);
        }
        self.stage = Stage::Surveying(WalkSurvey {
            permits: next,
            round,
            number,
            quorum: context.quorum(),
            enough_to_refuse: enough_to_refuse(context),
        });
        true
    }

    /// The survey of the walk is over: a permit that may be free is asked for, or the walk goes on.
    pub(super) fn walk_surveyed(&mut self, context: &mut Context<'_>) -> Progress {
        let stage = std::mem::replace(&mut self.stage, Stage::Pausing(context.now));
        let (Stage::Surveying(survey), Some(permits)) = (stage, &mut self.permits) else {
            return Progress::GoesOn;
        };
        for node in survey.refusing() {
            permits.refuses_surveys(node);
        }
        let (lacking, enough) = (survey.lacking(), survey.enough_to_refuse);
        match lacking.len() >= enough {
            true => permits.note_walk_survey(&survey.permits, &lacking, enough),
            false => permits.goes_without_survey(),
        }
        match self.ask_next_permit(context) {
            Some(progress) => progress,
            None => self.wait_behind_refusal(true, context),
        }
    }

    /// The pause of a call for a permit is over. Where no node has lines one is asked which permits are free, in place of all
    /// nodes for the next one, and the next pause begins: the answer ends it.
    pub(super) fn surveys_in_pause(&mut self, context: &mut Context<'_>) -> Option<Progress> {
        self.permits.as_ref()?;
        let now = context.now;
        // A call does not end with a look.
        let is_last = self.limit.left(now) <= context.patience(self.call.ttl);
        let may_survey = !context.has_lines() && !is_last && self.last.is_some();
        let surveys = may_survey && self.free_permit(now).is_none() && self.survey(context);
        surveys.then(|| self.pause(context))
    }

    /// Asks a node which permits it does not have. Says whether one was asked.
    pub(super) fn survey(&mut self, context: &mut Context<'_>) -> bool {
        let Some(permits) = &mut self.permits else {
            return false;
        };
        let nodes = (0..context.nodes()).filter(|node| permits.may_survey(*node));
        let ready = nodes.filter(|node| context.links[*node].is_ready(context.now));
        let ready: Vec<NodeIndex> = ready.collect();
        let turn = context.random.next_u32() as usize;
        let Some(&node) = ready.get(turn % ready.len().max(1)) else {
            return false;
        };
        let Some(names) = permits.begin_survey() else {
            return false;
        };
        let subject = Subject::of_words(existing_words(names.into_iter()), self.call.ttl);
        context.ask(node, Kind::Compare, &subject, self.attempts);
        true
    }

    /// A node has said which permits it does not have: one of them is asked for at once, unless an attempt is under way.
    pub(super) fn surveyed(
        &mut self,
        node: NodeIndex,
        answer: &Result<(Identity, Vec<KeptLock>), Cause>,
        is_now: bool,
        context: &mut Context<'_>,
    ) {
        let Some(permits) = &mut self.permits else {
            return;
        };
        if matches!(answer, Err(Cause::Refused(_))) {
            permits.refuses_surveys(node);
        }
        let kept = answer.as_ref().map_or(&[][..], |(_, kept)| &kept[..]);
        let is_free: Vec<bool> = kept.iter().map(Option::is_none).collect();
        let free = permits.end_survey(node, &is_free);
        // Others who wait may have been told of the same ones.
        let turn = context.random.next_u32() as usize;
        match free.get(turn % free.len().max(1)) {
            Some(&index) if is_now => {
                permits.called(index);
                self.take_turn_for_permit(context);
            }
            // Here the permits are asked for one after the other.
            None if is_now && answer.is_err() && !context.has_lines() => {
                self.choose_permit(context.now);
                self.ask(context);
            }
            _ => {}
        }
    }
}

/// How many nodes that have a permit leave no majority to grant it.
fn enough_to_refuse(context: &Context<'_>) -> usize {
    context.nodes() + 1 - context.quorum()
}

/// Set in the rounds of surveys of a walk, which are counted apart from those of attempts.
pub(super) const WALK_SURVEY_BIT: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OperationId;
    use crate::link::LinkReply;

    #[test]
    fn what_answers_no_survey_ends_none_also_behind_its_time() {
        let now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let mut round = Round::start(3, now);
        round.ask(0);
        let mut survey = WalkSurvey {
            permits: vec![1],
            round,
            number: WALK_SURVEY_BIT | 1,
            quorum: 2,
            enough_to_refuse: 2,
        };
        let reply = |round, content| {
            Input::Reply(LinkReply {
                node: 0,
                operation: OperationId(1),
                round,
                content,
            })
        };
        let of_line = reply(1, Content::InLine(Ok(0), Some(1)));
        assert!(!survey.is_over_with(&of_line, now));
        let of_another = reply(1, Content::Compared(Err(Cause::Silent)));
        assert!(!survey.is_over_with(&of_another, now));
        assert!(survey.round.awaits(0) && survey.is_over_with(&Input::Timer, now));
    }
}
