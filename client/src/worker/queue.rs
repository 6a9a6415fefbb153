//! What is queued for one node: requests that wait, that are in flight, and that are owed.
//!
//! Invariant: a request is in one of the queues only, and every request that was encoded has its
//! place in flight, in the same order. When what is sent is decided by [`super::node`].

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use super::mailbox::{Content, Mailbox};
use super::round_trip::RoundTrip;
use crate::acquisition::Answer;
use crate::answer;
use crate::clock::ClientInstant;
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
#[derive(Clone, Debug, Default)]
pub(super) enum Link {
    #[default]
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

/// What is queued for one node, and what is known of it.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) link: Link,
    pub(super) waiting: VecDeque<Request>,
    pub(super) out: Vec<u8>,
    pub(super) in_flight: VecDeque<Request>,
    pub(super) peer: Option<Peer>,
    pub(super) delayed: Option<(ClientInstant, Cause)>,
    /// Releases the node could not carry out yet, and when each is sent again.
    pub(super) deferred: Vec<(ClientInstant, Request)>,
    /// Why no connection could be made the last time it was tried, and when that was.
    pub(super) failed: Option<(ClientInstant, Cause)>,
    /// A connection is wanted although nothing waits for it.
    pub(super) is_wanted: bool,
    pub(super) round_trip: RoundTrip,
}

impl State {
    /// Remembers what an answer tells about the requests to come, and what is still owed.
    pub(super) fn learn(&mut self, now: ClientInstant, request: &Request, content: &Content) {
        if let Content::Taken(Answer::Not(cause @ Cause::Delayed { left, .. })) = &content {
            // Asked again after a second at the latest, in case the delay ended otherwise.
            self.delayed = Some((now.after((*left).min(DELAY_MEMORY)), cause.clone()));
        }
        if let Content::Released(NodeRelease::Not(cause)) = &content
            && let Some(delay) = answer::passes_after(cause)
            && self.deferred.len() < QUEUE_MAX
            && !now.has_reached(request.until)
        {
            let owed = Request {
                mailbox: None,
                ..request.clone()
            };
            // The same.
            let delay = delay.clamp(DEFERRED_LEAST, DELAY_MEMORY);
            self.deferred.push((now.after(delay), owed));
        }
    }

    /// Whether a release of what this request would take is queued.
    pub(super) fn releases(&self, request: &Request) -> bool {
        let deferred = self.deferred.iter().map(|(_, request)| request);
        let mut queued = self.in_flight.iter().chain(&self.waiting).chain(deferred);
        queued.any(|other| {
            other.kind == Kind::Release
                && other.token == request.token
                && other.name == request.name
        })
    }

    /// Encodes a request behind all others and takes a place for its reply.
    pub(super) fn write(&mut self, node: NodeIndex, mut request: Request) {
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

/// Whether a release is among the requests that its lease still makes worth sending.
pub(super) fn owe<'a>(mut requests: impl Iterator<Item = &'a Request>, now: ClientInstant) -> bool {
    requests.any(|request| request.kind == Kind::Release && !now.has_reached(request.until))
}

fn short<'a>(request: &Request, hash: Option<&'a ScriptHash>) -> Option<&'a ScriptHash> {
    hash.filter(|_| request.form == Form::Short)
}

fn decimal(digits: &mut [u8; 20], number: u128) -> &[u8] {
    let mut rest = u64::try_from(number).expect("a ttl is at most 365 days");
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            return &digits[at..];
        }
    }
}

/// Requests queued for one node, in flight or waiting for its connection.
pub(super) const QUEUE_MAX: usize = 100_000;
pub(super) const DEFERRED_LEAST: Duration = Duration::from_millis(100);
const DELAY_MEMORY: Duration = Duration::from_secs(1);
