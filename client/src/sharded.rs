//! Names of locks that are shared out among several Redlock clusters, each with nodes and a client of its own.
//!
//! Invariant: a lock has one name and one cluster. Nothing here is held: guards and leases are those of the cluster's client.

use bytes::Bytes;
use quorlock_client_rules::name::{LockName, behind};
use quorlock_client_rules::outcome::{ExtendError, Release};
use quorlock_client_rules::shards::{ShardError, Shards};
use quorlock_client_rules::token::Token;
use std::sync::Arc;
use std::time::Duration;

use crate::election::Election;
use crate::lease::Lease;
use crate::lock::LockRequest;
use crate::redlock::Redlock;

/// Several Redlock clusters that share out the names of locks: each name is on one of them, which its name and the names of the
/// clusters decide. For more locks than the nodes of one cluster take.
///
/// A cluster's name decides which locks it has: it stays when nodes are replaced, is the same in all programs, and is in no
/// order. What is between the first `{` and the next `}` of a lock's name decides alone, so `{order 7}:stock` and
/// `{order 7}:invoice` are on one cluster. A permit is where its semaphore is. The [prefix](crate::RedlockBuilder::prefix)
/// counts as a part of the name.
///
/// Without `async`: `blocking::LockRequest::from(sharded.lock("backup")?)`, and [`blocking`](crate::blocking)'s `Election` and
/// `Redlock`, made likewise.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use quorlock_client::{Redlock, ShardedRedlock};
/// # let (first, second) = (
/// #     quorlock_server::Node::builder().ephemeral().start().await?,
/// #     quorlock_server::Node::builder().ephemeral().start().await?,
/// # );
/// let east = Redlock::builder().node(first.url()).build()?; // five nodes, in production
/// let west = Redlock::builder().node(second.url()).build()?;
/// let sharded = ShardedRedlock::new([("east", east), ("west", west)])?;
/// let guard = sharded.lock("backup")?.acquire().await?;
/// assert!(guard.release().await.is_free());
/// assert_eq!(sharded.cluster_of("backup").0, "east");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ShardedRedlock {
    shards: Arc<Shards>,
    clusters: Arc<[Redlock]>,
}

impl ShardedRedlock {
    /// These clusters, each with its name and its client.
    ///
    /// # Errors
    /// When there is none or more than 64, two have one name, a node is listed twice, or their clients have different prefixes.
    pub fn new<N: Into<Arc<str>>>(
        clusters: impl IntoIterator<Item = (N, Redlock)>,
    ) -> Result<Self, ShardError> {
        let named = clusters.into_iter().map(|(name, it)| (name.into(), it));
        let (names, clusters): (Vec<Arc<str>>, Vec<Redlock>) = named.unzip();
        let shards = Shards::new(names.iter().cloned())?;
        let mut known: Vec<&Arc<str>> = Vec::new();
        for (name, cluster) in names.iter().zip(&clusters) {
            for node in cluster.nodes() {
                if known.contains(&node) {
                    return Err(ShardError::NodeTwice(Arc::clone(node)));
                }
                known.push(node);
            }
            if cluster.shared().settings.prefix != clusters[0].shared().settings.prefix {
                let first = Arc::clone(&names[0]);
                return Err(ShardError::Prefixes(first, Arc::clone(name)));
            }
        }
        Ok(Self {
            shards: Arc::new(shards),
            clusters: clusters.into(),
        })
    }

    /// The same while the list of clusters is being changed: names that are on another cluster by this list, which is of names of
    /// clusters, are taken by nobody, and all others as before. Clients with the list of before, and then clients with the next one,
    /// may run beside it; never those two beside each other, and the next one not before the last moving lock is over.
    ///
    /// # Errors
    /// When the next list has none or more than 64 names, or one of them twice.
    ///
    /// # Example
    /// ```
    /// use quorlock_client::{Redlock, ShardError, ShardedRedlock};
    ///
    /// let east = Redlock::builder().node("redis://db1:7001").build()?;
    /// let west = Redlock::builder().node("redis://db2:7001").build()?;
    /// let sharded = ShardedRedlock::new([("east", east), ("west", west)])?;
    /// let sharded = sharded.changing_to(["east", "west", "north"])?;
    /// assert!(sharded.lock("backup").is_ok());
    /// assert!(matches!(sharded.lock("report"), Err(ShardError::Moves { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changing_to<N: Into<Arc<str>>>(
        self,
        next: impl IntoIterator<Item = N>,
    ) -> Result<Self, ShardError> {
        let shards = Shards::clone(&self.shards).changing_to(next)?;
        Ok(Self {
            shards: Arc::new(shards),
            ..self
        })
    }

    /// A lock with this name, to be acquired on its cluster: as [`Redlock::lock`].
    ///
    /// # Errors
    /// When the name moves to another cluster.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Result<LockRequest, ShardError> {
        self.locks([name])
    }

    /// Several locks, to be acquired together: as [`Redlock::locks`].
    ///
    /// # Errors
    /// When they are on several clusters, or one of them moves to another cluster.
    pub fn locks(
        &self,
        names: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<LockRequest, ShardError> {
        let names = names.into_iter();
        let names = names.map(|name| Bytes::copy_from_slice(name.as_ref()));
        let names = LockName::of_all(names);
        let whole = names.behind(self.prefix());
        let cluster = self.shards.take(whole.parts())?;
        Ok(self.clusters[cluster].locks(names.parts()))
    }

    /// One of so many permits of this name, to be acquired on its cluster: as [`Redlock::semaphore`].
    ///
    /// # Errors
    /// When the name moves to another cluster.
    pub fn semaphore(
        &self,
        name: impl AsRef<[u8]>,
        permits: u32,
    ) -> Result<LockRequest, ShardError> {
        Ok(self.lock(name)?.of_permits(permits))
    }

    /// An election with this name on its cluster, for candidates: as [`Redlock::election`]. Observers take it from the client of
    /// [`cluster_of`](Self::cluster_of), which has it also while the name moves.
    ///
    /// # Errors
    /// When the name moves to another cluster.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Result<Election, ShardError> {
        let whole = behind(self.prefix(), &Bytes::copy_from_slice(name.as_ref()));
        let cluster = self.shards.take(&[whole])?;
        Ok(self.clusters[cluster].election(name))
    }

    /// Extends a lock that is held under `token` on its cluster: as [`Redlock::extend`].
    ///
    /// # Errors
    /// As for [`Redlock::extend`].
    pub async fn extend(
        &self,
        name: impl AsRef<[u8]>,
        token: &Token,
        ttl: Duration,
    ) -> Result<Lease, ExtendError> {
        let (_, cluster) = self.cluster_of(&name);
        cluster.extend(name, token, ttl).await
    }

    /// Releases a lock that is held under `token` on its cluster: as [`Redlock::release`].
    pub async fn release(&self, name: impl AsRef<[u8]>, token: &Token) -> Release {
        let (_, cluster) = self.cluster_of(&name);
        cluster.release(name, token).await
    }

    /// The cluster that has this name by the present list: its name and its client, for what else a client can do.
    #[must_use]
    pub fn cluster_of(&self, name: impl AsRef<[u8]>) -> (&str, &Redlock) {
        let whole = behind(self.prefix(), &Bytes::copy_from_slice(name.as_ref()));
        let cluster = self.shards.of(&whole);
        (&self.shards.clusters()[cluster], &self.clusters[cluster])
    }

    /// All clusters in the order of the list, each with its name and its client: to probe, to count and to close them.
    pub fn clusters(&self) -> impl Iterator<Item = (&str, &Redlock)> {
        let names = self.shards.clusters().iter().map(|name| &**name);
        names.zip(self.clusters.iter())
    }

    fn prefix(&self) -> &[u8] {
        self.clusters
            .first()
            .map_or(&[], |first| &first.shared().settings.prefix)
    }
}
