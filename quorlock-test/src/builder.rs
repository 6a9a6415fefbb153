//! What a cluster is built from.

use std::time::Duration;

use crate::member::Fsync;

/// Builds a [`TestCluster`](crate::TestCluster) that is not as [`five`](crate::TestCluster::five) is. Made by
/// [`builder`](crate::TestCluster::builder).
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use quorlock_test::{Fsync, TestCluster};
///
/// let builder = TestCluster::builder().nodes(3).fsync(Fsync::Always);
/// let cluster = builder.ttl_max(Duration::from_secs(20)).seed(7).start().await;
/// assert_eq!(cluster.len(), 3);
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call start()"]
pub struct TestClusterBuilder {
    pub(crate) nodes: usize,
    pub(crate) seed: u64,
    pub(crate) ttl_max: Duration,
    pub(crate) fsync: Fsync,
}

impl TestClusterBuilder {
    pub(crate) fn new() -> Self {
        Self {
            nodes: 5,
            seed: 0,
            ttl_max: Duration::from_secs(60),
            fsync: Fsync::default(),
        }
    }

    /// How many nodes: 5 by default, 1 to 64. One is enough for a test of what a program makes of its locks; a majority takes three.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Decides what is decided by chance, such as the sectors that survive a loss of power. 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The longest ttl that a restart delay covers, `restart-delay-max` of the nodes: a node that may have forgotten locks
    /// serves none for about this long. 60 s by default, 1 ms to 24 h.
    pub fn ttl_max(mut self, ttl: Duration) -> Self {
        self.ttl_max = ttl;
        self
    }

    /// When nodes sync their logs. Once in a second of the cluster's time, by default. With [`Fsync::Always`] what was answered
    /// is synced; in the other modes the threads of nodes sync when the scheduler lets them, and what a loss of power takes depends on it.
    pub fn fsync(mut self, fsync: Fsync) -> Self {
        self.fsync = fsync;
        self
    }
}
