//! What a node says unasked: that it is a turn in a line, and that keys have changed.
//!
//! Invariant: what the node would have said on a connection that has ended is lost, and the client is told so.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::Link;
use super::connection::Connection;
use super::request::{Kind, Request};
use crate::clock::ClientInstant;
use crate::protocol::push::Push;

impl Link {
    pub(crate) fn take_push(&mut self) -> Option<Push> {
        self.pushes.pop_front()
    }

    /// Whether the lines have ended in which the client may have stood here, since this was last asked.
    pub(crate) fn take_lost_lines(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_lines)
    }

    /// Whether the node has ceased to tell of changes as it was asked to, since this was last asked.
    pub(crate) fn take_lost_tracking(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_tracking)
    }

    /// Whether the node tells of changes of this name.
    pub(crate) fn tracks(&self, name: &Bytes) -> bool {
        self.ready()
            .is_some_and(|ready| ready.tracking.covers(name))
    }

    /// Whether the node was asked to tell of changes.
    pub(crate) fn has_tracking(&self) -> bool {
        self.ready().is_some_and(|ready| ready.tracking.is_used())
    }

    /// Whether the client can stand in line here now, as far as is known.
    pub(crate) fn may_have_lines(&self, now: ClientInstant) -> bool {
        !self.closes_upon_lines(now)
            && self.is_ready(now)
            && self.ready().is_some_and(|ready| ready.may_have_lines)
    }

    /// Whether the node may tell of changes here now, as far as is known.
    pub(crate) fn may_tell_changes(&self, now: ClientInstant) -> bool {
        !self.closes_upon_lines(now)
            && self.is_ready(now)
            && self
                .ready()
                .is_some_and(|ready| !ready.tracking.is_refused())
    }

    /// Whether connections have ended upon requests about lines, and of that kind.
    pub(super) fn closes_upon_lines(&self, now: ClientInstant) -> bool {
        let is_recent = |at| now.since(at) < LINES_CLOSED_MEMORY;
        self.line_closures >= LINE_CLOSURES_MAX && self.lines_closed.is_some_and(is_recent)
    }

    /// The connection has ended before these requests were answered: something on the way may know none about lines, and close
    /// upon them. What else is on the connection suffers each time.
    pub(super) fn note_closure(&mut self, unanswered: &VecDeque<Request>, now: ClientInstant) {
        let is_about_lines = |request: &Request| {
            matches!(request.kind, Kind::Resp3 | Kind::Wait { .. } | Kind::Track)
        };
        if unanswered.iter().any(is_about_lines) {
            self.line_closures = self.line_closures.saturating_add(1);
            self.lines_closed = Some(now);
        }
    }

    /// Whether the client may stand in a line here.
    pub(crate) fn has_lines(&self) -> bool {
        self.ready().is_some_and(Connection::has_lines)
    }
}

/// After so many closures a node is asked about lines again after this time.
const LINE_CLOSURES_MAX: u32 = 2;
const LINES_CLOSED_MEMORY: Duration = Duration::from_secs(600);
