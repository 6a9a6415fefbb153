//! A client that waits until what it has written is durable, or for an element, and what it is told then.
//!
//! Of what is durable the answer is true in every mode: the local count is 1 only when everything that the
//! connection wrote, or was told of, is synced. A node has no replicas, so it waits for none: what
//! cannot happen would only end with the timeout.

use quorlock_engine::{ErrorReply, RawTime, Reply};
use quorlock_persistence::Position;

use crate::core::state::NodeState;

/// A connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) awaited: Awaited,
    /// Raw-clock reading at which it ends whatever has happened; `None`: there is no end.
    pub(crate) until_raw: Option<RawTime>,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Until the log is synced up to this position.
    Sync(Position),
    /// Until a key has an element for it, which comes as a delivery.
    Element,
    /// Nothing but the end of its time.
    Time,
}

impl Blocked {
    /// Whether it waits for an element of a key.
    pub(crate) fn is_for_element(self) -> bool {
        self.awaited == Awaited::Element
    }

    /// Until where the log has to be synced at once for this.
    pub(crate) fn urgent(self) -> Position {
        match self.awaited {
            Awaited::Sync(position) => position,
            Awaited::Element | Awaited::Time => Position::ZERO,
        }
    }

    /// Resolves when the position is synced, the time is up, or the log has failed. An orderly
    /// stop syncs everything, so it ends this as well.
    pub(crate) async fn over(self, node: &NodeState) {
        if let (Awaited::Element | Awaited::Time, Some(until)) = (self.awaited, self.until_raw) {
            // Not woken by every commit: what it waits for comes on another way.
            return node.clock.pause_until(until).await;
        }
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
        let is_settled = match self.awaited {
            Awaited::Sync(_) => self.is_synced(node) || node.commit.failure().is_some(),
            Awaited::Element | Awaited::Time => false,
        };
        is_settled
            || self
                .until_raw
                .is_some_and(|until| node.clock.raw() >= until)
    }

    /// What the client is told once it is over.
    pub(crate) fn reply(self, node: &NodeState) -> Reply {
        if self.is_for_element() {
            return Reply::NilArray;
        }
        if self.awaited == Awaited::Time {
            return Reply::Ok;
        }
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
        match self.awaited {
            Awaited::Sync(position) => node.commit.synced() >= position,
            Awaited::Element | Awaited::Time => false,
        }
    }
}

/// The reply of WAITAOF: whether this node has synced it, and how many replicas have, of which there are none.
pub(super) fn acknowledged(is_synced: bool) -> Reply {
    Reply::Array(vec![
        Reply::Integer(i64::from(is_synced)),
        Reply::Integer(0),
    ])
}
