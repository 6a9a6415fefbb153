//! How the nodes do, as seen from this client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::outcome::Cause;
use crate::votes::Identity;

/// One node's state as a client sees it.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// It votes.
    Votes,
    /// It does not, and why.
    DoesNotVote(Cause),
}

impl NodeStatus {
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
