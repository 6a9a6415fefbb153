//! What a majority of the nodes says of a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use super::cause::Cause;
use crate::token::Token;

/// What a majority of the nodes says of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The lock is not there.
    Free,
    /// A majority holds it under one token.
    Held {
        /// That token.
        token: Token,
        /// The shortest time that one of those nodes still keeps it; none where one of them keeps it without an end.
        left: Option<Duration>,
        /// The longest. Nodes that were away when the lock was extended keep it for less than its holder counts on.
        longest: Option<Duration>,
    },
    /// Readers hold it, or a key of another type has its name: a majority says so, or no majority says the same and no one holder is
    /// known. Nobody gets it exclusively meanwhile.
    OtherType {
        /// The shortest time that one of those nodes still keeps it; none where one of them keeps it without an end.
        left: Option<Duration>,
    },
    /// A majority has answered, and no majority says the same: the lock is being taken or released, or its holder has lost it.
    Split {
        /// The token under which the most nodes hold it, of several the one of the node listed first.
        token: Token,
        /// The shortest time that one of those nodes still keeps it.
        left: Option<Duration>,
    },
}

/// What a majority of the nodes says of a lock, and what is known of its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What a majority says.
    pub reading: Reading,
    /// What the holder says about itself, where one of those nodes knows it.
    pub owner: Option<Arc<str>>,
    /// Its fence, if a majority says that it has taken this one.
    pub fence: Option<u64>,
}

/// Some of the locks that a majority of the nodes holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPage {
    /// Where to go on; 0 at the end.
    pub cursor: u128,
    /// Each of them.
    pub locks: Vec<ListedLock>,
}

/// A lock that a majority of the nodes holds under one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLock {
    /// Its name.
    pub name: Bytes,
    /// That token.
    pub token: Token,
    /// The shortest time that one of those nodes still keeps it.
    pub left: Duration,
    /// How many nodes hold it so, as far as they had answered.
    pub nodes: usize,
}

/// Too few nodes have answered to say who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no quorum: fewer than {needed} of {} nodes have told who holds the lock{}",
    nodes.len(),
    Lines(nodes)
)]
pub struct ReadError {
    /// How many nodes must say the same.
    pub needed: usize,
    /// Each node's address, and why it has not told, if so.
    pub nodes: Vec<(Arc<str>, Option<Cause>)>,
}

pub(super) struct Lines<'a>(pub(super) &'a [(Arc<str>, Option<Cause>)]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (node, cause) in self.0 {
            match cause {
                Some(cause) => write!(formatter, "\n  {node}: {cause}")?,
                None => write!(formatter, "\n  {node}: answered")?,
            }
        }
        Ok(())
    }
}
