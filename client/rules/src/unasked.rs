//! What a call comes to where its nodes were not asked or are not heard any more: for a shell whose thread has ended, is in
//! another process, or that was called with what cannot work.
//!
//! Free functions, so that the types that programs see have no such constructors.

use std::sync::Arc;
use std::time::Duration;

use crate::name::LockName;
use crate::outcome::{AcquireError, Cause, FenceState, NodeFences, Release};
use crate::probe::NodeStatus;
use crate::statistics::Statistics;

/// A release of which no node was told, for this reason.
pub fn release(nodes: &[Arc<str>], cause: &Cause) -> Release {
    Release::not_sent(nodes, cause)
}

/// A release that a client was asked for which has stopped.
pub fn stopped_release(nodes: &[Arc<str>]) -> Release {
    let cause = Cause::Unreachable("the client has stopped".into());
    Release::not_sent(nodes, &cause)
}

/// The status of a node that was not probed, for this reason.
#[must_use]
pub fn status(node: &Arc<str>, cause: Cause) -> NodeStatus {
    NodeStatus::not_asked(node, cause)
}

/// The fences of a node that was not asked, for this reason.
#[must_use]
pub fn fences(node: &Arc<str>, cause: Cause) -> NodeFences {
    NodeFences {
        node: Arc::clone(node),
        state: FenceState::Unknown(cause),
    }
}

/// What a client of these nodes has counted that has stopped: nothing is known any more.
#[must_use]
pub fn statistics(nodes: &[Arc<str>]) -> Statistics {
    Statistics::of(nodes)
}

/// A lock that was acquired, and of whose validity too little is left when its caller takes it.
#[must_use]
pub fn taken_late(name: &LockName, waited: Duration) -> AcquireError {
    AcquireError::TimedOut {
        name: name.shown(),
        nodes: Vec::new(),
        waited,
        too_short: None,
    }
}
