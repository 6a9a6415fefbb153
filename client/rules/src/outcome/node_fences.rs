//! What became of the fences of the nodes.

use std::fmt;
use std::sync::Arc;

use super::cause::Cause;

/// Whether one node takes fences, after all nodes were asked what they took; see `Redlock::sync_fences`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeFences {
    /// The node's address, without its password.
    pub node: Arc<str>,
    /// Whether it takes fences.
    pub state: FenceState,
}

/// Whether a node takes fences, and above what.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FenceState {
    /// It takes fences, and has taken none above this.
    Certain(u64),
    /// It had perhaps lost its fences, and takes those above this from now on.
    Adopted(u64),
    /// It may have lost its fences and takes none: too few others are certain of theirs.
    Uncertain {
        /// It has taken none above this that it knows of.
        ceiling: u64,
        /// How many other nodes are certain.
        certain_others: usize,
        /// How many have to be.
        needed: usize,
    },
    /// It has not told, or not adopted what it was told.
    Unknown(Cause),
}

impl NodeFences {
    /// Whether the node takes fences now, as far as is known.
    #[must_use]
    pub fn takes_fences(&self) -> bool {
        matches!(self.state, FenceState::Certain(_) | FenceState::Adopted(_))
    }
}

impl fmt::Display for NodeFences {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.node, self.state)
    }
}

impl fmt::Display for FenceState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certain(ceiling) => {
                write!(formatter, "takes fences; none above {ceiling} so far")
            }
            Self::Adopted(ceiling) => {
                write!(
                    formatter,
                    "may have lost fences, and takes those above {ceiling} now"
                )
            }
            Self::Uncertain {
                certain_others,
                needed,
                ..
            } => write!(
                formatter,
                "may have lost fences, and takes none: {certain_others} other nodes are certain of theirs, {needed} have to be"
            ),
            Self::Unknown(cause) => cause.fmt(formatter),
        }
    }
}
