//! What is counted and written when the node closes a client because of a limit.
//!
//! A flood of connections must not become a flood of lines: a worker writes a few per second, and then
//! how many it left out.

use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_engine::RawTime;

use crate::core::clients::Client;
use crate::core::statistics::ClosedClients;
use crate::event_loop::limits::Reason;
use crate::protocol::ProtocolError;

/// The lines of one worker.
#[derive(Debug, Default)]
pub(crate) struct ClosingLines {
    second: u64,
    written: u32,
    left_out: u64,
}

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
        let Admission {
            is_written,
            left_out,
        } = self.admit(now);
        if left_out > 0 {
            tracing::warn!("{left_out} more clients were closed by this node");
        }
        is_written
    }

    /// How many lines were not written in this second.
    #[cfg(test)]
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    fn admit(&mut self, now: RawTime) -> Admission {
        let second = now.as_nanos() / 1_000_000_000;
        let mut left_out = 0;
        if self.second != second {
            left_out = std::mem::take(&mut self.left_out);
            (self.second, self.written) = (second, 0);
        }
        let is_written = self.written < LINES_PER_SECOND;
        if is_written {
            self.written += 1;
        } else {
            self.left_out += 1;
        }
        Admission {
            is_written,
            left_out,
        }
    }
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
struct Admission {
    is_written: bool,
    /// How many lines of an earlier second were not written, if nobody was told of them yet.
    left_out: u64,
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
        Reason::OutputHard(_) | Reason::OutputSoft(_) => &closed.output_limit,
        Reason::ClientMemory(_) => &closed.evicted,
        Reason::Idle | Reason::Request | Reason::Send => &closed.timed_out,
        Reason::Authentication | Reason::UnauthenticatedMemory | Reason::MakesRoom => {
            &closed.unauthenticated
        }
    }
}

const LINES_PER_SECOND: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_writes_few_lines_and_says_how_many_it_left_out() {
        let mut lines = ClosingLines::default();
        let line = |is_written, left_out| Admission {
            is_written,
            left_out,
        };
        let second = RawTime::from_nanos(5_000_000_000);
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(lines.admit(second), line(true, 0));
        }
        for _ in 0..7 {
            assert_eq!(lines.admit(second.plus_nanos(999_999_999)), line(false, 0));
        }
        assert_eq!(lines.admit(second.plus_nanos(1_000_000_000)), line(true, 7));
        assert_eq!(lines.admit(second.plus_nanos(1_000_000_000)), line(true, 0));
    }
}
