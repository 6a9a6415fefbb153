//! Who leads, as an observer of an election is told.

use std::fmt;
use std::sync::Arc;

use crate::token::Token;

/// Who leads, as a majority of the nodes sees it.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use quorlock_client::{Observed, Redlock};
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// let election = redlock.election("primary").proposal("10.0.0.7:8080");
/// let leadership = election.clone().campaign().await?;
/// match election.observe().next().await {
///     Some(Observed::Leader(leader)) => {
///         assert_eq!(leader.proposal.as_deref(), Some("10.0.0.7:8080"));
///         assert_eq!(&leader.token, leadership.token());
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// This one.
    Leader(Leader),
    /// Nobody.
    Vacant,
    /// No majority of the nodes can be asked, and the leader that was known may have lost its lock meanwhile.
    Unknown,
}

/// A candidate that leads.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use quorlock_client::{Observed, Redlock};
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// let election = redlock.election("primary").fenced();
/// let leadership = election.clone().campaign().await?;
/// let observed = election.observe().next().await;
/// let Some(Observed::Leader(leader)) = observed else { panic!("{observed:?}") };
/// assert_eq!(leader.fence, leadership.fence());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The token under which the nodes hold its lock.
    pub token: Token,
    /// What it says about itself, if it said something and a node knows it. Servers other than Quorlock know none.
    pub proposal: Option<Arc<str>>,
    /// Its fence, once a majority of the nodes has told one.
    pub fence: Option<u64>,
}

impl Leader {
    pub(crate) fn new(token: Token, proposal: Option<Arc<str>>, fence: Option<u64>) -> Self {
        Self {
            token,
            proposal,
            fence,
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader(leader) => leader.fmt(formatter),
            Self::Vacant => formatter.write_str("nobody leads"),
            Self::Unknown => formatter.write_str("unknown: no majority of the nodes answers"),
        }
    }
}

/// Its proposal or what is shown of its token, and its fence.
impl fmt::Display for Leader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.proposal {
            Some(proposal) => write!(formatter, "{proposal} leads")?,
            None => write!(
                formatter,
                "the candidate with token {} leads",
                self.token.hint()
            )?,
        }
        match self.fence {
            Some(fence) => write!(formatter, " with fence {fence}"),
            None => Ok(()),
        }
    }
}
