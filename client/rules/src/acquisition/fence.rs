//! An attempt that asks for a fence: its nodes have to take one number, after a majority of them has granted the lock.
//!
//! Invariant: such an attempt has acquired the lock only with its fence, in what is left of the validity.

use super::fencing::{Fencing, Next};
use super::{Acquisition, AttemptAction, Decision, Vote};
use crate::answer::{Answer, FenceAnswer, NodeFence};
use crate::clock::ClientInstant;
use crate::outcome::Cause;
use crate::votes::NodeIndex;

impl Acquisition {
    /// Has the nodes take a fence as well. The guess is what they are asked to take together with the lock. To be called
    /// before any event.
    pub fn ask_fence(&mut self, guess: Option<u64>) {
        self.fencing = Some(Fencing::start(self.terms.nodes, guess));
    }

    /// The fence, once a majority has taken it.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.fencing.as_ref().and_then(Fencing::fence)
    }

    /// The largest fence that a majority of the nodes has told.
    #[must_use]
    pub fn known_fence(&self) -> Option<u64> {
        let fencing = self.fencing.as_ref()?;
        fencing.known(self.terms.quorum())
    }

    pub(super) fn note_fence(&mut self, node: NodeIndex, answer: &Answer, told: Option<NodeFence>) {
        let Some(fencing) = &mut self.fencing else {
            return;
        };
        if let Some(told) = told {
            fencing.note(node, told.fence);
        }
        if let Answer::Granted(by) = answer {
            let took = told.filter(|told| told.is_guess).map(|told| told.fence);
            fencing.granted(node, by.clone(), took);
        }
    }

    pub(super) fn take_fence_answer(&mut self, node: NodeIndex, fence: u64, answer: FenceAnswer) {
        // It was asked when it had granted the lock, and its vote may have been taken back since.
        let Some(fencing) = self
            .fencing
            .as_mut()
            .filter(|_| self.ballot.of(node).is_some())
        else {
            return;
        };
        fencing.answered(node, fence, &answer);
        let cause = match answer {
            FenceAnswer::Not(cause) => cause,
            FenceAnswer::WithoutLock => Cause::NotOurs,
            FenceAnswer::Taken(_) | FenceAnswer::Refused(_) | FenceAnswer::TooHigh => return,
        };
        // Who reads why the attempt has failed is to find this, and not that the node had granted the lock before.
        if let Some(vote) = self.votes.get_mut(node) {
            *vote = Vote::Told(Answer::Not(cause));
        }
    }

    /// What the attempt has come to; where only its fence is missing, that is asked for first.
    pub(super) fn judge_with_fence(
        &mut self,
        now: ClientInstant,
        actions: &mut Vec<AttemptAction>,
    ) -> Option<Decision> {
        let quorum = self.terms.quorum();
        if self.ballot.distinct() < quorum {
            return self.judge(now);
        }
        self.voted.get_or_insert(now);
        let contended = &self.contended;
        let next = self.fencing.as_mut().map_or(Next::Done, |fencing| {
            fencing.go_on(
                quorum,
                |node| now.after(contended[node]),
                |node, fence| actions.push(AttemptAction::Fence { node, fence }),
            )
        });
        let decision = self.judge(now);
        let is_late = decision == Some(Decision::TimedOut);
        match next {
            Next::Done => decision,
            Next::Wait => decision.filter(|_| is_late),
            Next::Fail if is_late => decision,
            // Those that have not voted yet may take it.
            Next::Fail
                if self
                    .votes
                    .iter()
                    .any(|vote| matches!(vote, Vote::Awaited(_))) =>
            {
                None
            }
            Next::Fail => {
                self.note_fences_without_next();
                Some(Decision::NoQuorum)
            }
        }
    }

    /// Where no number is left that enough nodes would take, that is the reason, and not that they have granted the lock.
    fn note_fences_without_next(&mut self) {
        let quorum = self.terms.quorum();
        let fencing = self.fencing.as_ref();
        let Some(fencing) = fencing.filter(|fencing| fencing.has_no_next(quorum)) else {
            return;
        };
        for (node, vote) in self.votes.iter_mut().enumerate() {
            if matches!(vote, Vote::Told(Answer::Granted(_)))
                && let Some(fence) = fencing.told_by(node)
            {
                *vote = Vote::Told(Answer::Not(Cause::NoNextFence { fence }));
            }
        }
    }
}
