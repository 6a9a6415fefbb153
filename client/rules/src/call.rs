//! What callers ask of the client, and what they are told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::OperationId;
use crate::channels::{Topic, pattern_behind};
use crate::clock::ClientInstant;
use crate::name::{LockName, behind};
use crate::outcome::{
    AcquireError, ExtendError, LockPage, Looked, NodeFences, PublishError, ReadError, Reading,
    Release,
};
use crate::probe::NodeStatus;
use crate::statistics::Statistics;
use crate::token::Token;
use crate::wait::Wait;

/// A lock to be acquired.
#[derive(Clone, Debug)]
pub struct AcquireCall {
    /// The lock's name, or the semaphore's.
    pub name: LockName,
    /// What the token of each attempt begins with, where the caller has named that.
    pub own_token: Option<Bytes>,
    /// How many permits the semaphore has, if it is one: one of them is to be acquired.
    pub permits: Option<u32>,
    /// Whose further calls for the lock have it at once, as long as it is held.
    pub owner: Option<Arc<[u8]>>,
    /// The length of the lease on each node.
    pub ttl: Duration,
    /// How long others wait when it ends without a release.
    pub lock_delay: Duration,
    /// How long to try.
    pub wait: Wait,
    /// Whether it is renewed once it is held. One that is not is told only after all nodes that
    /// can be reached have been asked.
    pub renews: bool,
    /// The least validity with which it is handed out.
    pub min_validity: Duration,
    /// What must be left of the lease whenever a renewal comes back, if it takes as long as the votes did.
    pub reserve: Duration,
    /// The longest time it is held, renewals included.
    pub max_lifetime: Option<Duration>,
    /// Whether the nodes have to take a fence for it.
    pub is_fenced: bool,
    /// Whether it is held beside others who read, and not beside a writer.
    pub is_shared: bool,
    /// What the caller says about itself: nodes that can tell it to those who look who has the lock.
    pub text: Option<Arc<str>>,
}

impl AcquireCall {
    /// One try for a lock of this length, which nothing renews.
    #[must_use]
    pub fn new(name: LockName, ttl: Duration) -> Self {
        Self {
            name,
            own_token: None,
            permits: None,
            owner: None,
            ttl,
            lock_delay: Duration::ZERO,
            wait: Wait::None,
            renews: false,
            min_validity: Duration::ZERO,
            reserve: Duration::ZERO,
            max_lifetime: None,
            is_fenced: false,
            is_shared: false,
            text: None,
        }
    }

    /// Whether the caller is told as soon as a majority has granted the lock. Who keeps nothing but the token may end right
    /// behind that, so the other nodes are waited for as well; who has named the token goes on.
    pub(crate) fn is_told_at_majority(&self) -> bool {
        self.renews || self.own_token.is_some()
    }

    /// The token of the next attempt, which no other one has had.
    pub(crate) fn next_token(&self, random: &mut dyn rand::Rng) -> Token {
        match &self.own_token {
            Some(own) => Token::of_attempt(own, self.is_shared, random),
            None => Token::drawn_from(random),
        }
    }
}

/// What a caller asks for.
#[derive(Clone, Debug)]
pub enum Call {
    /// Acquires a lock.
    Acquire(AcquireCall),
    /// The same, and tells meanwhile what the call waits for.
    AcquireTelling(AcquireCall),
    /// Extends a lock of which only the token is known.
    Extend {
        /// The lock's name.
        name: Bytes,
        /// Under which it is held.
        token: Token,
        /// How long it is to last from now on, at least.
        ttl: Duration,
        /// Whether all nodes are waited for, which say how long they keep it, or only a majority that has extended it.
        waits_for_all: bool,
    },
    /// Lets a lock of which only the token is known end after this time, which may be sooner than it would have ended.
    SetEnd {
        /// The lock's name.
        name: LockName,
        /// Under which it is held.
        token: Token,
        /// Under which it is held from then on, if that is another one: nothing that is said about the old token, by whoever may
        /// still say it, ends the lock any more. [`Token::next_attempt`] makes it.
        new_token: Option<Token>,
        /// How long it is to last from now on.
        ttl: Duration,
    },
    /// Asks the nodes who holds a lock.
    Read {
        /// The lock's name.
        name: Bytes,
    },
    /// The same, with what they know of the holder.
    Look {
        /// The lock's name.
        name: Bytes,
    },
    /// Releases a lock on all nodes, and ends the operation that holds it, if there is one.
    Release {
        /// The call that acquired it.
        held: Option<OperationId>,
        /// The lock's name.
        name: LockName,
        /// Under which it is held.
        token: Token,
        /// Whether all nodes are waited for, or only a majority that has freed it.
        waits_for_all: bool,
        /// A lock that was lost before stays on the nodes for its lock delay.
        keeps_lost: bool,
        /// How long nodes may keep the lock from now on, where the caller knows that of a lock that is not held here: for so long it is
        /// released on those that come back.
        lasts: Option<Duration>,
    },
    /// Renews a lock that is held.
    Renew {
        /// The call that acquired it.
        held: OperationId,
    },
    /// The lock is handed over to its token; only votes on their way are still taken.
    Detach {
        /// The call that acquired it.
        held: OperationId,
    },
    /// Asks the nodes how they do.
    Probe,
    /// Tells nodes that may have lost fences what the others took; where too few are certain of that, and all disks are trusted, what
    /// all know of.
    SyncFences {
        /// Whether disks keep what they acknowledged.
        trusts_disks: bool,
    },
    /// Wants to know who leads, until nobody is interested any more.
    Observe {
        /// The lock of the election.
        name: Bytes,
    },
    /// Wants to know all the time whether what a majority said of a lock is still so, until nobody is interested any more.
    Watch {
        /// The lock's name.
        name: Bytes,
    },
    /// Sends a message to those who listen to a channel, on all nodes.
    Publish {
        /// The channel.
        channel: Bytes,
        /// The message.
        payload: Bytes,
    },
    /// Asks for some of the locks that a majority holds.
    List {
        /// Which names.
        pattern: Bytes,
        /// Where to go on, as the last page has told it; 0 at the beginning.
        cursor: u128,
    },
    /// Wants to be told of messages, until nobody is interested any more. A client has one listener.
    Listen,
    /// The listener is told of these as well, and of those no more. There is no outcome.
    ListenTo {
        /// What begins.
        add: Vec<Topic>,
        /// What ends.
        remove: Vec<Topic>,
    },
    /// Asks for what was counted.
    Statistics,
    /// Waits until what is owed to nodes that can be reached has been paid.
    Settle,
}

impl Call {
    /// The same about names that begin with this.
    #[must_use]
    pub(crate) fn behind(mut self, prefix: &[u8]) -> Self {
        if prefix.is_empty() {
            return self;
        }
        match &mut self {
            Self::Acquire(call) | Self::AcquireTelling(call) => {
                call.name = call.name.behind(prefix)
            }
            Self::SetEnd { name, .. } | Self::Release { name, .. } => *name = name.behind(prefix),
            Self::Extend { name, .. }
            | Self::Read { name }
            | Self::Look { name }
            | Self::Observe { name }
            | Self::Watch { name } => *name = behind(prefix, name),
            Self::Publish { channel, .. } => *channel = behind(prefix, channel),
            Self::List { pattern, .. } => *pattern = pattern_behind(prefix, pattern),
            Self::ListenTo { add, remove } => {
                for topic in add.iter_mut().chain(remove) {
                    *topic = topic.behind(prefix);
                }
            }
            Self::Renew { .. }
            | Self::Detach { .. }
            | Self::Probe
            | Self::SyncFences { .. }
            | Self::Listen
            | Self::Statistics
            | Self::Settle => {}
        }
        self
    }
}

/// What an extension came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The end of the validity.
    pub valid_until: ClientInstant,
    /// Until when a majority keeps the lock for the token, where the nodes were asked and told.
    pub kept_until: Option<ClientInstant>,
}

/// What a caller is told in the end.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The lock is held.
    Acquired {
        /// Under this token.
        token: Token,
        /// The end of the validity.
        valid_until: ClientInstant,
        /// Its fence, where that was asked for.
        fence: Option<u64>,
        /// The index of the permit, if the lock is one of a semaphore.
        permit: Option<u32>,
    },
    /// The lock is not held.
    NotAcquired(AcquireError),
    /// The lock was extended, or was not.
    Extended(Result<Extended, ExtendError>),
    /// What a majority says of a lock.
    Read(Result<Reading, ReadError>),
    /// The same, with what is known of the holder.
    Looked(Result<Looked, ReadError>),
    /// What each node did with a release.
    Released(Release),
    /// A majority has taken the message, and so many listeners one of them has counted; or too few have taken it.
    Published(Result<u64, PublishError>),
    /// Some of the locks that a majority holds.
    Listed(Result<LockPage, ReadError>),
    /// How the nodes do.
    Probed(Vec<NodeStatus>),
    /// Whether the nodes take fences.
    FencesSynced(Vec<NodeFences>),
    /// What was counted.
    Statistics(Statistics),
    /// What could be paid has been paid, or the time for it is over.
    Settled,
}
