//! The seam to the network: one client's stream of bytes.
//!
//! Nothing here waits. A stream that would have to says so, and the driver of the event loop tells it
//! when to try again.

use std::io::IoSlice;

use crate::protocol::Output;

/// A connection's bytes, in both directions. Statically dispatched: a socket costs what it costs without
/// this seam.
pub(crate) trait Stream {
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

    /// Learns what was executed, and which bytes of `replies` answer it: those from `start` on. A
    /// simulation judges by it; a socket has no use for it.
    fn note_executed(&mut self, _arguments: &[&[u8]], _replies: &Output, _start: usize) {}
}

/// Why a stream has not moved a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamError {
    /// It has to be tried again when the other side has done something.
    WouldBlock,
    /// The client has gone.
    Broken,
}
