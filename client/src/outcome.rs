//! What an operation came to: typed, with each node's answer, in words a person can act on.
//!
//! Invariant: "busy", "no quorum" and "out of time" are never the same value, and every text says
//! what happened, what that means for the lock, and what to do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::address::AddressError;
use crate::token::Token;
use crate::votes::majority;

/// Why one node did not vote for us.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No connection could be made, or it broke. The text says how.
    Unreachable(Arc<str>),
    /// The node did not answer in the time it was given.
    Silent,
    /// The node restarted and serves no locks until what it may have forgotten has expired.
    Delayed {
        /// What is left of the delay.
        left: Duration,
        /// The node's own words.
        text: Arc<str>,
    },
    /// The node refused with this error.
    Refused(Arc<str>),
    /// The node is the same as the one listed under this address: it votes once.
    SameNode(Arc<str>),
    /// The node shows an older past than the one it has shown before: a restored or cloned copy.
    WentBack,
    /// The node does not say who it is, so its vote could be counted twice.
    Unidentified(Arc<str>),
    /// The lock is not, or no longer, under our token there.
    NotOurs,
    /// The operation was decided before this node answered.
    NotWaitedFor,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(text) => write!(formatter, "unreachable: {text}"),
            Self::Silent => formatter.write_str("connected, but silent"),
            Self::Delayed { left, .. } => {
                write!(
                    formatter,
                    "in its restart delay for another {}",
                    show_duration(*left)
                )
            }
            Self::Refused(text) => write!(formatter, "refused: {text}"),
            Self::SameNode(other) => write!(formatter, "the same node as {other}: votes once"),
            Self::WentBack => formatter.write_str(
                "its incarnation went backwards (a restored or cloned directory?): does not vote",
            ),
            Self::Unidentified(text) => {
                write!(
                    formatter,
                    "does not tell its identity, so it does not vote: {text}"
                )
            }
            Self::NotOurs => formatter.write_str("does not hold the lock for this token"),
            Self::NotWaitedFor => {
                formatter.write_str("had not answered when the others had decided")
            }
        }
    }
}

/// One node's answer in a round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeAnswer {
    /// It voted for us.
    Granted,
    /// Another token holds the lock there.
    Busy {
        /// The holder's token, where the node tells it.
        holder: Option<Token>,
    },
    /// It did not vote.
    Not(Cause),
}

impl fmt::Display for NodeAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => formatter.write_str("granted"),
            Self::Busy {
                holder: Some(holder),
            } => write!(formatter, "busy, held by {}", holder.hint()),
            Self::Busy { holder: None } => formatter.write_str("busy"),
            Self::Not(cause) => cause.fmt(formatter),
        }
    }
}

/// A node's address and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node's address, without its password.
    pub node: Arc<str>,
    /// Its answer.
    pub answer: NodeAnswer,
}

/// Why a client could not be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No node was named.
    #[error("no node was named: a Redlock needs at least one, and five to survive two failures")]
    NoNodes,
    /// More nodes than votes can be kept for.
    #[error("{0} nodes were named, at most {max} are possible", max = crate::votes::NODES_MAX)]
    TooManyNodes(usize),
    /// The same address twice: the node would seem to vote twice.
    #[error("{0} is listed twice: list each node once")]
    Duplicate(Arc<str>),
    /// An address cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A setting is out of its range.
    #[error("{0}")]
    Setting(&'static str),
    /// The client's own thread could not be started.
    #[error("the client's thread could not be started: {0}")]
    Thread(Arc<str>),
}

/// Why a lock was not acquired. In every case it is not held, and what was taken on single nodes
/// is being released in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody else holds the lock.
    Busy {
        /// The lock's name.
        name: Arc<str>,
        /// The token of the holder, where a node tells it.
        holder: Option<Token>,
        /// Time until enough nodes are free again if nobody renews.
        time_left: Option<Duration>,
        /// How long was waited.
        waited: Duration,
    },
    /// Too few nodes answered to decide.
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
    /// A majority came too late: too little validity was left, or the wait was over.
    TimedOut {
        /// The lock's name.
        name: Arc<str>,
        /// Each node's answer in the last round; empty if the votes came in time, but the caller
        /// took the lock only when its validity was over.
        nodes: Vec<NodeReport>,
        /// How long was waited.
        waited: Duration,
    },
    /// The attempt was cancelled, by the caller or because the client is shutting down.
    Cancelled {
        /// The lock's name.
        name: Arc<str>,
    },
    /// The name, ttl or another argument cannot work. Nothing was sent.
    Invalid {
        /// What is wrong and what is possible.
        reason: Arc<str>,
    },
}

impl fmt::Display for AcquireError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy {
                name,
                holder,
                time_left,
                waited,
            } => {
                write!(formatter, "'{name}' is held by ")?;
                match holder {
                    Some(holder) => write!(formatter, "another owner (token {})", holder.hint())?,
                    None => formatter.write_str("another owner")?,
                }
                if let Some(left) = time_left {
                    write!(
                        formatter,
                        " for another {} unless renewed",
                        show_duration(*left)
                    )?;
                }
                write!(
                    formatter,
                    "; not acquired{}. Wait longer or try again later",
                    after(*waited)
                )
            }
            Self::NoQuorum {
                name,
                needed,
                nodes,
                waited,
            } => {
                write!(
                    formatter,
                    "no quorum for '{name}': fewer than {needed} of {} nodes can vote; not \
                     acquired{}. Check the nodes",
                    nodes.len(),
                    after(*waited)
                )?;
                write_nodes(formatter, nodes)
            }
            Self::TimedOut {
                name,
                nodes,
                waited,
            } => {
                write!(
                    formatter,
                    "the votes for '{name}' did not come in time; not acquired{}. Use a longer \
                     ttl or wait, or check the nodes' response times",
                    after(*waited)
                )?;
                write_nodes(formatter, nodes)
            }
            Self::Cancelled { name } => write!(
                formatter,
                "acquiring '{name}' was cancelled; it is not held, and what was taken on single \
                 nodes is being released"
            ),
            Self::Invalid { reason } => {
                write!(formatter, "{reason}; nothing was sent. Correct the call")
            }
        }
    }
}

/// Why an extension did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock is lost for good.
    Lost(Loss),
    /// No majority has extended it this time. For a guard the old validity still holds.
    NoQuorum {
        /// Votes needed.
        needed: usize,
        /// Each node's answer.
        nodes: Vec<NodeReport>,
    },
    /// An argument cannot work. Nothing was sent.
    Invalid {
        /// What is wrong and what is possible.
        reason: Arc<str>,
    },
}

/// Why a lock that was held is lost. Final: it is never regained by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease ends, and no majority has renewed it.
    Expired,
    /// Fewer than a majority of the nodes hold the lock for us, for instance because it was
    /// deleted or taken there.
    BelowMajority,
    /// A renewal succeeded only after the old validity had ended.
    Late,
    /// The longest time the lock may be held is over.
    MaxLifetime,
    /// The guard was released.
    Released,
    /// The client's own thread has ended, nobody renews the lock.
    ClientStopped,
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Expired => "the lease ends and no majority of the nodes has renewed it",
            Self::BelowMajority => "fewer than a majority of the nodes hold it under this token",
            Self::Late => "the renewal came only after the lease had ended",
            Self::MaxLifetime => "the longest time it may be held is over",
            Self::Released => "it was released",
            Self::ClientStopped => "the client has stopped, nobody renews it",
        })
    }
}

impl std::error::Error for Loss {}

/// What one node did with a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRelease {
    /// It held the lock for the token and freed it.
    Freed,
    /// It did not hold the lock for the token.
    NotHeld,
    /// It could not be told yet. Where it may hold the lock, the client goes on trying in the
    /// background until the lease is over.
    Not(Cause),
}

/// What a release came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Each node's address and what it did.
    pub nodes: Vec<(Arc<str>, NodeRelease)>,
}

impl Release {
    /// Nothing could be asked for any more.
    pub(crate) fn client_stopped(nodes: &[Arc<str>]) -> Self {
        let cause = Cause::Unreachable(Arc::from("the client has stopped"));
        let nodes = nodes.iter();
        Self {
            nodes: nodes
                .map(|node| (Arc::clone(node), NodeRelease::Not(cause.clone())))
                .collect(),
        }
    }

    /// Nodes that freed the lock.
    #[must_use]
    pub fn freed(&self) -> usize {
        self.nodes
            .iter()
            .filter(|(_, node)| *node == NodeRelease::Freed)
            .count()
    }

    /// Whether a majority freed the lock: it was held until now, and is free.
    #[must_use]
    pub fn released(&self) -> bool {
        self.freed() > self.nodes.len() / 2
    }

    /// Whether the token had lost the lock before this release: so many nodes did not hold it for
    /// the token that the others are no majority.
    ///
    /// A healthy lock may be missing on a minority of the nodes, and a node that was not reached
    /// says nothing; neither is a loss.
    #[must_use]
    pub fn was_lost(&self) -> bool {
        let not_held = self
            .nodes
            .iter()
            .filter(|(_, node)| *node == NodeRelease::NotHeld);
        not_held.count() > self.nodes.len() - majority(self.nodes.len()).min(self.nodes.len())
    }

    /// Whether a majority says that the token does not hold the lock (any more): everybody can
    /// take it already, as far as this token is concerned.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let told = self
            .nodes
            .iter()
            .filter(|(_, node)| !matches!(node, NodeRelease::Not(_)));
        told.count() > self.nodes.len() / 2
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "freed on {} of {} nodes",
            self.freed(),
            self.nodes.len()
        )?;
        for (node, release) in &self.nodes {
            match release {
                NodeRelease::Freed => {}
                NodeRelease::NotHeld => write!(formatter, "\n  {node}: not held by this token")?,
                NodeRelease::Not(cause) => write!(formatter, "\n  {node}: {cause}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for AcquireError {}

impl fmt::Display for ExtendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(loss) => write!(
                formatter,
                "not extended, the lock is lost: {loss}. Stop the work it protects"
            ),
            Self::NoQuorum { needed, nodes } => {
                write!(
                    formatter,
                    "not extended: fewer than {needed} of {} nodes renewed the lock. It ends when \
                     its lease ends; stop the work before that, or extend again",
                    nodes.len()
                )?;
                write_nodes(formatter, nodes)
            }
            Self::Invalid { reason } => {
                write!(formatter, "{reason}; nothing was sent. Correct the call")
            }
        }
    }
}

impl std::error::Error for ExtendError {}

impl fmt::Display for NodeReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.node, self.answer)
    }
}

fn write_nodes(formatter: &mut fmt::Formatter<'_>, nodes: &[NodeReport]) -> fmt::Result {
    nodes
        .iter()
        .try_for_each(|report| write!(formatter, "\n  {report}"))
}

fn after(waited: Duration) -> String {
    if waited < Duration::from_millis(1) {
        String::new()
    } else {
        format!(" after {}", show_duration(waited))
    }
}

/// A duration for people, cut to what they read: `350 ms`, `7.2 s`, `30 s`.
fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match (ms / 1_000, ms % 1_000 / 100) {
        (0, _) => format!("{ms} ms"),
        (seconds, 0) => format!("{seconds} s"),
        (seconds, tenths) => format!("{seconds}.{tenths} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(nodes: &str) -> Release {
        let node = |letter: char| match letter {
            'f' => NodeRelease::Freed,
            'n' => NodeRelease::NotHeld,
            _ => NodeRelease::Not(Cause::Silent),
        };
        let nodes = nodes
            .chars()
            .map(|letter| (Arc::from("node"), node(letter)));
        Release {
            nodes: nodes.collect(),
        }
    }

    #[test]
    fn durations_are_cut_to_what_people_read() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (7_299, "7.2 s"),
            (30_099, "30 s"),
        ] {
            assert_eq!(show_duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn a_lock_was_lost_when_the_other_nodes_are_no_majority() {
        for lost in ["nnnff", "nnn--", "nnnnn", "n", "nn", "nf", "nnff"] {
            assert!(release(lost).was_lost(), "{lost}");
        }
        for held in [
            "fffnn", "ffnn-", "nn---", "-----", "fffff", "f", "ff", "nfff", "n---",
        ] {
            assert!(!release(held).was_lost(), "{held}");
        }
        assert!(!release("").was_lost(), "no node says anything");
    }
}
