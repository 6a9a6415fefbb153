//! What one node answered, or why it did not.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_clock::show_duration;

use super::connection_error::ConnectionError;
use crate::token::Token;
use crate::votes::NODES_MAX;

/// Why one node did not vote for us.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use quorlock_client::{AcquireError, Cause, NodeAnswer, Redlock, Wait};
///
/// let nobody = Redlock::builder().node("redis://127.0.0.1:1").build()?;
/// let error = nobody.lock("backup").wait(Wait::None).acquire().await.unwrap_err();
/// let AcquireError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
/// let refused = |answer: &NodeAnswer| matches!(answer, NodeAnswer::Not(Cause::LoginRefused(_)));
/// assert!(!nodes.iter().any(|report| refused(&report.answer)), "the passwords are right");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// No connection could be made, or it broke. The error says how, and keeps the system's own.
    Unreachable(ConnectionError),
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
    /// The node is in an earlier state than it has shown before, as after an older image of its disk was put back. It has
    /// forgotten what it granted since, and grants no lock until one of those, for as long, has expired.
    WentBack {
        /// What is left until then.
        left: Duration,
    },
    /// Another node answers under this address than before, and grants no lock until one that the node before it
    /// granted, for as long, has expired.
    Replaced {
        /// What is left until then.
        left: Duration,
    },
    /// The node belongs to another cluster than the client is for, or than other nodes of the list.
    OtherCluster {
        /// The node's cluster.
        cluster: Arc<str>,
        /// The cluster whose votes count.
        expected: Arc<str>,
    },
    /// The nodes of the list belong to several clusters, and none of these is known to have a majority of it: votes of different
    /// clusters are not mixed.
    MixedClusters {
        /// The node's cluster, if it names one.
        cluster: Option<Arc<str>>,
        /// Whether nodes of the list that have not said yet to which cluster they belong may change it for this node. Where
        /// this is false of all nodes, no majority can be had.
        may_pass: bool,
    },
    /// The node's cluster has another number of nodes than the client knows: a majority of the one is none of the other.
    OtherSize {
        /// How many nodes its cluster has.
        size: usize,
    },
    /// What answers is an agent and no node: it keeps no locks, and its vote would be that of its own nodes once more.
    Agent,
    /// The node refused the login, with these words.
    LoginRefused(Arc<str>),
    /// The node does not say who it is, so its vote could be counted twice.
    Unidentified(Arc<str>),
    /// The name, token or another argument cannot work, for this reason. Nothing was sent.
    Invalid(Arc<str>),
    /// The node has no fences: it is no Quorlock node, or one of a version without them.
    WithoutFences,
    /// The node has no locks that are held shared: it is no Quorlock node, or one of a version without them.
    WithoutSharedLocks,
    /// The node may have lost fences that it took, so it takes none until it has been told what the others took.
    FencesLost,
    /// The node has granted the lock, and no larger fence can be had: the name has the largest one there that there is, or one that
    /// is too far from those of the other nodes.
    NoNextFence {
        /// The fence of the name there.
        fence: u64,
    },
    /// The lock is not, or no longer, under our token there.
    NotOurs,
    /// The operation was decided before this node answered. It is connected, and nothing is known against it.
    NotWaitedFor,
    /// The operation was decided while a connection to this node was being made.
    NotConnected,
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Its words are in this one's.
            Self::Unreachable(error) => error.source(),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(formatter, "unreachable: {error}"),
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
            Self::WentBack { left } => write!(
                formatter,
                "it is in an earlier state than before (was an image of its disk put back, or a copy started?): it votes in {}, \
                 when what it has forgotten has expired",
                show_duration(*left)
            ),
            Self::Replaced { left } => write!(
                formatter,
                "another node than before answers under this address: it votes in {}, when what the one before it \
                 granted has expired",
                show_duration(*left)
            ),
            Self::OtherCluster { cluster, expected } => write!(
                formatter,
                "it belongs to the cluster {cluster} and not to {expected}: does not vote"
            ),
            Self::MixedClusters { cluster, may_pass } => {
                mixed(cluster.as_deref(), *may_pass, formatter)
            }
            Self::OtherSize { size } => other_size(*size, formatter),
            Self::Agent => formatter.write_str(AGENT),
            Self::LoginRefused(text) => {
                write!(formatter, "refused the login: {text}{}", login_remedy(text))
            }
            Self::Unidentified(text) => {
                write!(
                    formatter,
                    "does not tell its identity, so it does not vote: {text}"
                )
            }
            Self::Invalid(reason) => {
                write!(formatter, "{reason}; nothing was sent. Correct the call")
            }
            Self::WithoutFences => formatter.write_str(
                "it has no fences, as Redis and earlier versions of Quorlock have none: it does not vote for a lock that is to have one. Acquire the lock without a fence, upgrade the node, or list Quorlock nodes",
            ),
            Self::WithoutSharedLocks => formatter.write_str(
                "it has no shared locks, as Redis and earlier versions of Quorlock have none: it does not vote for a reader. Acquire the lock exclusively, upgrade the node, or list Quorlock nodes",
            ),
            Self::FencesLost => formatter.write_str(
                "it may have lost fences that it took, so it does not vote for a lock that is to have one; run `quorlock node sync` with the list of all nodes",
            ),
            Self::NoNextFence { fence } => no_next_fence(*fence, formatter),
            Self::NotOurs => formatter.write_str("does not hold the lock for this token"),
            Self::NotWaitedFor => formatter
                .write_str("connected, and had not answered yet when the others had decided"),
            Self::NotConnected => {
                formatter.write_str("was still being connected to when the others had decided")
            }
        }
    }
}

/// The largest fence that nodes take.
pub(crate) const FENCE_MAX: u64 = i64::MAX.unsigned_abs();

const AGENT: &str = "it is an agent and no node: it keeps no locks, and its vote would be that of its own nodes once more, so it does not vote; \
     list those nodes and not the agent, or give a lock library the agent's address alone, as that of its one Redis";

fn mixed(cluster: Option<&str>, may_pass: bool, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match cluster {
        Some(cluster) => write!(formatter, "it belongs to the cluster {cluster}")?,
        None => formatter.write_str("it names no cluster")?,
    }
    formatter.write_str(match may_pass {
        true => {
            "; nodes of several clusters are listed, and it is not known yet which has a majority: others have not said theirs; list all nodes of one cluster"
        }
        false => {
            "; the nodes of the list belong to several, and none of these has a majority of it, so none of them votes: list the nodes of one cluster"
        }
    })
}

fn other_size(size: usize, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    if size > NODES_MAX {
        return formatter
            .write_str("it was removed from its cluster: does not vote; list it no more");
    }
    write!(
        formatter,
        "its cluster has {size} nodes, another number than are listed: does not vote; list all of them"
    )
}

fn no_next_fence(fence: u64, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    if fence == FENCE_MAX {
        return write!(
            formatter,
            "it has granted the lock, and the name has the largest fence there that there is, {FENCE_MAX}: acquire the lock without a fence, or list new nodes"
        );
    }
    write!(
        formatter,
        "it has granted the lock, and the fence of the name there, {fence}, is too far from those of other nodes for one that a majority would take; \
         give the largest LOCK.CEILING of the nodes that are right to LOCK.ADOPT on each of them"
    )
}

/// What to do about a login that was refused with these words.
fn login_remedy(text: &str) -> &'static str {
    if text.starts_with("WRONGPASS") || text.starts_with("ERR AUTH") {
        " (the user or password in the node's address is not the node's)"
    } else if text.starts_with("NOAUTH") {
        " (the node's address needs its password: redis://:password@host:port)"
    } else if text.starts_with("DENIED") {
        " (the node has no password and serves its own machine only)"
    } else if text.contains("max number of clients") {
        " (the node has as many clients as its maxclients allows)"
    } else {
        ""
    }
}

/// One node's answer in a round.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use quorlock_client::{AcquireError, Cause, NodeAnswer, Redlock, Wait};
///
/// let nobody = Redlock::builder().node("redis://127.0.0.1:1").build()?;
/// let error = nobody.lock("backup").wait(Wait::None).acquire().await.unwrap_err();
/// let AcquireError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
/// assert!(matches!(nodes[0].answer, NodeAnswer::Not(Cause::Unreachable(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

/// A node's address and what it answered. Shown as a line of a log.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use quorlock_client::{AcquireError, Redlock, Wait};
///
/// let nobody = Redlock::builder().node("redis://127.0.0.1:1").build()?;
/// let error = nobody.lock("backup").wait(Wait::None).acquire().await.unwrap_err();
/// let AcquireError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
/// let line = nodes[0].to_string(); // redis://127.0.0.1:1: unreachable: Connection refused...
/// assert!(line.starts_with("redis://127.0.0.1:1: unreachable: "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's address, without its password.
    pub node: Arc<str>,
    /// Its answer.
    pub answer: NodeAnswer,
}

impl fmt::Display for NodeReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.node, self.answer)
    }
}

/// Each node on a line of its own.
pub(crate) fn lines(nodes: &[NodeReport]) -> String {
    nodes.iter().map(|report| format!("\n  {report}")).collect()
}

/// The other owner, and for how long, where that is known.
pub(crate) fn owner(holder: Option<&Token>, left: Option<Duration>, unless: &str) -> String {
    let token = holder.map(|holder| format!(" (token {})", holder.hint()));
    let left = left.map(|left| format!(" for another {} {unless}", show_duration(left)));
    let (token, left) = (token.unwrap_or_default(), left.unwrap_or_default());
    format!("another owner{token}{left}")
}
