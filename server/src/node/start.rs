//! How a node starts: bind, then what `quorlock_node::start` does without sockets.
//!
//! The order matters. The port is bound before anything is written, so that a second process fails without a trace.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use quorlock_node::core::state::NodeState;
use quorlock_node::start::{Begun, ListenInfo, StartError, StartPlan, begin};

use crate::config::Config;
use crate::metrics::Endpoint;
use crate::node::password;
use crate::random;
use crate::runtime::descriptors::{self, Fit};
use crate::runtime::listener::{self, BindError};
use crate::runtime::unix_socket::{UnixSocket, is_replaceable_in};
use crate::tls::Acceptor;

/// Random bytes of the system.
pub(crate) fn system_random(bytes: &mut [u8]) -> Result<(), StartError> {
    random::fill(bytes).map_err(|_| StartError::Randomness)
}

/// A node that has started; its threads have not.
pub(crate) struct Started {
    pub(crate) begun: Begun,
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) socket: Option<UnixSocket>,
    pub(crate) metrics: Arc<Endpoint>,
    /// Where clients speak TLS, if anywhere.
    pub(crate) tls: Option<TlsListeners>,
}

/// Where clients speak TLS, and what begins it.
pub(crate) struct TlsListeners {
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) acceptor: Arc<Acceptor>,
}

/// Sockets that were opened before the process started, as systemd does. Where there are any, no other is opened.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) socket: Option<UnixListener>,
}

impl Opened {
    /// What the node listens on, which its configuration then says.
    fn or_bind(
        self,
        config: &mut Config,
    ) -> Result<(Vec<TcpListener>, Option<UnixSocket>), StartError> {
        if self.listeners.is_empty() && self.socket.is_none() {
            return Ok((bind(config)?, bind_local(config)?));
        }
        let unusable = |source: std::io::Error| {
            StartError::Config(format!(
                "a socket that was handed over cannot be used: {source}"
            ))
        };
        for listener in &self.listeners {
            listener.set_nonblocking(true).map_err(unusable)?;
        }
        let socket = self.socket.map(UnixSocket::opened).transpose();
        let socket = socket.map_err(unusable)?;
        config.unixsocket = socket.as_ref().map(|socket| socket.path().to_owned());
        Ok((self.listeners, socket))
    }
}

/// Starts a node up to the point where it can answer. Blocks on the disk.
pub(crate) fn start(mut plan: StartPlan, opened: Opened) -> Result<Started, StartError> {
    let wanted = plan.config.maxclients;
    let fit = descriptors::fit(wanted);
    if fit.clients == 0 {
        return Err(StartError::Descriptors {
            available: fit.available.unwrap_or(u64::MAX),
            needed: fit.needed,
        });
    }
    if fit.clients < wanted {
        plan.config.maxclients = fit.clients;
        plan.config.maxclients_wanted = wanted;
    }
    let (listeners, socket) = opened.or_bind(&mut plan.config)?;
    // The files of TLS are read first: without them its ports are not bound.
    let acceptor = Acceptor::new(&plan.config, Arc::clone(&plan.clock))?;
    let tls = bind_tls(&plan.config, acceptor.clone())?;
    plan.certificates = acceptor.as_ref().map(|it| Arc::clone(it) as _);
    let metrics = Endpoint::bind(&plan.config, acceptor.filter(|_| plan.config.metrics_tls))?;
    plan.metrics = Some(Arc::clone(&metrics) as _);
    password::read(&mut plan.config)?;
    let begun = begin(plan, reach(&listeners))?;
    tell_of_fewer_clients(&begun.node, wanted, fit);
    Ok(Started {
        begun,
        listeners,
        socket,
        metrics,
        tls,
    })
}

/// Says that the process may not open as many files as the clients that are allowed need.
fn tell_of_fewer_clients(node: &NodeState, wanted: usize, fit: Fit) {
    if let Some(available) = fit.available.filter(|_| fit.clients < wanted) {
        tracing::warn!(
            "node {}: maxclients is {} instead of {wanted}: the process may open {available} files, which its nodes share; \
             raise the limit (ulimit -n) for more clients",
            node.shown_id(),
            fit.clients
        );
    }
}

fn reach(listeners: &[TcpListener]) -> ListenInfo {
    let first = listeners.first().and_then(|it| it.local_addr().ok());
    ListenInfo {
        port: first.map_or(0, |address| address.port()),
    }
}

/// The Unix socket, where one is wanted.
fn bind_local(config: &Config) -> Result<Option<UnixSocket>, StartError> {
    let Some(path) = &config.unixsocket else {
        return Ok(None);
    };
    let path = config.dir.join(path);
    if let Some(directory) = path.parent().filter(|parent| is_replaceable_in(parent)) {
        tracing::warn!(
            "every user of this machine may replace the unix socket, and what is put there can take locks and passwords meant for \
             this node: take away their permission with: chmod o-w {}",
            directory.display()
        );
    }
    let bound = UnixSocket::bind(&path, config.unixsocketperm, config.tcp_backlog);
    bound
        .map(Some)
        .map_err(|source| StartError::BindUnix { path, source })
}

fn bind(config: &Config) -> Result<Vec<TcpListener>, StartError> {
    if config.port == 0 && (config.unixsocket.is_some() || config.tls.port != 0) {
        return Ok(Vec::new());
    }
    let listeners = listener::bind_all(&config.bind, config.port, config.tcp_backlog)
        .map_err(|BindError { address, source }| StartError::Bind { address, source })?;
    if listeners.is_empty() {
        Err(StartError::NoAddress)
    } else {
        Ok(listeners)
    }
}

/// The port of TLS, where one is wanted.
fn bind_tls(
    config: &Config,
    acceptor: Option<Arc<Acceptor>>,
) -> Result<Option<TlsListeners>, StartError> {
    let Some(acceptor) = acceptor.filter(|_| config.spoken_tls().is_some()) else {
        return Ok(None);
    };
    let listeners = listener::bind_all(&config.bind, config.tls.port, config.tcp_backlog)
        .map_err(|BindError { address, source }| StartError::Bind { address, source })?;
    if listeners.is_empty() {
        return Err(StartError::NoAddress);
    }
    Ok(Some(TlsListeners {
        listeners,
        acceptor,
    }))
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
