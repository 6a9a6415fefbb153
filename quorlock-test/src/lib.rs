//! Redlock clusters inside a test: nodes, clients, time that is moved, and everything that can go wrong.
//!
//! [`TestCluster`] is a cluster of embedded [nodes](quorlock_server::Node) with logs in memory. Many run in parallel, as
//! many as the process may open files for: each node keeps 96, so a hard limit of 1,024 (`ulimit -Hn`) allows ten nodes at once.
//! Time stands still until it is moved, so that a test of an hour takes milliseconds and no sleep decides its outcome.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use quorlock_test::TestCluster;
//! use quorlock_test::quorlock_client::Wait;
//!
//! let cluster = TestCluster::five().await;
//! let (first, second) = (cluster.client(), cluster.client()); // clients 0 and 1
//! let guard = first.lock("job").ttl(Duration::from_secs(10)).acquire().await?;
//!
//! cluster.cut_off(0).await; // the machine of client 0 stands apart: its lock is lost, and client 1 can have it
//! let second = second.lock("job").wait(Wait::For(Duration::from_secs(30)));
//! let (acquired, ()) = tokio::join!(second.acquire(), cluster.advance(Duration::from_secs(12)));
//! assert!(!guard.is_valid() && acquired?.is_valid());
//! cluster.assert_at_most_one_holder().await;
//! # Ok(())
//! # }
//! ```

mod advance;
mod broken;
mod builder;
mod cluster;
mod explore;
mod fault;
mod history;
mod holders;
mod inject;
mod member;
mod messages;
mod network;
mod random;
mod schedule;
mod shrink;
mod stopwatch;
mod time;

pub use broken::{Broken, HowBroken};
pub use builder::TestClusterBuilder;
pub use cluster::TestCluster;
pub use explore::{Explored, Explorer, explore};
pub use fault::ClusterFault;
pub use holders::Holder;
pub use member::Fsync;
pub use quorlock_client;
pub use schedule::Scheduled;
