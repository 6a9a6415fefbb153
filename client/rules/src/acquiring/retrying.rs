//! What follows an attempt that failed: a question how long it will be, a pause, or the end of the wait.
//!
//! Invariant: a call that ends without its lock is told why, by its last attempt that had all the time it needed.

use std::time::Duration;

use super::failure::Failure;
use super::pauses::Situation;
use super::permit_choice::PermitChoice;
use super::time_left::TimeLeft;
use super::{Acquiring, Progress, Stage};
use crate::acquisition::{Acquisition, Decision};
use crate::call::Outcome;
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::link::fraction;
use crate::name::shown;
use crate::outcome::AcquireError;
use crate::wait::Wait;

impl Acquiring {
    pub(super) fn failed(&mut self, decision: Decision, context: &mut Context<'_>) -> Progress {
        self.note_fence(context);
        let stage = std::mem::replace(&mut self.stage, Stage::Pausing(context.now));
        let Stage::Asking(asking) = stage else {
            return Progress::GoesOn;
        };
        let is_busy = matches!(decision, Decision::Busy { .. });
        self.note_refusal(&asking.attempt, &decision, context);
        let last = self.last.take();
        let repeats = self.repeats(&asking.attempt, &decision, last.as_ref());
        // A round that was cut short knows less than the one before it.
        let failure = match last {
            Some(before) if asking.is_cut && !is_busy => before,
            before => Failure {
                attempt: asking.attempt,
                decision,
                permit: self.permits.as_ref().map(PermitChoice::index),
                free_at: before.and_then(|before| before.free_at),
            },
        };
        self.last = Some(failure);
        let wait_left = self.limit.left(context.now);
        if is_busy && let Some(progress) = self.ask_next_permit(context) {
            return progress;
        }
        if repeats && !wait_left.is_zero() {
            // Its token has left the line by taking the node's lock: the next one comes before whoever is called because of that.
            self.called_again(context);
            return Progress::GoesOn;
        }
        self.wait_behind_refusal(is_busy, context)
    }

    /// Of a semaphore: asks for the next permit, or which of the next ones may be free. None where there is no next one.
    pub(super) fn ask_next_permit(&mut self, context: &mut Context<'_>) -> Option<Progress> {
        let wait_left = self.limit.left(context.now);
        let is_turn = self.has_untried_permit(wait_left, context.now)?;
        if is_turn || !self.survey_walk(context) {
            self.choose_permit(context.now);
            match is_turn {
                true => self.called_again(context),
                false => self.ask(context),
            }
        }
        Some(Progress::GoesOn)
    }

    /// Nothing is asked for now: the call stands in line, asks how long it will be, or pauses.
    pub(super) fn wait_behind_refusal(
        &mut self,
        is_busy: bool,
        context: &mut Context<'_>,
    ) -> Progress {
        let wait_left = self.limit.left(context.now);
        if is_busy && !wait_left.is_zero() {
            self.line_up(0, context);
        } else if !is_busy && self.untried(context).is_none() {
            // With a token that was tried it stands there for nothing, and keeps other calls of this client from the line.
            self.leave_own_line(context);
        }
        // Of several names it is not known which one another has.
        let has_one_name = self.call.name.single().is_some();
        let refused = self.last.as_ref().filter(|_| is_busy && has_one_name);
        if let Some(refused) = refused
            && !wait_left.is_zero()
            && !self.was_released
        {
            let (call, attempt) = (&self.call, self.attempts);
            let asked = TimeLeft::ask(call, refused, attempt, wait_left, context);
            self.stage = Stage::AskingTimeLeft(asked);
            return Progress::GoesOn;
        }
        self.pause(context)
    }

    /// Takes in who has the lock now. Says whether the attempt is repeated at once.
    fn repeats(
        &mut self,
        attempt: &Acquisition,
        decision: &Decision,
        last: Option<&Failure>,
    ) -> bool {
        let has_changed_hands = match (&mut self.permits, decision) {
            (Some(permits), Decision::Busy { holder }) if !attempt.is_split() => {
                permits.refused(holder.as_ref())
            }
            (Some(_), _) => false,
            (None, _) => last.is_some_and(|last| last.has_changed_hands(attempt, decision)),
        };
        if has_changed_hands {
            self.pauses.begin_anew();
        }
        if !matches!(decision, Decision::Busy { .. }) {
            return self.in_line.not_refused();
        }
        let permit = self.permits.as_ref().map(PermitChoice::index);
        let before = last.filter(|last| last.permit == permit);
        let before = before.map(|last| &last.attempt);
        let repeats = (self.in_line).refused(attempt, before, has_changed_hands);
        if let Some(permits) = &mut self.permits {
            permits.note_others(self.in_line.others);
        }
        repeats
    }

    /// Whether another permit of the semaphore is asked for at once, and then whether because it is its turn: each once, and
    /// then those whose line has called, as long as turns do not come to nothing.
    fn has_untried_permit(&mut self, wait_left: Duration, now: ClientInstant) -> Option<bool> {
        let goes_on = self.call.wait == Wait::None || !wait_left.is_zero();
        let permits = self.permits.as_ref().filter(|_| goes_on)?;
        let (is_untried, is_called) = (permits.has_untried(), permits.is_called_for());
        let is_turn = is_called && self.in_line.may_be_called(now);
        (is_untried || is_turn).then_some(is_turn)
    }

    /// Remembers which nodes the next attempt, of whichever call, has to ask first.
    fn note_refusal(&self, attempt: &Acquisition, decision: &Decision, context: &mut Context<'_>) {
        let (name, now) = (&self.call.name, context.now);
        let holder = match decision {
            Decision::Busy { holder } => holder.clone(),
            _ => None,
        };
        match attempt.blocking() {
            Some(first) => {
                let until = now.after(self.call.ttl);
                // After a draw nobody holds the lock who would need its free nodes: all are asked at once.
                let first = (!attempt.is_draw()).then_some(first);
                context.refusals.note(name, first, holder, until, now);
            }
            None => context.refusals.forget(name),
        }
    }

    /// Time until enough nodes are free again, as far as the nodes that refused have told.
    pub(super) fn note_time_left(&mut self, context: &Context<'_>) {
        if let (Stage::AskingTimeLeft(asked), Some(last)) = (&self.stage, &mut self.last) {
            let ours = last.attempt.ballot().distinct();
            let missing = context.quorum().saturating_sub(ours);
            // What was told before still counts where nobody has told in the time that was left.
            let told = asked.free_at(missing, context.now);
            last.free_at = match &mut self.permits {
                Some(permits) => {
                    permits.told(told);
                    permits.first_free_at(context.now)
                }
                None => told.or(last.free_at),
            };
        }
    }

    pub(super) fn pause(&mut self, context: &mut Context<'_>) -> Progress {
        let left = self.limit.left(context.now);
        if left.is_zero() {
            return self.give_up(context);
        }
        // How long it was held then says nothing any more.
        if std::mem::take(&mut self.was_released) {
            self.stage = Stage::Pausing(self.soon(context));
            return Progress::GoesOn;
        }
        let last = self.last.as_ref();
        let known = Situation {
            round_trip: context.round_trip(),
            is_split: last.is_some_and(|last| last.attempt.is_split()),
            // Among several permits there is always one whose time is nearly over.
            time_left: last
                .filter(|_| self.permits.is_none())
                .and_then(|last| last.time_left(context.now)),
            wait_left: left,
        };
        let random = fraction(context.random);
        let delay = context.settings.retry_delay;
        let pause = self.pauses.next(delay, random, known);
        let until = match self.in_line.stands() && !self.is_called_for_permit() {
            true => self.line_pause_end(context),
            false => context.now.after(pause),
        };
        self.stage = Stage::Pausing(until);
        self.tell(context);
        Progress::GoesOn
    }

    /// Tells what the call waits for, if somebody wants to know.
    pub(super) fn tell(&self, context: &mut Context<'_>) {
        if self.tells
            && let Some(waiting) = self.last.as_ref().and_then(|last| last.waiting(context))
        {
            context.tell_waiting(waiting);
        }
    }

    pub(super) fn give_up(&mut self, context: &mut Context<'_>) -> Progress {
        let error = self.error(context);
        context.tell(Outcome::NotAcquired(error));
        Progress::Ended
    }

    fn error(&self, context: &Context<'_>) -> AcquireError {
        let permits = self.permits.as_ref();
        let name = match permits {
            Some(permits) => shown(permits.semaphore()),
            None => self.call.name.shown(),
        };
        match &self.last {
            None => AcquireError::Cancelled { name },
            Some(last) => last.error(name, self.limit.waited(context.now), context),
        }
    }
}
