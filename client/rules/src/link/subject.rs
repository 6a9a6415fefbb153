//! The lock that requests are about.
//!
//! Invariant: it remembers who may hold the lock: every node to which a request to take it has been written, until that very node
//! has answered a release.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::name::LockName;
use crate::outcome::NodeRelease;
use crate::token::{Token, is_of_reader};
use crate::votes::{Identity, NodeIndex};

/// The lock that requests are about: a name, or several, under a token.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    /// Under which it is held from the next end on that is set, if that is another one.
    pub(super) new_token: Option<Token>,
    pub(crate) ttl: Duration,
    /// How long a node keeps the lock: the ttl, and the lock delay behind it.
    pub(crate) kept: Duration,
    /// It is held beside others who read.
    is_shared: bool,
    /// What its holder says about itself.
    pub(super) text: Option<Arc<str>>,
    /// All words of a request that is about no lock of one holder.
    pub(super) words: Box<[Bytes]>,
    may_hold: Rc<RefCell<Vec<Holder>>>,
}

/// A node that may hold the lock.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    /// The entry of the list under which it was asked.
    node: NodeIndex,
    /// Who it said it was; whoever answers there, if that is not known.
    id: Option<Arc<str>>,
}

impl Subject {
    /// A lock that no node was asked for yet.
    pub(crate) fn new(name: LockName, token: Token, ttl: Duration) -> Rc<Self> {
        Rc::new(Self::plain(name, token, ttl))
    }

    /// One name of it, as of another lock.
    pub(super) fn alone(&self, name: Bytes) -> Rc<Self> {
        Self::new(name.into(), self.token.clone(), self.ttl)
    }

    fn plain(name: LockName, token: Token, ttl: Duration) -> Self {
        Self {
            name,
            token,
            new_token: None,
            ttl,
            kept: ttl,
            is_shared: false,
            text: None,
            words: Box::default(),
            may_hold: Rc::default(),
        }
    }

    /// What a request of these words is about, whose silence is judged as upon one about a lease of `ttl`.
    pub(crate) fn of_words(words: Vec<Bytes>, ttl: Duration) -> Rc<Self> {
        let nothing = Token::from_bytes(Bytes::new());
        Rc::new(Self {
            words: words.into(),
            ..Self::plain(Bytes::new().into(), nothing, ttl)
        })
    }

    /// A lock that no node was asked for yet, which may be held beside others who read.
    pub(crate) fn new_as(is_shared: bool, name: LockName, token: Token, ttl: Duration) -> Rc<Self> {
        Rc::new(Self {
            is_shared,
            ..Self::plain(name, token, ttl)
        })
    }

    /// Whether it is held beside others who read.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// A lock that is to be taken for the first of these times, and that nodes keep for the second. With a text nodes that can
    /// tell it to those who look who has the lock.
    pub(crate) fn to_take(
        is_shared: bool,
        (name, token): (LockName, Token),
        (ttl, kept): (Duration, Duration),
        text: Option<Arc<str>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            is_shared,
            kept,
            text,
            ..Self::plain(name, token, ttl)
        })
    }

    /// A lock that is held under one token, and under another from the next end on that is set.
    pub(crate) fn with_new_token(
        name: LockName,
        token: Token,
        new_token: Option<Token>,
        ttl: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            new_token,
            ..Self::plain(name, token, ttl)
        })
    }

    /// A lock of which only the token is known.
    pub(crate) fn known_by_token(name: LockName, token: Token, ttl: Duration) -> Rc<Self> {
        Self::new_as(is_of_reader(&token), name, token, ttl)
    }

    /// A lock that somebody else may have taken, on any of the nodes, which may keep it for so long.
    pub(crate) fn of_unknown_past(
        name: LockName,
        token: Token,
        ttl: Duration,
        kept: Duration,
        nodes: usize,
    ) -> Rc<Self> {
        let subject = Rc::new(Self {
            is_shared: is_of_reader(&token),
            kept,
            ..Self::plain(name, token, ttl)
        });
        (0..nodes).for_each(|node| subject.note_asked(node, None));
        subject
    }

    /// The lock that another subject has taken, for its release under this token, to which it may have been changed: the nodes that were asked for that one may hold it, and those may that
    /// are asked for it yet.
    pub(crate) fn of_taken(
        taken: &Self,
        (name, token): (LockName, Token),
        ttl: Duration,
        kept: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            is_shared: taken.is_shared,
            kept,
            may_hold: Rc::clone(&taken.may_hold),
            ..Self::plain(name, token, ttl)
        })
    }

    /// Whether a node that answers or has answered under this entry may hold the lock because it was asked to take it.
    pub(crate) fn may_be_held_by(&self, node: NodeIndex) -> bool {
        self.may_hold.borrow().iter().any(|one| one.node == node)
    }

    /// This node has answered a release. What another one took that answered under the same entry before is still owed; so
    /// is what a known one took where it is not known who answers now, unless it has freed the lock: nobody else has the token.
    pub(super) fn note_released(
        &self,
        node: NodeIndex,
        by: Option<&Identity>,
        answer: &NodeRelease,
    ) {
        let mut may_hold = self.may_hold.borrow_mut();
        let here = may_hold.iter().filter(|one| one.node == node).count();
        let has_freed_the_only_one = *answer == NodeRelease::Freed && here == 1;
        let is_it = |one: &Holder| match (&one.id, by) {
            (Some(id), Some(by)) => *id == by.id,
            (Some(_), None) => has_freed_the_only_one,
            (None, _) => true,
        };
        may_hold.retain(|one| one.node != node || !is_it(one));
    }

    pub(super) fn note_asked(&self, node: NodeIndex, by: Option<&Identity>) {
        let id = by.map(|by| Arc::clone(&by.id));
        let holder = Holder { node, id };
        let mut may_hold = self.may_hold.borrow_mut();
        if !may_hold.contains(&holder) {
            may_hold.push(holder);
        }
    }
}
