//! One node as the client's thread sees it: its queue of requests, its connection's state, and
//! what is known of its health.
//!
//! Invariants: requests and replies match first in, first out. A request that nobody waits for any
//! more keeps its place, so that its late reply is swallowed there. A release is owed until it has
//! been answered or its lease is over, across reconnects. No I/O here; [`super::link`] does it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;
use tokio::sync::Notify;

use super::mailbox::{Content, Letter, Mailbox};
use super::round_trip::RoundTrip;
use crate::acquisition::Answer;
use crate::answer::{self, Scripted, Taken};
use crate::clock::{ClientInstant, Clock};
use crate::holding::ExtendAnswer;
use crate::outcome::{Cause, NodeRelease};
use crate::request::{self, EXTEND_SCRIPT, RELEASE_SCRIPT, ScriptHash};
use crate::token::Token;
use crate::votes::{Identity, NodeIndex, NodeSet};

/// What a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Take,
    Extend,
    Release,
    TimeLeft,
    Info,
}

/// A request to one node.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) name: Bytes,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    pub(super) round: u32,
    pub(super) mailbox: Option<Rc<Mailbox>>,
    /// When it was first sent or queued; kept when it is sent again.
    pub(super) since: ClientInstant,
    /// It is not worth sending after this.
    pub(super) until: ClientInstant,
    pub(super) form: Form,
    /// The nodes to which a request to take this lock has been written.
    pub(super) asked: Rc<Cell<NodeSet>>,
}

/// Which of its forms a request was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Short,
    Plain,
}

/// What the connection of a node is doing.
#[derive(Clone, Debug)]
pub(super) enum Link {
    Idle,
    Connecting,
    Ready,
    /// Known to be dead: not tried before this time.
    Resting(ClientInstant, Cause),
}

/// What was learned when the connection was made.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) identity: Result<Identity, Cause>,
    pub(super) takes_get: bool,
    pub(super) release_hash: Option<ScriptHash>,
    pub(super) extend_hash: Option<ScriptHash>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) link: Link,
    pub(super) waiting: VecDeque<Request>,
    pub(super) out: Vec<u8>,
    pub(super) in_flight: VecDeque<Request>,
    pub(super) peer: Option<Peer>,
    pub(super) delayed: Option<(ClientInstant, Cause)>,
    pub(super) round_trip: RoundTrip,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) index: NodeIndex,
    pub(super) label: Arc<str>,
    pub(super) state: RefCell<State>,
    pub(super) wake: Notify,
    pub(super) twin: Cell<Option<NodeIndex>>,
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
        let state = State {
            link: Link::Idle,
            waiting: VecDeque::new(),
            out: Vec::new(),
            in_flight: VecDeque::new(),
            peer: None,
            delayed: None,
            round_trip: RoundTrip::default(),
        };
        let state = RefCell::new(state);
        let (wake, twin) = (Notify::new(), Cell::new(None));
        Self {
            index,
            label,
            state,
            wake,
            twin,
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
            _ if state.waiting.len() < QUEUE_MAX => {
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
                    // Nobody waiting means that the release is queued already: taking the lock
                    // now would leave it behind.
                    if is_wanted {
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
        if let Content::Taken(Answer::Not(cause @ Cause::Delayed { left, .. })) = &content {
            // Asked again after a second at the latest, in case the delay ended otherwise.
            state.delayed = Some((now.after((*left).min(DELAY_MEMORY)), cause.clone()));
        }
        drop(state);
        self.answer(&request, content);
        true
    }

    /// The connection broke, or could not be made: whoever waits is told, what is owed is kept.
    pub(super) fn fail(&self, now: ClientInstant, cause: &Cause, rest: Duration) {
        let mut failed = Vec::new();
        {
            let state = &mut *self.state.borrow_mut();
            state.link = Link::Resting(now.after(rest), cause.clone());
            state.out.clear();
            state.round_trip.forget();
            let queued = state.in_flight.drain(..).chain(state.waiting.drain(..));
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
        !matches!(self.state.borrow().link, Link::Resting(..)) && self.owes(now)
    }

    /// Whether a release is still owed to this node.
    pub(super) fn owes(&self, now: ClientInstant) -> bool {
        let state = self.state.borrow();
        let mut requests = state.waiting.iter().chain(&state.in_flight);
        requests.any(|request| request.kind == Kind::Release && !now.has_reached(request.until))
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
        !state.waiting.is_empty()
    }

    /// Why the node cannot vote now, if it is known without asking.
    fn obstacle(&self, state: &mut State, request: &Request, now: ClientInstant) -> Option<Cause> {
        match &state.link {
            Link::Resting(until, cause) if !now.has_reached(*until) => return Some(cause.clone()),
            Link::Ready => {}
            _ => return None,
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

impl State {
    /// Encodes a request behind all others and takes a place for its reply.
    fn write(&mut self, node: NodeIndex, mut request: Request) {
        let peer = self.peer.as_ref();
        let mut digits = [0; 20];
        let ttl = decimal(&mut digits, request.ttl.as_millis());
        let token = request.token.as_bytes();
        let out = &mut self.out;
        match request.kind {
            Kind::Take => {
                let with_get = peer.is_none_or(|peer| peer.takes_get);
                request.form = if with_get { Form::Short } else { Form::Plain };
                request::take(out, &request.name, token, ttl, with_get);
                let mut asked = request.asked.get();
                asked.insert(node);
                request.asked.set(asked);
            }
            Kind::Extend => {
                let hash = short(&request, peer.and_then(|peer| peer.extend_hash.as_ref()));
                request::script(out, hash, EXTEND_SCRIPT, &request.name, &[token, ttl]);
            }
            Kind::Release => {
                let hash = short(&request, peer.and_then(|peer| peer.release_hash.as_ref()));
                request::script(out, hash, RELEASE_SCRIPT, &request.name, &[token]);
            }
            Kind::TimeLeft => request::write(out, &[b"PTTL", &request.name]),
            Kind::Info => request::write(out, &[b"INFO"]),
        }
        self.in_flight.push_back(request);
    }
}

fn short<'a>(request: &Request, hash: Option<&'a ScriptHash>) -> Option<&'a ScriptHash> {
    hash.filter(|_| request.form == Form::Short)
}

fn decimal(digits: &mut [u8; 20], number: u128) -> &[u8] {
    let mut rest = u64::try_from(number).unwrap_or(u64::MAX);
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            return &digits[at..];
        }
    }
}

/// Requests queued for one node, in flight or waiting for its connection.
const QUEUE_MAX: usize = 100_000;
const PATIENCE_MIN: Duration = Duration::from_millis(5);
const DELAY_MEMORY: Duration = Duration::from_secs(1);
