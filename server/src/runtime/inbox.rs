//! The way to a worker for everybody who is not one of its sockets.
//!
//! Invariant: whoever sends wakes the worker afterwards, and a worker that was woken takes everything. So
//! nothing stays in it while the worker sleeps.

use std::io;
use std::sync::Arc;

use mio::{Registry, Token, Waker};
use tokio::sync::oneshot;

use crate::runtime::client_stream::ClientStream;
use quorlock_node::core::clients::Client;
use quorlock_node::event_loop::message::{Mailbox, Message};
use quorlock_node::sync::channel::{Receiver, Sender};
use quorlock_node::sync::unbounded;

/// What comes to a worker.
#[derive(Debug)]
pub(crate) enum InboxItem {
    /// A client to serve.
    Connection(Handover),
    /// Something for its event loop.
    Message(Message),
    /// Somebody wants to know whether it comes to what is sent to it.
    Question(oneshot::Sender<()>),
}

/// A connection on its way to its worker; its client is counted already.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) stream: ClientStream,
    pub(crate) client: Arc<Client>,
}

/// Wakes a worker, or keeps it from its next sleep.
pub(crate) trait WorkerWaker {
    /// # Errors
    /// When the system refuses.
    fn wake(&self) -> io::Result<()>;
}

impl WorkerWaker for Waker {
    fn wake(&self) -> io::Result<()> {
        Waker::wake(self)
    }
}

/// Sends to a worker and wakes it.
#[derive(Debug)]
pub(crate) struct Inbox<W: WorkerWaker = Waker> {
    incoming: Sender<InboxItem>,
    waker: Arc<W>,
}

impl<W: WorkerWaker> Clone for Inbox<W> {
    fn clone(&self) -> Self {
        Self {
            incoming: self.incoming.clone(),
            waker: Arc::clone(&self.waker),
        }
    }
}

impl Inbox {
    /// An inbox that wakes the thread that polls `registry`, with this token.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub(crate) fn new(
        registry: &Registry,
        token: Token,
    ) -> io::Result<(Self, Receiver<InboxItem>)> {
        Ok(Inbox::waking(Arc::new(Waker::new(registry, token)?)))
    }
}

impl<W: WorkerWaker> Inbox<W> {
    /// An inbox that wakes its worker like this.
    pub(crate) fn waking(waker: Arc<W>) -> (Self, Receiver<InboxItem>) {
        let (incoming, receiver) = unbounded();
        (Self { incoming, waker }, receiver)
    }

    /// What wakes the worker.
    pub(crate) fn waker(&self) -> &W {
        &self.waker
    }

    /// Says false when the worker has ended.
    pub(crate) fn send(&self, incoming: InboxItem) -> bool {
        let is_taken = self.incoming.send(incoming).is_ok();
        if let Err(error) = self.waker.wake() {
            tracing::error!("a worker could not be woken: {error}");
        }
        is_taken
    }
}

impl<W: WorkerWaker + Send + Sync + 'static> Mailbox for Inbox<W> {
    fn send_message(&self, message: Message) {
        self.send(InboxItem::Message(message));
    }
}
