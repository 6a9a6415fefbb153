//! What a client has counted since it was built.

use std::sync::Arc;
use std::time::Duration;

/// What a client has counted since it was built, all clones and guards together. Counts never go
/// down, except for `held`.
///
/// Every call to acquire ends up in exactly one of `acquired`, `busy`, `no_quorum`, `timed_out` and
/// `cancelled`. Calls with arguments that cannot work are not counted.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// drop(redlock.lock("backup").acquire().await?);
/// let counted = redlock.statistics().await;
/// assert_eq!((counted.acquired, counted.busy, counted.lost), (1, 0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Locks that were acquired.
    pub acquired: u64,
    /// Calls that ended because somebody else held the lock.
    pub busy: u64,
    /// Calls that ended because too few nodes could vote.
    pub no_quorum: u64,
    /// Calls whose votes came too late.
    pub timed_out: u64,
    /// Calls whose futures were dropped before they ended.
    pub cancelled: u64,
    /// Rounds to acquire a lock beyond the first of each call.
    pub retries: u64,
    /// Rounds of renewal that moved a lock's validity on.
    pub renewals: u64,
    /// Rounds of renewal that found no majority.
    pub failed_renewals: u64,
    /// Locks that were lost; those that were released are not among them.
    pub lost: u64,
    /// Guards whose locks are held now.
    pub held: usize,
    /// Each node's part, in the order the nodes were listed.
    pub nodes: Vec<NodeStatistics>,
}

/// What a client has counted of one node.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// redlock.probe().await;
/// for node in redlock.statistics().await.nodes {
///     println!("{}: {} of {} connections were made", node.node, node.connections, node.connects);
///     assert_eq!((node.connections, node.failures), (1, 0));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatistics {
    /// The node's address, without its password.
    pub node: Arc<str>,
    /// The usual time from a request to its answer, as far as it was measured.
    pub round_trip: Option<Duration>,
    /// Requests it has answered, apart from releases that nobody waits for.
    pub answers: u64,
    /// Requests it refused, or that could not be put to it because it was not reached.
    pub failures: u64,
    /// Connections that were tried.
    pub connects: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Releases that were given up because too many were owed to it: these locks stay there until their ttl is over.
    pub releases_given_up: u64,
}

impl Statistics {
    /// Nothing counted yet of these nodes.
    pub(crate) fn of(nodes: &[Arc<str>]) -> Self {
        let nothing = |node: &Arc<str>| NodeStatistics {
            node: Arc::clone(node),
            round_trip: None,
            answers: 0,
            failures: 0,
            connects: 0,
            connections: 0,
            releases_given_up: 0,
        };
        Self {
            nodes: nodes.iter().map(nothing).collect(),
            ..Self::default()
        }
    }
}
