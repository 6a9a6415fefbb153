//! Connections that a program makes itself: to a node in its own process, through a tunnel, with TLS.
//!
//! Invariant: whatever the program's code does, a panic included, is a failure of this one connection. Only code that does not
//! return holds up the thread, which nothing here can prevent.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;

/// Makes connections to one node, again whenever the one before has ended.
#[derive(Clone)]
pub(crate) struct Connector(Arc<dyn Fn() -> Connecting + Send + Sync>);

type Connecting = Pin<Box<dyn Future<Output = io::Result<ProgramStream>>>>;

impl Connector {
    pub(crate) fn new<C, F, S>(connect: C) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<S>> + 'static,
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        Self(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { Ok(ProgramStream::new(connecting.await?)) })
        }))
    }

    pub(super) async fn connect(&self) -> io::Result<ProgramStream> {
        let connector = self.clone();
        // A task ends alone where it panics, and with the set.
        let mut task = JoinSet::new();
        task.spawn_local(async move { (connector.0)().await });
        match task.join_next().await {
            Some(Ok(connected)) => connected,
            _ => Err(panicked()),
        }
    }
}

/// A connection that the program has made.
pub(super) struct ProgramStream(Option<Box<dyn AnyStream>>);

trait AnyStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> AnyStream for S {}

impl ProgramStream {
    pub(super) fn new(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Self {
        Self(Some(Box::new(stream)))
    }

    fn poll<T>(
        &mut self,
        poll: impl FnOnce(Pin<&mut dyn AnyStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let stream = self.0.as_deref_mut().expect("it is there until the drop");
        let polled = catch_unwind(AssertUnwindSafe(|| poll(Pin::new(stream))));
        polled.unwrap_or_else(|_| Poll::Ready(Err(panicked())))
    }
}

impl AsyncRead for ProgramStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for ProgramStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_shutdown(context))
    }
}

impl Drop for ProgramStream {
    fn drop(&mut self) {
        let stream = self.0.take();
        let _panicked = catch_unwind(AssertUnwindSafe(|| drop(stream)));
    }
}

impl fmt::Debug for ProgramStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProgramStream")
    }
}

fn panicked() -> io::Error {
    io::Error::other("the program's code for this connection panicked")
}
