//! One connection's socket and what is still to be written to it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::task::AbortHandle;

use super::stream::Stream;
use crate::rules::link::ConnectionId;

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) id: ConnectionId,
    state: State,
    writing: Vec<u8>,
    written: usize,
}

#[derive(Debug)]
enum State {
    Dialling(AbortHandle),
    Connected(Stream),
}

impl Socket {
    pub(super) fn dialling(id: ConnectionId, dialling: AbortHandle) -> Self {
        Self {
            id,
            state: State::Dialling(dialling),
            writing: Vec::new(),
            written: 0,
        }
    }

    pub(super) fn connected(&mut self, stream: Stream) {
        self.state = State::Connected(stream);
    }

    /// Takes over what is to be written.
    pub(super) fn take(&mut self, output: &mut Vec<u8>) {
        if self.written == self.writing.len() {
            self.writing.clear();
            self.written = 0;
            std::mem::swap(&mut self.writing, output);
        } else {
            self.writing.append(output);
        }
    }

    /// Reads once into `buffer`; `Ready(Ok(0))` is the end.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let State::Connected(stream) = &mut self.state else {
            return Poll::Pending;
        };
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Writes what there is, as far as the kernel takes it.
    pub(super) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let State::Connected(stream) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        while self.written < self.writing.len() {
            let rest = &self.writing[self.written..];
            self.written += ready!(Pin::new(&mut *stream).poll_write(context, rest))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Has the kernel give the connection up when its bytes are not acknowledged for so long.
    pub(super) fn limit_unacknowledged(&self, limit: Duration) -> io::Result<()> {
        let State::Connected(Stream::Tcp(stream)) = &self.state else {
            return Ok(());
        };
        // The kernel counts in an int.
        let millis = u32::try_from(limit.as_millis()).map_or(MILLIS_MAX, |ms| ms.min(MILLIS_MAX));
        Ok(sockopt::set_tcp_user_timeout(stream, millis)?)
    }
}

const MILLIS_MAX: u32 = i32::MAX as u32;

impl Drop for Socket {
    fn drop(&mut self) {
        if let State::Dialling(dialling) = &self.state {
            dialling.abort();
        }
    }
}
