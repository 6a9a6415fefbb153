//! Why a lock that was held is lost, or was not extended.

use std::sync::Arc;

use thiserror::Error;

use super::cause::{NodeReport, lines};

/// Why an extension did not succeed.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// # use quorlock_client::{ExtendError, Loss, Token};
/// let token = Token::fresh(); // under which nobody holds it
/// let error = redlock.extend("backup", &token, Duration::from_secs(10)).await.unwrap_err();
/// assert_eq!(error, ExtendError::Lost(Loss::BelowMajority));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock is lost for good.
    #[error("not extended{}. Stop the work it protects", lost(.0))]
    Lost(#[source] Loss),
    /// No majority has extended it this time. For a guard the old validity still holds.
    #[error(
        "not extended: fewer than {needed} of {} nodes renewed the lock. It ends when its lease ends; stop the work \
         before that, or extend again{}",
        nodes.len(),
        lines(nodes)
    )]
    #[non_exhaustive]
    NoQuorum {
        /// Votes needed.
        needed: usize,
        /// Each node's answer.
        nodes: Vec<NodeReport>,
    },
    /// An argument cannot work. Nothing was sent.
    #[error("{reason}; nothing was sent. Correct the call")]
    Invalid {
        /// What is wrong and what is possible.
        reason: Arc<str>,
    },
}

/// Why a lock that was held is lost. Final: it is never regained by itself.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// # use quorlock_client::Loss;
/// let guard = redlock.lock("backup").acquire().await?;
/// match guard.loss() {
///     None => println!("still held"),
///     Some(Loss::Released) => unreachable!("by whoever has the guard"),
///     Some(loss) => println!("stop at once: {loss}"),
/// }
/// # assert_eq!(guard.loss(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Loss {
    /// The lease ends, and no majority has renewed it.
    #[error("the lease ends and no majority of the nodes has renewed it")]
    Expired,
    /// Fewer than a majority of the nodes hold the lock for us, for instance because it was
    /// deleted or taken there.
    #[error("fewer than a majority of the nodes hold it under this token")]
    BelowMajority,
    /// A renewal succeeded only after the old validity had ended.
    #[error("the renewal came only after the lease had ended")]
    Late,
    /// The longest time the lock may be held is over.
    #[error("the longest time it may be held is over")]
    MaxLifetime,
    /// The guard was released.
    #[error("it was released")]
    Released,
    /// The client's own thread has ended, nobody renews the lock.
    #[error("the client has stopped, nobody renews it")]
    ClientStopped,
}

fn lost(loss: &Loss) -> String {
    match loss {
        Loss::BelowMajority => {
            ": fewer than a majority of the nodes hold the lock under this token; it was lost or \
             released, or never taken with it"
                .to_owned()
        }
        loss => format!(", the lock is lost: {loss}"),
    }
}
