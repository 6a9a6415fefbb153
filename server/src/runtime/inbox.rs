//! The way to a worker for everybody who is not one of its sockets.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::{Registry, Token, Waker};

use crate::core::clients::Client;
use crate::event_loop::message::Message;

/// What comes to a worker.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A client to serve.
    Connection(Handover),
    /// Something for its event loop.
    Message(Message),
}

/// A connection on its way to its worker; its client is counted already.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) client: Arc<Client>,
}

/// Sends to a worker and wakes it.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    incoming: Sender<Incoming>,
    waker: Arc<Waker>,
}

impl Inbox {
    /// An inbox that wakes the thread that polls `registry`, with this token.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<(Self, Receiver<Incoming>)> {
        let waker = Arc::new(Waker::new(registry, token)?);
        let (incoming, receiver) = channel();
        Ok((Self { incoming, waker }, receiver))
    }

    /// Says false when the worker has ended.
    pub(crate) fn send(&self, incoming: Incoming) -> bool {
        let is_taken = self.incoming.send(incoming).is_ok();
        if let Err(error) = self.waker.wake() {
            tracing::error!("a worker could not be woken: {error}");
        }
        is_taken
    }

    /// Sends a message once the result is dropped: a job that is dropped has ended as well as one that
    /// was done.
    pub(crate) fn told_on_drop(&self, message: Message) -> impl Send + use<> {
        ToldOnDrop(self.clone(), Some(message))
    }
}

struct ToldOnDrop(Inbox, Option<Message>);

impl Drop for ToldOnDrop {
    fn drop(&mut self) {
        if let Some(message) = self.1.take() {
            self.0.send(Incoming::Message(message));
        }
    }
}
