//! Commands that the program of a node runs on it, without a socket.

use std::sync::{Arc, Mutex, MutexGuard};

use quorlock_engine::{NodeCommand, numbered_spec};
use quorlock_node::protocol::reply::write_request;
use thiserror::Error;
use tokio::io::AsyncReadExt as _;

use crate::node::stream::NodeStream;
use crate::node::value::{self, Value};
use crate::runtime::in_process::InProcess;

/// Why a call has no value. No lock was granted by it, except where [`CallError::Closed`] says so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The node answers with an error, which begins with its code: `WRONGTYPE`, `RESTARTDELAY`.
    #[error("{0}")]
    Refused(String),
    /// The command is about a connection of its own, which a call does not have.
    #[error(
        "{0} changes the connection on which it is sent, and a call has none of its own: use Node::connect"
    )]
    NeedsConnection(String),
    /// A call without a word is no command.
    #[error("a call needs at least the name of a command")]
    Empty,
    /// The node has stopped, or the system has no thread to give.
    #[error("the node cannot be called: {0}")]
    Unreachable(String),
    /// The node has closed the connection without an answer: it stopped, or CLIENT KILL ended the call. Whether the command
    /// was executed is not known.
    #[error("the node ended the call before it was answered; whether it was executed is not known")]
    Closed,
}

/// Calls, and connections that wait for the next one.
pub(super) struct ConnectionPool {
    worker: Arc<InProcess>,
    idle: Mutex<Vec<PooledConnection>>,
}

impl ConnectionPool {
    pub(super) fn new(worker: Arc<InProcess>) -> Self {
        Self {
            worker,
            idle: Mutex::default(),
        }
    }

    pub(super) async fn call(&self, words: &[&[u8]]) -> Result<Value, CallError> {
        let is_kept = leaves_connection_alone(words)?;
        let mut caller = match self.take_idle() {
            Some(caller) => caller,
            None => PooledConnection::connect(&self.worker).await?,
        };
        let value = caller.ask(words).await?;
        // One that was dropped before its reply has come must not see the next one's.
        if is_kept {
            caller.shrink();
            let mut idle = self.idle();
            if idle.len() < IDLE_MAX {
                idle.push(caller);
            }
        }
        match value {
            Value::Error(text) => Err(CallError::Refused(text)),
            value => Ok(value),
        }
    }

    fn take_idle(&self) -> Option<PooledConnection> {
        let mut idle = self.idle();
        std::iter::from_fn(|| idle.pop()).find(|caller| !caller.stream.is_closed())
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PooledConnection>> {
        self.idle.lock().expect("no holder of a list can panic")
    }
}

/// Whether the connection is afterwards as it was before.
fn leaves_connection_alone(words: &[&[u8]]) -> Result<bool, CallError> {
    let name = words.first().ok_or(CallError::Empty)?;
    let spec = numbered_spec(name).map(|(_, spec)| spec);
    let Some(command) = spec.and_then(|spec| spec.node_command()) else {
        return Ok(true);
    };
    let is_silent = |part: &&[u8]| part.eq_ignore_ascii_case(b"reply");
    let needs_connection = match command {
        NodeCommand::Auth
        | NodeCommand::Hello
        | NodeCommand::Quit
        | NodeCommand::Reset
        | NodeCommand::Select
        | NodeCommand::Multi
        | NodeCommand::Exec
        | NodeCommand::Discard
        | NodeCommand::Watch
        | NodeCommand::Unwatch
        | NodeCommand::Subscribe(_)
        | NodeCommand::Unsubscribe(_) => true,
        NodeCommand::Client => words.get(1).is_some_and(is_silent),
        _ => false,
    };
    match needs_connection {
        true => Err(CallError::NeedsConnection(
            String::from_utf8_lossy(name).to_uppercase(),
        )),
        // Of CLIENT some parts are about the connection.
        false => Ok(command != NodeCommand::Client),
    }
}

/// A connection for one call at a time.
struct PooledConnection {
    stream: NodeStream,
    request: Vec<u8>,
    received: Vec<u8>,
}

impl PooledConnection {
    async fn connect(worker: &Arc<InProcess>) -> Result<Self, CallError> {
        let stream = NodeStream::connect(worker)
            .map_err(|error| CallError::Unreachable(error.to_string()))?;
        let mut caller = Self {
            stream,
            request: Vec::new(),
            received: Vec::new(),
        };
        match caller.ask(&[b"HELLO", b"3"]).await? {
            Value::Error(text) => Err(CallError::Refused(text)),
            _ => Ok(caller),
        }
    }

    /// One long value is not kept for all time.
    fn shrink(&mut self) {
        for buffer in [&mut self.request, &mut self.received] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES_MAX);
        }
    }

    async fn ask(&mut self, words: &[&[u8]]) -> Result<Value, CallError> {
        self.request.clear();
        write_request(&mut self.request, words);
        // A node that closes it on the way may have said why.
        let _ = self.stream.send(&self.request).await;
        self.received.clear();
        loop {
            match self.stream.read_buf(&mut self.received).await {
                Ok(bytes) if bytes > 0 => {}
                _ => return Err(CallError::Closed),
            }
            // Each look at a reply that is not whole begins at its first byte.
            if self.stream.has_received() {
                continue;
            }
            if let Some(value) = value::read(&self.received) {
                return Ok(value);
            }
        }
    }
}

/// A connection that waits for the next call keeps no larger buffers.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// More connections than this are not kept for later calls.
const IDLE_MAX: usize = 64;
