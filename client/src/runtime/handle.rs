//! How callers reach the client's thread.
//!
//! Invariant: a call whose future is dropped before its outcome was taken is told to the thread,
//! which undoes what the call has begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::ClientInstant;
use crate::outcome::{AcquireError, ExtendError, Loss, Release};
use crate::probe::NodeStatus;
use crate::rules::OperationId;
use crate::rules::call::Call;
use crate::token::Token;

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Command {
    Call(OperationId, Call, ReplyTo),
    /// Nobody is interested any more.
    Gone(OperationId),
}

/// Where a call's outcome goes.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    Acquire(oneshot::Sender<Result<Acquired, AcquireError>>),
    Extend(oneshot::Sender<Result<ClientInstant, ExtendError>>),
    Release(oneshot::Sender<Release>),
    Probe(oneshot::Sender<Vec<NodeStatus>>),
    Settle(oneshot::Sender<()>),
    Nobody,
}

/// A lock that was acquired, and where news of it will appear.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) token: Token,
    pub(crate) lease: watch::Receiver<LeaseState>,
}

/// What is known of a lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseState {
    pub(crate) valid_until: ClientInstant,
    pub(crate) loss: Option<Loss>,
}

/// A way to the client's thread, cloned cheaply. The thread ends some time after the last is gone.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    calls: Arc<AtomicU64>,
}

/// A call under way; dropping it says that nobody is interested any more.
#[derive(Debug)]
pub(crate) struct Pending {
    handle: Handle,
    operation: OperationId,
    is_wanted: bool,
}

impl Handle {
    pub(super) fn new(commands: mpsc::UnboundedSender<Command>) -> Self {
        Self {
            commands,
            calls: Arc::default(),
        }
    }

    /// Makes a call. If the thread has ended, the reply's sender is dropped.
    pub(crate) fn call(&self, call: Call, reply: ReplyTo) -> Pending {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let operation = OperationId(number);
        // The caller notices by the reply that never comes.
        let _ended = self.commands.send(Command::Call(operation, call, reply));
        Pending {
            handle: self.clone(),
            operation,
            is_wanted: true,
        }
    }

    fn gone(&self, operation: OperationId) {
        // A thread that has ended has nothing to undo.
        let _ended = self.commands.send(Command::Gone(operation));
    }
}

impl Pending {
    pub(crate) fn operation(&self) -> OperationId {
        self.operation
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The outcome was taken, nothing is left to be undone.
    pub(crate) fn done(mut self) {
        self.is_wanted = false;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.is_wanted {
            self.handle.gone(self.operation);
        }
    }
}
