//! A request to one node, and how it is written.
//!
//! Invariant: a request of the same attempt at any node shares one [`Subject`].

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::OperationId;
use crate::answer::{Answer, Content, ExtendAnswer, FenceAnswer};
use crate::clock::ClientInstant;
use crate::outcome::{Cause, NodeRelease};
use crate::protocol::looking;
use crate::protocol::request::{
    self, ACQUIRE_ALL_SCRIPT, EXTEND_ALL_SCRIPT, EXTEND_SCRIPT, RELEASE_ALL_SCRIPT, RELEASE_SCRIPT,
    SET_END_ALL_SCRIPT, SET_END_AND_TOKEN_SCRIPT, SET_END_SCRIPT, ScriptHash,
};
use crate::token::Token;
use crate::votes::{Identity, NodeIndex};

use super::login::Peer;
pub(crate) use super::subject::Subject;

/// What a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Take,
    /// Take the lock and tell the fence of its name; a guess is taken with the lock, if it can be.
    TakeFenced {
        guess: Option<u64>,
    },
    /// Take the lock that others hold for this client already, and its fence where the node keeps fences: it may have lost
    /// them, and the lock is held without as well.
    Retake(u64),
    /// Take this fence for the lock, which the node has granted.
    Fence(u64),
    Extend,
    /// Let the lock end at this time, which may be sooner than it would have.
    SetEnd,
    Release,
    /// Under which token the lock is held.
    Holder,
    TimeLeft,
    /// Whether anybody has the lock.
    Exists,
    /// Speak RESP3 from now on.
    Resp3,
    /// Stand in line for the lock, with the token of the next attempt; a turn is to last so long, where that is not as usual.
    Wait {
        turn: Option<Duration>,
        /// Which permit of a semaphore the lock is, or which of several names, so that the answer says so.
        index: Option<u32>,
    },
    /// Leave the line.
    Unwait,
    /// Who has the lock, and be told of its changes.
    Look {
        /// From then on the node tells of changes.
        is_tracked: bool,
        /// Which of several names the lock is, so that the answer says so.
        index: Option<u32>,
    },
    /// Be told of changes of this name and all that begin so.
    Track,
    /// Be told of no changes any more.
    Untrack,
    Info,
    /// The ceiling of its fences.
    Ceiling,
    /// Take over this ceiling.
    Adopt(u64),
    /// Send a message to those who listen.
    Publish,
    /// Some of the locks that it keeps.
    Page,
    /// Under which tokens it keeps these locks.
    Compare,
}

impl Kind {
    /// Whether it takes the lock.
    pub(crate) fn takes(self) -> bool {
        matches!(self, Self::Take | Self::TakeFenced { .. } | Self::Retake(_))
    }

    /// Whether only nodes of the client's cluster are asked.
    pub(crate) fn is_for_members(self) -> bool {
        self.takes()
            || matches!(
                self,
                Self::Holder
                    | Self::Ceiling
                    | Self::Adopt(_)
                    | Self::Look { .. }
                    | Self::Publish
                    | Self::Page
                    | Self::Compare
            )
    }

    /// Whether it is about a vote, which only nodes have that may vote.
    pub(crate) fn is_for_vote(self) -> bool {
        self.takes()
            || matches!(
                self,
                Self::Extend | Self::SetEnd | Self::Holder | Self::Fence(_)
            )
    }

    /// Whether the node tells of changes from then on.
    pub(super) fn is_tracked(self) -> bool {
        matches!(self, Self::Look { is_tracked, .. } if is_tracked)
    }

    /// What a request comes to that a node does not answer.
    pub(crate) fn without_answer(self, cause: Cause) -> Content {
        match self {
            Self::Take | Self::TakeFenced { .. } | Self::Retake(_) => {
                Content::Taken(Answer::Not(cause), None)
            }
            Self::Fence(fence) => Content::Fenced(fence, FenceAnswer::Not(cause)),
            Self::Extend | Self::SetEnd => Content::Extended(ExtendAnswer::Not(cause)),
            Self::Holder => Content::Holder(Err(cause)),
            Self::Release => Content::Released(NodeRelease::Not(cause)),
            Self::TimeLeft => Content::TimeLeft(None),
            Self::Exists => Content::Exists(None),
            Self::Wait { index, .. } => Content::InLine(Err(cause), index),
            Self::Resp3 | Self::Unwait => Content::InLine(Err(cause), None),
            Self::Look { index, .. } => Content::Seen(Err(cause), index),
            Self::Track | Self::Untrack => Content::Tracking(false),
            Self::Info => Content::Info(Err(cause)),
            Self::Ceiling | Self::Adopt(_) => Content::Ceiling(Err(cause)),
            Self::Publish => Content::Published(Err(cause)),
            Self::Page => Content::Page(Err(cause)),
            Self::Compare => Content::Compared(Err(cause)),
        }
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
    /// `SET ... GET`, a script by its hash, a lock with its fence, `LOCK.WAIT ... TURN`.
    #[default]
    Preferred,
    /// `LOCK.ACQUIRE` with what the holder says about itself.
    WithText,
    /// What every node understands.
    Fallback,
}

impl Form {
    fn preferred_if(is_preferred: bool) -> Self {
        match is_preferred {
            true => Self::Preferred,
            false => Self::Fallback,
        }
    }
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

    /// Whether this is an extension that is worth sending again on another connection: done twice it is as good as once. One that
    /// changes the token is not: the second would be refused.
    pub(super) fn is_repeatable(&self, now: ClientInstant) -> bool {
        let is_idempotent = match self.kind {
            Kind::Extend => true,
            Kind::SetEnd => self.subject.new_token.is_none(),
            _ => false,
        };
        is_idempotent && self.closures < CLOSURES_MAX && !now.has_reached(self.until)
    }

    /// Releases of each name alone, if this is one of several names together. Each is owed to the node until it has answered.
    pub(super) fn releases_apart(&self, node: NodeIndex, by: Option<&Identity>) -> Vec<Self> {
        let subject = &self.subject;
        if self.kind != Kind::Release || subject.name.single().is_some() {
            return Vec::new();
        }
        let names = subject.name.parts().iter();
        let alone = names.map(|name| {
            let alone = subject.alone(name.clone());
            alone.note_asked(node, by);
            Self {
                subject: alone,
                form: Form::Preferred,
                ..self.beside(self.kind)
            }
        });
        alone.collect()
    }

    /// Another question beside it, of whose answer nobody is told.
    pub(super) fn beside(&self, kind: Kind) -> Self {
        Self {
            kind,
            asker: None,
            is_repeated: true,
            ..self.clone()
        }
    }

    /// Encodes it for a node.
    pub(super) fn write(&mut self, node: NodeIndex, peer: &Peer, out: &mut Vec<u8>) {
        if self.kind.takes() {
            self.subject.note_asked(node, peer.identity.as_ref().ok());
        }
        let mut digits = [0; 20];
        let kept = decimal(&mut digits, self.subject.kept.as_millis());
        let Some(name) = self.subject.name.single() else {
            return self.write_for_all(out);
        };
        let token = self.subject.token.as_bytes();
        let text = self.subject.text.as_deref();
        let is_preferred = self.form == Form::Preferred;
        let by_hash = |hash: Option<ScriptHash>| hash.filter(|_| is_preferred);
        match self.kind {
            Kind::Take if self.subject.is_shared() => {
                request::take_shared(out, (name, token, kept), text);
            }
            Kind::Extend if self.subject.is_shared() => {
                request::write(out, &[b"LOCK.EXTEND", name, token, kept]);
            }
            Kind::Release if self.subject.is_shared() => {
                request::write(out, &[b"LOCK.RELEASE", name, token]);
            }
            Kind::Take if self.is_with_text(peer) => {
                self.form = Form::WithText;
                request::acquire(out, (name, token, kept), text, None);
            }
            Kind::Take => {
                let with_get = peer.takes_get;
                self.form = Form::preferred_if(with_get);
                request::take(out, name, token, kept, with_get);
            }
            Kind::TakeFenced { guess } => request::acquire(out, (name, token, kept), text, guess),
            Kind::Retake(fence) => match is_preferred {
                true => request::acquire(out, (name, token, kept), text, Some(fence)),
                false => request::take(out, name, token, kept, false),
            },
            Kind::Fence(fence) => request::fence(out, name, token, fence),
            Kind::Extend => {
                let hash = by_hash(peer.extend_hash);
                request::script(out, hash.as_ref(), EXTEND_SCRIPT, name, &[token, kept]);
            }
            Kind::Release => {
                let hash = by_hash(peer.release_hash);
                request::script(out, hash.as_ref(), RELEASE_SCRIPT, name, &[token]);
            }
            Kind::SetEnd => self.write_end(name, kept, out),
            Kind::Holder
            | Kind::TimeLeft
            | Kind::Exists
            | Kind::Wait { .. }
            | Kind::Unwait
            | Kind::Look { .. }
            | Kind::Track
            | Kind::Untrack => self.write_about_holder(&name.clone(), peer, out),
            _ => self.write_about_node(out),
        }
    }

    /// Lets the lock end at another time, and changes its token if there is another one.
    fn write_end(&self, name: &Bytes, kept: &[u8], out: &mut Vec<u8>) {
        let token = self.subject.token.as_bytes();
        match &self.subject.new_token {
            None => request::script(out, None, SET_END_SCRIPT, name, &[token, kept]),
            Some(new) => {
                let arguments = [token, kept, new.as_bytes()];
                request::script(out, None, SET_END_AND_TOKEN_SCRIPT, name, &arguments);
            }
        }
    }

    /// What is asked about the holder of a lock, and about its end.
    fn write_about_holder(&mut self, name: &Bytes, peer: &Peer, out: &mut Vec<u8>) {
        let token = self.subject.token.as_bytes();
        match self.kind {
            Kind::Holder => request::write(out, &[b"GET", name]),
            Kind::TimeLeft => request::write(out, &[b"PTTL", name]),
            Kind::Exists => request::write(out, &[b"EXISTS", name]),
            Kind::Wait { turn, .. } => {
                let is_preferred = self.form == Form::Preferred;
                let turn = turn.filter(|_| is_preferred && peer.takes_turns);
                if turn.is_none() {
                    self.form = Form::Fallback;
                }
                request::wait(out, name, token, self.subject.is_shared(), turn);
            }
            Kind::Unwait => request::write(out, &[b"LOCK.UNWAIT", name]),
            Kind::Look { .. } => {
                let is_full = self.form == Form::Preferred && peer.tells_holders;
                self.form = Form::preferred_if(is_full);
                looking::look(out, name, is_full);
            }
            Kind::Track => looking::track(out, name),
            Kind::Untrack => looking::untrack(out),
            _ => {}
        }
    }

    /// Whether it says what the holder says about itself, in the form that is tried first.
    fn is_with_text(&self, peer: &Peer) -> bool {
        let is_first = matches!(self.form, Form::Preferred | Form::WithText);
        is_first && self.subject.text.is_some() && peer.takes_text
    }

    /// The same about several names: each node takes, extends and frees them at once.
    fn write_for_all(&self, out: &mut Vec<u8>) {
        let mut digits = [0; 20];
        let kept = decimal(&mut digits, self.subject.kept.as_millis());
        let names = self.subject.name.parts();
        let token = self.subject.token.as_bytes();
        match self.kind {
            Kind::Take => request::script_on_all(out, ACQUIRE_ALL_SCRIPT, names, &[token, kept]),
            Kind::Extend => request::script_on_all(out, EXTEND_ALL_SCRIPT, names, &[token, kept]),
            Kind::Release => request::script_on_all(out, RELEASE_ALL_SCRIPT, names, &[token]),
            Kind::SetEnd => {
                let new = self.subject.new_token.as_ref();
                let arguments = [token, kept, new.map_or(token, Token::as_bytes)];
                request::script_on_all(out, SET_END_ALL_SCRIPT, names, &arguments);
            }
            Kind::TakeFenced { .. }
            | Kind::Retake(_)
            | Kind::Fence(_)
            | Kind::Holder
            | Kind::TimeLeft
            | Kind::Exists
            | Kind::Wait { .. }
            | Kind::Unwait
            | Kind::Look { .. }
            | Kind::Track
            | Kind::Untrack => {
                unreachable!(
                    "about several names no fence, no holder, no time and no line is asked for"
                )
            }
            Kind::Resp3
            | Kind::Ceiling
            | Kind::Adopt(_)
            | Kind::Info
            | Kind::Publish
            | Kind::Page
            | Kind::Compare => self.write_about_node(out),
        }
    }

    fn write_about_node(&self, out: &mut Vec<u8>) {
        match self.kind {
            Kind::Ceiling => request::write(out, &[b"LOCK.CEILING"]),
            Kind::Adopt(ceiling) => {
                request::write(out, &[b"LOCK.ADOPT", ceiling.to_string().as_bytes()]);
            }
            Kind::Resp3 => request::write(out, &[b"HELLO", b"3"]),
            Kind::Publish | Kind::Page | Kind::Compare => {
                request::write_words(out, &self.subject.words);
            }
            // Who the node is and how far it has come; whoever waits for the answer wants to know how it does.
            _ if self.asker.is_none() => request::write(out, &[b"INFO", b"server"]),
            _ => request::write(out, &[b"INFO"]),
        }
    }
}

/// A request on which the node closed the connection is sent once more: the node may have been stopped at that moment. If it
/// closes again it does so because of this request, and what else is on the connection suffers each time.
const CLOSURES_MAX: u32 = 2;

fn decimal(digits: &mut [u8; 20], number: u128) -> &[u8] {
    let mut rest = u64::try_from(number).expect("a ttl with its lock delay is at most 365 days");
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
