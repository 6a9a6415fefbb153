//! A client's end of a connection that never leaves the process.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use crate::runtime::in_process::InProcess;
use quorlock_node::event_loop::pipe::Pipe;

/// A connection to a node in the same process, as [`Node::connect`](crate::Node::connect) makes it: the bytes that a socket
/// would carry, for any client that speaks the protocol over such a stream. It needs no runtime.
///
/// Writing runs the node's code on the writer's thread, up to the reply, but for `appendfsync always`. Dropped, it is closed
/// as a socket is: what it waits for ends, and what it has sent before is executed.
pub struct NodeStream {
    pipe: Pipe,
    /// A node that has stopped leaves nothing in use, whoever still has a connection to it.
    worker: Weak<InProcess>,
}

impl NodeStream {
    pub(super) fn connect(worker: &Arc<InProcess>) -> io::Result<Self> {
        Ok(Self {
            pipe: worker.connect()?,
            worker: Arc::downgrade(worker),
        })
    }

    /// Whether bytes are there to be read.
    pub(super) fn has_received(&self) -> bool {
        self.pipe.has_received()
    }

    /// Sends a request. Where several tasks make calls, it waits until the runtime has run those that are ready, so that one of them
    /// executes the requests of all.
    pub(super) async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let waits = |worker: Arc<InProcess>| worker.waits_for_others();
        if !self.worker.upgrade().is_some_and(waits) {
            return self.write_all(request).await;
        }
        let sent = poll_fn(|context| self.pipe.poll_send(context, request)).await;
        if let Some(worker) = self.worker.upgrade() {
            worker.list(&self.pipe);
        }
        yield_once().await;
        if let Some(worker) = self.worker.upgrade() {
            worker.run_together(&self.pipe);
        }
        // One that the node has closed refuses what is left.
        self.write_all(&request[sent.unwrap_or(0)..]).await
    }

    fn note_changed(&self) {
        if let Some(worker) = self.worker.upgrade() {
            worker.note_changed(&self.pipe);
        }
    }

    /// Whether the node has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_closed()
    }
}

impl AsyncRead for NodeStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(
            self.pipe
                .poll_receive(context, buffer.initialize_unfilled())
        );
        buffer.advance(count);
        if self.pipe.has_changed() {
            self.note_changed();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(count) = ready!(self.pipe.poll_send(context, bytes)) else {
            let why = match self.pipe.is_closed() {
                true => "the node has closed this connection",
                false => "this connection was shut down: it sends no more",
            };
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, why)));
        };
        self.note_changed();
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe.end();
        self.note_changed();
        Poll::Ready(Ok(()))
    }
}

impl Drop for NodeStream {
    fn drop(&mut self) {
        self.pipe.leave();
        if let Some(worker) = self.worker.upgrade() {
            // It is on the list already where a request is given up before it was executed.
            worker.list(&self.pipe);
            worker.run_now();
        }
    }
}

/// Lets the other tasks run that are ready.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl std::fmt::Debug for NodeStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_closed = self.is_closed();
        write!(formatter, "NodeStream(closed: {is_closed})")
    }
}
