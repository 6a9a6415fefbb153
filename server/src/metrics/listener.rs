//! Connections that cannot cost more than they are worth: bounded in number, lifetime and bytes.
//!
//! axum reads as long as a client sends, so the bounds lie below it, in the stream itself.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Accepts while there are permits left.
#[derive(Debug)]
pub(super) struct Bounded {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, permits: Arc<Semaphore>) -> Self {
        Self { listener, permits }
    }
}

impl Listener for Bounded {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                // Nobody closes the semaphore.
                return std::future::pending().await;
            };
            match self.listener.accept().await {
                Ok((stream, address)) => return (BoundedStream::new(stream, permit), address),
                // Out of descriptors, or a client that left in the queue: both pass.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with an end.
#[derive(Debug)]
pub(super) struct BoundedStream {
    stream: TcpStream,
    accepted: Instant,
    end: Pin<Box<Sleep>>,
    is_answered: bool,
    bytes_left: usize,
    _permit: OwnedSemaphorePermit,
}

impl BoundedStream {
    fn new(stream: TcpStream, permit: OwnedSemaphorePermit) -> Self {
        let accepted = Instant::now();
        Self {
            stream,
            accepted,
            end: Box::pin(tokio::time::sleep_until(accepted + HEAD_TIME)),
            is_answered: false,
            bytes_left: REQUEST_BYTES_MAX,
            _permit: permit,
        }
    }

    /// Fails once the time is up, and wakes the task when it is.
    fn check_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_time(context)?;
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        match self.bytes_left.checked_sub(read) {
            Some(left) => self.bytes_left = left,
            None => {
                // What an error left behind must not be taken for data.
                buffer.set_filled(before);
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.is_answered {
            // Nothing is answered before the head of the request is complete.
            self.is_answered = true;
            let end = self.accepted + LIFETIME;
            self.end.as_mut().reset(end);
        }
        self.check_time(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_time(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_time(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// From accept to the last byte of the answer.
const LIFETIME: Duration = Duration::from_secs(5);
/// From accept to the end of the request's head: whoever keeps a place without asking for anything delays the
/// probes that wait for one.
const HEAD_TIME: Duration = Duration::from_secs(1);
/// More than the request of any scraper; a little more may be read before it is noticed.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn pair() -> (BoundedStream, TcpStream, Bounded) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut bounded = Bounded::new(listener, Arc::new(Semaphore::new(1)));
        let client = TcpStream::connect(address).await.unwrap();
        let (served, _) = bounded.accept().await;
        (served, client, bounded)
    }

    /// The clock of the test stands still while something happens, and jumps to the next timer
    /// when nothing does.
    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_cut_off_when_its_time_is_up() {
        let (mut served, _client, _) = pair().await;
        let began = Instant::now();
        let read = tokio::time::timeout(2 * LIFETIME, served.read_u8()).await;
        let error = read.expect("it is cut off at all").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), HEAD_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_byte_by_byte_gets_no_more_time() {
        let (mut served, mut client, _) = pair().await;
        let began = Instant::now();
        let error = loop {
            client.write_all(b"x").await.unwrap();
            if let Err(error) = served.read_u8().await {
                break error;
            }
            assert!(began.elapsed() < LIFETIME, "it is cut off at all");
            tokio::time::sleep(HEAD_TIME / 4).await;
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), HEAD_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off_too() {
        let (mut served, _client, _) = pair().await;
        let part = vec![0; 1 << 20];
        let began = Instant::now();
        let error = loop {
            let written = tokio::time::timeout(2 * LIFETIME, served.write_all(&part)).await;
            if let Err(error) = written.expect("it is cut off at all") {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), LIFETIME.as_secs());
    }

    #[tokio::test]
    async fn a_request_has_an_end() {
        let (mut served, mut client, _) = pair().await;
        client
            .write_all(&vec![b'x'; REQUEST_BYTES_MAX + 1])
            .await
            .unwrap();
        let mut bytes = Vec::new();
        let error = served.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(bytes.len() <= REQUEST_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_connection_has_gone() {
        let (served, _client, mut bounded) = pair().await;
        let _second = TcpStream::connect(bounded.local_addr().unwrap())
            .await
            .unwrap();
        {
            let mut waiting = std::pin::pin!(bounded.accept());
            let is_accepted = tokio::select! {
                biased;
                _ = &mut waiting => true,
                () = tokio::task::yield_now() => false,
            };
            assert!(!is_accepted, "there was one place");
        }
        drop(served);
        bounded.accept().await;
    }
}
