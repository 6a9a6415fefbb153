//! What handles and guards tell the client's thread.
//!
//! Invariant: every order that takes something can be undone by dropping its reply: the thread
//! notices and releases.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::clock::ClientInstant;
use crate::guard::Guard;
use crate::lock::Wait;
use crate::outcome::{AcquireError, ExtendError, Release};
use crate::probe::NodeStatus;
use crate::token::Token;

/// An order of a client handle.
#[derive(Debug)]
pub(crate) enum Order {
    Acquire(AcquireOrder),
    Extend(ExtendOrder),
    Release(ReleaseOrder),
    Probe(oneshot::Sender<Vec<NodeStatus>>),
    Settle(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(crate) struct AcquireOrder {
    pub(crate) name: Bytes,
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) renews: bool,
    pub(crate) min_validity: Duration,
    pub(crate) max_lifetime: Option<Duration>,
    pub(crate) reply: oneshot::Sender<Result<Guard, AcquireError>>,
}

#[derive(Debug)]
pub(crate) struct ExtendOrder {
    pub(crate) name: Bytes,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    pub(crate) reply: oneshot::Sender<Result<ClientInstant, ExtendError>>,
}

#[derive(Debug)]
pub(crate) struct ReleaseOrder {
    pub(crate) name: Bytes,
    pub(crate) token: Token,
    pub(crate) reply: oneshot::Sender<Release>,
}

/// What a guard tells the task that keeps its lock. Dropping the channel means: release.
#[derive(Debug)]
pub(crate) enum Wish {
    Extend(oneshot::Sender<Result<ClientInstant, ExtendError>>),
    Release(oneshot::Sender<Release>),
    /// The lock is handed over to its token; only votes on their way are still taken.
    Detach,
}
