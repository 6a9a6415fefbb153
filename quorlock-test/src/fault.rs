//! What can go wrong in a cluster, and what ends it again, as data: for schedules that are found, shrunk and repeated.

use std::fmt;
use std::time::Duration;

/// What happens to a cluster. [`TestCluster`](crate::TestCluster) has a method for each; [`apply`](crate::TestCluster::apply)
/// takes one from a schedule that `explore` has reported.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use quorlock_test::{ClusterFault, TestCluster};
///
/// let cluster = TestCluster::three().await;
/// cluster.apply(&ClusterFault::Kill(2)).await; // the same as cluster.kill(2)
/// assert!(!cluster.is_up(2));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterFault {
    /// A node's process ends at once.
    Kill(usize),
    /// A node's machine loses power, and what its disk had not synced is partly gone.
    LosePower(usize),
    /// A node that is down starts again; one that runs is killed before.
    Restart(usize),
    /// The same, and it serves at once, whatever it may have forgotten.
    RestartWithoutDelay(usize),
    /// A node stands still: it takes no requests and sends no replies.
    Pause(usize),
    /// It goes on.
    Resume(usize),
    /// Nothing arrives any more between a client and a node.
    Cut {
        /// The client's number.
        client: usize,
        /// The node's number.
        node: usize,
    },
    /// What was held back between the two arrives.
    Heal {
        /// The client's number.
        client: usize,
        /// The node's number.
        node: usize,
    },
    /// Nothing arrives any more between a client and all nodes: its machine stands apart.
    CutOff(usize),
    /// What was held back between a client and all nodes arrives.
    Reconnect(usize),
    /// A node's replies are this much later; zero ends it.
    Slow(usize, Duration),
    /// A node's disk has no room: its next write fails, also into space that was made ahead, and the node ends.
    DiskFull(usize),
    /// The next sync of a node's disk fails, and the node ends.
    FailSync(usize),
    /// An earlier image of a node's disk comes back, and the node starts from it.
    RollBack(usize),
    /// A lock's key is deleted on a majority.
    Steal(String),
}

impl ClusterFault {
    /// The node that it happens to.
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Self::Kill(node)
            | Self::LosePower(node)
            | Self::Restart(node)
            | Self::RestartWithoutDelay(node)
            | Self::Pause(node)
            | Self::Resume(node)
            | Self::Slow(node, _)
            | Self::DiskFull(node)
            | Self::FailSync(node)
            | Self::RollBack(node)
            | Self::Cut { node, .. }
            | Self::Heal { node, .. } => Some(*node),
            Self::CutOff(_) | Self::Reconnect(_) | Self::Steal(_) => None,
        }
    }

    /// What ends it; nothing for what is over at once, or ends something itself.
    pub(crate) fn end(&self) -> Option<Self> {
        match *self {
            Self::Kill(node)
            | Self::LosePower(node)
            | Self::DiskFull(node)
            | Self::FailSync(node) => Some(Self::Restart(node)),
            Self::Pause(node) => Some(Self::Resume(node)),
            Self::Cut { client, node } => Some(Self::Heal { client, node }),
            Self::CutOff(client) => Some(Self::Reconnect(client)),
            Self::Slow(node, _) => Some(Self::Slow(node, Duration::ZERO)),
            _ => None,
        }
    }
}

impl fmt::Display for ClusterFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(node) => write!(formatter, "node {node} is killed"),
            Self::LosePower(node) => write!(formatter, "node {node} loses power"),
            Self::Restart(node) => write!(formatter, "node {node} starts again"),
            Self::RestartWithoutDelay(node) => {
                write!(formatter, "node {node} starts again without restart delay")
            }
            Self::Pause(node) => write!(formatter, "node {node} is paused"),
            Self::Resume(node) => write!(formatter, "node {node} goes on"),
            Self::Cut { client, node } => {
                write!(formatter, "client {client} is cut from node {node}")
            }
            Self::Heal { client, node } => {
                write!(formatter, "client {client} reaches node {node} again")
            }
            Self::CutOff(client) => write!(formatter, "client {client} is cut from all nodes"),
            Self::Reconnect(client) => write!(formatter, "client {client} reaches all nodes again"),
            Self::Slow(node, Duration::ZERO) => {
                write!(formatter, "node {node} answers at once again")
            }
            Self::Slow(node, by) => write!(formatter, "node {node} answers {by:?} later"),
            Self::DiskFull(node) => write!(formatter, "the disk of node {node} is full"),
            Self::FailSync(node) => write!(formatter, "the next sync of node {node} fails"),
            Self::RollBack(node) => write!(formatter, "node {node} is put back to its image"),
            Self::Steal(name) => write!(formatter, "lock '{name}' is deleted on a majority"),
        }
    }
}
