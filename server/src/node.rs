//! A node: an engine, a log and its clients, on threads of its own.
//!
//! This file is the outside: starting, stopping, and asking where it listens. Inside, `start`
//! brings it up, `maintenance` keeps it going, `core` executes, `commit` makes durable.

pub(crate) mod builder;
mod call;
pub(crate) mod identity;
mod lifecycle;
mod password;
mod relocation;
mod restored;
pub(crate) mod start;
mod stopping;
mod stream;
mod threads;
mod value;

use std::net::SocketAddr;
use std::path::{Component, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use smallvec::SmallVec;

pub use builder::NodeBuilder;
pub use call::CallError;
pub(crate) use identity::require_empty;
pub use identity::{init, require_directory};
pub use lifecycle::{NotServing, RunState, StateWatch};
pub use relocation::{adopt, release};
pub use restored::mark_restored;
pub use stream::NodeStream;
pub use value::Value;

use crate::config::Config;
use crate::node::call::ConnectionPool;
use crate::runtime::heartbeat::Heartbeat;
use crate::runtime::in_process::InProcess;
pub use quorlock_node::core::commit::Failure;
use quorlock_node::core::state::NodeState;
use quorlock_node::past::NodeId;
pub use quorlock_node::start::StartError;

/// A running node, on threads of its own. It needs no runtime; its async methods run on any.
///
/// Dropping it stops it in order. Outside of a runtime the drop waits for that; on a thread of a
/// runtime it does not, and the thread waits when it ends. To start the node's successor on the same
/// directory, or to remove that, wait with [`Node::stop`].
///
/// # Example
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// println!("any Redis client can connect to {}", node.url());
/// node.stop().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Node {
    node: Arc<NodeState>,
    address: SocketAddr,
    socket: Option<PathBuf>,
    in_process: Arc<InProcess>,
    calls: ConnectionPool,
    states: Box<StateWatch>,
    heartbeat: Heartbeat,
    supervisor: Option<JoinHandle<()>>,
}

/// How a node's run ended; `None` while it runs.
pub(crate) type Outcome = Option<Result<(), Failure>>;

impl Node {
    /// Prepares a node: by default on port 6379 of the loopback addresses, with its log in the
    /// current directory, as `quorlock server` without arguments.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// The first TCP address it listens on; port 0 of no particular address where that is a Unix socket only.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The Unix socket it listens on, if any: an absolute path. For programs that hand it on; [`Node::url`] has it where there is no port.
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.socket.clone()
    }

    /// Where it serves `/metrics`, `/readyz` and `/healthz` now; `None` without `metrics-port`. To be asked where the port was 0, and
    /// again after a CONFIG SET of it.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.node.metrics.as_ref()?.address()
    }

    /// A URL that clients and [`quorlock run`](https://docs.rs/quorlock) take: `redis://ADDRESS:PORT`, or `unix:///PATH`
    /// where it listens on a Unix socket only, or `rediss://ADDRESS:PORT` where all of its clients speak TLS.
    pub fn url(&self) -> String {
        match &self.socket {
            Some(path) if self.address.port() == 0 => format!("unix://{}", path.display()),
            _ if self.node.facts.port == 0 => format!("rediss://{}", self.address),
            _ => format!("redis://{}", self.address),
        }
    }

    /// Runs one command on the node and returns its reply, without a socket: `["SET", "name", "token", "NX", "PX", "1000"]`.
    /// The reply depends on the log as any client's does. The command runs on the caller's thread, but for
    /// `appendfsync always`; it needs no password and no runtime. It runs when the call is polled to its end, and not always by the first
    /// poll: a call may let other tasks of its thread make theirs first. One that is dropped before its end is executed as well, so whoever
    /// gives up taking a lock releases its token.
    ///
    /// Calls have no connection of their own: for MULTI, SUBSCRIBE, SELECT and the like use [`Node::connect`].
    ///
    /// # Errors
    /// When the node answers with an error, when the command is about its connection, or when the node has stopped.
    ///
    /// # Example
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// let taken = node.call(["SET", "job", "token", "NX", "PX", "1000"]).await?;
    /// assert!(taken.is_ok());
    /// let refused = node.call(["SET", "job", "other", "NX", "PX", "1000"]).await?;
    /// assert_eq!(refused, quorlock_server::Value::Null);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn call<W: AsRef<[u8]>>(
        &self,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Value, CallError> {
        let words: SmallVec<[W; WORDS_INLINE]> = words.into_iter().collect();
        let words: SmallVec<[&[u8]; WORDS_INLINE]> = words.iter().map(W::as_ref).collect();
        self.calls.call(&words).await
    }

    /// Connects to the node without a socket: a stream for any client that speaks Redis's protocol over one. CLIENT LIST
    /// shows it as `in-process:0`; it needs no password. For what a [call](Node::call) cannot do: transactions, messages, waits of several
    /// commands, another library's client.
    ///
    /// # Errors
    /// When the node has stopped, or the system has no thread to give.
    ///
    /// # Example
    /// ```
    /// use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// let mut stream = node.connect()?;
    /// stream.write_all(b"MULTI\r\nINCR count\r\nEXEC\r\n").await?;
    /// let mut replies = [0; b"+OK\r\n+QUEUED\r\n*1\r\n:1\r\n".len()];
    /// stream.read_exact(&mut replies).await?;
    /// assert!(replies.ends_with(b"*1\r\n:1\r\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(&self) -> std::io::Result<NodeStream> {
        NodeStream::connect(&self.in_process)
    }

    /// Its id, the same over all its restarts: by it clients count a node once, under whatever addresses they list it.
    pub fn id(&self) -> NodeId {
        self.node.facts.identity.id
    }

    /// How often this node was started, this time included. A smaller number than before says that its directory is an older copy.
    pub fn incarnation(&self) -> u64 {
        self.node.facts.start.incarnation
    }

    /// What the node knows of its last stop, in words, for a log line at the start: it says why there is a restart delay, or none.
    pub fn last_stop(&self) -> &'static str {
        self.node.facts.verdict.stop.reason()
    }

    /// What it is doing now, for health checks and messages. To wait for a state use [`Node::serving`], [`Node::state_changed`] or
    /// [`Node::stopped`].
    pub fn state(&self) -> RunState {
        self.states.state()
    }

    /// Resolves with the next state that is not `seen`; see [`StateWatch::changed`]. For a program that follows its node to the end.
    ///
    /// # Example
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// node.request_stop();
    /// let mut state = node.state();
    /// while !state.is_final() {
    ///     state = node.state_changed(&state).await;
    /// }
    /// assert_eq!(state.to_string(), "stopped");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn state_changed(&self, seen: &RunState) -> RunState {
        self.states.changed(seen).await
    }

    /// A watch of what it is doing, for other tasks and for the time after this node: it keeps nothing of it in use.
    pub fn watch(&self) -> StateWatch {
        StateWatch::clone(&self.states)
    }

    /// What asks its threads whether they go on, for a watchdog that restarts a program which hangs.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }

    /// Whether it serves locks now: not in its restart delay, and not once it stops or has failed. For a readiness check;
    /// [`Node::serving`] waits for it.
    pub fn is_serving(&self) -> bool {
        self.state().is_serving()
    }

    /// Resolves when the node serves locks; at once if it does.
    ///
    /// # Errors
    /// When it stops or fails before, or has done so.
    pub async fn serving(&self) -> Result<(), NotServing> {
        self.states.serving().await
    }

    /// Reads the files of TLS again, under the names that the configuration has now: connections that are made from here on
    /// use them, and those that stand keep what they have. False where the node speaks no TLS. This waits for the disk.
    ///
    /// # Errors
    /// Which file cannot be used, and why; then nothing has changed.
    pub fn reload_certificates(&self) -> Result<bool, String> {
        self.node.reload_certificates()
    }

    /// Asks the node to stop in order, and returns at once; [`Node::stopped`] says when it has. For a signal handler, or where the node is
    /// behind an `Arc`; else use [`Node::stop`].
    pub fn request_stop(&self) {
        self.node.stop();
    }

    /// Resolves when the node has stopped, no matter who asked for it. A program that exists for its node waits here.
    ///
    /// # Errors
    /// When it stopped because its log failed.
    pub async fn stopped(&self) -> Result<(), Failure> {
        self.states.stopped().await
    }

    /// Stops the node in order: what was acknowledged is synced, the next start needs no delay. When it returns, the addresses, the
    /// directory and the disk are free.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub async fn stop(self) -> Result<(), Failure> {
        self.node.stop();
        self.stopped().await
    }

    /// Stops the node as a killed process would: no SHUTDOWN record, nothing flushed. For crash
    /// experiments; the next start on the same disk treats it as an unclean stop.
    pub async fn crash(self) {
        self.node
            .signals
            .crash
            .store(true, std::sync::atomic::Ordering::Release);
        self.node.stop();
        // How it ended does not matter: it was a crash.
        let _ = self.stopped().await;
    }
}

/// So many words of a call need no allocation.
const WORDS_INLINE: usize = 8;

/// Where the Unix socket of a node that runs is, as every process finds it: clients read no `..`.
fn socket_of(config: &Config) -> Option<PathBuf> {
    let path = config.dir.join(config.unixsocket.as_ref()?);
    let path = std::path::absolute(&path).unwrap_or(path);
    let leads_up = path.components().any(|part| part == Component::ParentDir);
    Some(match leads_up {
        true => path.canonicalize().unwrap_or(path),
        false => path,
    })
}

impl Drop for Node {
    fn drop(&mut self) {
        self.node.stop();
        if let Some(supervisor) = self.supervisor.take() {
            // Once it has told how it ended, its thread is at its end as well.
            let has_ended = self.states.ended().is_some();
            // A task that the node has woken may drop it on one of its own threads.
            let here = std::thread::current().id();
            if !self.in_process.is_this_thread() && supervisor.thread().id() != here {
                stopping::wait(supervisor, has_ended);
            }
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Node({} at {})", self.id(), self.url())
    }
}
