//! How long a caller waits for a lock, and what it is told meanwhile.

use std::fmt;
use std::time::Duration;

use crate::outcome::{NodeReport, TooShort, lines, owner};
use crate::token::Token;

/// How long to try when the lock is held by somebody else or too few nodes answer.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_client::Wait;
///
/// let patient = Wait::For(Duration::from_secs(30));
/// assert_ne!(patient, Wait::Forever);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// One attempt.
    None,
    /// Attempts until this time has passed.
    For(Duration),
    /// Attempts until the lock is acquired or the future is dropped.
    Forever,
}

/// Why a call still waits for its lock. Told to `LockRequest::on_wait`
/// when the call has begun to wait, when fewer calls are before it, and after each of its attempts that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Other calls of this client wait for the same lock and came first: only the first of them asks the nodes. Told
    /// when this call takes its place behind them, and again when fewer are left, but at most once in the longest
    /// [`RetryDelay`](crate::settings::RetryDelay).
    #[non_exhaustive]
    Queued {
        /// How many came first.
        ahead: usize,
    },
    /// Somebody else holds the lock.
    #[non_exhaustive]
    Busy {
        /// The token of the holder, where a node tells it.
        holder: Option<Token>,
        /// Time until enough nodes are free again if nobody renews.
        time_left: Option<Duration>,
    },
    /// Too few nodes answered to decide.
    #[non_exhaustive]
    NoQuorum {
        /// Votes needed.
        needed: usize,
        /// Each node's answer in the last round.
        nodes: Vec<NodeReport>,
    },
    /// A majority came too late: too little validity was left, or a renewal could not come back in time.
    #[non_exhaustive]
    TimedOut {
        /// Each node's answer in the last round.
        nodes: Vec<NodeReport>,
        /// What the lease is too short for, where a longer one would have been enough.
        too_short: Option<TooShort>,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued { ahead } => {
                write!(formatter, "{ahead} other calls of this client came first")
            }
            Self::Busy { holder, time_left } => {
                let owner = owner(holder.as_ref(), *time_left, "unless it is renewed");
                write!(formatter, "held by {owner}")
            }
            Self::NoQuorum { needed, nodes } => {
                let (count, lines) = (nodes.len(), lines(nodes));
                write!(
                    formatter,
                    "no quorum, fewer than {needed} of {count} nodes can vote{lines}"
                )
            }
            Self::TimedOut { nodes, too_short } => {
                match too_short {
                    Some(short) => write!(formatter, "{short}")?,
                    None => formatter.write_str("the votes did not come in time")?,
                }
                formatter.write_str(&lines(nodes))
            }
        }
    }
}
