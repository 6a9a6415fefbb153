//! One node as the client sees it: its connections, the requests that are queued for it, and what
//! is known of its health. A state machine without clock and I/O.
//!
//! Invariants: requests and replies of one connection match first in, first out. A request that
//! nobody waits for any more keeps its place, so that its late reply is swallowed there. A release
//! is owed until it has been answered or its lease is over, across connections. Who the node is
//! belongs to the connection on which it said so.

mod connection;
pub(crate) mod connections;
mod delivery;
mod entry;
#[cfg(test)]
mod entry_tests;
mod login;
pub(super) mod obstacle;
mod opening;
mod owed;
mod pushes;
pub(crate) mod request;
mod round_trip;
mod second;
mod subject;
#[cfg(test)]
mod tests;
mod tracking;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

use self::connection::Connection;
use self::entry::Entry;
use self::login::{Peer, unreachable};
use self::opening::Opening;
use self::owed::{DEFERRED_LEAST, Deferred};
use self::request::{Kind, Request};
use self::round_trip::RoundTrip;
use self::second::Second;
use crate::OperationId;
use crate::address::NodeAddress;
use crate::answer::{Answer, Content};
use crate::clock::ClientInstant;
use crate::log_line::{LogLine, News};
use crate::outcome::Cause;
use crate::protocol::push::Push;
use crate::register::Register;
use crate::settings::{Settings, VotesBy};
use crate::votes::NodeIndex;

/// One connection of one node; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    /// The node it leads to.
    pub node: NodeIndex,
    /// Counts the node's connections; those of its stream of messages are counted apart, from a number of their own on.
    pub number: u32,
}

/// What is to be done for a node's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkAction {
    /// Connect, and tell how that went.
    Open(ConnectionId),
    /// Close it, whatever state it is in; nothing is to be told about it any more.
    Close(ConnectionId),
    /// Give it up when bytes were not acknowledged for so long.
    LimitUnacknowledged(ConnectionId, Duration),
    /// Log this.
    Log(LogLine),
}

/// One node's answer on its way to the operation that asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkReply {
    pub(crate) node: NodeIndex,
    pub(crate) operation: OperationId,
    pub(crate) round: u32,
    pub(crate) content: Content,
}

/// What a link is told of the rest of the client when something happens to it.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: ClientInstant,
    pub(crate) register: &'a mut Register,
    pub(crate) random: &'a mut dyn Rng,
    /// Whether an operation still waits for replies.
    pub(crate) is_wanted: &'a dyn Fn(OperationId) -> bool,
}

#[derive(Debug)]
enum State {
    Idle,
    Opening(Opening),
    Ready(Connection),
    /// Known to be dead: not tried before this time.
    Resting(ClientInstant, Cause),
}

/// Why something failed, and when.
#[derive(Clone, Debug)]
struct Failed {
    at: ClientInstant,
    cause: Cause,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) index: NodeIndex,
    pub(crate) label: Arc<str>,
    address: NodeAddress,
    client_name: Arc<str>,
    deadline_max: Duration,
    votes_by: VotesBy,
    takes_agent: bool,
    state: State,
    second: Second,
    waiting: VecDeque<Request>,
    deferred: Vec<Deferred>,
    /// When the first of them is due.
    next_deferred: Option<ClientInstant>,
    /// Bytes of names and tokens of releases that wait or are deferred.
    owed_bytes: usize,
    /// Releases that could not be owed as well, and when that was logged last.
    given_up: u64,
    gave_up_at: Option<ClientInstant>,
    /// What the node said the last time somebody logged in.
    peer: Option<Peer>,
    /// The node serves no locks before this time.
    delayed: Option<Failed>,
    /// Who this entry of the list is, and since when another.
    entry: Entry,
    /// Why no connection could be made the last time it was tried.
    failed: Option<Failed>,
    failures: u32,
    /// A connection is wanted although nothing waits for it.
    is_wanted: bool,
    /// Who is told when the connection stands that is being made, or that none could be made.
    connecting: Vec<OperationId>,
    /// The node does not vote because of its last login, which is to be repeated.
    doubts_login: bool,
    round_trip: RoundTrip,
    connections: u32,
    actions: Vec<LinkAction>,
    replies: VecDeque<LinkReply>,
    /// What the node has said unasked.
    pushes: VecDeque<Push>,
    /// A connection has ended on which the client may have stood in lines.
    has_lost_lines: bool,
    /// The same of one on which the node told of changes.
    has_lost_tracking: bool,
    /// Connections that ended in a row upon a request about lines, and when the last one did.
    line_closures: u32,
    lines_closed: Option<ClientInstant>,
}

impl Link {
    pub(crate) fn new(index: NodeIndex, address: NodeAddress, settings: &Settings) -> Self {
        let fails_over = address.endpoint.fails_over();
        Self {
            index,
            label: Arc::from(address.to_string()),
            address,
            client_name: Arc::clone(&settings.client_name),
            deadline_max: settings.node_deadline_max,
            votes_by: settings.votes_by,
            takes_agent: settings.takes_agent,
            entry: Entry::new(settings.drift, fails_over),
            state: State::Idle,
            second: Second::default(),
            waiting: VecDeque::new(),
            deferred: Vec::new(),
            next_deferred: None,
            owed_bytes: 0,
            given_up: 0,
            gave_up_at: None,
            peer: None,
            delayed: None,
            failed: None,
            failures: 0,
            is_wanted: false,
            connecting: Vec::new(),
            doubts_login: false,
            round_trip: RoundTrip::default(),
            connections: 0,
            actions: Vec::new(),
            replies: VecDeque::new(),
            pushes: VecDeque::new(),
            has_lost_lines: false,
            has_lost_tracking: false,
            line_closures: 0,
            lines_closed: None,
        }
    }

    /// How long this node is waited for in a round about a lease of `ttl`.
    pub(crate) fn patience(&self, ttl: Duration, now: ClientInstant) -> Duration {
        // What is left of the lease then is still worth having.
        let most_unready = (ttl / 4 * 3).max(PATIENCE_MIN);
        match &self.state {
            State::Ready(_) => {
                // A round trip may take longer than a third of the lease, and the lease is worth having all the same.
                let needed = self.round_trip.usual().max(PATIENCE_MIN);
                let most = self.deadline_max.min((ttl / 3).max(needed));
                self.round_trip.patience().min(most)
            }
            // The request has a deadline of its own.
            State::Opening(opening) => opening
                .most_left(self.deadline_max, now)
                .saturating_add(self.deadline_max)
                .min(most_unready),
            // And so have a connect and a login.
            State::Idle | State::Resting(..) => {
                self.deadline_max.saturating_mul(3).min(most_unready)
            }
        }
    }

    /// How long this node is waited for where another one has refused already, if that is known.
    pub(crate) fn contended_patience(&self) -> Option<Duration> {
        let is_ready = self.ready().is_some();
        let usual = self.round_trip.usual();
        (is_ready && !usual.is_zero()).then(|| usual.max(CONTENDED_MIN))
    }

    /// What a round trip takes as a rule, zero while none was measured.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip.usual()
    }

    /// What round trips have taken in the mean, if one was measured.
    pub(crate) fn mean_round_trip(&self) -> Option<Duration> {
        self.round_trip.mean()
    }

    /// Queues a request, or says at once why this node will not answer it. What a closed door
    /// costs is nothing; a release that may matter is kept for the next connection.
    pub(crate) fn submit(&mut self, now: ClientInstant, request: Request) -> Result<(), Cause> {
        // A node that was never asked for this lock need not be told before it can be.
        let is_held = request.subject.may_be_held_by(self.index);
        if request.kind != Kind::Release || !is_held {
            self.obstacle(&request, now).map_or(Ok(()), Err)?;
        }
        let has_room = self.has_room_for(&request);
        match &mut self.state {
            State::Ready(connection) if connection.has_room() => {
                self.write(now, request);
                Ok(())
            }
            // Nothing may wait for a connection that stands already; what is owed is sent later.
            State::Ready(_)
                if request.kind == Kind::Release && self.deferred.len() < OWED_MAX && has_room =>
            {
                self.defer(now.after(DEFERRED_LEAST), request);
                Ok(())
            }
            // What is owed leaves room for what is asked.
            State::Idle | State::Opening(_) | State::Resting(..)
                if self.waiting.len() < most_waiting(&request, is_held) && has_room =>
            {
                self.note_owed(&request);
                self.waiting.push_back(request);
                Ok(())
            }
            _ if request.kind == Kind::Release => {
                if is_held {
                    self.gave_up_release(now);
                }
                Err(Cause::Refused(Arc::from(
                    "too many releases are owed to this node: what it holds ends with its ttl",
                )))
            }
            _ => Err(Cause::Refused(Arc::from(
                "too many requests are queued for this node",
            ))),
        }
    }

    /// Does what has become due.
    pub(crate) fn tick(&mut self, world: &mut Surroundings<'_>) {
        let now = world.now;
        if std::mem::take(&mut self.doubts_login) && matches!(self.state, State::Ready(_)) {
            self.is_wanted = true;
            return self.give_up("it did not let the node vote and is made again", world);
        }
        if let State::Opening(opening) = &self.state
            && now.has_reached(opening.deadline)
        {
            self.actions.push(LinkAction::Close(opening.id));
            let cause = unreachable(opening.missed());
            self.not_opened(&cause, world);
        }
        if let Some(id) = self.second.overdue(now) {
            self.actions.push(LinkAction::Close(id));
            self.second.failed(now);
        }
        self.send_deferred(now);
        if let State::Ready(connection) = &mut self.state {
            connection.look(now);
        }
        if let Some(silent_for) = self.silent_for() {
            if self.is_beyond_lease(silent_for) {
                return self.give_up("silent for longer than the ttl", world);
            }
            if silent_for >= self.suspicion() && self.second.may_begin(now) {
                let opening = self.open(now);
                self.second.begin(opening);
            }
        }
        let may_open = match &self.state {
            State::Idle => true,
            State::Resting(until, _) => now.has_reached(*until),
            State::Opening(_) | State::Ready(_) => false,
        };
        if may_open && self.wants_connection(world) {
            self.state = State::Opening(self.open(now));
        }
    }

    /// Whether something waits that nothing has been done for yet.
    pub(crate) fn is_waited_for(&self) -> bool {
        let is_idle = matches!(self.state, State::Idle);
        self.doubts_login || is_idle && self.is_connection_wanted()
    }

    /// Whether [`tick`](Self::tick) has something to do.
    pub(crate) fn is_due(&self, now: ClientInstant) -> bool {
        self.is_waited_for() || self.next_time().is_some_and(|at| now.has_reached(at))
    }

    /// When [`tick`](Self::tick) is to be called.
    pub(crate) fn next_time(&self) -> Option<ClientInstant> {
        let own = match &self.state {
            State::Idle => None,
            State::Opening(opening) => Some(opening.deadline),
            State::Resting(until, _) => self.is_connection_wanted().then_some(*until),
            State::Ready(connection) => {
                let is_open = self.second.is_open();
                let limit = (!is_open).then(|| self.suspicion());
                earlier(connection.next_look(limit), self.next_deferred)
            }
        };
        earlier(own, self.second.deadline())
    }

    /// What is to be sent on a connection; whoever sends it takes it out.
    pub(crate) fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        match &mut self.state {
            State::Ready(connection) if connection.id == id => Some(&mut connection.out),
            State::Opening(opening) if opening.id == id => Some(&mut opening.out),
            _ if self.second.is(id) => self.second.opening().map(|opening| &mut opening.out),
            _ => None,
        }
    }

    pub(crate) fn take_actions(&mut self) -> std::vec::Drain<'_, LinkAction> {
        self.actions.drain(..)
    }

    pub(crate) fn take_reply(&mut self) -> Option<LinkReply> {
        self.replies.pop_front()
    }

    /// Requests that are queued, in flight, or to be sent again.
    pub(crate) fn size(&self) -> usize {
        let in_flight = self.ready().map_or(0, |ready| ready.in_flight.len());
        self.waiting.len() + self.deferred.len() + self.connecting.len() + in_flight
    }

    /// Replies and actions that nobody has taken yet.
    pub(crate) fn undelivered(&self) -> usize {
        self.replies.len() + self.actions.len() + self.pushes.len()
    }

    /// An answer: the node is well, and a second connection is not needed.
    fn ready(&self) -> Option<&Connection> {
        match &self.state {
            State::Ready(connection) => Some(connection),
            _ => None,
        }
    }

    fn heard(&mut self, request: &Request, now: ClientInstant) {
        self.failures = 0;
        if let Some(id) = self.second.end() {
            self.actions.push(LinkAction::Close(id));
        }
        if !request.is_repeated {
            let limit = self.deadline_max;
            self.round_trip.measure_reply(request.since, now, limit);
        }
    }

    /// Remembers what an answer tells about the requests to come, and what is still owed.
    fn learn(&mut self, request: &Request, content: &Content, world: &mut Surroundings<'_>) {
        let now = world.now;
        // A proxy may have let another node answer.
        if let Content::Info(Ok(told)) = content
            && let Some(Ok(identity)) = self.identity()
            && told.info.identity.as_ref() == Some(identity)
            && world.register.has_gone_back(identity, told.info.log)
        {
            self.entry.went_back(now);
            self.log(News::WentBack);
        }
        if let Content::Taken(Answer::Not(cause @ Cause::Delayed { left, .. }), _) = content {
            // Asked again after a second at the latest, in case the delay ended otherwise.
            self.delayed = Some(Failed {
                at: now.after((*left).min(DELAY_MEMORY)),
                cause: cause.clone(),
            });
        }
        if matches!(content, Content::InLine(Ok(_), _) | Content::Tracking(true)) {
            self.line_closures = 0;
        }
        if let Content::Released(answer) = content {
            self.released(now, request, answer);
        }
    }

    /// Writes to the connection that stands, if one does.
    fn write(&mut self, now: ClientInstant, request: Request) {
        if let State::Ready(connection) = &mut self.state {
            // The kernel must not give up what is still waited for.
            let needed = self.round_trip.patience().min(self.deadline_max);
            let limit = connection.write(now, request, needed);
            let id = connection.id;
            self.actions
                .extend(limit.map(|limit| LinkAction::LimitUnacknowledged(id, limit)));
        }
    }

    fn log(&mut self, news: News) {
        let node = Arc::clone(&self.label);
        self.actions.push(LinkAction::Log(LogLine { node, news }));
    }

    fn answer_failure(&mut self, request: &Request, cause: &Cause) {
        self.answer(request, request.kind.without_answer(cause.clone()));
    }

    fn answer(&mut self, request: &Request, content: Content) {
        if let Some(asker) = request.asker {
            self.replies.push_back(LinkReply {
                node: self.index,
                operation: asker.operation,
                round: asker.round,
                content,
            });
        }
    }
}

/// Behind how many others it waits for a connection at most.
fn most_waiting(request: &Request, is_held: bool) -> usize {
    match request.kind {
        Kind::Release if is_held => OWED_MAX,
        // It is queued until the connection is made or not, and leaves room for what is owed.
        Kind::Release => OWED_MAX / 2,
        _ => QUEUE_MAX,
    }
}

/// Which of two times comes first, where there are any.
pub(crate) fn earlier(
    one: Option<ClientInstant>,
    other: Option<ClientInstant>,
) -> Option<ClientInstant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.earlier(other)),
        (one, other) => one.or(other),
    }
}

/// A random number from 0 up to 1.
pub(crate) fn fraction(random: &mut dyn Rng) -> f64 {
    f64::from(random.next_u32()) / f64::from(u32::MAX)
}

/// Requests queued for one node, in flight or waiting for its connection.
const QUEUE_MAX: usize = 100_000;
/// Releases that are owed to one node, and the bytes of their names and tokens; beyond either a lock stays on that node until its ttl is
/// over. They take about 20 MB where both are used up.
const OWED_MAX: usize = 25_000;
const OWED_BYTES_MAX: usize = 8 << 20;
const DELAY_MEMORY: Duration = Duration::from_secs(1);
/// Covers a sync of the node's log.
const CONTENDED_MIN: Duration = Duration::from_millis(50);
const PATIENCE_MIN: Duration = Duration::from_millis(5);
