//! Why a client could not be built.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::address::AddressError;
use crate::votes::majority;

/// Why a client could not be built.
///
/// # Example
/// ```
/// use quorlock_client::{BuildError, Redlock};
///
/// let twice = Redlock::builder().nodes(["redis://db1:7001", "redis://db1:7001"]).build();
/// assert!(matches!(twice, Err(BuildError::Duplicate(_))));
/// ```
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No node was named.
    #[error("no node was named: a Redlock needs at least one, and five to survive two failures")]
    NoNodes,
    /// More nodes than votes can be kept for.
    #[error("{0} nodes were named, at most {max} are possible", max = crate::votes::NODES_MAX)]
    TooManyNodes(usize),
    /// The same address twice: the node would seem to vote twice.
    #[error("{0} is listed twice: list each node once")]
    Duplicate(Arc<str>),
    /// More votes are asked for than there are nodes: no lock could be acquired.
    #[error(
        "{spare} spare votes of {nodes} nodes are more than there are: a majority is {majority}, which leaves {left} at most",
        majority = majority(*nodes),
        left = nodes - majority(*nodes)
    )]
    TooManySpareVotes {
        /// How many votes more than a majority were asked for.
        spare: usize,
        /// How many nodes were named.
        nodes: usize,
    },
    /// A node may be followed by a server without the locks that it took last, and nobody has agreed to that.
    #[error(
        "{0} fails over: a failover may lose a lock, which then has two holders; accept that with \
         accept_failover(), or list independent nodes"
    )]
    FailsOver(Arc<str>),
    /// Another system is listed beside other nodes. It has the memory of all locks alone, and no vote beside others.
    #[error("{0} keeps all locks by itself: list it alone, without other nodes")]
    NotAlone(Arc<str>),
    /// The address is of another system, for which the crate was built without its feature.
    #[error(
        "{address}: this program was built without it: build quorlock-client with the feature {feature}"
    )]
    NotBuilt {
        /// The address.
        address: Arc<str>,
        /// The feature.
        feature: &'static str,
    },
    /// An address cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A setting is out of its range.
    #[error("{0}")]
    Setting(&'static str),
    /// TLS cannot be spoken with the nodes that want it.
    #[error("TLS: {0}")]
    Tls(String),
    /// The client's own thread could not be started.
    #[error("the client's thread could not be started: {0}")]
    Thread(#[source] Arc<io::Error>),
}
