//! Attempts to acquire a lock, until one succeeds, the wait is over, or the caller is gone.
//!
//! Invariants: every failed attempt has queued its release on all nodes before anything else is
//! done, behind its own requests on the same connections; the next attempt has a new token. What
//! was measured chooses when to ask again, it never ends a wait.

mod failure;

use std::rc::Rc;
use std::time::Duration;

use self::failure::{Failure, is_draw, is_split};
use super::acquisition::{
    Acquisition, AttemptAction, AttemptEvent, Decision, Patience, Terms, Vote,
};
use super::call::{AcquireCall, Outcome};
use super::context::Context;
use super::held::Held;
use super::link::fraction;
use super::link::request::{Kind, Subject};
use super::round::{ATTEMPT_BIT, Round};
use super::step::Input;
use crate::answer::{Answer, Content};
use crate::clock::ClientInstant;
use crate::name::shown;
use crate::outcome::AcquireError;
use crate::token::Token;
use crate::wait::{Wait, Waiting};

#[derive(Debug)]
pub(super) struct Acquiring {
    pub(super) call: AcquireCall,
    began: ClientInstant,
    attempts: u32,
    /// Attempts since the lock was seen to change hands.
    patience: u32,
    last: Option<Failure>,
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
    Asking(Asking),
    /// The lock is busy: how long it will be is asked for.
    AskingTimeLeft(Round<Option<Duration>>),
    Pausing(ClientInstant),
    /// The lock is held, and the other nodes are waited for until then.
    Completing(Asking, ClientInstant),
}

#[derive(Debug)]
struct Asking {
    attempt: Acquisition,
    round: u32,
    subject: Rc<Subject>,
    timer: ClientInstant,
    /// Whether the wait's end left it less time than its nodes may need.
    is_cut: bool,
}

impl Acquiring {
    pub(super) fn start(call: AcquireCall, ahead: usize, context: &mut Context<'_>) -> Self {
        let mut acquiring = Self {
            call,
            began: context.now,
            attempts: 0,
            patience: 0,
            last: None,
            stage: Stage::Queued,
        };
        if ahead == 0 {
            acquiring.begin(context);
        } else {
            context.tell_waiting(Waiting::Queued { ahead });
        }
        acquiring
    }

    pub(super) fn next_time(&self) -> Option<ClientInstant> {
        match &self.stage {
            Stage::Queued => self.ends_at(),
            Stage::Asking(asking) => Some(asking.timer),
            Stage::AskingTimeLeft(round) => Some(round.deadline),
            Stage::Pausing(until) | Stage::Completing(_, until) => Some(*until),
        }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Progress {
        match &mut self.stage {
            // Its wait is over: it asks once for itself, so that what it is told is true.
            Stage::Queued => {
                if self.ends_at().is_some_and(|at| context.now.has_reached(at)) {
                    self.ask(context);
                }
                Progress::GoesOn
            }
            Stage::Asking(asking) => {
                let Some(event) = event(input, self.attempts) else {
                    return Progress::GoesOn;
                };
                let decision = asking.handle(event, context);
                self.decided(decision, context)
            }
            Stage::AskingTimeLeft(round) => {
                if let Input::Reply(reply) = input
                    && let Content::TimeLeft(left) = reply.content
                    && reply.round == self.attempts
                {
                    round.answered(reply.node, left);
                }
                if !round.is_over(context.now) {
                    return Progress::GoesOn;
                }
                self.note_time_left(context);
                self.pause(context)
            }
            Stage::Pausing(until) => {
                if context.now.has_reached(*until) {
                    if self.left(context.now).is_zero() {
                        return self.give_up(context);
                    }
                    self.ask(context);
                }
                Progress::GoesOn
            }
            Stage::Completing(asking, until) => {
                let until = *until;
                if let Some(event) = event(input, self.attempts) {
                    let _decided = asking.handle(event, context);
                }
                let is_complete = asking.attempt.is_complete();
                if is_complete || context.now.has_reached(until) {
                    return self.hold(context);
                }
                Progress::GoesOn
            }
        }
    }

    /// It is this call's turn, or the lock has just been released by this client: it asks after a
    /// pause so short that only those who wait elsewhere may come before it.
    pub(super) fn take_turn(&mut self, context: &mut Context<'_>) {
        match self.stage {
            Stage::Queued => self.begin(context),
            Stage::Pausing(until) => {
                let pause = context.round_trip().mul_f64(fraction(context.random));
                let (name, now) = (&self.call.name, context.now);
                let stands_back = context.refusals.stands_back_until(name, now);
                let soon = stands_back.unwrap_or(context.now.after(pause));
                self.stage = Stage::Pausing(until.earlier(soon));
            }
            Stage::Asking(_) | Stage::AskingTimeLeft(_) | Stage::Completing(..) => {}
        }
    }

    /// The caller is gone. Gives what is to be released on all nodes, if anything was asked for.
    pub(super) fn cancel(&mut self, now: ClientInstant) -> Option<Rc<Subject>> {
        match &mut self.stage {
            Stage::Asking(asking) => {
                let mut actions = Vec::new();
                let attempt = &mut asking.attempt;
                attempt.handle(now, AttemptEvent::Cancel, &mut actions);
                let releases = actions.contains(&AttemptAction::ReleaseEverywhere);
                releases.then(|| Rc::clone(&asking.subject))
            }
            Stage::Completing(asking, _) => Some(Rc::clone(&asking.subject)),
            Stage::Queued | Stage::AskingTimeLeft(_) | Stage::Pausing(_) => None,
        }
    }

    /// The first attempt: at once, or when others who want the lock have had time to take it.
    fn begin(&mut self, context: &mut Context<'_>) {
        let (name, now) = (&self.call.name, context.now);
        match context.refusals.stands_back_until(name, now) {
            Some(until) if context.now.until(until) < self.left(context.now) => {
                self.stage = Stage::Pausing(until);
            }
            _ => self.ask(context),
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        // The first round has all the time its nodes may need; later ones end with the wait.
        let patience_max = match self.last {
            Some(_) => self.left(context.now).max(ROUND_LEAST),
            None => Duration::MAX,
        };
        let ttl = self.call.ttl;
        let is_cut = patience_max < context.patience(ttl);
        let token = Token::drawn_from(context.random);
        let subject = Subject::new(self.call.name.clone(), token, ttl);
        if self.attempts > 0 {
            context.counting.retry();
        }
        self.attempts += 1;
        let terms = Terms {
            nodes: context.nodes(),
            ttl,
            drift: context.settings.drift,
            min_validity: self.call.min_validity,
        };
        let mut actions = Vec::with_capacity(terms.nodes + 1);
        let links = &context.links;
        let patience = |node: usize| {
            let most = links[node].patience(ttl).min(patience_max);
            let contended = links[node]
                .contended_patience()
                .map_or(most, |usual| usual.min(most));
            Patience { most, contended }
        };
        // The time was read before the first byte is sent: the nodes' leases begin later.
        let first = context.refusals.first(&self.call.name, context.now);
        let is_first = |node| first.is_none_or(|first| first.contains(node));
        let now = context.now;
        let attempt = Acquisition::start_with(terms, now, is_first, patience, &mut actions);
        let mut asking = Asking {
            timer: attempt.started(),
            attempt,
            round: round_of(self.attempts),
            subject,
            is_cut,
        };
        asking.act(actions, context);
        self.stage = Stage::Asking(asking);
    }

    fn decided(&mut self, decision: Option<Decision>, context: &mut Context<'_>) -> Progress {
        match decision {
            None => Progress::GoesOn,
            Some(Decision::Acquired { .. }) => {
                context.refusals.forget(&self.call.name);
                match self.call.renews {
                    true => self.hold(context),
                    false => self.complete(context),
                }
            }
            Some(Decision::Cancelled) => Progress::Ended,
            Some(decision) => self.failed(decision, context),
        }
    }

    fn failed(&mut self, decision: Decision, context: &mut Context<'_>) -> Progress {
        let stage = std::mem::replace(&mut self.stage, Stage::Queued);
        let Stage::Asking(asking) = stage else {
            return Progress::GoesOn;
        };
        let is_busy = matches!(decision, Decision::Busy { .. });
        let until = context.now.after(self.call.ttl);
        let holder = match &decision {
            Decision::Busy { holder } => holder.clone(),
            _ => None,
        };
        match asking.attempt.blocking() {
            Some(first) => {
                let (name, now) = (&self.call.name, context.now);
                // After a draw nobody holds the lock who would need its free nodes: all are asked at once.
                let is_draw = is_draw(&asking.attempt, context.nodes());
                let first = (!is_draw).then_some(first);
                context.refusals.note(name, first, holder, until, now);
            }
            None => context.refusals.forget(&self.call.name),
        }
        let last = self.last.take();
        let has_changed_hands = match (&last, &decision) {
            // Of split votes another one refuses each time.
            (Some(last), Decision::Busy { .. }) if !is_split(&asking.attempt, context.nodes()) => {
                last.decision != decision
            }
            _ => false,
        };
        if has_changed_hands {
            self.patience = 0;
        }
        // A round that was cut short knows less than the one before it.
        let failure = match last {
            Some(before) if asking.is_cut && !is_busy => before,
            before => Failure {
                attempt: asking.attempt,
                decision,
                free_at: before.and_then(|before| before.free_at),
            },
        };
        self.last = Some(failure);
        let wait_left = self.left(context.now);
        if is_busy && !wait_left.is_zero() {
            self.ask_time_left(wait_left, context);
            return Progress::GoesOn;
        }
        self.pause(context)
    }

    fn ask_time_left(&mut self, limit: Duration, context: &mut Context<'_>) {
        let patience = context.patience(self.call.ttl).min(limit);
        let deadline = context.now.after(patience);
        let mut round = Round::start(context.nodes(), deadline);
        let token = Token::from_bytes(bytes::Bytes::new());
        let subject = Subject::new(self.call.name.clone(), token, self.call.ttl);
        let votes = self.last.as_ref().map(|last| last.attempt.votes());
        let is_busy = |vote: &Vote| matches!(vote, Vote::Told(Answer::Busy { .. }));
        for (node, vote) in votes.unwrap_or_default().iter().enumerate() {
            if is_busy(vote) {
                round.ask(node);
                context.ask(node, Kind::TimeLeft, &subject, self.attempts);
            }
        }
        self.stage = Stage::AskingTimeLeft(round);
    }

    /// Time until enough nodes are free again, as far as the nodes that refused have told.
    fn note_time_left(&mut self, context: &Context<'_>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Queued);
        let (Stage::AskingTimeLeft(round), Some(last)) = (stage, &mut self.last) else {
            return;
        };
        let told = round.into_answers().into_iter().flatten().flatten();
        let mut lefts: Vec<Duration> = told.collect();
        lefts.sort_unstable();
        let ours = last.attempt.ballot().distinct();
        let needed = context.quorum().saturating_sub(ours);
        let left = lefts.get(needed.saturating_sub(1)).or(lefts.last());
        // What was told before still counts where nobody has told in the time that was left.
        if let Some(left) = left {
            last.free_at = Some(context.now.after(*left));
        }
    }

    fn pause(&mut self, context: &mut Context<'_>) -> Progress {
        let left = self.left(context.now);
        if left.is_zero() {
            return self.give_up(context);
        }
        let mut delay = context.settings.retry_delay;
        let last = self.last.as_ref();
        if last.is_some_and(|last| last.is_split(context.nodes())) {
            delay = delay.for_round_trip(context.round_trip());
        }
        let time_left = self.time_left(context.now);
        let random = fraction(context.random);
        let pause = delay.pause(self.patience, random, time_left);
        self.patience = self.patience.saturating_add(1);
        // The last attempt begins early enough to end within the wait, as far as is known.
        let round_trip = context.round_trip();
        let last_start = left.saturating_sub(round_trip);
        let pause = if last_start.is_zero() {
            pause.min(left)
        } else {
            pause.min(last_start)
        };
        self.stage = Stage::Pausing(context.now.after(pause));
        if let Some(waiting) = self.last.as_ref().and_then(|last| last.waiting(context)) {
            context.tell_waiting(waiting);
        }
        Progress::GoesOn
    }

    fn give_up(&mut self, context: &mut Context<'_>) -> Progress {
        let error = self.error(context);
        context.tell(Outcome::NotAcquired(error));
        Progress::Ended
    }

    /// The lock is held, and nobody renews it: it goes on to the nodes that have not told yet, for
    /// a small part of the lease.
    fn complete(&mut self, context: &mut Context<'_>) -> Progress {
        let stage = std::mem::replace(&mut self.stage, Stage::Queued);
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
        let stage = std::mem::replace(&mut self.stage, Stage::Queued);
        let (Stage::Asking(asking) | Stage::Completing(asking, _)) = stage else {
            return Progress::GoesOn;
        };
        let Some(&Decision::Acquired { valid_until }) = asking.attempt.decision() else {
            return Progress::GoesOn;
        };
        let token = asking.subject.token.clone();
        let held = Held::start(
            &asking.attempt,
            context.now,
            asking.subject,
            valid_until,
            round_of(self.attempts),
            &self.call,
        );
        let valid_until = held.valid_until();
        context.tell(Outcome::Acquired { token, valid_until });
        Progress::Held(Box::new(held))
    }

    /// What is left of the wait.
    fn left(&self, now: ClientInstant) -> Duration {
        match self.call.wait {
            Wait::None => Duration::ZERO,
            Wait::For(wait) => wait.saturating_sub(now.since(self.began)),
            Wait::Forever => Duration::MAX,
        }
    }

    fn ends_at(&self) -> Option<ClientInstant> {
        match self.call.wait {
            Wait::None => Some(self.began),
            Wait::For(wait) => Some(self.began.after(wait)),
            Wait::Forever => None,
        }
    }

    /// Until the holder's lease is over. Once it is, that shortens no pause any more: where too few nodes can vote, one
    /// attempt would follow the other.
    fn time_left(&self, now: ClientInstant) -> Option<Duration> {
        let free_at = self.last.as_ref().and_then(|last| last.free_at);
        let free_at = free_at.filter(|at| !now.has_reached(*at));
        free_at.map(|at| now.until(at))
    }

    fn error(&self, context: &Context<'_>) -> AcquireError {
        let name = shown(&self.call.name);
        match &self.last {
            None => AcquireError::Cancelled { name },
            Some(last) => last.error(name, context.now.since(self.began), context),
        }
    }
}

impl Asking {
    fn handle(&mut self, event: AttemptEvent, context: &mut Context<'_>) -> Option<Decision> {
        let mut actions = Vec::new();
        self.attempt.handle(context.now, event, &mut actions);
        self.act(actions, context)
    }

    fn act(&mut self, actions: Vec<AttemptAction>, context: &mut Context<'_>) -> Option<Decision> {
        let mut decision = None;
        for action in actions {
            match action {
                AttemptAction::Send { node } => {
                    context.ask(node, Kind::Take, &self.subject, self.round);
                }
                AttemptAction::ArmTimer(at) => self.timer = at,
                AttemptAction::Decide(decided) => decision = Some(decided),
                AttemptAction::ReleaseEverywhere | AttemptAction::Release { .. } => {
                    context.release_everywhere(&self.subject);
                }
            }
        }
        decision
    }
}

/// What an event means for the attempt of this number; nothing if it belongs to another one.
fn event(input: Input, attempt: u32) -> Option<AttemptEvent> {
    match input {
        Input::Timer => Some(AttemptEvent::Timer),
        Input::Reply(reply) if reply.round == round_of(attempt) => match reply.content {
            Content::Taken(answer) => {
                let node = reply.node;
                Some(AttemptEvent::Answered { node, answer })
            }
            _ => None,
        },
        Input::Reply(_) => None,
    }
}

/// The round of an attempt's requests, apart from those of renewals, which count from one.
fn round_of(attempt: u32) -> u32 {
    attempt | ATTEMPT_BIT
}

/// A round is given this long even when the wait is nearly over.
const ROUND_LEAST: Duration = Duration::from_millis(20);
