//! How callers reach the client's thread.
//!
//! Invariant: a call whose future is dropped before its outcome was taken is told to the thread,
//! which undoes what the call has begun. A program that ends right behind that gives it a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{Call, Extended, Outcome};
use quorlock_client_rules::channels::Heard;
use quorlock_client_rules::leader::Observed;
use quorlock_client_rules::outcome::{AcquireError, ExtendError, Loss, NodeFences, Release};
use quorlock_client_rules::probe::NodeStatus;
use quorlock_client_rules::statistics::Statistics;
use quorlock_client_rules::token::Token;
use quorlock_client_rules::wait::Waiting;
use quorlock_clock::ClientInstant;
use tokio::sync::{mpsc, oneshot, watch};

use super::dropped::Dropped;
use super::process::Process;
use crate::opaque::Opaque;

/// What the thread is told.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are calls")]
pub(crate) enum ClientCommand {
    Call(OperationId, Call, ReplyTo),
    /// Nobody is interested any more.
    Gone(OperationId),
}

/// Where a call's outcome goes. What is called with it is called on the client's thread.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// The outcome, and meanwhile what the call waits for, if the caller wants to know.
    Acquire(
        oneshot::Sender<Result<Acquired, AcquireError>>,
        Option<watch::Sender<Option<Waiting>>>,
    ),
    Extend(oneshot::Sender<Result<Extended, ExtendError>>),
    Release(oneshot::Sender<Release>),
    Probe(oneshot::Sender<Vec<NodeStatus>>),
    SyncFences(oneshot::Sender<Vec<NodeFences>>),
    Statistics(oneshot::Sender<Statistics>),
    Settle(oneshot::Sender<()>),
    /// The outcome as the rules tell it.
    Whole(Opaque<Box<dyn FnOnce(Outcome) + Send>>),
    /// Who leads, again and again.
    Observe(watch::Sender<Option<Observed>>),
    /// Who has a lock for certain.
    Watch(Opaque<Box<dyn Fn(Option<Token>) + Send>>),
    /// What nodes say of channels.
    Listen(Opaque<Box<dyn Fn(Heard) + Send>>),
    Nobody,
}

/// A lock that was acquired, and where news of it will appear.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) token: Token,
    pub(crate) fence: Option<u64>,
    pub(crate) lease: watch::Receiver<LeaseState>,
    /// Which permit it is of a semaphore.
    pub(crate) permit: Option<u32>,
}

/// What is known of a lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseState {
    pub(crate) valid_until: ClientInstant,
    /// The last round of renewals found no majority.
    pub(crate) is_renewal_failing: bool,
    pub(crate) loss: Option<Loss>,
}

/// A link to the client's thread, cloned cheaply. The client ends some time after the last is gone.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    link: Arc<ThreadLink>,
}

/// What all handles of a client share.
#[derive(Debug)]
struct ThreadLink {
    process: Process,
    /// Until the last handle is dropped.
    commands: Option<mpsc::UnboundedSender<ClientCommand>>,
    calls: AtomicU64,
    dropped: Arc<Dropped>,
}

/// A call under way; dropping it says that nobody is interested any more.
#[derive(Debug)]
pub(crate) struct Pending {
    handle: Handle,
    operation: OperationId,
    is_wanted: bool,
}

impl Handle {
    pub(super) fn new(
        commands: mpsc::UnboundedSender<ClientCommand>,
        dropped: Arc<Dropped>,
    ) -> Self {
        Self::of_process(Process::current(), commands, dropped)
    }

    fn of_process(
        process: Process,
        commands: mpsc::UnboundedSender<ClientCommand>,
        dropped: Arc<Dropped>,
    ) -> Self {
        Self {
            link: Arc::new(ThreadLink {
                process,
                commands: Some(commands),
                calls: AtomicU64::new(0),
                dropped,
            }),
        }
    }

    /// A client whose thread stayed behind in another process.
    #[cfg(test)]
    pub(crate) fn forked() -> (Self, mpsc::UnboundedReceiver<ClientCommand>) {
        let (commands, unread) = mpsc::unbounded_channel();
        let dropped = Arc::new(Dropped::default());
        let handle = Self::of_process(Process::parent(), commands, dropped);
        (handle, unread)
    }

    /// The process that has the client's thread.
    pub(crate) fn process(&self) -> Process {
        self.link.process
    }

    /// Makes a call. If the thread has ended, or is in another process, the reply's sender is dropped.
    pub(crate) fn call(&self, call: Call, reply: ReplyTo) -> Pending {
        let number = self.link.calls.fetch_add(1, Ordering::Relaxed);
        let operation = OperationId(number);
        self.link.send(ClientCommand::Call(operation, call, reply));
        Pending {
            handle: self.clone(),
            operation,
            is_wanted: true,
        }
    }

    /// Hands a call over, and waits for its outcome; there is none where the client's thread has ended.
    pub(crate) async fn ask<T>(
        &self,
        call: Call,
        reply: fn(oneshot::Sender<T>) -> ReplyTo,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let pending = self.call(call, reply(sender));
        let answered = answer.await;
        pending.done();
        answered.ok()
    }

    pub(crate) fn gone(&self, operation: OperationId) {
        if !self.link.process.is_current() {
            return;
        }
        self.link.dropped.add(operation);
        self.link.send(ClientCommand::Gone(operation));
    }
}

impl ThreadLink {
    fn send(&self, command: ClientCommand) {
        if let Some(commands) = &self.commands
            && self.process.is_current()
        {
            // Where the thread has ended a caller notices by the reply that never comes, and
            // nothing is left to be undone.
            let _ended = commands.send(command);
        }
    }
}

impl Drop for ThreadLink {
    fn drop(&mut self) {
        self.commands = None;
        if !self.process.is_current() {
            return;
        }
        self.dropped.wait_outside_runtime();
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
