//! Attempts to acquire a lock, until one succeeds, the wait is over, or the caller is gone.
//!
//! Invariants: every failed attempt has queued its release on all nodes before anything else is
//! done, behind its own requests on the same connections; the next attempt has a new token. What
//! was measured chooses when to ask again, it never ends a wait.

mod asking;
mod failure;
mod in_line;
mod limit;
mod other_nodes;
mod pauses;
mod permit_choice;
mod permit_lines;
mod permit_survey;
mod retrying;
mod several_lines;
mod time_left;
mod word_of_changes;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use self::asking::Asking;
use self::failure::Failure;
use self::in_line::InLine;
use self::limit::Limit;
use self::pauses::Pauses;
use self::permit_choice::PermitChoice;
use self::permit_survey::WalkSurvey;
use self::time_left::TimeLeft;
use crate::acquisition::Decision;
use crate::call::{AcquireCall, Outcome};
use crate::clock::ClientInstant;
use crate::connecting::Connecting;
use crate::context::Context;
use crate::held::Held;
use crate::link::fraction;
use crate::link::request::Subject;
use crate::name::LockName;
use crate::step::Input;
use crate::wait::{Wait, Waiting};
use crate::waiters::Wanted;

#[derive(Debug)]
pub(super) struct Acquiring {
    /// The lock that is asked for: of a semaphore a permit.
    pub(super) call: AcquireCall,
    permits: Option<PermitChoice>,
    /// Whether somebody wants to know what the call waits for.
    tells: bool,
    limit: Limit,
    attempts: u32,
    pauses: Pauses,
    last: Option<Failure>,
    /// Of the calls of this client that want the lock it is the one that asks.
    has_turn: bool,
    in_line: InLine,
    /// This client has released the lock after the attempt under way had begun: a refusal may be of before.
    was_released: bool,
    stage: Stage,
}

/// What becomes of a call with an event.
#[derive(Debug)]
pub(super) enum Progress {
    GoesOn,
    Ended,
    Held(Box<Held>),
}

#[derive(Debug)]
enum Stage {
    /// Other calls of this client wait for the same lock and came first.
    Queued,
    /// No majority could be asked now, and connections are being made.
    Connecting(Connecting),
    Asking(Asking),
    /// Of many permits the first is busy, and nodes are asked which of the next ones they do not have.
    Surveying(WalkSurvey),
    /// The lock is busy: how long it will be is asked for.
    AskingTimeLeft(TimeLeft),
    Pausing(ClientInstant),
    /// The lock is held, and the other nodes are waited for until then.
    Completing(Asking, ClientInstant),
}

impl Acquiring {
    pub(super) fn start(
        mut call: AcquireCall,
        tells: bool,
        ahead: usize,
        context: &mut Context<'_>,
    ) -> Self {
        let semaphore = call.permits.zip(call.name.single());
        let permits = semaphore
            .map(|(permits, name)| PermitChoice::start(name.clone(), permits, context.random));
        if let Some(permits) = &permits {
            call.name = permits.name().into();
        }
        let mut acquiring = Self {
            limit: Limit::new(call.wait, context.now),
            call,
            permits,
            tells,
            attempts: 0,
            pauses: Pauses::default(),
            last: None,
            has_turn: false,
            in_line: InLine::default(),
            was_released: false,
            stage: Stage::Queued,
        };
        if ahead == 0 {
            acquiring.has_turn = true;
            acquiring.begin(context);
        } else if tells {
            context.tell_waiting(Waiting::Queued { ahead });
        }
        acquiring
    }

    pub(super) fn next_time(&self) -> Option<ClientInstant> {
        match &self.stage {
            Stage::Queued => self.limit.ends_at(),
            Stage::Connecting(connecting) => Some(connecting.deadline),
            Stage::Asking(asking) => Some(asking.timer),
            Stage::Surveying(survey) => Some(survey.deadline()),
            Stage::AskingTimeLeft(asked) => Some(asked.round.deadline),
            Stage::Pausing(until) | Stage::Completing(_, until) => Some(*until),
        }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Progress {
        if let Stage::Surveying(survey) = &mut self.stage
            && survey.is_over_with(&input, context.now)
        {
            return self.walk_surveyed(context);
        }
        if self.answered_in_line(&input, context).is_some() {
            return Progress::GoesOn;
        }
        match &mut self.stage {
            // Its wait is over: it asks once for itself, so that what it is told is true.
            Stage::Queued => {
                let mut ends_at = self.limit.ends_at().into_iter();
                if ends_at.any(|at| context.now.has_reached(at)) {
                    self.ask(context);
                }
                Progress::GoesOn
            }
            Stage::Connecting(connecting) => {
                if connecting.handle(input, context.now) {
                    self.ask_nodes(context);
                }
                Progress::GoesOn
            }
            Stage::Asking(asking) => {
                let decision = asking.handle(input, context);
                self.decided(decision, context)
            }
            Stage::Surveying(_) => Progress::GoesOn,
            Stage::AskingTimeLeft(asked) => {
                if !asked.handle(input, context.now) {
                    return Progress::GoesOn;
                }
                self.note_time_left(context);
                self.pause(context)
            }
            Stage::Pausing(until) => match context.now.has_reached(*until) {
                true => self.pause_over(context),
                false => Progress::GoesOn,
            },
            Stage::Completing(asking, until) => {
                let until = *until;
                let _decided = asking.handle(input, context);
                let is_complete = asking.attempt.is_complete();
                if is_complete || context.now.has_reached(until) {
                    return self.hold(context);
                }
                Progress::GoesOn
            }
        }
    }

    fn pause_over(&mut self, context: &mut Context<'_>) -> Progress {
        // Who was told nothing yet asks once for itself, so that what it is told is true.
        if self.limit.left(context.now).is_zero() && self.last.is_some() {
            return self.give_up(context);
        }
        if let Some(progress) = self.surveys_in_pause(context) {
            return progress;
        }
        let is_called = self.is_called_for_permit();
        self.choose_permit(context.now);
        if is_called {
            // Its failures count, and all nodes are asked, as in a turn that is taken at once.
            context.refusals.forget(&self.call.name);
            self.in_line.is_called = self.in_line.may_be_called(context.now);
        }
        if is_called || !self.checks_line(context) {
            self.ask(context);
        }
        Progress::GoesOn
    }

    /// It is this call's turn, or the lock has just been released by this client: it asks after a
    /// pause so short that only those who wait elsewhere may come before it.
    pub(super) fn take_turn(&mut self, context: &mut Context<'_>) {
        match self.stage {
            Stage::Queued => {
                self.has_turn = true;
                if self.free_permit(context.now).is_some() {
                    self.choose_permit(context.now);
                }
                self.begin(context);
            }
            Stage::Pausing(_) | Stage::AskingTimeLeft(_) if self.in_line.stands() => {
                self.released_in_line(context);
            }
            Stage::Pausing(until) => {
                self.stage = Stage::Pausing(until.earlier(self.soon(context)));
            }
            Stage::AskingTimeLeft(_) => self.stage = Stage::Pausing(self.soon(context)),
            Stage::Asking(_) | Stage::Surveying(_) => self.was_released = true,
            Stage::Connecting(_) | Stage::Completing(..) => {}
        }
    }

    /// It is this call's turn, and the lock was acquired by another one of this client just now: it stands in line at once.
    /// A call that tells what it waits for asks first, and tells of that.
    pub(super) fn take_turn_behind_own(&mut self, context: &mut Context<'_>) {
        let is_one = self.permits.is_none() && self.call.name.single().is_some();
        if self.tells || !is_one || !matches!(self.stage, Stage::Queued) {
            return self.take_turn(context);
        }
        self.has_turn = true;
        self.pause_before_first(context.now, context);
    }

    /// Stands in line before anything was asked, and asks at this time if no node has a line.
    fn pause_before_first(&mut self, until: ClientInstant, context: &mut Context<'_>) {
        self.stage = Stage::Pausing(until);
        self.line_up(0, context);
    }

    /// This client has released a permit of the semaphore that the call waits for.
    pub(super) fn permit_released(&mut self, index: u32) {
        if let Some(permits) = &mut self.permits {
            permits.released(index);
        }
    }

    /// Whether it is the one of this client that asks for the lock.
    pub(super) fn has_turn(&self) -> bool {
        self.has_turn
    }

    /// Whether no node has been asked for anything that a later release would not undo.
    pub(super) fn has_taken_nothing(&self) -> bool {
        !matches!(self.stage, Stage::Asking(_) | Stage::Completing(..))
    }

    /// What the call waits for.
    pub(super) fn wanted(&self) -> Wanted {
        match &self.permits {
            Some(permits) => Wanted::PermitOf(permits.semaphore().clone()),
            None => Wanted::Lock(self.call.name.clone()),
        }
    }

    fn free_permit(&self, now: ClientInstant) -> Option<Bytes> {
        self.permits.as_ref()?.free_name(now)
    }

    /// The next attempt is for this permit, if it is for one.
    fn choose_permit(&mut self, now: ClientInstant) {
        if let Some(permits) = &mut self.permits {
            permits.choose(now);
            self.call.name = permits.name().into();
            self.in_line.others = permits.others(permits.index());
            self.in_line.lacks_lines |= permits.for_each_line() > 1;
        }
    }

    /// When to ask for a lock that this client has just released.
    fn soon(&self, context: &mut Context<'_>) -> ClientInstant {
        let pause = context.round_trip().mul_f64(fraction(context.random));
        // Where nodes answer sooner than a timer tells, a pause is nothing but late.
        let is_near = context
            .mean_round_trip()
            .is_some_and(|mean| mean < TIMER_STEP);
        let pause = if is_near { Duration::ZERO } else { pause };
        let now = context.now;
        let name = self.free_permit(now).map(LockName::from);
        let name = name.as_ref().unwrap_or(&self.call.name);
        let stands_back = context.refusals.stands_back_until(name, now);
        let soon = stands_back.unwrap_or(now.after(pause));
        self.limit.ends_at().map_or(soon, |end| end.earlier(soon))
    }

    /// So many came first now, if the call still waits for its turn. For calls that tell what they wait for.
    pub(super) fn moved_up(&self, ahead: usize, context: &mut Context<'_>) {
        if matches!(self.stage, Stage::Queued) {
            context.tell_waiting(Waiting::Queued { ahead });
        }
    }

    /// The caller is gone. Gives what is to be released on all nodes, if anything was asked for.
    pub(super) fn cancel(&mut self, now: ClientInstant) -> Option<Rc<Subject>> {
        match &mut self.stage {
            Stage::Asking(asking) => asking.cancel(now),
            Stage::Completing(asking, _) => Some(asking.subject()),
            Stage::Queued
            | Stage::Connecting(_)
            | Stage::Surveying(_)
            | Stage::AskingTimeLeft(_)
            | Stage::Pausing(_) => None,
        }
    }

    /// The first attempt: at once, or when others who want the lock have had time to take it, or behind those who stand in line.
    fn begin(&mut self, context: &mut Context<'_>) {
        let (name, now) = (&self.call.name, context.now);
        match context.refusals.stands_back_until(name, now) {
            Some(until) if context.now.until(until) < self.limit.left(context.now) => {
                self.pause_before_first(until, context);
            }
            _ if self.looks_for_others(context) => {
                self.pause_before_first(now.after(context.round_trip()), context);
            }
            _ => self.ask(context),
        }
    }

    /// The next attempt, once connections stand that can carry it: the lease counts from its first request.
    fn ask(&mut self, context: &mut Context<'_>) {
        let patience_max = self.patience_max(context.now);
        match Connecting::start(patience_max, self.last.is_none(), context) {
            Some(connecting) => self.stage = Stage::Connecting(connecting),
            None => self.ask_nodes(context),
        }
    }

    /// The first round has all the time its nodes may need; later ones end with the wait.
    fn patience_max(&self, now: ClientInstant) -> Duration {
        match (&self.last, self.call.wait) {
            // Each permit of a semaphore is asked for like a lock.
            (None, _) | (Some(_), Wait::None) => Duration::MAX,
            (Some(_), _) => self.limit.left(now).max(ROUND_LEAST),
        }
    }

    fn ask_nodes(&mut self, context: &mut Context<'_>) {
        let patience_max = self.patience_max(context.now);
        if self.attempts > 0 {
            context.counting.retry();
        }
        self.attempts += 1;
        self.was_released = false;
        self.in_line.begin_attempt();
        let token = self.token_in_line(context);
        let token = token.unwrap_or_else(|| self.call.next_token(context.random));
        let asking = Asking::start(&self.call, token, self.attempts, patience_max, context);
        self.stage = Stage::Asking(asking);
    }

    fn decided(&mut self, decision: Option<Decision>, context: &mut Context<'_>) -> Progress {
        match decision {
            None => Progress::GoesOn,
            Some(Decision::Acquired { .. }) => {
                context.refusals.forget(&self.call.name);
                self.note_fence(context);
                match self.call.is_told_at_majority() {
                    true => self.hold(context),
                    false => self.complete(context),
                }
            }
            Some(Decision::Cancelled) => Progress::Ended,
            Some(decision) => self.failed(decision, context),
        }
    }

    /// The next caller of the name can ask for its fence together with the lock.
    fn note_fence(&self, context: &mut Context<'_>) {
        let Some(name) = self.call.name.single() else {
            return;
        };
        match &self.stage {
            Stage::Asking(asking) if self.call.is_fenced => match asking.attempt.known_fence() {
                Some(fence) => context.fences.note(name, fence),
                // The guess may be why nodes have refused.
                None => context.fences.forget(name),
            },
            _ => {}
        }
    }

    /// The lock is held, and nobody renews it: it goes on to the nodes that have not told yet, for
    /// a small part of the lease.
    fn complete(&mut self, context: &mut Context<'_>) -> Progress {
        let stage = std::mem::replace(&mut self.stage, Stage::Pausing(context.now));
        let Stage::Asking(asking) = stage else {
            return Progress::GoesOn;
        };
        let patience = context.patience(self.call.ttl);
        let until = context.now.after(patience.min(self.call.ttl / 10));
        let is_complete = asking.attempt.is_complete();
        self.stage = Stage::Completing(asking, until);
        if is_complete {
            return self.hold(context);
        }
        Progress::GoesOn
    }

    fn hold(&mut self, context: &mut Context<'_>) -> Progress {
        let stage = std::mem::replace(&mut self.stage, Stage::Pausing(context.now));
        let (Stage::Asking(asking) | Stage::Completing(asking, _)) = stage else {
            return Progress::GoesOn;
        };
        let token = asking.subject().token.clone();
        let fence = asking.attempt.fence();
        let Some(held) = asking.into_held(&self.call, context.now) else {
            return Progress::GoesOn;
        };
        let valid_until = held.valid_until();
        context.tell(Outcome::Acquired {
            token,
            valid_until,
            fence,
            permit: self.permits.as_ref().map(PermitChoice::index),
        });
        Progress::Held(Box::new(held))
    }
}

/// A round is given this long even when the wait is nearly over.
const ROUND_LEAST: Duration = Duration::from_millis(20);
/// What the timers of runtimes can tell apart.
const TIMER_STEP: Duration = Duration::from_millis(1);
