//! Looking for permits that are free: one node is asked which of many it does not have, in one request.
//!
//! A call for one of many permits stands in the lines of some, and where no node has lines it comes to one after the other:
//! what is freed elsewhere it would find late. Invariant: a permit that a node does not have is asked for as in a turn, and
//! votes decide.

use super::{Acquiring, Progress};
use crate::answer::KeptLock;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::Cause;
use crate::protocol::listing::existing_words;
use crate::votes::{Identity, NodeIndex};

impl Acquiring {
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
