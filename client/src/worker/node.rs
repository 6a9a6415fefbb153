//! One node as the client's thread sees it: its queue of requests, its connection's state, and
//! what is known of its health.
//!
//! Invariants: requests and replies match first in, first out. A request that nobody waits for any
//! more keeps its place, so that its late reply is swallowed there. A release is owed until it has
//! been answered or its lease is over, across reconnects. No I/O here; [`super::link`] does it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis_protocol::resp2::types::OwnedFrame;
use tokio::sync::Notify;

use super::mailbox::{Content, Letter};
use super::queue::{DEFERRED_LEAST, Form, Kind, Link, Peer, QUEUE_MAX, Request, State, owe};
use crate::acquisition::Answer;
use crate::answer::{self, Scripted, Taken};
use crate::clock::{ClientInstant, Clock};
use crate::holding::ExtendAnswer;
use crate::outcome::{Cause, NodeRelease};
use crate::votes::NodeIndex;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) index: NodeIndex,
    pub(super) label: Arc<str>,
    pub(super) state: RefCell<State>,
    pub(super) wake: Notify,
    clock: Arc<dyn Clock>,
    deadline_max: Duration,
}

impl Node {
    pub(super) fn new(
        index: NodeIndex,
        label: Arc<str>,
        clock: Arc<dyn Clock>,
        deadline_max: Duration,
    ) -> Self {
        let state = RefCell::new(State::default());
        let wake = Notify::new();
        Self {
            index,
            label,
            state,
            wake,
            clock,
            deadline_max,
        }
    }

    /// How long this node is waited for in a round about a lease of `ttl`.
    pub(super) fn patience(&self, ttl: Duration) -> Duration {
        let most = self.deadline_max.min((ttl / 10).max(PATIENCE_MIN));
        self.state.borrow().round_trip.patience().min(most)
    }

    /// Queues a request, or says at once why this node will not answer it. What a closed door
    /// costs is nothing; a release that may matter is kept for the next connection.
    pub(super) fn submit(&self, request: Request) -> Result<(), Cause> {
        let now = request.since;
        let state = &mut *self.state.borrow_mut();
        // A node that was never asked for this lock need not be told before it can be.
        if request.kind != Kind::Release || !request.asked.get().contains(self.index) {
            self.obstacle(state, &request, now).map_or(Ok(()), Err)?;
        }
        match state.link {
            Link::Ready if state.in_flight.len() < QUEUE_MAX => {
                state.write(self.index, request);
                self.wake.notify_one();
                Ok(())
            }
            // Nothing may wait for a connection that stands already; what is owed is sent later.
            Link::Ready if request.kind == Kind::Release && state.deferred.len() < QUEUE_MAX => {
                state.deferred.push((now.after(DEFERRED_LEAST), request));
                Ok(())
            }
            Link::Idle | Link::Connecting | Link::Resting(..)
                if state.waiting.len() < QUEUE_MAX =>
            {
                state.waiting.push_back(request);
                self.wake.notify_one();
                Ok(())
            }
            _ => Err(Cause::Refused(Arc::from(
                "too many requests are queued for this node",
            ))),
        }
    }

    /// Takes the reply to the oldest request in flight.
    pub(super) fn deliver(&self, now: ClientInstant, reply: &OwnedFrame) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(mut request) = state.in_flight.pop_front() else {
            return false;
        };
        state.round_trip.measure(now.since(request.since));
        let identity = match &state.peer {
            Some(Peer { identity, .. }) => identity.clone(),
            None => Err(Cause::Unidentified(Arc::from("no connection"))),
        };
        let is_wanted = request
            .mailbox
            .as_ref()
            .is_some_and(|mailbox| !mailbox.is_closed());
        let was_short = request.form == Form::Short;
        let content = match (request.kind, &identity) {
            (Kind::Take, Ok(by)) => match answer::taken(reply, by, &request.token, was_short) {
                Taken::Answer(answer) => Content::Taken(answer),
                Taken::WithoutGet => {
                    if let Some(peer) = &mut state.peer {
                        peer.takes_get = false;
                    }
                    // Behind its own release the lock would be taken and left behind.
                    if is_wanted && !state.releases(&request) {
                        state.write(self.index, request);
                        self.wake.notify_one();
                    }
                    return true;
                }
            },
            (Kind::Extend, Ok(by)) => match answer::extended(reply, by) {
                Scripted::Answer(answer) => Content::Extended(answer),
                Scripted::NoScript if was_short => {
                    if is_wanted {
                        request.form = Form::Plain;
                        state.write(self.index, request);
                        self.wake.notify_one();
                    }
                    return true;
                }
                Scripted::NoScript => Content::Extended(ExtendAnswer::Not(answer::refusal(reply))),
            },
            (Kind::Take, Err(cause)) => Content::Taken(Answer::Not(cause.clone())),
            (Kind::Extend, Err(cause)) => Content::Extended(ExtendAnswer::Not(cause.clone())),
            (Kind::Release, _) => match answer::released(reply) {
                Scripted::Answer(answer) => Content::Released(answer),
                Scripted::NoScript if was_short => {
                    request.form = Form::Plain;
                    state.write(self.index, request);
                    self.wake.notify_one();
                    return true;
                }
                Scripted::NoScript => Content::Released(NodeRelease::Not(answer::refusal(reply))),
            },
            (Kind::TimeLeft, _) => Content::TimeLeft(answer::time_left(reply)),
            (Kind::Info, _) => {
                let round_trip = now.since(request.since);
                Content::Info(answer::info(reply).map(|info| (info, round_trip)))
            }
        };
        state.learn(now, &request, &content);
        drop(state);
        self.answer(&request, content);
        true
    }

    /// Sends the releases again that the node could not carry out before, once their time has
    /// come, and forgets those whose leases are over.
    pub(super) fn send_deferred(&self, now: ClientInstant) {
        let state = &mut *self.state.borrow_mut();
        for (at, mut request) in std::mem::take(&mut state.deferred) {
            if now.has_reached(request.until) {
                continue;
            }
            if now.has_reached(at) && state.in_flight.len() < QUEUE_MAX {
                request.form = Form::Short;
                // It is this sending that the node may be silent about.
                request.since = now;
                state.write(self.index, request);
            } else {
                state.deferred.push((at, request));
            }
        }
    }

    /// The connection broke, or could not be made: whoever waits is told, what is owed is kept.
    pub(super) fn fail(&self, now: ClientInstant, cause: &Cause, rest: Duration) {
        let mut failed = Vec::new();
        {
            let state = &mut *self.state.borrow_mut();
            state.link = Link::Resting(now.after(rest), cause.clone());
            state.out.clear();
            state.round_trip.forget();
            let deferred = state.deferred.drain(..).map(|(_, request)| request);
            let queued = state.in_flight.drain(..).chain(state.waiting.drain(..));
            let queued = queued.chain(deferred);
            let mut owed = VecDeque::new();
            for mut request in queued {
                let may_hold = request.asked.get().contains(self.index);
                let is_release = request.kind == Kind::Release;
                if is_release && may_hold && !now.has_reached(request.until) {
                    request.form = Form::Short;
                    let told = Request {
                        mailbox: request.mailbox.take(),
                        ..request.clone()
                    };
                    owed.push_back(request);
                    failed.push(told);
                } else {
                    failed.push(request);
                }
            }
            state.waiting = owed;
        }
        for request in failed {
            self.answer_failure(&request, cause);
        }
    }

    /// The connection stands: what waited is written, what is no longer wanted is dropped.
    pub(super) fn ready(&self, now: ClientInstant, peer: Peer) {
        let mut overdue = Vec::new();
        {
            let state = &mut *self.state.borrow_mut();
            state.link = Link::Ready;
            state.peer = Some(peer);
            state.delayed = None;
            state.failed = None;
            for request in std::mem::take(&mut state.waiting) {
                let is_wanted = request
                    .mailbox
                    .as_ref()
                    .is_some_and(|mailbox| !mailbox.is_closed());
                if now.has_reached(request.until) {
                    overdue.push(request);
                } else if request.kind == Kind::Release || is_wanted {
                    state.write(self.index, request);
                }
            }
        }
        for request in overdue {
            self.answer_failure(&request, &Cause::Silent);
        }
    }

    /// Whether a release is owed that can be sent now: to a node that can be reached.
    pub(super) fn can_pay(&self, now: ClientInstant) -> bool {
        let state = self.state.borrow();
        let queued = state.waiting.iter().chain(&state.in_flight);
        !matches!(state.link, Link::Resting(..)) && owe(queued, now)
    }

    /// Whether a release is still owed to this node.
    pub(super) fn owes(&self, now: ClientInstant) -> bool {
        let state = self.state.borrow();
        let deferred = state.deferred.iter().map(|(_, request)| request);
        owe(
            state.waiting.iter().chain(&state.in_flight).chain(deferred),
            now,
        )
    }

    /// Forgets releases whose leases are over, and says whether anything waits for a connection.
    pub(super) fn wants_connection(&self, now: ClientInstant) -> bool {
        let mut state = self.state.borrow_mut();
        state.waiting.retain(|request| {
            let is_wanted = request
                .mailbox
                .as_ref()
                .is_some_and(|mailbox| !mailbox.is_closed());
            !now.has_reached(request.until) && (request.kind == Kind::Release || is_wanted)
        });
        std::mem::take(&mut state.is_wanted) || !state.waiting.is_empty()
    }

    /// Remembers that no connection could be made, so that nobody waits for the next try.
    pub(super) fn remember_failure(&self, now: ClientInstant, cause: &Cause) {
        self.state.borrow_mut().failed = Some((now, cause.clone()));
    }

    /// Why the node is not reached at present, if that is so.
    pub(super) fn unreached(&self) -> Option<Cause> {
        match &self.state.borrow().link {
            Link::Resting(_, cause) => Some(cause.clone()),
            _ => None,
        }
    }

    /// Why the node cannot vote now, if it is known without asking.
    fn obstacle(&self, state: &mut State, request: &Request, now: ClientInstant) -> Option<Cause> {
        match &state.link {
            Link::Resting(until, cause) if !now.has_reached(*until) => return Some(cause.clone()),
            Link::Ready => {}
            _ => return self.known_failure(state, request, now),
        }
        if request.kind == Kind::Info {
            return None;
        }
        if request.kind == Kind::Release {
            return self.silence(state, now);
        }
        if let Some(Peer {
            identity: Err(cause),
            ..
        }) = &state.peer
        {
            return Some(cause.clone());
        }
        if let Some((until, cause)) = &state.delayed {
            if !now.has_reached(*until) {
                return Some(cause.clone());
            }
            state.delayed = None;
        }
        self.silence(state, now)
    }

    /// A node that could not be reached a moment ago is tried again, but nobody waits for that.
    fn known_failure(
        &self,
        state: &mut State,
        request: &Request,
        now: ClientInstant,
    ) -> Option<Cause> {
        let (at, cause) = state.failed.as_ref()?;
        let votes = matches!(request.kind, Kind::Take | Kind::Extend);
        if !votes || now.since(*at) > FAILURE_MEMORY {
            return None;
        }
        let cause = cause.clone();
        if !matches!(state.link, Link::Connecting) {
            state.is_wanted = true;
            self.wake.notify_one();
        }
        Some(cause)
    }

    /// Requests pile up behind one that the node sits on; once it answers that one it is back.
    fn silence(&self, state: &State, now: ClientInstant) -> Option<Cause> {
        let oldest = state.in_flight.front()?;
        let patience = state.round_trip.patience().min(self.deadline_max);
        (now.since(oldest.since) > patience).then_some(Cause::Silent)
    }

    fn answer_failure(&self, request: &Request, cause: &Cause) {
        let cause = cause.clone();
        let content = match request.kind {
            Kind::Take => Content::Taken(Answer::Not(cause)),
            Kind::Extend => Content::Extended(ExtendAnswer::Not(cause)),
            Kind::Release => Content::Released(NodeRelease::Not(cause)),
            Kind::TimeLeft => Content::TimeLeft(None),
            Kind::Info => Content::Info(Err(cause)),
        };
        self.answer(request, content);
    }

    fn answer(&self, request: &Request, content: Content) {
        if let Some(mailbox) = &request.mailbox {
            mailbox.put(Letter {
                node: self.index,
                round: request.round,
                content,
            });
        }
    }

    pub(super) fn now(&self) -> ClientInstant {
        self.clock.now()
    }
}

const PATIENCE_MIN: Duration = Duration::from_millis(5);
/// A failure to connect is news for so long: longer than the longest rest and one more try.
const FAILURE_MEMORY: Duration = Duration::from_secs(3);

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
