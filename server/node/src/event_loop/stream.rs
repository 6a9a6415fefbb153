//! The seam to the network: one client's stream of bytes.
//!
//! Nothing here waits. A stream that would have to says so, and the driver of the event loop tells it
//! when to try again.

use std::io::IoSlice;

use smallvec::SmallVec;

use crate::protocol::Output;

/// A connection's bytes, in both directions. Statically dispatched: a socket costs what it costs without
/// this seam.
pub trait Stream {
    /// Takes in what has arrived, as much as fits; 0 when the client sends no more.
    ///
    /// # Errors
    /// When nothing has arrived, or the client has gone.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError>;

    /// Sends these bytes or the first of them; returns how many.
    ///
    /// # Errors
    /// When the stream takes none now, or the client has gone.
    fn send(&mut self, bytes: &[u8]) -> Result<usize, StreamError>;

    /// The same for several runs of bytes.
    ///
    /// # Errors
    /// As [`Stream::send`].
    fn send_vectored(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, StreamError>;

    /// Whether its client and the node have yet to agree on how they speak: nothing of the client comes before that, and it
    /// counts as one that has not authenticated.
    fn is_handshaking(&self) -> bool {
        false
    }

    /// Whether [`Stream::receive`] has something to do that no event of a socket tells of: the end was found behind bytes, or
    /// bytes of the stream's own are to be sent.
    fn has_more(&self) -> bool {
        false
    }

    /// What it keeps for a client that has not authenticated, beside what the connection keeps.
    fn memory(&self) -> usize {
        0
    }

    /// Learns what was executed, and which bytes of `replies` answer it: those from `start` on. A
    /// simulation judges by it; a socket has no use for it.
    fn note_executed(
        &mut self,
        _arguments: &[&[u8]],
        _replies: &Output,
        _start: usize,
        _served: u64,
    ) {
    }
}

/// Why a stream has not moved a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// It has to be tried again when the other side has done something.
    WouldBlock,
    /// The client has gone.
    Broken,
}

/// One call for as much as the stream takes at once, at most `bytes_max`.
pub(super) fn send_once<S: Stream>(
    stream: &mut S,
    output: &Output,
    bytes_max: usize,
) -> Result<usize, StreamError> {
    if let Some(bytes) = output.single_run() {
        return stream.send(&bytes[..bytes.len().min(bytes_max)]);
    }
    let mut left = bytes_max;
    let runs: SmallVec<[IoSlice<'_>; RUNS_PER_SEND]> = output
        .runs()
        .take(RUNS_PER_SEND)
        .map_while(|run| {
            let part = &run[..run.len().min(left)];
            left -= part.len();
            (!part.is_empty()).then(|| IoSlice::new(part))
        })
        .collect();
    stream.send_vectored(&runs)
}

/// Long values are sent without being copied together, so many runs of bytes in one system call.
const RUNS_PER_SEND: usize = 64;
