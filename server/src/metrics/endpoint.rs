//! Where the endpoint listens, and how that is changed while it serves.
//!
//! Invariant: an address that stays keeps its socket and its connections. New addresses are bound before old ones are closed.
//! An old one that is in the way of a new one stops listening first, and is bound again if the change is not made.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;

use quorlock_node::core::certificates::Installation;
use quorlock_node::core::metrics_endpoint::MetricsEndpoint;
use quorlock_node::core::state::NodeState;
use quorlock_node::start::StartError;
use socket2::SockRef;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use super::listener::{self, ConnectionSlots};
use super::router;
use crate::config::{Bind, Config};
use crate::runtime::listener::{BindError, bind_all};
use crate::tls::Acceptor;

/// The sockets of the endpoint, and the thread that serves them where there are any, or were.
pub(crate) struct Endpoint {
    /// What begins TLS there, if it is spoken.
    tls: Option<Arc<Acceptor>>,
    listening: Arc<Mutex<Listening>>,
}

#[derive(Default)]
struct Listening {
    /// The thread has another handle on each.
    sockets: Vec<TcpListener>,
    /// As it was asked for: that of the sockets may have been found for 0.
    port: Option<u16>,
    node: Weak<NodeState>,
    server: Option<EndpointThread>,
    /// A change was prepared, and is neither made nor dropped.
    is_changing: bool,
    has_ended: bool,
}

struct EndpointThread {
    changes: UnboundedSender<EndpointChange>,
    thread: JoinHandle<()>,
}

/// What the thread is asked for.
enum EndpointChange {
    Serve(TcpListener),
    Close(SocketAddr),
    /// For the node's log.
    ReportMove(SocketAddr),
    ReportLoss(SocketAddr, io::Error),
}

impl Endpoint {
    /// Binds what `metrics-bind` and `metrics-port` name; nothing where there is no port.
    ///
    /// # Errors
    /// When an address that must exist cannot be listened on.
    pub(crate) fn bind(
        config: &Config,
        tls: Option<Arc<Acceptor>>,
    ) -> Result<Arc<Self>, StartError> {
        let sockets = match config.metrics_port {
            Some(port) => bind_all(&config.metrics_bind, port, BACKLOG).map_err(
                |BindError { address, source }| StartError::BindMetrics { address, source },
            )?,
            None => Vec::new(),
        };
        let listening = Listening {
            sockets,
            port: config.metrics_port,
            ..Listening::default()
        };
        Ok(Arc::new(Self {
            tls,
            listening: Arc::new(Mutex::new(listening)),
        }))
    }

    /// Serves what was bound until the node has stopped, on a thread of its own; over TLS where there is what begins it.
    ///
    /// # Errors
    /// When the system has no thread, or no handle, to give.
    pub(crate) fn begin(&self, node: &Arc<NodeState>) -> io::Result<()> {
        let mut listening = lock(&self.listening);
        listening.node = Arc::downgrade(node);
        let handles: Vec<TcpListener> = (listening.sockets.iter())
            .map(TcpListener::try_clone)
            .collect::<io::Result<_>>()?;
        let Some(address) = first_address(&listening.sockets) else {
            return Ok(());
        };
        self.spawn(&mut listening)?;
        handles
            .into_iter()
            .for_each(|handle| listening.send(EndpointChange::Serve(handle)));
        tracing::info!(
            "metrics at {}://{address}/metrics, readiness at /readyz",
            scheme(self.tls.as_ref())
        );
        Ok(())
    }

    /// Listens nowhere any more; what is left is to wait for the thread, which ends with the node.
    pub(crate) fn end(&self) -> Option<JoinHandle<()>> {
        let mut listening = lock(&self.listening);
        listening.has_ended = true;
        listening.sockets.clear();
        listening.server.take().map(|server| server.thread)
    }

    /// Starts the thread, where there is none.
    fn spawn(&self, listening: &mut Listening) -> io::Result<()> {
        if listening.server.is_some() {
            return Ok(());
        }
        let node = listening
            .node
            .upgrade()
            .ok_or(io::ErrorKind::NotConnected)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (changes, asked) = unbounded_channel();
        let tls = self.tls.clone();
        let thread = std::thread::Builder::new()
            .name("quorlock-http".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    // Nobody's reply waits here: what is under way when the node stops is cut off.
                    tokio::select! {
                        () = node.signals.stopped.wait() => {}
                        () = serve(asked, tls, &node) => {}
                    }
                });
            })?;
        listening.server = Some(EndpointThread { changes, thread });
        Ok(())
    }

    /// What a configuration asks for, bound. It stops sockets that are in the way.
    fn bind_anew(&self, config: &Config) -> Result<PreparedSockets, String> {
        let mut listening = lock(&self.listening);
        if listening.has_ended {
            return Err("the node stops".to_owned());
        }
        if listening.is_changing {
            return Err("another CONFIG SET changes it at this moment; try again".to_owned());
        }
        if config.has_metrics_with_tls() && self.tls.is_none() {
            return Err(NO_TLS.to_owned());
        }
        let port = match config.metrics_port {
            // It was found before.
            Some(0) if listening.port == Some(0) => {
                first_address(&listening.sockets).map_or(0, |address| address.port())
            }
            asked => asked.unwrap_or(0),
        };
        let wanted: &[Bind] = match config.metrics_port {
            Some(_) => &config.metrics_bind,
            None => &[],
        };
        if !wanted.is_empty() {
            self.spawn(&mut listening)
                .map_err(|error| format!("there is no thread for it: {error}"))?;
        }
        listening.is_changing = true;
        let now = addresses(&listening.sockets);
        drop(listening);
        let (kept, new): (Vec<Bind>, Vec<Bind>) = wanted
            .iter()
            .partition(|it| now.contains(&SocketAddr::new(it.address, port)));
        let kept = kept.iter().map(|it| SocketAddr::new(it.address, port));
        let mut prepared = PreparedSockets {
            listening: Arc::clone(&self.listening),
            port: config.metrics_port,
            kept: kept.collect(),
            added: Vec::new(),
            stopped: Vec::new(),
            is_made: false,
        };
        prepared.add(&new, port)?;
        if !wanted.is_empty() && prepared.kept.is_empty() && prepared.added.is_empty() {
            return Err("this machine has none of these addresses".to_owned());
        }
        Ok(prepared)
    }
}

impl MetricsEndpoint for Endpoint {
    fn prepare(&self, config: &Config) -> Result<Installation, String> {
        // Where it fails, what was stopped for it listens again before the addresses are shown.
        match self.bind_anew(config) {
            Ok(prepared) => Ok(Box::new(move || prepared.install())),
            Err(why) => Err(format!(
                "{why}; {}",
                shown(&addresses(&lock(&self.listening).sockets))
            )),
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        first_address(&lock(&self.listening).sockets)
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Endpoint")
    }
}

impl Listening {
    fn send(&self, change: EndpointChange) {
        if let Some(server) = &self.server {
            // A thread that has ended serves nothing any more.
            let _ = server.changes.send(change);
        }
    }
}

/// A change that is made by [`PreparedSockets::install`], and taken back where it is dropped before.
struct PreparedSockets {
    listening: Arc<Mutex<Listening>>,
    port: Option<u16>,
    kept: Vec<SocketAddr>,
    /// Each with the handle for the thread.
    added: Vec<(TcpListener, TcpListener)>,
    /// What stopped listening: its place among the sockets, and its address, which the system may have forgotten by now.
    stopped: Vec<(usize, SocketAddr)>,
    is_made: bool,
}

impl PreparedSockets {
    /// Binds more addresses. Sockets that go and have the same port stop listening where that is in the way: `*` is in the way of
    /// every other address.
    fn add(&mut self, new: &[Bind], port: u16) -> Result<(), String> {
        let bound = match bind_all(new, port, BACKLOG) {
            Err(BindError { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
                self.stop_those_that_go(port);
                bind_all(new, port, BACKLOG)
            }
            bound => bound,
        };
        let bound = bound.map_err(|BindError { address, source }| {
            format!("{address} cannot be listened on: {source}")
        })?;
        for socket in bound {
            let handle = socket.try_clone();
            let handle = handle.map_err(|error| format!("there is no handle for it: {error}"))?;
            self.added.push((socket, handle));
        }
        Ok(())
    }

    fn stop_those_that_go(&mut self, port: u16) {
        let listening = lock(&self.listening);
        for (place, socket) in listening.sockets.iter().enumerate() {
            if let Ok(address) = socket.local_addr()
                && address.port() == port
                && !self.kept.contains(&address)
            {
                stop_listening(socket);
                self.stopped.push((place, address));
            }
        }
    }

    /// What is closed refuses connections when this returns.
    fn install(mut self) {
        self.is_made = true;
        let mut listening = lock(&self.listening);
        listening.is_changing = false;
        if listening.has_ended {
            return;
        }
        listening.port = self.port;
        for (_, address) in self.stopped.drain(..) {
            listening.send(EndpointChange::Close(address));
        }
        for address in addresses(&listening.sockets) {
            if !self.kept.contains(&address) {
                listening.send(EndpointChange::Close(address));
            }
        }
        listening.sockets.retain(|socket| {
            let stays = socket
                .local_addr()
                .is_ok_and(|address| self.kept.contains(&address));
            if !stays {
                stop_listening(socket);
            }
            stays
        });
        for (socket, handle) in self.added.drain(..) {
            if let Ok(address) = socket.local_addr() {
                listening.send(EndpointChange::Serve(handle));
                listening.send(EndpointChange::ReportMove(address));
            }
            listening.sockets.push(socket);
        }
    }
}

impl Drop for PreparedSockets {
    fn drop(&mut self) {
        if self.is_made {
            return;
        }
        // They may be in the way of those that are put back.
        self.added.clear();
        let mut listening = lock(&self.listening);
        listening.is_changing = false;
        if listening.has_ended {
            return;
        }
        // From the last one on, so that their places stay the same.
        while let Some((place, address)) = self.stopped.pop() {
            listening.send(EndpointChange::Close(address));
            match bind_again(address) {
                Ok((socket, handle)) => {
                    listening.sockets[place] = socket;
                    listening.send(EndpointChange::Serve(handle));
                }
                Err(error) => {
                    listening.sockets.remove(place);
                    listening.send(EndpointChange::ReportLoss(address, error));
                }
            }
        }
    }
}

fn bind_again(address: SocketAddr) -> io::Result<(TcpListener, TcpListener)> {
    let only = Bind {
        address: address.ip(),
        is_optional: false,
    };
    let bound = bind_all(&[only], address.port(), BACKLOG).map_err(|error| error.source)?;
    let socket = bound.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
    let handle = socket.try_clone()?;
    Ok((socket, handle))
}

/// Ends at once, although the thread still has its handle: on Linux a shutdown of a socket that listens ends that.
fn stop_listening(socket: &TcpListener) {
    // One that does not listen is what it is to be.
    let _ = SockRef::from(socket).shutdown(std::net::Shutdown::Read);
}

/// Serves what it is asked to.
async fn serve(
    mut changes: UnboundedReceiver<EndpointChange>,
    tls: Option<Arc<Acceptor>>,
    node: &Arc<NodeState>,
) {
    let router = router(node);
    let places = ConnectionSlots::new(CONNECTIONS_MAX);
    let mut serving = JoinSet::new();
    let mut tasks: HashMap<SocketAddr, AbortHandle> = HashMap::new();
    while let Some(change) = changes.recv().await {
        while serving.try_join_next().is_some() {}
        match change {
            EndpointChange::Serve(socket) => {
                let address = socket.local_addr();
                match address.and_then(|it| Ok((it, tokio::net::TcpListener::from_std(socket)?))) {
                    Ok((address, socket)) => {
                        let places = Arc::clone(&places);
                        let task = listener::serve(socket, places, tls.clone(), router.clone());
                        tasks.insert(address, serving.spawn(task));
                    }
                    Err(error) => tracing::warn!("the metrics endpoint cannot serve: {error}"),
                }
            }
            EndpointChange::Close(address) => {
                if let Some(task) = tasks.remove(&address) {
                    task.abort();
                }
            }
            EndpointChange::ReportMove(address) => {
                tracing::info!(
                    "metrics at {}://{address}/metrics from now on",
                    scheme(tls.as_ref())
                );
            }
            EndpointChange::ReportLoss(address, error) => tracing::warn!(
                "the metrics endpoint does not listen on {address} any more: it could not be bound again after a CONFIG SET \
                 that failed: {error}"
            ),
        }
    }
}

fn lock(listening: &Mutex<Listening>) -> MutexGuard<'_, Listening> {
    listening.lock().expect("none of its holders can panic")
}

fn addresses(sockets: &[TcpListener]) -> Vec<SocketAddr> {
    let addresses = sockets.iter().map(TcpListener::local_addr);
    addresses.filter_map(Result::ok).collect()
}

fn first_address(sockets: &[TcpListener]) -> Option<SocketAddr> {
    sockets.first()?.local_addr().ok()
}

fn shown(addresses: &[SocketAddr]) -> String {
    if addresses.is_empty() {
        return "the metrics stay off".to_owned();
    }
    let shown: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    format!("the metrics stay at {}", shown.join(" and "))
}

fn scheme(tls: Option<&Arc<Acceptor>>) -> &'static str {
    match tls {
        Some(_) => "https",
        None => "http",
    }
}

const NO_TLS: &str = "metrics-tls is yes, and the files of TLS are read by a start that has a tls-port or a metrics-port; change the \
                      configuration and restart the node";
/// Connections at a time; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
const BACKLOG: u32 = 64;
