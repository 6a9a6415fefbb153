//! What one node answers about one lock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::outcome::{Cause, NodeRelease};
use crate::register::{LogState, Membership};
use crate::token::Token;
use crate::votes::Identity;

/// One node's answer to the request to take the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The node holds the lock for us.
    Granted(Identity),
    /// The node holds it for somebody else.
    Busy {
        /// Who the node is.
        by: Identity,
        /// The holder's token, where the node tells it.
        holder: Option<Token>,
    },
    /// No vote.
    Not(Cause),
}

/// The fence that a name has on a node that was asked for the lock, and whether that is the one that was guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeFence {
    /// The largest that the node has taken for the name.
    pub fence: u64,
    /// Whether the node has taken the guess with the lock.
    pub is_guess: bool,
}

/// One node's answer to the request to take a fence for a lock that it has granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FenceAnswer {
    /// It has taken the fence.
    Taken(Identity),
    /// It has taken this one for the name already.
    Refused(u64),
    /// This one is too far above the one that the name has there.
    TooHigh,
    /// It does not hold the lock for us.
    WithoutLock,
    /// No answer that counts.
    Not(Cause),
}

/// What a node keeps under the name of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    /// The lock of one holder.
    Token(Token),
    /// A lock that is held by those who read, or what is no lock of this client's.
    OtherType,
}

/// What a node tells of its fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeCeiling {
    pub(crate) by: Identity,
    /// It has taken none above this that it knows of.
    pub(crate) ceiling: u64,
    /// Whether there is none that it does not know of.
    pub(crate) is_certain: bool,
}

/// A lock that a node was asked about, if it keeps it: its token, and how long.
pub(crate) type KeptLock = Option<(Token, Duration)>;

/// Some of the locks that a node keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePage {
    /// With which the node goes on; 0 at the end.
    pub(crate) cursor: u64,
    pub(crate) names: Vec<Bytes>,
}

/// One node's answer to an extension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExtendAnswer {
    /// It holds the lock for us at least for the ttl asked for.
    Extended(Identity),
    /// The lock is not there.
    Gone(Identity),
    /// Somebody else has it.
    Other(Identity),
    /// No answer that counts.
    Not(Cause),
}

/// What a node tells about itself in `INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) identity: Option<Identity>,
    pub(crate) delay_left: Option<Duration>,
    pub(crate) is_loading: bool,
    pub(crate) membership: Membership,
    pub(crate) log: Option<LogState>,
    /// Whether it is no node but an agent in front of nodes.
    pub(crate) is_agent: bool,
}

/// A node's description of itself, and how long the request took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) info: Info,
    pub(crate) round_trip: Duration,
}

/// Who holds a lock on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) token: Token,
    /// What the holder says about itself, where the node knows it.
    pub(crate) owner: Option<Arc<str>>,
    /// The fence that the token has taken there.
    pub(crate) fence: Option<u64>,
    /// How long the lock lasts, if it ends by itself.
    pub(crate) left: Option<Duration>,
    /// Whether the node would have told an owner and a fence.
    pub(crate) is_full: bool,
}

/// One node's answer to any request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The vote, and the fence of the name where that was asked for.
    Taken(Answer, Option<NodeFence>),
    /// The answer to the request to take this fence.
    Fenced(u64, FenceAnswer),
    Extended(ExtendAnswer),
    Released(NodeRelease),
    /// Under which token the node holds the lock, if it does.
    Holder(Result<(Identity, Kept), Cause>),
    TimeLeft(Option<Duration>),
    /// Whether anybody has the lock there; none where the node has not told.
    Exists(Option<bool>),
    /// How many stand in the line for the lock, or 0 where it is this client's turn; and which permit the lock is, or which of
    /// several names.
    InLine(Result<u64, Cause>, Option<u32>),
    /// Who has the lock there, if anybody has; and which of several names the lock is.
    Seen(Result<(Identity, Option<Sight>), Cause>, Option<u32>),
    /// Whether the node tells of changes, as it was asked to.
    Tracking(bool),
    Info(Result<Told, Cause>),
    Ceiling(Result<NodeCeiling, Cause>),
    /// How many the node has sent a message to.
    Published(Result<(Identity, u64), Cause>),
    Page(Result<NodePage, Cause>),
    /// Under which token the node keeps each of the locks that it was asked about, and how long.
    Compared(Result<(Identity, Vec<KeptLock>), Cause>),
    /// The connection that was being made: whether the node may vote on it.
    Connected(bool),
}
