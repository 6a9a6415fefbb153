//! What EXEC answers: the reply of each command as it was to be sent when the command ran.
//!
//! As in Redis it is a header with the number of commands, and behind it what each of them would have sent on its own:
//! SUBSCRIBE one confirmation for each channel, a command after CLIENT REPLY OFF nothing, one after HELLO 3 RESP3.

use quorlock_engine::{Protocol, Reply};

use crate::core::wait::DurabilityWait;
use crate::session::made_once::MadeOnce;

/// The replies to the commands of a transaction.
pub(crate) struct Executed {
    /// Whether the client wants the header.
    pub(super) is_wanted: bool,
    pub(super) parts: Vec<Part>,
    /// What all of it waits for.
    pub(super) wait: DurabilityWait,
    /// A command closes the connection.
    pub(super) closes: bool,
}

/// What one command answers.
pub(super) struct Part {
    pub(super) content: ReplyContent,
    /// In which protocol.
    pub(super) protocol: Protocol,
    pub(super) is_wanted: bool,
    /// Nothing is sent behind it.
    pub(super) is_last: bool,
}

pub(super) enum ReplyContent {
    None,
    One(Reply),
    Many(Vec<Reply>),
    Made(&'static MadeOnce),
}

impl ReplyContent {
    /// The replies, those that are made for this client.
    pub(super) fn replies(&self) -> &[Reply] {
        match self {
            Self::None | Self::Made(_) => &[],
            Self::One(reply) => std::slice::from_ref(reply),
            Self::Many(replies) => replies,
        }
    }
}

impl From<Option<Reply>> for ReplyContent {
    fn from(reply: Option<Reply>) -> Self {
        reply.map_or(Self::None, Self::One)
    }
}
