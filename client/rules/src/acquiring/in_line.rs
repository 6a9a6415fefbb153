//! Standing in line for a busy lock, at the first node in the order of the list that can be reached and has lines: all
//! clients that have the same list stand in the same line. Where no node has lines, the first that tells of changes of the
//! lock takes their place: it says when to look whether the lock is free.
//!
//! Invariants: votes decide. A message of the line only ends a pause, and what the line is not told is found by asking
//! again. The token in the line is that of the next attempt.
//!
//! When the connection to the node ends, the call stands in line at the next node that can be reached, with the same token.
//! When an earlier node comes back, those who begin to wait and those whose attempt has failed stand in line there. Who waits
//! at a later node all that time has its turn there, and asks again in any case when its pause is over.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use super::permit_choice::PermitChoice;
use super::permit_survey::WALK_SURVEY_BIT;
use super::{Acquiring, Stage};
use crate::acquisition::{Acquisition, Vote};
use crate::answer::{Answer, Content};
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::lines::Way;
use crate::link::request::{Kind, Subject};
use crate::link::{Link, fraction};
use crate::outcome::Cause;
use crate::permits::permit_of;
use crate::step::Input;
use crate::token::Token;
use crate::votes::{NodeIndex, NodeSet};
use crate::wait::{Wait, Waiting};

/// What a call knows of its line.
#[derive(Debug, Default)]
pub(super) struct InLine {
    /// Nodes that were free although the lock is held, or taken by another one than its holder: their line says nothing.
    pub(super) others: NodeSet,
    /// How many came first when the line was joined, once the node has answered.
    pub(super) ahead: Option<u64>,
    /// The least that was known of that: those who come later count as well when the node is asked again.
    pub(super) ahead_at_most: Option<u64>,
    /// Other nodes that have said since then that the lock is free there and this call the first one.
    pub(super) free: NodeSet,
    /// When the line was joined.
    since: Option<ClientInstant>,
    /// When the nodes are asked although the line says nothing.
    asks_at: Option<ClientInstant>,
    /// How often it was asked for whether the line is still there.
    pub(super) checks: usize,
    /// How often the node of the line has asked whether the call still stands there.
    pub(super) confirmations: usize,
    /// The attempt under way was begun because it was this call's turn.
    pub(super) is_called: bool,
    /// Who had the lock at a node that tells of changes.
    pub(super) seen: Option<Token>,
    /// The call waits for a node's word of changes. That may come before other nodes have changed.
    waits_for_word: bool,
    /// Attempts that were begun so in a row and failed.
    pub(super) failures: u32,
    /// Of several names that are taken together, which one's line is meant, and how many others are to be looked at before
    /// all of them are free.
    pub(super) part: usize,
    pub(super) parts_left: usize,
    /// Of permits: the call may not stand in the line of each yet.
    pub(super) lacks_lines: bool,
}

impl InLine {
    /// Takes in an attempt that was refused. Says whether it is repeated at once: it was this call's turn, and the lock is
    /// held by the same one still, whose release may be on its way to the other nodes.
    pub(super) fn refused(
        &mut self,
        attempt: &Acquisition,
        before: Option<&Acquisition>,
        has_changed_hands: bool,
    ) -> bool {
        let is_called = std::mem::take(&mut self.is_called);
        let is_too_early = is_called && self.waits_for_word;
        // An attempt for another permit says nothing of what has changed.
        let is_known = before.is_some() || !has_changed_hands;
        if !attempt.is_split() && !is_too_early && is_known {
            self.note_others(attempt, before.filter(|_| has_changed_hands));
        }
        if has_changed_hands {
            self.failures = 0;
        }
        if !is_called {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        !has_changed_hands && !attempt.is_split() && self.failures < FAILURES_MAX
    }

    /// Notes which nodes have not the holder of the majority. Where the lock has changed hands since the attempt before, an
    /// answer may be of a moment between two holders, the more so the farther the nodes are apart: then those count that have
    /// answered the same twice.
    fn note_others(&mut self, attempt: &Acquisition, before: Option<&Acquisition>) {
        let holder = attempt.holder();
        for (node, vote) in attempt.votes().iter().enumerate() {
            let is_other = match vote {
                Vote::Told(Answer::Busy { holder: by, .. }) => by.is_some() && *by != holder,
                Vote::Told(Answer::Granted(_)) => true,
                _ => continue,
            };
            let stays = |before: &Acquisition| match (vote, before.votes().get(node)) {
                (
                    Vote::Told(Answer::Busy { holder, .. }),
                    Some(Vote::Told(Answer::Busy { holder: before, .. })),
                ) => holder == before,
                (Vote::Told(Answer::Granted(_)), Some(Vote::Told(Answer::Granted(_)))) => true,
                _ => false,
            };
            match is_other && before.is_none_or(stays) {
                true => self.others.insert(node),
                false => self.others.remove(node),
            };
        }
    }

    /// An attempt begins: its token leaves the line, or stands there for it.
    pub(super) fn begin_attempt(&mut self) {
        self.ahead = None;
    }

    /// An attempt has failed for another reason than that the lock is held: it is not repeated at once.
    pub(super) fn not_refused(&mut self) -> bool {
        self.is_called = false;
        false
    }

    pub(super) fn leave(&mut self) {
        self.ahead = None;
    }

    pub(super) fn stands(&self) -> bool {
        self.ahead.is_some()
    }

    /// Whether the call may begin an attempt because it is its turn. Not where one after the other has failed.
    pub(super) fn may_be_called(&mut self, now: ClientInstant) -> bool {
        if self.since.is_some_and(|since| now.since(since) >= PATIENT) {
            self.failures = 0;
        }
        self.failures < FAILURES_MAX
    }
}

impl Acquiring {
    /// The name in whose line the call stands, if it does: it waits, and it is the one of this client that asks.
    fn name_in_line(&self) -> Option<Bytes> {
        let may_stand = self.has_turn && self.call.wait != Wait::None;
        self.line_name().filter(|_| may_stand).cloned()
    }

    /// The token that this call's next attempt has in the line, if it stands in one.
    pub(super) fn token_in_line(&mut self, context: &mut Context<'_>) -> Option<Token> {
        self.find_line(context);
        let name = self.name_in_line()?;
        let is_own = self.has_line(context);
        is_own.then(|| context.lines.take_token(&name)).flatten()
    }

    /// Whether the call stands in line before it asks: this client has just released the lock, and knows of nobody who waits.
    pub(super) fn looks_for_others(&self, context: &mut Context<'_>) -> bool {
        let is_one = self.permits.is_none() && self.call.name.single().is_some();
        let is_lock = is_one && self.name_in_line().is_some();
        let may_look = is_lock && context.settings.stands_in_line;
        let has_lines = context.has_lines();
        let every = LOOKS_EVERY.max(LOOKS_EVERY_ROUNDS * context.round_trip());
        let name = &self.call.name;
        may_look && has_lines && (context.refusals.releases).take_look(name, context.now, every)
    }

    /// Stands in line with a new token, at the first node from this one on that has lines.
    pub(super) fn line_up(&mut self, from: NodeIndex, context: &mut Context<'_>) {
        if !context.settings.stands_in_line {
            return;
        }
        if self.name_in_line().is_none() {
            return;
        }
        let now = context.now;
        let asks_in = ASKS_EVERY.mul_f64(0.75 + 0.5 * fraction(context.random));
        self.in_line.since = Some(now);
        self.in_line.asks_at = Some(now.after(asks_in));
        if self.permits.is_some() {
            return self.line_up_for_permits(context);
        }
        self.find_line(context);
        self.in_line.parts_left = self.call.name.parts().len().saturating_sub(1);
        let token = self.untried(context).map(|(_, token)| token);
        let token = token.unwrap_or_else(|| self.call.next_token(context.random));
        self.stand_at((from, Way::Turns), token, context);
    }

    /// Waits at the first node from this one on that has lines, or else at the first that tells of changes; at one that tells
    /// of changes from this one on where lines were looked for already.
    pub(super) fn stand_at(
        &mut self,
        (from, way): (NodeIndex, Way),
        token: Token,
        context: &mut Context<'_>,
    ) {
        self.in_line.ahead = None;
        self.in_line.ahead_at_most = None;
        self.in_line.free = NodeSet::default();
        let (Some(name), now) = (self.line_name().cloned(), context.now) else {
            return;
        };
        if self.is_behind_own(context) {
            return self.stands_behind(1, context);
        }
        let links = &context.links;
        let first = |from, may: &dyn Fn(&Link) -> bool| {
            let mut nodes = from..links.len();
            nodes.find(|node| !self.in_line.others.contains(*node) && may(&links[*node]))
        };
        let changes_at = |from| {
            let node = first(from, &|link| link.may_tell_changes(now))?;
            Some((node, Way::Changes))
        };
        let place = match way {
            Way::Changes => changes_at(from),
            Way::Turns => first(from, &|link| link.may_have_lines(now))
                .map(|node| (node, Way::Turns))
                .or_else(|| changes_at(0)),
        };
        let Some((node, way)) = place else {
            // The call asks now and then, as where no node has lines.
            return context.leave_line(&name);
        };
        self.in_line.waits_for_word = way == Way::Changes;
        if let Some(before) = context.lines.join(&name, node, way, token.clone()) {
            context.unwait(before, &name);
        }
        if self.call.name.single().is_none() {
            context.lines.stand_for_set(&name, &self.call.name);
        }
        self.ask_place(name, (node, way), token.clone(), context);
        // Readers do not wait for what the node of the line says, which may be far away or free already.
        if way == Way::Turns && self.in_line.parts_left == 0 {
            self.keep_readers_out(node, &token, context);
        }
    }

    /// Asks the node at which the call waits for its place, or whether the lock is free.
    pub(super) fn ask_place(
        &self,
        name: Bytes,
        (node, way): (NodeIndex, Way),
        token: Token,
        context: &mut Context<'_>,
    ) -> Rc<Subject> {
        let permit = self.permits.as_ref().and(permit_of(&name));
        let index = permit.map(|(_, index)| index);
        let index = index.or_else(|| self.part_index());
        // Of several names one that is passed over is looked at, and the node tells of the one where the call stays.
        let is_tracked = way == Way::Changes && self.in_line.parts_left == 0;
        if is_tracked {
            context.lines.note_tracked(&name);
        }
        let subject = Subject::new_as(self.call.is_shared, name.into(), token, self.call.ttl);
        let kind = match way {
            Way::Turns => Kind::Wait {
                turn: context.turn_at(node),
                index,
            },
            Way::Changes => Kind::Look { is_tracked, index },
        };
        context.ask(node, kind, &subject, self.attempts);
        subject
    }

    /// A node has answered how many stand in the line, or another one whether the lock is free there. None if the input is
    /// something else.
    pub(super) fn answered_in_line(
        &mut self,
        input: &Input,
        context: &mut Context<'_>,
    ) -> Option<()> {
        let Input::Reply(reply) = input else {
            return None;
        };
        let is_pausing = matches!(self.stage, Stage::Pausing(_) | Stage::AskingTimeLeft(_));
        let is_now = is_pausing && reply.round == self.attempts;
        match &reply.content {
            Content::InLine(answer, Some(permit)) if self.permits.is_some() => {
                self.permit_place_told((reply.node, *permit), answer, is_now, context);
            }
            Content::InLine(answer, index) => {
                let (node, token) = self.untried(context)?;
                match *index == self.part_index() {
                    true if node != reply.node => {
                        self.told_elsewhere(reply.node, answer, is_now, context);
                    }
                    true if is_now => self.place_told(node, answer, token, context),
                    _ => {}
                }
            }
            Content::Seen(seen, index) => {
                let (node, token) = self.untried(context)?;
                if is_now && node == reply.node && *index == self.part_index() {
                    let holder = seen.as_ref().map(|(_, holder)| holder.as_ref());
                    self.holder_told(node, holder.ok(), token, context);
                }
            }
            Content::Compared(_) if reply.round & WALK_SURVEY_BIT != 0 => {}
            Content::Compared(answer) => self.surveyed(reply.node, answer, is_now, context),
            // What holds the node of the line may be nobody's lock: a key without an end, or a release that did not arrive.
            Content::Exists(Some(false)) if is_now => self.ask(context),
            Content::Exists(_) => {}
            _ => return None,
        }
        Some(())
    }

    fn place_told(
        &mut self,
        node: NodeIndex,
        answer: &Result<u64, Cause>,
        token: Token,
        context: &mut Context<'_>,
    ) {
        match answer {
            Ok(0) if self.is_split() => {}
            Ok(0) if self.in_line.parts_left > 0 => self.stand_for_next(token, context),
            Ok(0) => self.called(context),
            Ok(waiting) => {
                self.in_line.parts_left = 0;
                let ahead = waiting.saturating_sub(1);
                if ahead > 0 {
                    let known = self.call.ttl.max(2 * CHECKS_EVERY);
                    let until = context.now.after(known);
                    context
                        .refusals
                        .note_others(&self.call.name, until, context.now);
                }
                self.stands_behind(ahead, context);
                self.keep_readers_out(node, &token, context);
            }
            Err(_) => self.stand_at((node + 1, Way::Turns), token, context),
        }
    }

    pub(super) fn stands_behind(&mut self, ahead: u64, context: &mut Context<'_>) {
        let was_told = self.last.is_some() || self.in_line.ahead.is_some();
        if self.tells && !was_told {
            // It has not asked yet, so nothing else tells that it waits.
            context.tell_waiting(Waiting::Busy {
                holder: None,
                time_left: None,
            });
        }
        self.in_line.ahead = Some(ahead);
        let before = self.in_line.ahead_at_most.unwrap_or(ahead);
        self.in_line.ahead_at_most = Some(before.min(ahead));
        // Where it is its turn for a permit, the pause is that before it asks.
        if matches!(self.stage, Stage::Pausing(_)) && !self.is_called_for_permit() {
            self.stage = Stage::Pausing(self.line_pause_end(context));
        }
    }

    pub(super) fn is_split(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| last.attempt.is_split())
    }

    /// It is this call's turn: it asks at once.
    pub(crate) fn called(&mut self, context: &mut Context<'_>) {
        let is_pausing = matches!(self.stage, Stage::Pausing(_) | Stage::AskingTimeLeft(_));
        if is_pausing && self.may_take_turn(context) {
            self.called_again(context);
        }
    }

    /// Whether the call asks because it is its turn. Where that has failed again and again it does so after a pause.
    pub(super) fn may_take_turn(&mut self, context: &mut Context<'_>) -> bool {
        let may = self.in_line.may_be_called(context.now);
        if !may {
            self.take_turn_later(context);
        }
        may
    }

    pub(super) fn take_turn_later(&mut self, context: &mut Context<'_>) {
        let (now, random) = (context.now, fraction(context.random));
        let delay = context.settings.retry_delay;
        let pause = delay.pause(self.in_line.failures, random, None);
        self.in_line.ahead = None;
        self.stage = match self.stage {
            Stage::Pausing(until) => Stage::Pausing(until.earlier(now.after(pause))),
            _ => Stage::Pausing(now.after(pause)),
        };
    }

    /// All nodes are asked at once: they are free, as far as is known.
    pub(super) fn called_again(&mut self, context: &mut Context<'_>) {
        self.in_line.is_called = true;
        context.refusals.forget(&self.call.name);
        self.ask(context);
    }

    /// This client has released the lock: whoever came first has its turn.
    pub(super) fn released_in_line(&mut self, context: &mut Context<'_>) {
        // Of several permits the node of the line says which one is whose, and of several names which one is free.
        let is_one = self.permits.is_none() && self.call.name.single().is_some();
        // And the node says which reader was the last one. One that tells of changes has no readers.
        let is_known = self.in_line.waits_for_word || !self.is_behind_readers();
        if is_one && self.in_line.ahead == Some(0) && is_known {
            self.called(context);
        }
    }

    /// The connection has ended on which the call stood in line: the next node has the line now.
    pub(crate) fn line_ended(&mut self, name: &Bytes, context: &mut Context<'_>) {
        if self.permits.is_some() {
            self.in_line.ahead = None;
            self.permit_line_ended(name, context);
        } else if self.line_name() == Some(name)
            && let Some((_, token)) = context.lines.untried(name)
        {
            self.stand_at((0, Way::Turns), token, context);
        } else {
            // The attempt is under way, and stands in line anew if it fails.
            return context.leave_line(name);
        }
        if let Stage::Pausing(until) = self.stage {
            // As long as nobody has answered, the call asks again soon.
            let random = fraction(context.random);
            let pause = context.settings.retry_delay.pause(u32::MAX, random, None);
            self.stage = Stage::Pausing(until.earlier(context.now.after(pause)));
        }
    }

    /// The pause is over. Says whether the line is asked for first, whether it is still there: one request, where an attempt
    /// is many.
    pub(super) fn checks_line(&mut self, context: &mut Context<'_>) -> bool {
        let now = context.now;
        let has_time = self.in_line.asks_at.is_some_and(|at| !now.has_reached(at));
        let patience = context.patience(self.call.ttl);
        let wait_left = self.limit.left(now).saturating_sub(context.round_trip());
        if !self.in_line.stands() || !has_time || wait_left <= patience {
            return false;
        }
        let Some(name) = self.line_name().cloned() else {
            return false;
        };
        let place = self.untried(context).zip(context.lines.way(&name));
        let Some(((node, token), way)) = place else {
            return self.checks_line_of_own(patience, context);
        };
        self.in_line.ahead = None;
        self.stage = Stage::Pausing(now.after(patience));
        let subject = self.ask_place(name, (node, way), token, context);
        self.ask_another(node, &subject, context);
        let permits = self.permits.as_ref();
        if permits.is_some_and(|permits| permits.for_each_line() > 1) {
            self.survey(context);
        }
        self.tell(context);
        true
    }

    /// Until when the call waits for its turn without a word.
    pub(super) fn line_pause_end(&self, context: &mut Context<'_>) -> ClientInstant {
        let now = context.now;
        let random = 0.75 + 0.5 * fraction(context.random);
        let left = self.last.as_ref().and_then(|last| last.time_left(now));
        let spread = context.settings.retry_delay.first.mul_f64(random);
        let doubled = CHECK_FIRST * (1 << self.in_line.checks.min(4));
        // A call that stands in the lines of some permits comes to the others by its checks.
        let for_each_line = self.permits.as_ref().map_or(1, PermitChoice::for_each_line);
        let check = CHECKS_EVERY.min(doubled).mul_f64(random) / for_each_line;
        let pause = left.map_or(check, |left| check.min(left.saturating_add(spread)));
        let until = now.after(self.limit.cut(pause, context.round_trip(), now));
        self.in_line.asks_at.map_or(until, |at| until.earlier(at))
    }
}

/// How often all nodes are asked although it is not this call's turn, and how often the line and another node are: with five
/// nodes an attempt that is refused comes to some thirteen requests.
const ASKS_EVERY: Duration = Duration::from_secs(240);
const CHECKS_EVERY: Duration = Duration::from_secs(15);
/// The first checks of a call come sooner, each after twice the time.
const CHECK_FIRST: Duration = Duration::from_secs(1);
/// How often a client that takes a lock again and again looks for others: that costs a round trip.
const LOOKS_EVERY: Duration = Duration::from_millis(250);
const LOOKS_EVERY_ROUNDS: u32 = 20;
/// Attempts of one turn: the others wait for it.
const FAILURES_MAX: u32 = 4;
/// Who has waited so long has not failed just now.
const PATIENT: Duration = Duration::from_secs(1);
