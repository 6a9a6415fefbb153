//! How the nodes do, as seen from this client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::outcome::Cause;
use crate::votes::Identity;

/// One node's state as a client sees it.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// let status = &redlock.probe().await[0];
/// assert_eq!(&status.node, &redlock.nodes()[0]);
/// assert!(status.votes() && status.identity.is_some() && status.round_trip.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node's address, without its password.
    pub node: Arc<str>,
    /// Who it says it is; absent while it never answered.
    pub identity: Option<Identity>,
    /// Whether it would vote now, or why not.
    pub state: NodeState,
    /// The round trip of this probe.
    pub round_trip: Option<Duration>,
}

/// Whether a node would vote.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// # use quorlock_client::NodeState;
/// for status in redlock.probe().await {
///     if let NodeState::DoesNotVote(cause) = &status.state {
///         println!("{}: {cause}", status.node);
///     }
///     assert_eq!(status.state, NodeState::Votes);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// It votes.
    Votes,
    /// It does not, and why.
    DoesNotVote(Cause),
}

impl NodeStatus {
    /// A node that was not asked, for this reason.
    pub(crate) fn not_asked(node: &Arc<str>, cause: Cause) -> Self {
        Self {
            node: Arc::clone(node),
            identity: None,
            state: NodeState::DoesNotVote(cause),
            round_trip: None,
        }
    }

    /// Whether the node would vote now.
    #[must_use]
    pub fn votes(&self) -> bool {
        self.state == NodeState::Votes
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.node)?;
        match &self.state {
            NodeState::Votes => formatter.write_str("votes")?,
            NodeState::DoesNotVote(cause) => cause.fmt(formatter)?,
        }
        if let Some(round_trip) = self.round_trip {
            write!(formatter, " ({} us)", round_trip.as_micros())?;
        }
        Ok(())
    }
}
