//! A request to one node, and how it is written.
//!
//! Invariant: a request of the same attempt at any node shares one [`Subject`], which remembers
//! to which nodes a request to take the lock has been written.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::ClientInstant;
use crate::protocol::request::{self, EXTEND_SCRIPT, RELEASE_SCRIPT, ScriptHash};
use crate::rules::OperationId;
use crate::token::Token;
use crate::votes::{NodeIndex, NodeSet};

use super::login::Peer;

/// What a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Take,
    Extend,
    Release,
    TimeLeft,
    Info,
}

/// The lock that requests are about: a name under a token.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) name: Bytes,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// The nodes to which a request to take the lock has been written.
    asked: Cell<NodeSet>,
}

impl Subject {
    /// A lock that no node was asked for yet.
    pub(crate) fn new(name: Bytes, token: Token, ttl: Duration) -> Rc<Self> {
        let asked = Cell::default();
        Rc::new(Self {
            name,
            token,
            ttl,
            asked,
        })
    }

    /// A lock that somebody else may have taken, on any of the nodes.
    pub(crate) fn of_unknown_past(
        name: Bytes,
        token: Token,
        ttl: Duration,
        nodes: usize,
    ) -> Rc<Self> {
        let subject = Self::new(name, token, ttl);
        (0..nodes).for_each(|node| subject.note_asked(node));
        subject
    }

    /// Whether a node may hold the lock because it was asked to take it.
    pub(crate) fn may_be_held_by(&self, node: NodeIndex) -> bool {
        self.asked.get().contains(node)
    }

    fn note_asked(&self, node: NodeIndex) {
        let mut asked = self.asked.get();
        asked.insert(node);
        self.asked.set(asked);
    }
}

/// The operation that waits for a reply, and its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) operation: OperationId,
    pub(crate) round: u32,
}

/// Which of its forms a request was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// `SET ... GET`, a script by its hash.
    #[default]
    Preferred,
    /// What every node understands.
    Fallback,
}

/// A request to one node.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) subject: Rc<Subject>,
    /// Who waits for the reply; nobody once a release is only owed.
    pub(crate) asker: Option<Asker>,
    /// When it was first sent or queued; a release that is sent again counts anew.
    pub(crate) since: ClientInstant,
    /// It is not worth sending after this.
    pub(crate) until: ClientInstant,
    pub(crate) form: Form,
    /// A release that is sent again is no measure of a round trip.
    pub(crate) is_repeated: bool,
    /// Connections that ended when this was the next request to be answered: the node may have closed them because of it.
    pub(crate) closures: u32,
}

impl Request {
    /// Whether this is a release of a lock that the node may hold, and is worth sending (again).
    pub(crate) fn is_owed(&self, node: NodeIndex, now: ClientInstant) -> bool {
        self.kind == Kind::Release
            && self.subject.may_be_held_by(node)
            && self.closures < CLOSURES_MAX
            && !now.has_reached(self.until)
    }

    /// Encodes it for a node.
    pub(super) fn write(&mut self, node: NodeIndex, peer: &Peer, out: &mut Vec<u8>) {
        let mut digits = [0; 20];
        let ttl = decimal(&mut digits, self.subject.ttl.as_millis());
        let name = &self.subject.name;
        let token = self.subject.token.as_bytes();
        let is_preferred = self.form == Form::Preferred;
        let by_hash = |hash: Option<ScriptHash>| hash.filter(|_| is_preferred);
        match self.kind {
            Kind::Take => {
                let with_get = peer.takes_get;
                self.form = if with_get {
                    Form::Preferred
                } else {
                    Form::Fallback
                };
                request::take(out, name, token, ttl, with_get);
                self.subject.note_asked(node);
            }
            Kind::Extend => {
                let hash = by_hash(peer.extend_hash);
                request::script(out, hash.as_ref(), EXTEND_SCRIPT, name, &[token, ttl]);
            }
            Kind::Release => {
                let hash = by_hash(peer.release_hash);
                request::script(out, hash.as_ref(), RELEASE_SCRIPT, name, &[token]);
            }
            Kind::TimeLeft => request::write(out, &[b"PTTL", name]),
            Kind::Info => request::write(out, &[b"INFO"]),
        }
    }
}

/// A request on which the node closed the connection is sent once more: the node may have been stopped at that moment. If it
/// closes again it does so because of this request, and what else is on the connection suffers each time.
const CLOSURES_MAX: u32 = 2;

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
