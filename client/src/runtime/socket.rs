//! One connection's socket and what is still to be written to it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quorlock_client_rules::ConnectionId;
use rustix::net::sockopt;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::stream::Stream;
use super::tcp::Addresses;

#[derive(Debug)]
pub(super) struct ClientSocket {
    pub(super) id: ConnectionId,
    state: State,
    writing: Vec<u8>,
    written: usize,
    /// Nothing that was written waits in the stream, as it may in one of the program's own.
    is_flushed: bool,
    addresses: Addresses,
    unanswered: Option<Unanswered>,
}

/// A connection on which nothing has arrived yet.
#[derive(Debug)]
struct Unanswered {
    address: SocketAddr,
    since: Instant,
    /// How long an answer is waited for.
    deadline: Duration,
}

#[derive(Debug)]
enum State {
    Dialling(AbortHandle),
    Connected(Stream),
}

impl ClientSocket {
    pub(super) fn dialling(id: ConnectionId, dialling: AbortHandle, addresses: Addresses) -> Self {
        Self {
            id,
            state: State::Dialling(dialling),
            writing: Vec::new(),
            written: 0,
            is_flushed: true,
            addresses,
            unanswered: None,
        }
    }

    /// The connection stands, and an answer is waited for as long as `deadline`.
    pub(super) fn connected(&mut self, stream: Stream, deadline: Duration) {
        self.unanswered = stream.address().map(|address| Unanswered {
            address,
            since: Instant::now(),
            deadline,
        });
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
        let bytes = buffer.filled().len();
        if bytes > 0
            && let Some(unanswered) = self.unanswered.take()
        {
            self.addresses.answered(unanswered.address);
        }
        Poll::Ready(Ok(bytes))
    }

    /// The node has closed it.
    pub(super) fn closed(mut self) {
        if let Some(unanswered) = self.unanswered.take() {
            self.addresses.silent(unanswered.address);
        }
    }

    /// Writes what there is, as far as the stream takes it.
    pub(super) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let State::Connected(stream) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        while self.written < self.writing.len() {
            let rest = &self.writing[self.written..];
            let count = ready!(Pin::new(&mut *stream).poll_write(context, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
            self.is_flushed = false;
        }
        if !self.is_flushed {
            ready!(Pin::new(stream).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Has the kernel give the connection up when its bytes are not acknowledged for so long.
    pub(super) fn limit_unacknowledged(&self, limit: Duration) -> io::Result<()> {
        let State::Connected(stream) = &self.state else {
            return Ok(());
        };
        let Some(stream) = stream.tcp() else {
            return Ok(());
        };
        // The kernel counts in an int.
        let millis = u32::try_from(limit.as_millis()).map_or(MILLIS_MAX, |ms| ms.min(MILLIS_MAX));
        Ok(sockopt::set_tcp_user_timeout(stream, millis)?)
    }
}

const MILLIS_MAX: u32 = i32::MAX as u32;

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if let State::Dialling(dialling) = &self.state {
            dialling.abort();
        }
        // One that was closed early was not needed any more, which says nothing about its address. The rules have read
        // another clock.
        if let Some(unanswered) = self.unanswered.take()
            && unanswered.since.elapsed() >= unanswered.deadline / 10 * 9
        {
            self.addresses.silent(unanswered.address);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(1);

    /// Whether another address of the name is tried first after a connection on which this happened.
    async fn is_avoided(happens: impl AsyncFnOnce(ClientSocket, TcpStream)) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let (other_end, _) = listener.accept().await.unwrap();
        let addresses = Addresses::default();
        let id = ConnectionId { node: 0, number: 1 };
        let dialling = tokio::spawn(async {}).abort_handle();
        let mut socket = ClientSocket::dialling(id, dialling, addresses.clone());
        socket.connected(Stream::Tcp(stream), DEADLINE);
        happens(socket, other_end).await;
        let other = ([127, 0, 0, 2], 7001).into();
        addresses.in_order(vec![address, other])[0] == other
    }

    async fn read(socket: &mut ClientSocket) -> usize {
        let mut buffer = [0; 16];
        let read = std::future::poll_fn(|context| socket.poll_read(context, &mut buffer));
        read.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_accepts_and_does_not_answer_is_not_the_first_to_be_tried_again() {
        let silent = is_avoided(async |socket, _other_end| {
            tokio::time::advance(DEADLINE).await;
            drop(socket);
        });
        assert!(silent.await);
        let closes = is_avoided(async |mut socket, other_end| {
            drop(other_end);
            assert_eq!(read(&mut socket).await, 0);
            socket.closed();
        });
        assert!(closes.await);
        let answers = is_avoided(async |mut socket, other_end| {
            other_end.try_write(b"+OK").unwrap();
            assert_eq!(read(&mut socket).await, 3);
            tokio::time::advance(DEADLINE).await;
            socket.closed();
        });
        assert!(!answers.await);
        let is_not_needed = is_avoided(async |socket, _other_end| drop(socket));
        assert!(!is_not_needed.await);
    }
}
