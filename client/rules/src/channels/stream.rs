//! The connection to one node on which messages come: made, logged in, subscribed, looked after, made again.
//!
//! Invariants: all that is wanted is asked for on each connection, behind its login. A subscription is said to stand once the node has
//! confirmed the last request about it. A node that does not answer a PING in time is given up, so that what it sent before
//! is never late by more.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng;
use redis_protocol::resp2::types::OwnedFrame;

use super::{Heard, Topic};
use crate::address::NodeAddress;
use crate::clock::ClientInstant;
use crate::link::ConnectionId;
use crate::link::connections::rest;
use crate::outcome::Cause;
use crate::protocol::meaning;
use crate::protocol::reply::{Incoming, Replies};
use crate::protocol::request::write;
use crate::settings::{Settings, VotesBy};
use crate::votes::NodeIndex;

/// What is to be done for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamAction {
    Open(ConnectionId),
    Close(ConnectionId),
}

#[derive(Debug)]
pub(crate) struct Stream {
    node: NodeIndex,
    address: NodeAddress,
    client_name: Arc<str>,
    deadline_max: Duration,
    votes_by: VotesBy,
    state: State,
    connections: u32,
    failures: u32,
    pub(crate) actions: Vec<StreamAction>,
    pub(crate) heard: VecDeque<Heard>,
}

#[derive(Debug)]
enum State {
    Idle,
    /// It is being made, and has to stand by then.
    Opening(Open, ClientInstant),
    LoggingIn(Open, StreamLogin),
    Ready(Open, ReadyStream),
    Resting(ClientInstant),
}

#[derive(Debug)]
struct Open {
    id: ConnectionId,
    out: Vec<u8>,
    replies: Replies,
}

#[derive(Debug)]
struct StreamLogin {
    deadline: ClientInstant,
    awaited: VecDeque<StreamQuestion>,
    /// Who the node is, as far as it is known.
    id: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug)]
enum StreamQuestion {
    Must,
    May,
    Info,
}

#[derive(Debug)]
struct ReadyStream {
    /// Requests without a confirmation, in their order, and whether each begins something.
    asked: VecDeque<(Topic, bool)>,
    /// How many of them are about each topic.
    about: HashMap<Topic, u32>,
    /// When the node is to be asked whether it is there, or by when it has to have answered.
    ping: Ping,
}

#[derive(Clone, Copy, Debug)]
enum Ping {
    At(ClientInstant),
    Until(ClientInstant),
}

impl Stream {
    pub(crate) fn new(node: NodeIndex, address: NodeAddress, settings: &Settings) -> Self {
        Self {
            node,
            address,
            client_name: Arc::clone(&settings.client_name),
            deadline_max: settings.node_deadline_max,
            votes_by: settings.votes_by,
            state: State::Idle,
            connections: 0,
            failures: 0,
            actions: Vec::new(),
            heard: VecDeque::new(),
        }
    }

    /// Asks for these, and for those no more. They are among what is wanted, or not any more.
    pub(crate) fn change(&mut self, add: &[Topic], remove: &[Topic]) {
        if let State::Ready(open, ready) = &mut self.state {
            for topic in remove {
                ready.ask(open, topic, false);
            }
            for topic in add {
                ready.ask(open, topic, true);
            }
        }
    }

    /// Does what is due. With nothing that is wanted the connection ends.
    pub(crate) fn tick(
        &mut self,
        now: ClientInstant,
        wanted: &BTreeSet<Topic>,
        random: &mut dyn Rng,
    ) {
        self.keep(now, random);
        if wanted.is_empty() {
            return self.end();
        }
        if matches!(self.state, State::Idle) {
            self.connections += 1;
            let id = ConnectionId {
                node: self.node,
                number: FIRST_NUMBER + self.connections,
            };
            self.actions.push(StreamAction::Open(id));
            let open = Open {
                id,
                out: Vec::new(),
                replies: Replies::with_capacity(READ_BYTES),
            };
            self.state = State::Opening(open, now.after(self.deadline_max));
        }
    }

    /// Gives up what has not answered in time, and makes no new connection.
    pub(crate) fn keep(&mut self, now: ClientInstant, random: &mut dyn Rng) {
        let is_over = match &mut self.state {
            State::Idle => false,
            State::Resting(until) => {
                if now.has_reached(*until) {
                    self.state = State::Idle;
                }
                return;
            }
            State::Opening(_, deadline) => now.has_reached(*deadline),
            State::LoggingIn(_, login) => now.has_reached(login.deadline),
            State::Ready(open, ready) => ready.look(now, open, self.deadline_max),
        };
        if is_over {
            let cause = Cause::Unreachable("it did not answer in time".into());
            self.fail(now, cause, random);
        }
    }

    /// When [`tick`](Self::tick) is to be called, as long as something is wanted.
    pub(crate) fn next_time(&self) -> Option<ClientInstant> {
        match &self.state {
            State::Idle => None,
            State::Resting(at) | State::Opening(_, at) => Some(*at),
            State::LoggingIn(_, login) => Some(login.deadline),
            State::Ready(_, ready) => match ready.ping {
                Ping::At(at) | Ping::Until(at) => Some(at),
            },
        }
    }

    /// The connection stands, to this address in the end.
    pub(crate) fn connected(&mut self, now: ClientInstant, id: ConnectionId, peer: &str) {
        if !matches!(&self.state, State::Opening(open, _) if open.id == id) {
            return;
        }
        let State::Opening(mut open, _) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let address = &self.address;
        let mut awaited = VecDeque::new();
        let mut ask = |what: StreamQuestion, words: &[&[u8]]| {
            write(&mut open.out, words);
            awaited.push_back(what);
        };
        match (&address.user, &address.password) {
            (Some(user), Some(password)) => ask(
                StreamQuestion::Must,
                &[b"AUTH", user.as_bytes(), password.as_bytes()],
            ),
            (None, Some(password)) => ask(StreamQuestion::Must, &[b"AUTH", password.as_bytes()]),
            _ => {}
        }
        let name = self.client_name.as_bytes();
        ask(StreamQuestion::May, &[b"CLIENT", b"SETNAME", name]);
        ask(StreamQuestion::Info, &[b"INFO", b"server"]);
        let by_address = self.votes_by == VotesBy::Address;
        let login = StreamLogin {
            deadline: now.after(self.deadline_max),
            awaited,
            id: by_address.then(|| Arc::from(format!("address {peer}"))),
        };
        self.state = State::LoggingIn(open, login);
    }

    /// Bytes have arrived.
    pub(crate) fn received(
        &mut self,
        now: ClientInstant,
        id: ConnectionId,
        bytes: &[u8],
        wanted: &BTreeSet<Topic>,
        random: &mut dyn Rng,
    ) {
        match &mut self.state {
            State::LoggingIn(open, _) | State::Ready(open, _) if open.id == id => {
                open.replies.append(bytes);
            }
            _ => return,
        }
        if let Err(cause) = self.take_all(now, wanted) {
            self.fail(now, cause, random);
        }
    }

    /// The connection could not be made, or has ended.
    pub(crate) fn closed(
        &mut self,
        now: ClientInstant,
        id: ConnectionId,
        cause: Cause,
        random: &mut dyn Rng,
    ) {
        if self.open().is_some_and(|open| open.id == id) {
            // Nothing is left to be closed.
            self.lose(now, cause, random);
        }
    }

    pub(crate) fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        let open = self.open().filter(|open| open.id == id)?;
        Some(&mut open.out)
    }

    /// Nothing is wanted any more.
    pub(crate) fn end(&mut self) {
        if let Some(id) = self.open().map(|open| open.id) {
            self.actions.push(StreamAction::Close(id));
        }
        self.state = State::Idle;
    }

    fn open(&mut self) -> Option<&mut Open> {
        match &mut self.state {
            State::Idle | State::Resting(_) => None,
            State::Opening(open, _) | State::LoggingIn(open, _) | State::Ready(open, _) => {
                Some(open)
            }
        }
    }

    fn fail(&mut self, now: ClientInstant, cause: Cause, random: &mut dyn Rng) {
        if let Some(id) = self.open().map(|open| open.id) {
            self.actions.push(StreamAction::Close(id));
        }
        self.lose(now, cause, random);
    }

    fn lose(&mut self, now: ClientInstant, cause: Cause, random: &mut dyn Rng) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Resting(now.after(rest(self.failures, random)));
        let node = self.node;
        self.heard.push_back(Heard::Lost { node, cause });
    }

    fn take_all(&mut self, now: ClientInstant, wanted: &BTreeSet<Topic>) -> Result<(), Cause> {
        loop {
            let Some(open) = self.open() else {
                return Ok(());
            };
            let incoming = open.replies.next();
            let incoming = incoming.map_err(|error| {
                Cause::Unreachable((&*format!("protocol error: {error}")).into())
            })?;
            match incoming {
                None => return Ok(()),
                Some(Incoming::Push(_)) => return Err(foreign()),
                Some(Incoming::Reply(reply)) => match &mut self.state {
                    State::LoggingIn(_, login) => {
                        login.take(&self.address, reply)?;
                        if login.awaited.is_empty() {
                            self.logged_in(now, wanted)?;
                        }
                    }
                    State::Ready(..) => self.take(now, reply)?,
                    _ => return Ok(()),
                },
            }
        }
    }

    fn logged_in(&mut self, now: ClientInstant, wanted: &BTreeSet<Topic>) -> Result<(), Cause> {
        let State::LoggingIn(mut open, login) = std::mem::replace(&mut self.state, State::Idle)
        else {
            return Ok(());
        };
        let Some(id) = login.id else {
            self.state = State::Opening(open, now);
            return Err(Cause::Unidentified(Arc::from("INFO names no run_id")));
        };
        let mut ready = ReadyStream {
            asked: VecDeque::new(),
            about: HashMap::new(),
            ping: Ping::At(now.after(PING_EVERY)),
        };
        for topic in wanted {
            ready.ask(&mut open, topic, true);
        }
        self.failures = 0;
        let node = self.node;
        self.heard.push_back(Heard::Opened { node, id });
        self.state = State::Ready(open, ready);
        Ok(())
    }

    /// What a node says that is ready.
    fn take(&mut self, now: ClientInstant, reply: OwnedFrame) -> Result<(), Cause> {
        let State::Ready(_, ready) = &mut self.state else {
            return Ok(());
        };
        let node = self.node;
        match Said::of(reply).ok_or_else(foreign)? {
            Said::Pong => ready.ping = Ping::At(now.after(PING_EVERY)),
            Said::Confirmed => {
                if let Some((topic, true)) = ready.confirmed()? {
                    self.heard.push_back(Heard::Stands { node, topic });
                }
            }
            Said::Refused(cause) => {
                if let Some((topic, true)) = ready.confirmed()? {
                    self.heard.push_back(Heard::Refused { node, topic, cause });
                }
            }
            Said::Message(topic, channel, payload) => self.heard.push_back(Heard::Message {
                node,
                topic,
                channel,
                payload,
            }),
            Said::TooLong => {}
        }
        Ok(())
    }
}

impl ReadyStream {
    fn ask(&mut self, open: &mut Open, topic: &Topic, begins: bool) {
        let word: &[u8] = match (topic.is_pattern, begins) {
            (false, true) => b"SUBSCRIBE",
            (false, false) => b"UNSUBSCRIBE",
            (true, true) => b"PSUBSCRIBE",
            (true, false) => b"PUNSUBSCRIBE",
        };
        // One for each request, so that a refusal says of which.
        write(&mut open.out, &[word, &topic.name]);
        *self.about.entry(topic.clone()).or_default() += 1;
        self.asked.push_back((topic.clone(), begins));
    }

    /// The oldest request is answered; it is returned if it is the last one about its topic.
    fn confirmed(&mut self) -> Result<Option<(Topic, bool)>, Cause> {
        let (topic, begins) = self.asked.pop_front().ok_or_else(foreign)?;
        let Some(left) = self.about.get_mut(&topic) else {
            return Ok(None);
        };
        *left -= 1;
        if *left > 0 {
            return Ok(None);
        }
        self.about.remove(&topic);
        Ok(Some((topic, begins)))
    }

    /// Whether the node has not answered in time. What had arrived by then was read.
    fn look(&mut self, now: ClientInstant, open: &mut Open, deadline: Duration) -> bool {
        match self.ping {
            Ping::At(at) if now.has_reached(at) => {
                write(&mut open.out, &[b"PING"]);
                self.ping = Ping::Until(now.after(deadline));
                false
            }
            Ping::At(_) => false,
            Ping::Until(until) => now.has_reached(until),
        }
    }
}

impl StreamLogin {
    fn take(&mut self, address: &NodeAddress, reply: OwnedFrame) -> Result<(), Cause> {
        let reply = match reply {
            OwnedFrame::Error(text) => {
                OwnedFrame::Error(address.without_secrets(&text).into_owned())
            }
            reply => reply,
        };
        if let Some(cause) = meaning::login_refused(&reply) {
            return Err(cause);
        }
        match self.awaited.pop_front() {
            Some(StreamQuestion::Must) if matches!(reply, OwnedFrame::Error(_)) => {
                Err(meaning::refusal(&reply))
            }
            Some(StreamQuestion::Info) => match meaning::info(&reply) {
                Ok(info) if info.is_agent => Err(Cause::Agent),
                Ok(info) => {
                    let id = info.identity.map(|identity| identity.id);
                    self.id = self.id.take().or(id);
                    Ok(())
                }
                // Counted by its address, it need not say who it is.
                Err(_) if self.id.is_some() => Ok(()),
                Err(cause) => Err(cause),
            },
            Some(_) => Ok(()),
            None => Err(foreign()),
        }
    }
}

/// What a node says on such a connection.
enum Said {
    Pong,
    Confirmed,
    Refused(Cause),
    Message(Topic, Bytes, Bytes),
    /// A message of which only the beginning is here.
    TooLong,
}

impl Said {
    fn of(reply: OwnedFrame) -> Option<Self> {
        let parts = match reply {
            OwnedFrame::Array(parts) => parts,
            OwnedFrame::SimpleString(text) if text == b"PONG" => return Some(Self::Pong),
            error @ OwnedFrame::Error(_) => return Some(Self::Refused(meaning::refusal(&error))),
            _ => return None,
        };
        let mut texts = Vec::with_capacity(parts.len());
        for part in parts {
            texts.push(match part {
                OwnedFrame::BulkString(text) => Bytes::from(text),
                _ => Bytes::new(),
            });
        }
        let mut texts = texts.into_iter();
        let kind = texts.next()?;
        let mut text = || texts.next();
        let (topic, channel, payload) = match &kind[..] {
            b"pong" => return Some(Self::Pong),
            b"subscribe" | b"psubscribe" | b"unsubscribe" | b"punsubscribe" => {
                return Some(Self::Confirmed);
            }
            b"message" => {
                let channel = text()?;
                (Topic::channel(channel.clone()), channel, text()?)
            }
            b"pmessage" => (Topic::pattern(text()?), text()?, text()?),
            _ => return None,
        };
        Some(match payload.len() {
            PAYLOAD_BYTES_CUT.. => Self::TooLong,
            _ => Self::Message(topic, channel, payload),
        })
    }
}

fn foreign() -> Cause {
    Cause::Unreachable("it sent what is no message of a channel".into())
}

/// The numbers of these connections are above those of all others.
pub(crate) const FIRST_NUMBER: u32 = 1 << 31;
const READ_BYTES: usize = 4096;
const PING_EVERY: Duration = Duration::from_secs(2);
/// What is kept of a string.
const PAYLOAD_BYTES_CUT: usize = 256 * 1024;
