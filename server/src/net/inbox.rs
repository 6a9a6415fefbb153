//! The way to a worker for everybody who is not one of its sockets.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::{Registry, Token, Waker};

use crate::net::clients::Client;
use crate::session::Blocked;

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serve this client.
    Serve(Handover),
    /// What this client waited for is over.
    Over {
        connection: usize,
        client_id: u64,
        blocked: Blocked,
    },
    /// The sync that the worker asked for has ended, in one way or the other.
    Synced,
    /// Close this client if it has not authenticated, so that another one can be served.
    MakeRoom(Arc<Client>),
    /// The log is as durable as it gets: let the replies leave, then end.
    Stop,
}

/// A connection on its way to its worker; its client is counted already.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) client: Arc<Client>,
}

/// Sends orders and wakes the worker.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    orders: Sender<Order>,
    waker: Arc<Waker>,
}

impl Inbox {
    /// An inbox that wakes whoever polls `registry`, with this token.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<(Self, Receiver<Order>)> {
        let waker = Arc::new(Waker::new(registry, token)?);
        let (orders, receiver) = channel();
        Ok((Self { orders, waker }, receiver))
    }

    /// Says false when the worker has ended.
    pub(crate) fn send(&self, order: Order) -> bool {
        let is_taken = self.orders.send(order).is_ok();
        if let Err(error) = self.waker.wake() {
            tracing::error!("a worker could not be woken: {error}");
        }
        is_taken
    }

    /// Tells the worker that a sync has ended once the result is dropped, whether the sync ran or not.
    pub(crate) fn synced_on_drop(&self) -> impl Send + use<> {
        SyncedOnDrop(self.clone())
    }
}

struct SyncedOnDrop(Inbox);

impl Drop for SyncedOnDrop {
    fn drop(&mut self) {
        self.0.send(Order::Synced);
    }
}
