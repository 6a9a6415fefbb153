//! Which connection a node has: made, moved over, lost, made again.
//!
//! Invariant: what is owed outlives every connection; what anybody waits for is answered when its
//! connection ends. An extension is sent again on the next one all the same: its answer may still be in time.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

use super::connection::Connection;
use super::login::{Peer, unreachable};
use super::obstacle::outsider;
use super::opening::Opening;
use super::request::{Form, Kind};
use super::second::Second;
use super::{
    ConnectionId, Failed, Link, LinkAction, LinkReply, OWED_MAX, QUEUE_MAX, State, Surroundings,
    fraction,
};
use crate::OperationId;
use crate::answer::Content;
use crate::clock::ClientInstant;
use crate::log_line::News;
use crate::outcome::Cause;
use crate::register::Admission;
use crate::settings::VotesBy;
use crate::votes::Identity;

impl Link {
    /// The connection stands: the login is written.
    ///
    /// `peer` is the address that the connection really leads to.
    pub(crate) fn connected(&mut self, id: ConnectionId, peer: &str, now: ClientInstant) {
        let deadline = now.after(self.deadline_max);
        let (address, name) = (self.address.clone(), Arc::clone(&self.client_name));
        let identity = (self.votes_by == VotesBy::Address)
            .then(|| Identity::new(Arc::from(format!("address {peer}")), 0));
        match self.opening(id) {
            Some(opening) => {
                opening.connected(now, deadline);
                opening.log_in(&address, &name, identity);
            }
            None => self.actions.push(LinkAction::Close(id)),
        }
    }

    /// No connection could be made, or it ended.
    pub(crate) fn closed(&mut self, id: ConnectionId, cause: &Cause, world: &mut Surroundings<'_>) {
        if self.second.is(id) {
            return self.second.failed(world.now);
        }
        match &self.state {
            State::Opening(opening) if opening.id == id => self.not_opened(cause, world),
            State::Ready(connection) if connection.id == id => self.fail(cause, world),
            _ => {}
        }
    }

    /// Bytes arrived.
    pub(crate) fn received(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        world: &mut Surroundings<'_>,
    ) {
        if let State::Ready(connection) = &mut self.state
            && connection.id == id
        {
            connection.append(world.now, bytes);
            return self.deliver_all(world);
        }
        let Some(opening) = self.opening(id) else {
            return;
        };
        match opening.receive(bytes) {
            Ok(None) => {}
            Err(cause) => {
                self.actions.push(LinkAction::Close(id));
                self.closed(id, &cause, world);
            }
            Ok(Some(peer)) => self.logged_in(id, peer, world),
        }
    }

    /// Makes a connection where none stands and nothing is known against it. Says whether the operation will be told
    /// how that went, by [`Content::Connected`].
    pub(crate) fn connect(&mut self, now: ClientInstant, operation: OperationId) -> bool {
        let may_connect = match &self.state {
            State::Ready(_) => false,
            State::Resting(until, _) if !now.has_reached(*until) => false,
            _ => self.recent_failure(now).is_none() && self.connecting.len() < QUEUE_MAX,
        };
        if may_connect {
            self.connecting.push(operation);
        }
        may_connect
    }

    /// As [`connect`](Self::connect), where a node was not reached a moment ago and no majority can be had without it: it may
    /// be back. Not where that took its time to find out, and would again.
    pub(crate) fn connect_again(&mut self, now: ClientInstant, operation: OperationId) -> bool {
        let resting = match &self.state {
            State::Ready(_) => return false,
            State::Resting(_, cause) => Some(cause),
            State::Idle | State::Opening(_) => None,
        };
        let cause = resting.or(self.failed.as_ref().map(|failed| &failed.cause));
        let Some(Cause::Unreachable(error)) = cause else {
            return false;
        };
        let is_quick = error.kind().is_some_and(|kind| kind != ErrorKind::TimedOut);
        if !is_quick || self.connecting.len() >= QUEUE_MAX {
            return false;
        }
        if let (State::Resting(until, _), Some(failed)) = (&mut self.state, &self.failed) {
            // However many ask, a node that is away is not dialled more often.
            let at = failed.at.after(REST_FIRST);
            let at = if now.has_reached(at) { now } else { at };
            *until = until.earlier(at);
        }
        self.connecting.push(operation);
        true
    }

    /// Tells those who have waited for a connection whether the node may vote on it.
    pub(super) fn tell_connected(&mut self, is_ready: bool) {
        for operation in std::mem::take(&mut self.connecting) {
            self.replies.push_back(LinkReply {
                node: self.index,
                operation,
                round: 0,
                content: Content::Connected(is_ready),
            });
        }
    }

    pub(super) fn is_connection_wanted(&self) -> bool {
        self.is_wanted || !self.waiting.is_empty() || !self.connecting.is_empty()
    }

    pub(super) fn open(&mut self, now: ClientInstant) -> Opening {
        self.connections += 1;
        let id = ConnectionId {
            node: self.index,
            number: self.connections,
        };
        self.actions.push(LinkAction::Open(id));
        Opening::start(id, now.after(self.deadline_max))
    }

    pub(super) fn opening(&mut self, id: ConnectionId) -> Option<&mut Opening> {
        if self.second.is(id) {
            return self.second.opening();
        }
        match &mut self.state {
            State::Opening(opening) if opening.id == id => Some(opening),
            _ => None,
        }
    }

    pub(super) fn logged_in(
        &mut self,
        id: ConnectionId,
        mut peer: Peer,
        world: &mut Surroundings<'_>,
    ) {
        let Some(opening) = self.opening(id) else {
            return;
        };
        let sample = opening.login_time(world.now);
        if self.second.is(id) && !self.is_same(&peer) {
            // The first is slow, and where the second leads is another node.
            self.actions.push(LinkAction::Close(id));
            return self.second.failed(world.now);
        }
        self.admit(&mut peer, world);
        if self.entry.logged_in(&peer.identity, world.now) {
            self.log(News::Replaced);
        }
        let mut connection = Connection::new(world.now, self.index, id, peer.clone());
        if self.closes_upon_lines(world.now) {
            // Something on the way closes connections upon such requests.
            connection.tracking.refused();
        }
        if self.second.is(id) {
            return self.move_over(connection, world);
        }
        if let Some(sample) = sample {
            self.round_trip.measure_login(sample);
        }
        self.failed = None;
        self.delayed = None;
        let may_vote = peer.identity.is_ok();
        self.peer = Some(peer);
        self.state = State::Ready(connection);
        self.write_waiting(world);
        self.tell_connected(may_vote);
    }

    /// Whether a second connection leads to the node of the first, or nobody knows whom that one leads to.
    fn is_same(&self, peer: &Peer) -> bool {
        match (self.identity(), &peer.identity) {
            (Some(Ok(first)), Ok(second)) => first.id == second.id,
            (Some(Ok(_)), Err(_)) => false,
            _ => true,
        }
    }

    /// Lets the node vote or not, by who it says it is.
    pub(super) fn admit(&mut self, peer: &mut Peer, world: &mut Surroundings<'_>) {
        if peer.is_agent && !self.takes_agent {
            world.register.does_not_vote(self.index, &Cause::Agent);
            peer.identity = Err(Cause::Agent);
            return self.log(News::Agent);
        }
        let identity = match &mut peer.identity {
            Ok(identity) => identity,
            Err(cause) => {
                world.register.does_not_vote(self.index, cause);
                return self.log(News::NoIdentity);
            }
        };
        identity.cluster.clone_from(&peer.membership.cluster_id);
        let member = match peer.lacks_info {
            true => world.register.admit_unread(self.index),
            false => world.register.admit_member(self.index, &peer.membership),
        };
        let admission = match member {
            Admission::Votes => world.register.admit(self.index, identity, peer.log),
            other => other,
        };
        match admission {
            Admission::Votes => {}
            Admission::OtherCluster(expected) => {
                let cluster = peer.membership.cluster_id.clone().unwrap_or_default();
                self.log(News::OtherCluster {
                    cluster: Arc::clone(&cluster),
                    expected: Arc::clone(&expected),
                });
                peer.identity = Err(Cause::OtherCluster { cluster, expected });
            }
            Admission::OtherSize(size) => {
                self.log(News::OtherSize(size));
                peer.identity = Err(Cause::OtherSize { size });
            }
            Admission::SameAs(other) => {
                self.log(News::SameAs(other));
            }
            Admission::WentBack => {
                self.entry.went_back(world.now);
                self.log(News::WentBack);
            }
        }
    }

    /// The second connection answers while the first is silent: what is on the first has an
    /// unknown outcome.
    pub(super) fn move_over(&mut self, connection: Connection, world: &mut Surroundings<'_>) {
        self.second = Second::default();
        let id = connection.id;
        let State::Ready(first) = &mut self.state else {
            self.actions.push(LinkAction::Close(id));
            return;
        };
        let first = std::mem::replace(first, connection);
        self.has_lost_lines |= first.has_lines();
        self.has_lost_tracking |= first.tracking.is_used();
        self.log(News::MovedOver);
        self.actions.push(LinkAction::Close(first.id));
        self.peer = match &self.state {
            State::Ready(connection) => Some(connection.peer.clone()),
            _ => None,
        };
        let cause = unreachable("the connection went silent and was replaced");
        for mut request in first.in_flight {
            if request.is_owed(self.index, world.now) || request.is_repeatable(world.now) {
                request.form = Form::Preferred;
                self.waiting.push_back(request);
            } else {
                self.answer_failure(&request, &cause);
            }
        }
        self.write_waiting(world);
    }

    pub(super) fn write_waiting(&mut self, world: &mut Surroundings<'_>) {
        let now = world.now;
        let waiting = std::mem::take(&mut self.waiting);
        self.count_owed();
        for mut request in waiting {
            if now.has_reached(request.until) {
                self.answer_failure(&request, &Cause::Silent);
                continue;
            }
            let asker = request.asker;
            // Whoever may not vote is not asked: what it took nobody would count, and perhaps nobody could free.
            let votes = request.kind.is_for_vote();
            let refused = self.identity().and_then(|identity| identity.clone().err());
            let refused = refused.filter(|_| votes);
            let round = asker.map_or(0, |asker| asker.round);
            let outsider = || outsider(world.register, self.index, request.kind, round);
            let refused = refused.or_else(outsider);
            if let Some(cause) = refused.or_else(|| self.entry.obstacle(&request, now)) {
                self.answer_failure(&request, &cause);
                continue;
            }
            let is_wanted = asker.is_some_and(|asker| (world.is_wanted)(asker.operation));
            if request.kind == Kind::Release || is_wanted {
                request.is_repeated = true;
                self.write(now, request);
            }
        }
    }

    pub(super) fn give_up(&mut self, text: &str, world: &mut Surroundings<'_>) {
        if let State::Ready(connection) = &self.state {
            self.actions.push(LinkAction::Close(connection.id));
        }
        self.fail(&unreachable(text), world);
    }

    /// No connection could be made; nobody waits for the next try.
    pub(super) fn not_opened(&mut self, cause: &Cause, world: &mut Surroundings<'_>) {
        self.failed = Some(Failed {
            at: world.now,
            cause: cause.clone(),
        });
        self.fail(cause, world);
    }

    /// The connection is gone: whoever waits is told, what is owed is kept.
    pub(super) fn fail(&mut self, cause: &Cause, world: &mut Surroundings<'_>) {
        let now = world.now;
        self.log(News::NoConnection(cause.clone()));
        self.failures = self.failures.saturating_add(1);
        let rest = rest(self.failures, world.random);
        let state = match self.second.take() {
            Some(opening) => State::Opening(opening),
            None => State::Resting(now.after(rest), cause.clone()),
        };
        let mut ended = match std::mem::replace(&mut self.state, state) {
            State::Ready(connection) => {
                self.has_lost_lines |= connection.has_lines();
                self.has_lost_tracking |= connection.tracking.is_used();
                connection.in_flight
            }
            _ => VecDeque::new(),
        };
        if let Some(first) = ended.front_mut() {
            first.closures += 1;
        }
        self.note_closure(&ended, now);
        self.tell_connected(false);
        self.round_trip.forget();
        self.next_deferred = None;
        let deferred = std::mem::take(&mut self.deferred);
        let deferred = deferred.into_iter().map(|deferred| deferred.request);
        let waiting = std::mem::take(&mut self.waiting);
        self.count_owed();
        for mut request in ended.into_iter().chain(waiting).chain(deferred) {
            self.answer_failure(&request, cause);
            let has_room = self.waiting.len() < OWED_MAX && self.has_room_for(&request);
            let is_owed = has_room && request.is_owed(self.index, now);
            if !has_room && request.is_owed(self.index, now) {
                self.gave_up_release(now);
            }
            if is_owed || request.is_repeatable(now) {
                request.form = Form::Preferred;
                request.asker = request.asker.filter(|_| !is_owed);
                request.is_repeated = true;
                self.note_owed(&request);
                self.waiting.push_back(request);
            }
        }
    }

    /// Forgets what is no longer worth sending, and says whether anything waits for a connection.
    pub(super) fn wants_connection(&mut self, world: &Surroundings<'_>) -> bool {
        self.waiting.retain(|request| {
            let asker = request.asker;
            let is_wanted = asker.is_some_and(|asker| (world.is_wanted)(asker.operation));
            !world.now.has_reached(request.until) && (request.kind == Kind::Release || is_wanted)
        });
        self.count_owed();
        self.connecting
            .retain(|operation| (world.is_wanted)(*operation));
        let is_wanted = self.is_connection_wanted();
        self.is_wanted = false;
        is_wanted
    }
}

/// Doubling with every failure, spread so that a node that comes back is not stormed.
pub(crate) fn rest(failures: u32, random: &mut dyn Rng) -> Duration {
    let most = REST_FIRST
        .saturating_mul(1 << failures.min(10))
        .min(REST_MAX);
    most.mul_f64(0.5 + 0.5 * fraction(random))
}

const REST_FIRST: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(1);
