//! A client that waits until what it has written is durable, and what it is told then.
//!
//! The answer is true in every mode: the local count is 1 only when everything that the
//! connection wrote, or was told of, is synced. A node has no replicas, so it waits for none: what
//! cannot happen would only end with the timeout.

use quorlock_engine::{ErrorReply, RawTime, Reply};
use quorlock_persistence::Position;

use crate::core::state::NodeState;

/// A connection that waits until the log is synced up to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) position: Position,
    /// Raw-clock reading at which it ends whatever has happened; `None`: there is no end.
    pub(crate) until_raw: Option<RawTime>,
}

impl Blocked {
    /// Resolves when the position is synced, the time is up, or the log has failed. An orderly
    /// stop syncs everything, so it ends this as well.
    pub(crate) async fn over(self, node: &NodeState) {
        loop {
            let progress = node.commit.progress();
            if self.is_over(node) {
                return;
            }
            let Some(until) = self.until_raw else {
                progress.await;
                continue;
            };
            tokio::select! {
                () = progress => {}
                () = node.clock.pause_until(until) => {}
            }
        }
    }

    /// Whether the position is synced, the time is up, or the log has failed.
    pub(crate) fn is_over(self, node: &NodeState) -> bool {
        self.is_synced(node)
            || node.commit.failure().is_some()
            || self
                .until_raw
                .is_some_and(|until| node.clock.raw() >= until)
    }

    /// What the client is told once it is over.
    pub(crate) fn reply(self, node: &NodeState) -> Reply {
        match node.commit.failure() {
            Some(failure) if !self.is_synced(node) => Reply::Error(ErrorReply::new(format!(
                "MISCONF {failure}. Whether what this connection has written is on disk is \
                 unknown: treat its locks as not granted. The node stops"
            ))),
            _ => acknowledged(self.is_synced(node)),
        }
    }

    /// Whether what the client waits for is synced.
    pub(super) fn is_synced(self, node: &NodeState) -> bool {
        node.commit.synced() >= self.position
    }
}

/// The reply of WAITAOF: whether this node has synced it, and how many replicas have, of which there are none.
pub(super) fn acknowledged(is_synced: bool) -> Reply {
    Reply::Array(vec![
        Reply::Integer(i64::from(is_synced)),
        Reply::Integer(0),
    ])
}
