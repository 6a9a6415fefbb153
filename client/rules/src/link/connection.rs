//! One connection that serves requests.
//!
//! Invariant: every request that was encoded has its place in flight, in the same order.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use super::delivery::Delivered;
use super::login::Peer;
use super::request::{Form, Kind, Request};
use super::tracking::Tracking;
use super::{ConnectionId, QUEUE_MAX, Surroundings};
use crate::answer::{Content, Told};
use crate::clock::{ClientInstant, saturated};
use crate::outcome::Cause;
use crate::protocol::push::Push;
use crate::protocol::reply::{Incoming, Replies};
use crate::protocol::{agent, holder, line, listing, looking, meaning, several, shared};
use crate::votes::{Identity, NodeIndex};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) peer: Peer,
    pub(super) out: Vec<u8>,
    pub(super) in_flight: VecDeque<Request>,
    /// When its login ended.
    pub(super) began: ClientInstant,
    /// When the node was last asked how far it has come.
    state_asked: ClientInstant,
    node: NodeIndex,
    replies: Replies,
    /// Whether the node may have lines for locks.
    pub(super) may_have_lines: bool,
    /// Of what changes it tells.
    pub(super) tracking: Tracking,
    /// The shortest part of a lease for which bytes may go unacknowledged, and what the kernel was told.
    unacknowledged_max: Duration,
    unacknowledged_told: Duration,
    /// When the silence was last looked at, and how long it had lasted then.
    looked_at: ClientInstant,
    silence: Duration,
}

impl Connection {
    pub(super) fn new(now: ClientInstant, node: NodeIndex, id: ConnectionId, peer: Peer) -> Self {
        Self {
            id,
            peer,
            out: Vec::new(),
            in_flight: VecDeque::new(),
            began: now,
            state_asked: now,
            node,
            replies: Replies::with_capacity(READ_BYTES),
            may_have_lines: true,
            tracking: Tracking::default(),
            unacknowledged_max: UNACKNOWLEDGED_MAX,
            unacknowledged_told: Duration::ZERO,
            looked_at: now,
            silence: Duration::ZERO,
        }
    }

    /// How long nothing has been heard although something was asked, when that was last looked at.
    ///
    /// Only time in which somebody looked counts: a client that was stopped, suspended or busy may find the replies as
    /// soon as it reads, and must not hold its own pause against the node.
    pub(super) fn silence(&self) -> Option<Duration> {
        (!self.in_flight.is_empty()).then_some(self.silence)
    }

    /// Looks at the silence: whatever has arrived until now was read.
    pub(super) fn look(&mut self, now: ClientInstant) {
        let unheard = now.since(self.looked_at).min(LOOK_EVERY);
        self.silence = match self.in_flight.is_empty() {
            true => Duration::ZERO,
            false => self.silence.saturating_add(unheard),
        };
        self.looked_at = now;
    }

    /// When to look again, if the silence matters from `limit` on.
    pub(super) fn next_look(&self, limit: Option<Duration>) -> Option<ClientInstant> {
        self.oldest()?;
        let left = limit.map_or(Duration::ZERO, |limit| limit.saturating_sub(self.silence));
        let next = if left.is_zero() {
            LOOK_EVERY
        } else {
            left.min(LOOK_EVERY)
        };
        Some(self.looked_at.after(next))
    }

    fn heard(&mut self, now: ClientInstant) {
        self.silence = Duration::ZERO;
        self.looked_at = now;
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight.len() < QUEUE_MAX
    }

    pub(super) fn oldest(&self) -> Option<&Request> {
        self.in_flight.front()
    }

    /// Encodes a request behind all others. An answer is waited for as long as `needed`. Returns how long bytes may go
    /// unacknowledged, if that has changed.
    pub(super) fn write(
        &mut self,
        now: ClientInstant,
        request: Request,
        needed: Duration,
    ) -> Option<Duration> {
        let part = (request.subject.ttl / 4).max(UNACKNOWLEDGED_MIN);
        let state = self.state_question(now, &request);
        if request.kind.is_tracked() {
            self.track(now, &request);
        }
        if matches!(request.kind, Kind::Wait { .. } | Kind::Look { .. }) && !self.replies.may_push()
        {
            self.ask_resp3(now, &request);
        }
        if request.kind == Kind::Untrack {
            self.tracking.forget();
        }
        self.push(now, request);
        if let Some(question) = state {
            self.push(now, question);
        }
        self.unacknowledged_max = self.unacknowledged_max.min(part);
        // In steps, so that the kernel is not told of every round trip.
        let step = UNACKNOWLEDGED_MIN.as_nanos();
        let needed = Duration::from_nanos(saturated(needed.as_nanos().next_multiple_of(step)));
        let limit = self.unacknowledged_max.max(needed);
        let is_news = limit != self.unacknowledged_told;
        self.unacknowledged_told = limit;
        is_news.then_some(limit)
    }

    /// Behind a request for the lock, now and then: how far the node has come. Whoever knows that notices at the next login
    /// if the node has gone back.
    fn state_question(&mut self, now: ClientInstant, request: &Request) -> Option<Request> {
        let is_for_lock = request.kind.is_for_vote();
        let is_due = now.since(self.state_asked) >= STATE_EVERY;
        if !is_for_lock || !is_due || self.peer.log.is_none() {
            return None;
        }
        self.state_asked = now;
        Some(request.beside(Kind::Info))
    }

    /// Before the first line is joined: only RESP3 tells a message from a reply.
    fn ask_resp3(&mut self, now: ClientInstant, request: &Request) {
        self.replies.expect_resp3();
        self.push(now, request.beside(Kind::Resp3));
    }

    /// Before a name is looked at for the first time: from now on the node tells of its changes.
    fn track(&mut self, now: ClientInstant, request: &Request) {
        let Some(name) = request.subject.name.single() else {
            return;
        };
        let Some(wanted) = self.tracking.cover(name) else {
            return;
        };
        if !self.replies.may_push() {
            self.ask_resp3(now, request);
        }
        let silent = |kind, name: Bytes| Request {
            subject: request.subject.alone(name),
            ..request.beside(kind)
        };
        if wanted.begins_anew {
            self.push(now, silent(Kind::Untrack, name.clone()));
        }
        for prefix in wanted.prefixes {
            self.push(now, silent(Kind::Track, prefix));
        }
    }

    /// Whether the client may have stood in a line here.
    pub(super) fn has_lines(&self) -> bool {
        self.may_have_lines && self.replies.may_push()
    }

    fn push(&mut self, now: ClientInstant, mut request: Request) {
        request.since = now;
        request.write(self.node, &self.peer, &mut self.out);
        if self.in_flight.is_empty() {
            self.heard(now);
        }
        self.in_flight.push_back(request);
    }

    pub(super) fn append(&mut self, now: ClientInstant, bytes: &[u8]) {
        // A long reply that is still arriving is no silence.
        self.heard(now);
        self.replies.append(bytes);
    }

    /// Takes the next reply and says what it means for the oldest request.
    pub(super) fn next_reply(&mut self, world: &Surroundings<'_>) -> Delivered {
        let reply = loop {
            match self.replies.next() {
                Ok(Some(Incoming::Reply(reply))) => break reply,
                Ok(Some(Incoming::Push(push))) => {
                    if let Some(push) = Push::of(push) {
                        return Delivered::Push(push);
                    }
                }
                Ok(None) => return Delivered::Nothing,
                Err(error) => return Delivered::Broken(format!("protocol error: {error}")),
            }
        };
        let Some(request) = self.in_flight.pop_front() else {
            return Delivered::Broken("the node answers more than it was asked".to_owned());
        };
        self.heard(world.now);
        if several::stopped_at_other_type(&reply) {
            let by = self.peer.identity.as_ref().ok();
            for alone in request.releases_apart(self.node, by) {
                self.push(world.now, alone);
            }
        }
        if request.kind.takes()
            && let Some(token) = agent::taken(&reply)
        {
            return Delivered::Agent(request, token);
        }
        match self.meaning(&request, &reply, world.now) {
            Some(content) => Delivered::Reply(request, content),
            None => {
                let kind = request.kind;
                self.repeat(request, world);
                Delivered::Again(kind)
            }
        }
    }

    /// What a reply means, or nothing if the request is to be written in its fallback form.
    fn meaning(
        &mut self,
        request: &Request,
        reply: &OwnedFrame,
        now: ClientInstant,
    ) -> Option<Content> {
        let is_preferred = request.form == Form::Preferred;
        let not = |cause: &Cause| request.kind.without_answer(cause.clone());
        let identity = &self.peer.identity;
        Some(match (request.kind, identity) {
            (Kind::Take, Ok(_)) if request.form == Form::WithText => {
                return self.meaning_with_text(request, reply);
            }
            (Kind::Take, Ok(by)) if request.subject.name.single().is_none() => {
                // Nodes that have locks for readers have lines.
                Content::Taken(several::taken_all(reply, by, self.may_have_lines), None)
            }
            (Kind::Take | Kind::TakeFenced { .. } | Kind::Retake(_), Ok(by)) => {
                taken(request, reply, by, &mut self.peer.takes_get)?
            }
            (Kind::Fence(fence), Ok(by)) => {
                Content::Fenced(fence, meaning::fenced(reply, by, fence))
            }
            (Kind::Holder, Ok(by)) => Content::Holder(holder::holder(reply, by)),
            (Kind::Extend | Kind::SetEnd, Ok(by)) => match meaning::extended(reply, by) {
                Some(answer) => Content::Extended(answer),
                None if is_preferred => return None,
                None => not(&meaning::refusal(reply)),
            },
            (Kind::Release, _) => match meaning::released(reply) {
                Some(answer) => Content::Released(answer),
                None if is_preferred => return None,
                None => not(&meaning::refusal(reply)),
            },
            (Kind::Ceiling, Ok(by)) => Content::Ceiling(meaning::ceiling(reply, by)),
            (Kind::Adopt(_), Ok(by)) => Content::Ceiling(meaning::adopted(reply, by)),
            (Kind::Publish, Ok(by)) => Content::Published(listing::published(reply, by)),
            (Kind::Page, Ok(_)) => Content::Page(listing::page(reply)),
            (Kind::Compare, Ok(by)) => Content::Compared(listing::compared(reply, by)),
            (Kind::TimeLeft, _) => Content::TimeLeft(meaning::time_left(reply)),
            (Kind::Exists, _) => Content::Exists(meaning::exists(reply)),
            (Kind::Resp3 | Kind::Wait { .. } | Kind::Unwait, _) => {
                return self.meaning_of_line(request, reply);
            }
            (Kind::Look { .. } | Kind::Track | Kind::Untrack, _) => {
                return self.meaning_for_observers(request, reply);
            }
            (Kind::Info, _) => {
                let round_trip = now.since(request.since);
                Content::Info(meaning::info(reply).map(|info| Told { info, round_trip }))
            }
            (_, Err(cause)) => not(cause),
        })
    }

    /// The same of a reply about lines.
    fn meaning_of_line(&mut self, request: &Request, reply: &OwnedFrame) -> Option<Content> {
        let is_with_turn =
            matches!(request.kind, Kind::Wait { .. }) && request.form == Form::Preferred;
        if is_with_turn && line::knows_no_turns(reply) {
            self.peer.takes_turns = false;
            return None;
        }
        self.may_have_lines &= !line::has_no_lines(reply);
        if request.kind == Kind::Resp3 && matches!(reply, OwnedFrame::Error(_)) {
            // Without RESP3 a node says nothing of changes, whatever it answers to the request that it do.
            self.tracking.refused();
        }
        let index = match request.kind {
            Kind::Wait { index, .. } => index,
            _ => None,
        };
        Some(Content::InLine(line::in_line(reply), index))
    }

    /// The same of a reply about who has a lock, and about messages of that.
    fn meaning_for_observers(&mut self, request: &Request, reply: &OwnedFrame) -> Option<Content> {
        let is_preferred = request.form == Form::Preferred;
        Some(match (request.kind, &self.peer.identity) {
            (Kind::Look { index, .. }, Ok(by)) => match looking::seen(reply, is_preferred) {
                Some(seen) => Content::Seen(seen.map(|sight| (by.clone(), sight)), index),
                None => {
                    self.peer.tells_holders = false;
                    return None;
                }
            },
            (Kind::Look { index, .. }, Err(cause)) => Content::Seen(Err(cause.clone()), index),
            (Kind::Track, _) => {
                let is_refused = matches!(reply, OwnedFrame::Error(_));
                if is_refused {
                    self.tracking.refused();
                }
                Content::Tracking(!is_refused)
            }
            _ => Content::Tracking(false),
        })
    }

    /// What a reply to a request for the lock means that says something about its holder; none where it is to be asked for
    /// without that.
    fn meaning_with_text(&mut self, request: &Request, reply: &OwnedFrame) -> Option<Content> {
        let by = self.peer.identity.as_ref().ok()?;
        if !meaning::takes_text(reply) {
            // One that has lost its fences would refuse each time.
            self.peer.takes_text &= !(meaning::is_unknown(reply) || meaning::lost_fences(reply));
            return None;
        }
        let token = &request.subject.token;
        let (answer, _) = meaning::taken_fenced(reply, by, token, None);
        Some(Content::Taken(answer, None))
    }

    /// Writes a request in its fallback form, if its reply still matters.
    fn repeat(&mut self, mut request: Request, world: &Surroundings<'_>) {
        let asker = request.asker;
        let is_wanted = asker.is_some_and(|asker| (world.is_wanted)(asker.operation));
        let is_sent = match request.kind {
            // Behind its own release the lock would be taken and left behind.
            Kind::Take | Kind::Retake(_) => is_wanted && !self.releases(&request),
            Kind::Extend | Kind::Look { .. } => is_wanted,
            Kind::Wait { .. } => is_wanted && !self.leaves(&request),
            _ => true,
        };
        if is_sent {
            request.form = Form::Fallback;
            request.is_repeated = true;
            // What the kernel was told for its first form is good for this one.
            self.push(world.now, request);
        }
    }

    /// Whether the line that this request would join is left behind it.
    fn leaves(&self, request: &Request) -> bool {
        self.in_flight
            .iter()
            .any(|other| other.kind == Kind::Unwait && other.subject.name == request.subject.name)
    }

    /// Whether a release of what this request would take is on its way.
    fn releases(&self, request: &Request) -> bool {
        self.in_flight.iter().any(|other| {
            other.kind == Kind::Release
                && other.subject.token == request.subject.token
                && other.subject.name == request.subject.name
        })
    }
}

/// What a reply to a request for the lock means, or nothing if that is to be written in its fallback form.
fn taken(
    request: &Request,
    reply: &OwnedFrame,
    by: &Identity,
    takes_get: &mut bool,
) -> Option<Content> {
    let (subject, token) = (&request.subject, &request.subject.token);
    let is_preferred = request.form == Form::Preferred;
    let answer = match request.kind {
        Kind::TakeFenced { guess } => {
            let (answer, fence) = meaning::taken_fenced(reply, by, token, guess);
            return Some(Content::Taken(answer, fence));
        }
        Kind::Retake(fence) => {
            let fence = is_preferred.then_some(fence);
            meaning::retaken(reply, by, token, fence)?
        }
        _ if subject.is_shared() => shared::taken_shared(reply, by, token),
        _ => {
            let answer = meaning::taken(reply, by, token, is_preferred);
            *takes_get &= answer.is_some();
            answer?
        }
    };
    Some(Content::Taken(answer, None))
}

const READ_BYTES: usize = 4096;
/// How often a node is asked how far it has come.
const STATE_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes that are not acknowledged for a quarter of a lease, or 2 s, go nowhere, unless a round trip may take longer.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(2);
const UNACKNOWLEDGED_MIN: Duration = Duration::from_millis(200);
