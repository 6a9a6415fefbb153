//! Why a lock was not acquired.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_clock::show_duration;
use thiserror::Error;

use super::cause::{NodeReport, lines, owner};
use crate::token::Token;

/// Why a lock was not acquired. In every case it is not held, and what was taken on single nodes
/// is being released in the background.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// # use quorlock_client::AcquireError;
/// let error = redlock.lock("").acquire().await.unwrap_err();
/// let retries = match &error {
///     AcquireError::Busy { .. } | AcquireError::TimedOut { .. } => true,
///     AcquireError::NoQuorum { nodes, .. } => {
///         nodes.iter().for_each(|report| println!("{report}"));
///         true
///     }
///     _ => false, // the call itself cannot work
/// };
/// assert!(!retries, "{error}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody else holds the lock, or others hold all permits of the semaphore.
    #[error(
        "'{name}' is held by {}; not acquired{}. Wait longer or try again later",
        owner(holder.as_ref(), *time_left, "unless renewed"),
        after(*waited)
    )]
    #[non_exhaustive]
    Busy {
        /// The lock's name.
        name: Arc<str>,
        /// The token of the holder, where a node tells it; of a semaphore of the permit that was asked for last.
        holder: Option<Token>,
        /// Time until enough nodes are free again if nobody renews.
        time_left: Option<Duration>,
        /// How long was waited.
        waited: Duration,
    },
    /// Too few nodes answered to decide.
    #[error(
        "no quorum for '{name}': fewer than {needed} of {} nodes can vote; not acquired{}. Check the nodes{}",
        nodes.len(),
        after(*waited),
        lines(nodes)
    )]
    #[non_exhaustive]
    NoQuorum {
        /// The lock's name.
        name: Arc<str>,
        /// Votes needed.
        needed: usize,
        /// Each node's answer in the last round.
        nodes: Vec<NodeReport>,
        /// How long was waited.
        waited: Duration,
    },
    /// A majority came too late: too little validity was left, a renewal could not come back in time, or the wait was
    /// over.
    #[error("{}{}", timed_out(name, *waited, *too_short), lines(nodes))]
    #[non_exhaustive]
    TimedOut {
        /// The lock's name.
        name: Arc<str>,
        /// Each node's answer in the last round; empty if the votes came in time, but the caller
        /// took the lock only when its validity was over.
        nodes: Vec<NodeReport>,
        /// How long was waited.
        waited: Duration,
        /// What the lease is too short for, where a longer one would have been enough.
        too_short: Option<TooShort>,
    },
    /// The attempt was cancelled, by the caller or because the client is shutting down.
    #[error(
        "acquiring '{name}' was cancelled; it is not held, and what was taken on single nodes is being released"
    )]
    Cancelled {
        /// The lock's name.
        name: Arc<str>,
    },
    /// The name, ttl or another argument cannot work. Nothing was sent.
    #[error("{reason}; nothing was sent. Correct the call")]
    Invalid {
        /// What is wrong and what is possible.
        reason: Arc<str>,
    },
}

/// A lease that is too short for the nodes' distance.
///
/// # Example
/// ```
/// use quorlock_client::AcquireError;
///
/// /// The ttl to try next, if a longer one helps.
/// fn next_ttl(error: &AcquireError) -> Option<std::time::Duration> {
///     match error {
///         AcquireError::TimedOut { too_short, .. } => too_short.map(|short| short.ttl_needed),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooShort {
    /// The ttl that was asked for.
    pub ttl: Duration,
    /// How long a majority of the nodes takes to answer.
    pub round_trip: Duration,
    /// Whether the lock was to be renewed.
    pub renews: bool,
    /// A ttl that would do.
    pub ttl_needed: Duration,
}

impl fmt::Display for TooShort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_late = match self.renews {
            true => "to renew it in time",
            false => "to use it",
        };
        write!(
            formatter,
            "a majority of the nodes takes {} to answer, and a ttl of {} leaves too little \
             {is_late}",
            show_duration(self.round_trip),
            show_duration(self.ttl),
        )
    }
}

fn timed_out(name: &str, waited: Duration, too_short: Option<TooShort>) -> String {
    let after = after(waited);
    match too_short {
        Some(short) => format!(
            "'{name}' is not acquired{after}: {short}. Use a ttl of {} or more, or nodes that are nearer",
            show_duration(short.ttl_needed)
        ),
        None => format!(
            "the votes for '{name}' did not come in time; not acquired{after}. Use a longer ttl or wait, or check the \
             nodes' response times"
        ),
    }
}

fn after(waited: Duration) -> String {
    if waited < Duration::from_millis(1) {
        String::new()
    } else {
        format!(" after {}", show_duration(waited))
    }
}
