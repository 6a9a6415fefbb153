//! What a client has to log.
//!
//! Invariant: a line is data until it is written, which is not done here: what writes log lines may take its time.

use std::sync::Arc;

use crate::outcome::{Cause, ConnectionError};

/// A line for the program's log, about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The node's address, without its password.
    pub node: Arc<str>,
    /// What there is to say of it.
    pub news: News,
}

/// What there is to say of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It does not say who it is.
    NoIdentity,
    /// It is no node but an agent in front of nodes.
    Agent,
    /// It is of another cluster than those that this client knows.
    OtherCluster {
        /// Its own.
        cluster: Arc<str>,
        /// That of this client.
        expected: Arc<str>,
    },
    /// Its cluster has so many nodes, and this client another number.
    OtherSize(usize),
    /// It is the node that is listed at this index as well.
    SameAs(usize),
    /// Another node answers there than before.
    Replaced,
    /// It is in an earlier state than before.
    WentBack,
    /// A new connection was taken in place of a silent one.
    MovedOver,
    /// A connection has ended, or none could be made.
    NoConnection(Cause),
    /// It knows no `TURN` of `LOCK.WAIT`: it is of an earlier version, and turns last 50 ms there.
    WithoutTurns,
    /// So many releases in all could not be owed to it any more: these locks stay there until their ttl is over.
    ReleasesGivenUp(u64),
    /// A release was not queued for it.
    NotQueued(Cause),
    /// The kernel does not take for how long bytes to it may go unacknowledged.
    NotLimited(ConnectionError),
}
