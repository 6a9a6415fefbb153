//! One client: what it has asked for, what was executed of it, and what has come back.
//!
//! Invariant: it is told of a write by bytes that have left the node, and by nothing else.

use std::collections::VecDeque;

use quorlock_node::simulation::Client;

use super::batch::{Effects, Played, Served};
use super::broadcast::Broadcasts;
use super::check::Violation;
use super::model::Message;
use super::oracle::Told;
use super::request::{Reads, Request};
use super::tracker::{Beginning, Invalidation, Tracker};
use super::workload::Mode;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) client: Client,
    pub(crate) database: u8,
    /// What was sent and not executed yet.
    sent: VecDeque<Request>,
    /// What was executed and not answered yet.
    waiting: VecDeque<Waiting>,
    /// The beginning of a reply.
    received: Vec<u8>,
    /// It was told that the log has failed.
    is_lost: bool,
    /// What this client was or will be told of.
    known: Vec<Told>,
    /// It sends no more.
    pub(crate) has_ended: bool,
    /// What was queued since MULTI.
    queued: Option<Queued>,
    /// Events of keys are published: this client has asked for that.
    has_events: bool,
    /// It is told of events, and of messages on the channel.
    hears_events: bool,
    hears_messages: bool,
    /// It is told of changes of what it has read.
    tracker: Option<Tracker>,
    /// It is told of changes of all keys with its prefixes.
    broadcasts: Option<Broadcasts>,
}

/// The requests of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) requests: Vec<Vec<Vec<u8>>>,
    /// One of them was refused: none may be executed.
    pub(crate) is_spoilt: bool,
}

/// What a request is to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is executed by itself.
    None,
    /// It waits for EXEC.
    Queued,
    /// It executes these.
    Exec(Queued),
}

/// A reply or a message that the client has not received.
#[derive(Debug)]
struct Waiting {
    /// Empty where the client is blocked.
    reply: Vec<u8>,
    kind: Kind,
    tells_of: Vec<Told>,
    /// The mode it was executed in.
    mode: Mode,
    /// Everything that prefixes tell of what came before it has to be told before it.
    is_behind_broadcasts: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Reply,
    /// A sync.
    Sync,
    /// An element, which comes at once or later.
    Element,
    /// It is no reply.
    Message,
    /// The same of a script that was refused, which may not have come as far.
    Maybe,
}

/// What a client has learnt from a reply or a message.
#[derive(Clone, Debug)]
pub(crate) struct Learnt {
    pub(crate) tells_of: Vec<Told>,
    pub(crate) mode: Mode,
}

impl Learnt {
    pub(crate) fn own(told: Told, mode: Mode) -> Learnt {
        Learnt {
            tells_of: vec![told],
            mode,
        }
    }
}

/// What the bytes have brought that a client has received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) learnt: Vec<(Kind, Learnt)>,
    /// It waits for no element any more, and got none.
    pub(crate) has_waited_in_vain: bool,
}

impl Session {
    pub(crate) fn new(number: u64, client: Client) -> Session {
        Session {
            number,
            client,
            database: 0,
            sent: VecDeque::new(),
            waiting: VecDeque::new(),
            received: Vec::new(),
            is_lost: false,
            known: Vec::new(),
            has_ended: false,
            queued: None,
            has_events: false,
            hears_events: false,
            hears_messages: false,
            tracker: None,
            broadcasts: None,
        }
    }

    /// Notes what a request that was executed is to a transaction.
    pub(crate) fn note_part(&mut self, request: &Request, reply: &[u8]) -> Part {
        if let Some(queued) = self.queued.take_if(|_| request.is_exec()) {
            return Part::Exec(queued);
        }
        if request.is_multi() {
            self.queued = Some(Queued::default());
            return Part::Queued;
        }
        let Some(queued) = &mut self.queued else {
            return Part::None;
        };
        match reply == QUEUED {
            true => queued.requests.push(request.words.clone()),
            false => queued.is_spoilt = true,
        }
        Part::Queued
    }

    pub(crate) fn note_sent(&mut self, request: Request) {
        self.sent.push_back(request);
    }

    /// The request that was executed now: those of one client are in the order in which it has sent them.
    pub(crate) fn take_executed(&mut self, words: &[Vec<u8>]) -> Result<Request, Violation> {
        match self.sent.pop_front() {
            Some(request) if request.words == words => Ok(request),
            other => {
                let detail = format!("{words:?}, and not {other:?}");
                Err(Violation::new("a request is executed out of order", detail))
            }
        }
    }

    /// Notes what the reply to a request of this client will tell.
    pub(crate) fn note_executed(&mut self, played: &Played, effects: &Effects, mode: Mode) {
        let request = &played.request;
        let kind = match request {
            _ if request.is_for_sync() => Kind::Sync,
            _ if request.is_for_element() => Kind::Element,
            _ => Kind::Reply,
        };
        let mut tells_of = effects.tells_of.clone();
        if kind == Kind::Sync {
            tells_of.clone_from(&self.known);
        } else {
            self.known.extend(tells_of.iter().cloned());
        }
        self.waiting.push_back(Waiting {
            reply: played.reply.clone(),
            kind,
            tells_of,
            // Such an answer promises as much as `always`.
            mode: if kind == Kind::Sync && mode != Mode::Volatile {
                Mode::Always
            } else {
                mode
            },
            is_behind_broadcasts: self.broadcasts.is_some(),
        });
        if let Some(broadcasts) = &mut self.broadcasts {
            broadcasts.note_asked();
        }
        if !played.is_refused() {
            self.note_accepted(request);
        }
    }

    fn note_accepted(&mut self, request: &Request) {
        self.has_events |= request.asks_for_events();
        self.hears_events |= request.subscribes_to_events();
        self.hears_messages |= request.subscribes();
        if request.starts_broadcasts() {
            self.broadcasts = Some(Broadcasts::new());
        } else if request.starts_tracking() {
            self.tracker = Some(Tracker::default());
        }
        if let (Some(tracker), Reads::Key(key)) = (&mut self.tracker, &request.reads) {
            tracker.note_read(key);
        }
    }

    /// Notes what this client will be told of a request of anybody.
    pub(crate) fn note_told(&mut self, played: &Played, effects: &Effects, mode: Mode) {
        if let Some(tracker) = &mut self.tracker {
            tracker.note_executed(played, effects, mode);
        }
        if let Some(broadcasts) = &mut self.broadcasts {
            broadcasts.note_executed(played, effects, mode);
        }
        let kind = match played.is_refused() {
            true => Kind::Maybe,
            false => Kind::Message,
        };
        self.hear(kind, &effects.messages, effects.own.as_ref(), mode);
        if let Some(served) = &effects.served {
            self.hear(Kind::Message, &served.messages, Some(&served.told), mode);
            if served.session == self.number {
                self.get_element(served, mode);
            }
        }
    }

    fn hear(&mut self, kind: Kind, messages: &[Message], told: Option<&Told>, mode: Mode) {
        let told = told.filter(|_| kind == Kind::Message);
        let is_heard = |message: &&Message| match message {
            Message::Event(..) => self.has_events && self.hears_events,
            Message::Published(_) => self.hears_messages,
        };
        let messages = messages.iter().filter(is_heard).map(|message| Waiting {
            reply: message.bytes(),
            kind,
            tells_of: told.cloned().into_iter().collect(),
            mode,
            is_behind_broadcasts: false,
        });
        self.waiting.extend(messages);
    }

    /// It has waited until now, and everything that it was told before has come.
    fn get_element(&mut self, served: &Served, mode: Mode) {
        let waiting = self.waiting.back_mut();
        if let Some(waiting) = waiting.filter(|waiting| waiting.kind == Kind::Element) {
            waiting.reply.clone_from(&served.reply);
            waiting.tells_of = vec![served.told.clone()];
            waiting.mode = mode;
        }
    }

    /// Takes in bytes; returns what the replies and messages that are whole now tell.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Received, Violation> {
        let mut received = Received::default();
        if self.is_lost {
            return Ok(received);
        }
        self.received.extend_from_slice(bytes);
        while !self.received.is_empty() && self.take_next(&mut received)? {}
        Ok(received)
    }

    /// Takes the next reply or message; false where it is not whole yet.
    fn take_next(&mut self, received: &mut Received) -> Result<bool, Violation> {
        if self.tracker.is_some() || self.broadcasts.is_some() {
            match Beginning::of(&self.received) {
                Beginning::Part => return Ok(false),
                Beginning::Whole(invalidation, length) => {
                    let learnt = self.invalidate(&invalidation)?.into_iter();
                    let learnt = learnt.map(|learnt| (Kind::Message, learnt));
                    received.learnt.extend(learnt);
                    self.received.drain(..length);
                    return Ok(true);
                }
                Beginning::Other => {}
            }
        }
        let is_other = |waiting: &Waiting| !is_prefix(&waiting.reply, &self.received);
        let is_left_out = |waiting: &Waiting| waiting.kind == Kind::Maybe && is_other(waiting);
        if self.waiting.front().is_some_and(is_left_out) {
            self.waiting.pop_front();
            return Ok(true);
        }
        let expected = self.waiting.front();
        let is_blocked = expected.is_some_and(|waiting| waiting.reply.is_empty());
        if is_blocked && expected.is_some_and(|waiting| waiting.kind == Kind::Element) {
            return self.take_refusal(received);
        }
        let reply = match expected {
            Some(waiting) if !is_blocked => waiting.reply.as_slice(),
            Some(_) if NOT_SYNCED.starts_with(&self.received) => NOT_SYNCED,
            Some(_) if self.received.starts_with(NOT_SYNCED) => NOT_SYNCED,
            _ => SYNCED,
        };
        if self.received.starts_with(reply) && expected.is_some() {
            let is_synced = reply == SYNCED;
            self.received.drain(..reply.len());
            if let Some(waiting) = self.waiting.pop_front()
                && (is_synced || waiting.kind != Kind::Sync)
            {
                if let (Some(broadcasts), true) =
                    (&mut self.broadcasts, waiting.is_behind_broadcasts)
                {
                    broadcasts.note_answered()?;
                }
                let Waiting { tells_of, mode, .. } = waiting;
                received
                    .learnt
                    .push((waiting.kind, Learnt { tells_of, mode }));
            }
            return Ok(true);
        }
        if reply.starts_with(&self.received) && expected.is_some() {
            return Ok(false);
        }
        if is_prefix(WITHHELD, &self.received) {
            // Nothing that waits will be answered.
            self.is_lost = true;
            self.waiting.clear();
            self.received.clear();
            return Ok(false);
        }
        Err(self.no_reply())
    }

    /// What a message about keys tells.
    fn invalidate(&mut self, invalidation: &Invalidation) -> Result<Vec<Learnt>, Violation> {
        if let Some(tracker) = &mut self.tracker {
            return Ok(tracker.receive(invalidation));
        }
        match (&mut self.broadcasts, invalidation) {
            (Some(broadcasts), Invalidation::Of(keys)) => broadcasts.receive(keys),
            (Some(broadcasts), Invalidation::Everything) => Ok(broadcasts.receive_flush()),
            (None, _) => Ok(Vec::new()),
        }
    }

    /// Notes that the deadlines of these keys have come: their client may be told of it before anybody asks.
    pub(crate) fn note_expired(&mut self, keys: &[Vec<u8>]) {
        if let Some(broadcasts) = &mut self.broadcasts {
            broadcasts.note_expired(keys);
        }
    }

    /// Who waits for an element gets one, or hears why not: its node stops, or has no room for what it would write.
    fn take_refusal(&mut self, received: &mut Received) -> Result<bool, Violation> {
        if self.received.first() != Some(&b'-') {
            return Err(self.no_reply());
        }
        let mut bytes = self.received.iter();
        let Some(end) = bytes.position(|byte| *byte == b'\n') else {
            return Ok(false);
        };
        self.received.drain(..=end);
        self.waiting.pop_front();
        received.has_waited_in_vain = true;
        Ok(true)
    }

    fn no_reply(&self) -> Violation {
        let received = String::from_utf8_lossy(&self.received);
        let detail = format!("{received:?}, not {:?}", self.waiting.front());
        Violation::new("bytes that are no reply left", detail)
    }
}

/// Whether one of them begins with the other.
fn is_prefix(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// What a request is answered that waits for EXEC.
const QUEUED: &[u8] = b"+QUEUED\r\n";

/// What WAITAOF answers once everything is synced, and if its time is over before.
const SYNCED: &[u8] = b"*2\r\n:1\r\n:0\r\n";
const NOT_SYNCED: &[u8] = b"*2\r\n:0\r\n:0\r\n";

/// How a reply begins that stands for those that a failed log has not made durable.
const WITHHELD: &[u8] = b"-MISCONF the log failed";
