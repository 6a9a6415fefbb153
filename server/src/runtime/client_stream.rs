//! A client's connection, plain or with TLS. A plain one pays one branch for the choice.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use quorlock_node::event_loop::stream::{Stream, StreamError};

use crate::runtime::socket::Socket;
use crate::tls::TlsStream;

/// A client's connection.
pub(crate) enum ClientStream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl ClientStream {
    /// Its socket alone. A client that speaks TLS is told that nothing follows.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn into_descriptor(self) -> io::Result<OwnedFd> {
        match self {
            Self::Plain(Socket(descriptor)) => Ok(descriptor),
            Self::Tls(stream) => stream.socket().0.try_clone(),
        }
    }
}

impl AsRawFd for ClientStream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Plain(socket) => socket.0.as_raw_fd(),
            Self::Tls(stream) => stream.socket().0.as_raw_fd(),
        }
    }
}

impl Stream for ClientStream {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
            Self::Tls(stream) => stream.receive(buffer),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        match self {
            Self::Plain(socket) => socket.send(bytes),
            Self::Tls(stream) => stream.send(bytes),
        }
    }

    fn send_vectored(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, StreamError> {
        match self {
            Self::Plain(socket) => socket.send_vectored(runs),
            Self::Tls(stream) => stream.send_vectored(runs),
        }
    }

    fn is_handshaking(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.is_handshaking(),
        }
    }

    fn has_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.has_more(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(stream) => stream.memory(),
        }
    }
}

impl std::fmt::Debug for ClientStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ClientStream({})", self.as_raw_fd())
    }
}
