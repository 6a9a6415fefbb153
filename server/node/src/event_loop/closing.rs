//! What is counted and written when the node closes a client because of a limit.
//!
//! A flood of connections must not become a flood of lines: a worker writes a few per second, and then
//! how many it left out.

use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_engine::RawTime;

use crate::core::clients::Client;
use crate::core::line_rate::LineRate;
use crate::core::statistics::ClosedClients;
use crate::event_loop::limits::Reason;
use crate::protocol::ProtocolError;

/// The lines of one worker.
#[derive(Debug, Default)]
pub(crate) struct ClosingLines(LineRate);

impl ClosingLines {
    /// Counts a client that is closed and says so, with its address and the limit's directive.
    pub(crate) fn note(
        &mut self,
        reason: Reason,
        client: &Client,
        closed: &ClosedClients,
        now: RawTime,
    ) {
        counter(reason, closed).fetch_add(1, Ordering::Relaxed);
        if self.may_write(now) {
            let (id, address) = (client.id, &client.address);
            tracing::warn!("closed client id={id} addr={address}: {reason}");
        }
    }

    /// The same for a client that is closed for what it sent.
    pub(crate) fn note_protocol_error(
        &mut self,
        error: &ProtocolError,
        client: &Client,
        closed: &ClosedClients,
        now: RawTime,
    ) {
        count_protocol_error(error, closed);
        if self.may_write(now) {
            tracing::info!(client = %client.address, "closed: {error}");
        }
    }

    /// Whether a line may be written now; says how many were not before it.
    fn may_write(&mut self, now: RawTime) -> bool {
        let left_out = self.0.admit(now, LINES_PER_SECOND);
        if let Some(left_out @ 1..) = left_out {
            tracing::warn!("{left_out} more clients were closed by this node");
        }
        left_out.is_some()
    }

    /// How many lines were not written in this second.
    #[cfg(test)]
    pub(crate) fn left_out(&self) -> u64 {
        self.0.left_out()
    }
}

/// Counts a client that is closed for what it sent, where its length is why.
fn count_protocol_error(error: &ProtocolError, closed: &ClosedClients) {
    let is_length = matches!(
        error,
        ProtocolError::TooBigRequest
            | ProtocolError::UnauthenticatedBulkLength
            | ProtocolError::UnauthenticatedMultibulkLength
    );
    if is_length {
        closed.query_limit.fetch_add(1, Ordering::Relaxed);
    }
}

fn counter(reason: Reason, closed: &ClosedClients) -> &AtomicU64 {
    match reason {
        Reason::OutputHard(_) | Reason::OutputSoft(_) | Reason::MissedMessages => {
            &closed.output_limit
        }
        Reason::ClientMemory(_) => &closed.evicted,
        Reason::Idle | Reason::Request | Reason::Send => &closed.timed_out,
        Reason::Authentication
        | Reason::Handshake
        | Reason::UnauthenticatedMemory
        | Reason::MakesRoom => &closed.unauthenticated,
    }
}

const LINES_PER_SECOND: u32 = 10;
