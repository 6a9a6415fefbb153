//! Quorlock: a lock server that speaks Redis's protocol, and Redlock over five of them.
//!
//! This is the way in for programs: [`Redlock`] takes locks over a set of nodes, [`Node`] runs a
//! node inside a process, in a test suite for instance. Both are crates of their own
//! ([`client`], [`server`]); this one adds nothing to them. The `quorlock` command is built from
//! the same parts.
//!
//! ```no_run
//! use quorlock::{Node, Redlock};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut nodes = Vec::new();
//! for _ in 0..5 {
//!     nodes.push(Node::builder().ephemeral().start().await?);
//! }
//! let redlock = Redlock::builder().nodes(nodes.iter().map(Node::url)).build()?;
//! let guard = redlock.lock("backup").acquire().await?;
//! assert!(guard.is_valid());
//! assert!(!guard.release().await.was_lost());
//! # Ok(())
//! # }
//! ```

pub use quorlock_client as client;
pub use quorlock_client::{
    AcquireError, BuildError, ExtendError, Guard, Lease, Loss, Redlock, Release, Token, Wait,
};
pub use quorlock_server as server;
pub use quorlock_server::{Node, NodeBuilder, StartError};
