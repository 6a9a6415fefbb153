//! The agent: its requests, each by its number, and what is to be done for them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::channels::{Heard, Topic};
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::settings::Drift;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::{Caller, Reply};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};

use crate::channels::{Changes, Channels, ToDo};
use crate::commands::Commands;
use crate::known_holders::KnownHolders;
use crate::listing;
use crate::lock_command::LockCommand;
use crate::locking::Locking;
use crate::looking::Looking;
use crate::next::{Expiring, Next};
use crate::publishing::Publishing;
use crate::refusal;
use crate::request::Request;
use crate::request_id::RequestId;
use crate::scratch::Scratch;
use crate::sessions::Sessions;
use crate::surroundings::Surroundings;
use crate::watched_names::{WatchAction, WatchedNames};

/// What happens to an agent.
#[derive(Debug)]
pub enum Event {
    /// A client has sent a request.
    Request(RequestId, Caller, Commands),
    /// What was asked for a request has come to this.
    Outcome(RequestId, Outcome),
    /// The watch on this lock says who has it, as a majority said and as it is still; or none, where that is not certain.
    Watched(Bytes, Option<Token>),
    /// A client wants to listen to these; the request is answered with an OK once that stands.
    Listen(RequestId, u64, Vec<Topic>),
    /// A client does not listen to these any more.
    Unlisten(u64, Vec<Topic>),
    /// What nodes have said to the listener.
    Heard(Heard),
    /// A client has gone, by its number: it sends nothing more, and has no use for a reply.
    Left(u64),
    /// The time that was named has come, or any other time.
    Timer,
}

/// What is to be done for an agent.
#[derive(Debug)]
pub enum Action {
    /// Make this call to the nodes, and tell its outcome. A request has one call under way at most.
    Ask(RequestId, Call),
    /// The lock that the last call of this request has acquired is its caller's: nothing is to be renewed or released for it.
    HandOver(RequestId),
    /// The request is over, and has no reply: its client has gone. Its last call is not wanted any more, and a lock that it
    /// takes or has taken is released.
    Cancel(RequestId),
    /// Make this call, whose outcome nobody wants to know.
    Undo(Call),
    /// Watch this lock, and tell what the watch says.
    Watch(Bytes),
    /// Watch it no more.
    Unwatch(Bytes),
    /// Listen to these on the nodes, and to those no more, and tell what is heard.
    ListenTo(Vec<Topic>, Vec<Topic>),
    /// Send this message to those of the agent's clients who listen to this channel.
    Deliver(Bytes, Bytes),
    /// Answer the request: it is over.
    Reply(RequestId, Reply),
    /// The same. Whether its time is over is looked at when the reply leaves.
    ReplyBefore(RequestId, Reply, Expiring),
}

/// A request without a reply.
#[derive(Debug)]
struct UnderWay {
    client: u64,
    running: Running,
}

/// What a request does.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are executed")]
enum Running {
    /// One that is executed on the scratch keyspace.
    Executed(Request),
    /// A LOCK command that takes a lock, or is about one that is held.
    Lock(Locking),
    /// LOCK.INFO.
    Look(Looking),
    /// LOCK.LIST.
    List,
    /// PUBLISH.
    Publish(Publishing),
}

/// An agent without threads and sockets.
pub struct Agent {
    drift: Drift,
    scratch: Scratch,
    known: KnownHolders,
    watched: WatchedNames,
    hold_back: Duration,
    sessions: Sessions,
    channels: Channels,
    requests: HashMap<RequestId, UnderWay>,
    /// Requests that end when their clients go, by the numbers of these. A client has one under way at most.
    of_clients: HashMap<u64, RequestId>,
    /// Requests that go on at these times.
    pausing: Vec<(ClientInstant, RequestId)>,
    random: Box<dyn Rng + Send>,
}

impl Agent {
    /// An agent whose client counts with this drift.
    #[must_use]
    pub fn new(drift: Drift, mut random: Box<dyn Rng + Send>) -> Self {
        let of_scripts = StdRng::seed_from_u64(random.next_u64());
        Self {
            drift,
            scratch: Scratch::new(of_scripts),
            known: KnownHolders::default(),
            watched: WatchedNames::default(),
            hold_back: Duration::ZERO,
            sessions: Sessions::default(),
            channels: Channels::new(&mut *random),
            requests: HashMap::new(),
            of_clients: HashMap::new(),
            pausing: Vec::new(),
            random,
        }
    }

    /// Holds a try back for so long at most while somebody else has its lock, instead of refusing it at once.
    #[must_use]
    pub fn holding_back(self, hold_back: Duration) -> Self {
        Self { hold_back, ..self }
    }

    /// Releases the locks of a connection when it ends.
    #[must_use]
    pub fn with_sessions(mut self) -> Self {
        self.sessions.begin();
        self
    }

    /// Subscribes on these nodes, by the names under which they are shown: so many have to confirm what a client listens to.
    #[must_use]
    pub fn of_nodes(mut self, labels: Vec<Arc<str>>, quorum: usize) -> Self {
        self.channels = self.channels.of(labels, quorum);
        self
    }

    /// Takes an event in. `now` and the wall clock, in microseconds since the epoch, are read after it happened.
    pub fn handle(
        &mut self,
        now: ClientInstant,
        wall_us: u64,
        event: Event,
        actions: &mut Vec<Action>,
    ) {
        match event {
            Event::Request(id, ..) if self.requests.len() >= REQUESTS_MAX => {
                actions.push(Action::Reply(id, Reply::Error(refusal::TOO_MANY)));
            }
            Event::Request(id, caller, commands) => {
                let client = caller.client_id;
                let mut world = self.surroundings(now, wall_us, client);
                let (running, next) = begin(caller, commands, &mut world);
                let ends_with_client = running.as_ref().is_some_and(Running::ends_with_client);
                if ends_with_client || self.sessions.is_on(client) {
                    self.of_clients.insert(client, id);
                }
                let under_way = running.map(|running| UnderWay { client, running });
                self.follow(id, under_way, next, actions);
            }
            Event::Left(client) => {
                let request = self.of_clients.remove(&client);
                if let Some(id) = request
                    && let Some(request) = self.requests.remove(&id)
                {
                    if let Some(name) = request.running.name() {
                        self.watched.left(now, name, id);
                    }
                    actions.push(Action::Cancel(id));
                }
                actions.extend(self.channels.left(client).map(Action::Cancel));
                for (name, release) in self.sessions.end(now, client) {
                    self.forget(&name);
                    actions.push(Action::Undo(release));
                }
            }
            Event::Outcome(id, outcome) => {
                let Some(mut request) = self.requests.remove(&id) else {
                    return;
                };
                let mut world = self.surroundings(now, wall_us, request.client);
                let next = request.running.handle(outcome, &mut world);
                self.follow(id, Some(request), next, actions);
            }
            Event::Watched(name, holder) => self.watched.observed(now, &name, holder),
            Event::Listen(id, client, topics) => self.channels.listen(now, id, client, topics),
            Event::Unlisten(client, topics) => self.channels.unlisten(client, &topics),
            Event::Heard(heard) => self.channels.heard(now, heard),
            Event::Timer => {
                self.watched.end_idle(now);
                self.channels.tick(now);
            }
        }
        self.act_for_channels(actions);
        for (at, id) in self.watched.take_woken() {
            let pause = self.pausing.iter_mut().find(|(_, other)| *other == id);
            if let Some(pause) = pause {
                pause.0 = pause.0.earlier(at);
            }
        }
        self.end_pauses(now, wall_us, actions);
        let watches = self.watched.take_actions().into_iter();
        actions.extend(watches.map(|watch| match watch {
            WatchAction::Begin(name) => Action::Watch(name),
            WatchAction::End(name) => Action::Unwatch(name),
        }));
    }

    fn act_for_channels(&mut self, actions: &mut Vec<Action>) {
        let ToDo {
            ended,
            deliveries,
            changes: Changes { add, remove },
        } = self.channels.take_to_do();
        if !add.is_empty() || !remove.is_empty() {
            actions.push(Action::ListenTo(add, remove));
        }
        for (id, result) in ended {
            let reply = result.map_or_else(Reply::Error, |()| Reply::Ok);
            actions.push(Action::Reply(id, reply));
        }
        let deliver = |(channel, payload)| Action::Deliver(channel, payload);
        actions.extend(deliveries.into_iter().map(deliver));
    }

    /// A lock that was granted is released, since its caller has not got the reply in time.
    pub fn forget(&mut self, name: &LockName) {
        for name in name.parts() {
            self.known.forget(name);
        }
    }

    /// When [`Event::Timer`] is to be told.
    #[must_use]
    pub fn next_time(&mut self) -> Option<ClientInstant> {
        let pauses = self.pausing.iter().map(|(at, _)| *at);
        let times = pauses.chain(self.watched.next_time());
        let times = times.chain(self.channels.next_time());
        times.reduce(ClientInstant::earlier)
    }

    /// Whether the locks that this client takes end with its connection, or with a session that it is in: then a client that sends no
    /// more has gone.
    #[must_use]
    pub fn is_in_session(&self, client: u64) -> bool {
        self.sessions.is_on(client)
    }

    /// How many requests have no reply yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.requests.len()
    }

    fn surroundings(&mut self, now: ClientInstant, wall_us: u64, client: u64) -> Surroundings<'_> {
        let may_hold_back = self.pausing.len() < PAUSING_MAX;
        Surroundings {
            now,
            wall_us,
            drift: self.drift,
            scratch: &mut self.scratch,
            known: &mut self.known,
            watched: &mut self.watched,
            sessions: &mut self.sessions,
            channels: &mut self.channels,
            client,
            hold_back: Some(self.hold_back).filter(|time| may_hold_back && !time.is_zero()),
            random: &mut *self.random,
        }
    }

    fn end_pauses(&mut self, now: ClientInstant, wall_us: u64, actions: &mut Vec<Action>) {
        let is_due = |(at, _): &mut (ClientInstant, RequestId)| now.has_reached(*at);
        let due: Vec<_> = self.pausing.extract_if(.., is_due).collect();
        for (_, id) in due {
            if let Some(mut request) = self.requests.remove(&id) {
                if let Some(name) = request.running.name() {
                    self.watched.is_over(name, id);
                }
                let mut world = self.surroundings(now, wall_us, request.client);
                let next = request.running.go_on(&mut world);
                self.follow(id, Some(request), next, actions);
            }
        }
    }

    fn follow(
        &mut self,
        id: RequestId,
        request: Option<UnderWay>,
        next: Next,
        actions: &mut Vec<Action>,
    ) {
        let done = match next {
            Next::Ask(call) => {
                actions.push(Action::Ask(id, call));
                None
            }
            Next::Pause(until) => {
                self.pausing.push((until, id));
                None
            }
            Next::HoldBack(until) => {
                if let Some(request) = &request {
                    // A client that goes has no use for its lock.
                    self.of_clients.insert(request.client, id);
                    if let Some(name) = request.running.name() {
                        self.watched.hold_back(name, id);
                    }
                }
                self.pausing.push((until, id));
                None
            }
            Next::Answer(reply) => Some(Action::Reply(id, reply)),
            Next::AnswerBefore(reply, expiring) => Some(Action::ReplyBefore(id, reply, expiring)),
            Next::HandOver(reply, expiring) => {
                actions.push(Action::HandOver(id));
                Some(Action::ReplyBefore(id, reply, expiring))
            }
            Next::GiveBack(reply, call) => {
                actions.push(Action::HandOver(id));
                actions.push(Action::Undo(call));
                Some(Action::Reply(id, reply))
            }
        };
        match (done, request) {
            (Some(done), _) => actions.push(done),
            (None, Some(request)) => {
                self.requests.insert(id, request);
            }
            (None, None) => debug_assert!(false, "a request that goes on is kept"),
        }
    }
}

fn begin(
    caller: Caller,
    commands: Commands,
    world: &mut Surroundings<'_>,
) -> (Option<Running>, Next) {
    if let Some((channel, payload)) = Publishing::of(&commands) {
        let (publishing, next) = Publishing::begin(channel, payload, world);
        return (publishing.map(Running::Publish), next);
    }
    let command = match LockCommand::of(&commands) {
        Ok(Some(command)) => command,
        Ok(None) => {
            let (request, next) = Request::begin(caller, commands, world);
            return (request.map(Running::Executed), next);
        }
        Err(refusal) => return (None, Next::Answer(Reply::Error(refusal))),
    };
    let (running, next) = match command {
        LockCommand::Look(name) => {
            let (looking, next) = Looking::begin(name);
            return (Some(Running::Look(looking)), next);
        }
        LockCommand::List(terms) => return (Some(Running::List), listing::begin(terms)),
        LockCommand::Session(choice) => {
            let chosen = world.sessions.choose(world.client, choice);
            let reply = chosen.map_or_else(Reply::Error, |()| Reply::Ok);
            return (None, Next::Answer(reply));
        }
        LockCommand::Acquire(terms) => Locking::acquire(terms, world),
        LockCommand::Change { name, token, step } => Locking::change(name, token, step, world),
    };
    (Some(Running::Lock(running)), next)
}

impl Running {
    fn handle(&mut self, outcome: Outcome, world: &mut Surroundings<'_>) -> Next {
        match self {
            Self::Executed(request) => request.handle(outcome, world),
            Self::Lock(locking) => locking.handle(outcome, world),
            Self::Look(looking) => looking.handle(outcome, world),
            Self::List => listing::handle(outcome, world),
            Self::Publish(_) => Publishing::handle(outcome),
        }
    }

    fn go_on(&mut self, world: &mut Surroundings<'_>) -> Next {
        match self {
            Self::Executed(request) => request.go_on(world),
            Self::Lock(locking) => locking.go_on(),
            Self::Look(looking) => looking.go_on(),
            // They do not pause.
            Self::List | Self::Publish(_) => Next::Answer(Reply::Error(refusal::TRY_AGAIN)),
        }
    }

    /// The lock that it is about, if it is one.
    fn name(&self) -> Option<&Bytes> {
        match self {
            Self::Executed(request) => request.name(),
            Self::Lock(locking) => Some(&locking.name),
            Self::Look(looking) => Some(&looking.name),
            Self::List | Self::Publish(_) => None,
        }
    }

    fn ends_with_client(&self) -> bool {
        match self {
            Self::Executed(request) => request.is_held_back(),
            Self::Look(_) | Self::List | Self::Publish(_) => false,
            Self::Lock(locking) => locking.ends_with_client(),
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Agent")
            .field("requests", &self.requests.len())
            .finish_non_exhaustive()
    }
}

/// While so many pause, no more are held back: each event looks at all of them.
const PAUSING_MAX: usize = 1_000;
/// More are refused until some are answered.
const REQUESTS_MAX: usize = 100_000;
