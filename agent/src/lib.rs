//! An agent for lock libraries: it speaks Redis's protocol on this machine and holds the locks on the nodes.
//!
//! It is made of a node that keeps nothing ([`quorlock_server`]), which has the connections and the protocol, of the rules of
//! `quorlock-agent-rules`, which decide what a request is, and of the bundled client, which asks the nodes.
//!
//! ```
//! use std::time::Duration;
//! use quorlock_client::Redlock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut nodes = Vec::new();
//! # for _ in 0..3 {
//! #     nodes.push(quorlock_server::Node::builder().ephemeral().start().await?);
//! # }
//! # let addresses = nodes.iter().map(|node| node.url());
//! let redlock = Redlock::builder().nodes(addresses).build()?; // redis://host:port, ...
//! let agent = quorlock_agent::builder(redlock).start().await?; // a port of 127.0.0.1; NodeBuilder::port names one
//! println!("set your lock library's URL to {}", agent.url());
//! # Ok(())
//! # }
//! ```

mod bridge;
mod clusters;
mod figures;
mod monitor;
mod options;
mod report;

use std::sync::Arc;

use quorlock_client::Redlock;
use quorlock_server::{Node, NodeBuilder};

use bridge::Bridge;

pub use clusters::{mixed_clusters, undecided_clusters};
pub use options::Options;

/// An agent that has not been started, in front of the nodes of this client. It is a node that keeps no keys: its port, socket and
/// other directives are set as those of any node.
#[must_use]
pub fn builder(redlock: Redlock) -> NodeBuilder {
    builder_with(redlock, &Options::default())
}

/// The same, which does this as well.
#[must_use]
pub fn builder_with(redlock: Redlock, options: &Options) -> NodeBuilder {
    Node::builder()
        .ephemeral()
        // It is no node of a cluster.
        .directive("cluster-size", &["1"])
        .upstream(Arc::new(Bridge::new(redlock, options)))
}
