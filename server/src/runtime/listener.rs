//! Listening sockets, and handing connections to the workers in turn.
//!
//! One listener per address and no `SO_REUSEPORT`: a second process on the same port must fail.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::{SendFlags, send};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpListener;

use crate::config::Bind;
use crate::runtime::client_stream::ClientStream;
use crate::runtime::descriptors::DescriptorShare;
use crate::runtime::inbox::{Handover, Inbox, InboxItem};
use crate::runtime::socket;
use crate::runtime::unix_socket::UnixSocket;
use crate::tls::Acceptor;
use quorlock_node::core::clients::{Address, Client, Endpoints};
use quorlock_node::core::state::NodeState;
use quorlock_node::event_loop::message::Message;

/// Binds one address; port 0 takes a free one.
///
/// # Errors
/// When the address is taken or not this machine's.
fn bind(address: SocketAddr, backlog: u32) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // Lets a restarted node have its port back while old connections linger in TIME_WAIT; it
    // does not let two listeners share a port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// An address that cannot be listened on.
#[derive(Debug)]
pub(crate) struct BindError {
    pub(crate) address: SocketAddr,
    /// What the system said.
    pub(crate) source: io::Error,
}

/// Binds all addresses to one port; where it is 0 the first one finds a free one and the others take
/// the same. An optional address that this machine does not have is left out.
///
/// # Errors
/// The first address that cannot be listened on, and why.
pub(crate) fn bind_all(
    addresses: &[Bind],
    mut port: u16,
    backlog: u32,
) -> Result<Vec<std::net::TcpListener>, BindError> {
    let mut listeners: Vec<std::net::TcpListener> = Vec::new();
    for address in addresses {
        let wanted = SocketAddr::new(address.address, port);
        match bind(wanted, backlog) {
            Ok(bound) => {
                port = bound.local_addr().map_or(port, |address| address.port());
                listeners.push(bound);
            }
            Err(error) if address.is_optional && error.kind() != io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(BindError {
                    address: wanted,
                    source: error,
                });
            }
        }
    }
    Ok(listeners)
}

/// Whether clients on other machines cannot reach this address.
pub(crate) fn is_local(address: &IpAddr) -> bool {
    address.is_loopback()
}

/// Accepts connections until it is dropped, and deals the connections out to the workers in turn. With `tls` its clients speak
/// TLS.
pub(crate) async fn accept(
    listener: std::net::TcpListener,
    node: Arc<NodeState>,
    share: Arc<DescriptorShare>,
    workers: Vec<Inbox>,
    tls: Option<Arc<Acceptor>>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut dealer = Dealer::new(node, share, workers, tls);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(stream) = stream.into_std() else {
                    continue;
                };
                if is_foreign(&peer, &dealer.node) {
                    dealer.refuse(&stream.into(), DENIED);
                    continue;
                }
                stream
            }
            Err(error) => {
                pause_after(&error).await;
                continue;
            }
        };
        let addresses = match introduce(&stream, &dealer.node) {
            Ok(addresses) => addresses,
            Err(error) => {
                tracing::info!("a client left before it was served: {error}");
                continue;
            }
        };
        if !dealer.deal(stream.into(), addresses).await {
            return Ok(());
        }
    }
}

/// The same for the Unix socket, whose name goes with it. Whoever may open it is of this machine.
pub(crate) async fn accept_local(
    socket: UnixSocket,
    node: Arc<NodeState>,
    share: Arc<DescriptorShare>,
    workers: Vec<Inbox>,
) -> io::Result<()> {
    let path: Arc<str> = socket.path().to_string_lossy().into();
    let (listener, _name): (UnixListener, _) = socket.into_parts();
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let mut dealer = Dealer::new(node, share, workers, None);
    loop {
        let stream = match listener
            .accept()
            .await
            .and_then(|(stream, _)| stream.into_std())
        {
            Ok(stream) => stream,
            Err(error) => {
                pause_after(&error).await;
                continue;
            }
        };
        let addresses = Endpoints {
            client: Address::Unix(Arc::clone(&path)),
            node: Address::Unix(Arc::clone(&path)),
        };
        if !dealer.deal(stream.into(), addresses).await {
            return Ok(());
        }
    }
}

/// Out of descriptors, or a client that left in the queue: both pass.
async fn pause_after(error: &io::Error) {
    tracing::warn!("cannot accept a connection now: {error}");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Deals connections out.
struct Dealer {
    node: Arc<NodeState>,
    share: Arc<DescriptorShare>,
    workers: Vec<Inbox>,
    next: usize,
    /// Where its clients speak TLS.
    tls: Option<Arc<Acceptor>>,
}

impl Dealer {
    fn new(
        node: Arc<NodeState>,
        share: Arc<DescriptorShare>,
        workers: Vec<Inbox>,
        tls: Option<Arc<Acceptor>>,
    ) -> Self {
        Self {
            tls,
            node,
            share,
            workers,
            next: 0,
        }
    }

    /// Gives a connection to the next worker, or refuses it. Says false once the workers have ended.
    async fn deal(&mut self, stream: OwnedFd, addresses: Endpoints) -> bool {
        if !has_room(&self.node, &self.share, &self.workers).await {
            self.refuse(&stream, FULL);
            return true;
        }
        self.next = self.next.wrapping_add(1) % self.workers.len();
        let stream = socket::Socket(stream);
        let stream = match &self.tls {
            None => ClientStream::Plain(stream),
            Some(acceptor) => match acceptor.accept(stream, addresses.client.clone()) {
                Ok(stream) => ClientStream::Tls(Box::new(stream)),
                Err(error) => {
                    tracing::warn!("a client cannot be served with TLS: {error}");
                    return true;
                }
            },
        };
        let client = admit(addresses, &self.node, self.next);
        if self.tls.is_some() {
            // Until the handshake is complete, also where there is no password.
            self.node.clients.note_unauthenticated(&client);
        }
        let handover = Handover { stream, client };
        self.workers[self.next].send(InboxItem::Connection(handover))
    }

    fn refuse(&self, stream: &OwnedFd, why: &[u8]) {
        self.node
            .statistics
            .rejected
            .fetch_add(1, Ordering::Relaxed);
        // A client that speaks TLS could not read it.
        if self.tls.is_none() {
            // The socket is non-blocking and new: the line fits or the client sees a close.
            let _ = send(stream, why, SendFlags::NOSIGNAL);
        }
    }
}

/// Whether another client can be served. At `maxclients`, or where the nodes of this process have as many together as it may
/// have files, the oldest one goes that has not authenticated or has not completed its handshake of TLS: those that never do
/// cannot keep out those that will. A client that sends the password with its first bytes, without TLS, is not affected: its
/// worker executes what has arrived before it closes anybody.
async fn has_room(node: &NodeState, share: &DescriptorShare, workers: &[Inbox]) -> bool {
    let clients = &node.clients;
    let clients_max = || node.configured(|it| it.maxclients);
    while clients.sockets().load(Ordering::Relaxed) >= clients_max() || !share.has_room() {
        let Some(oldest) = clients.oldest_unauthenticated() else {
            return false;
        };
        let worker = oldest.worker;
        let has_tried = clients.room.listen();
        if !workers[worker].send(InboxItem::Message(Message::MakeRoom(oldest))) {
            return false;
        }
        has_tried.await;
    }
    true
}

/// Counts the client before the next one is accepted, so that a burst cannot pass `maxclients`.
fn admit(addresses: Endpoints, node: &NodeState, worker: usize) -> Arc<Client> {
    let now_raw = node.clock.raw();
    let client = node.clients.add(addresses, now_raw, worker);
    if !node.access.is_open() {
        node.clients.note_unauthenticated(&client);
    }
    client
}

fn introduce(stream: &std::net::TcpStream, node: &NodeState) -> io::Result<Endpoints> {
    tune(stream, node)?;
    Ok(Endpoints {
        client: Address::Tcp(stream.peer_addr()?),
        node: Address::Tcp(stream.local_addr()?),
    })
}

fn tune(stream: &std::net::TcpStream, node: &NodeState) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    if let Some(every) = node.configured(|it| it.tcp_keepalive) {
        let every = every.min(KEEPALIVE_MAX);
        let third = (every / 3).max(Duration::from_secs(1));
        let probes = TcpKeepalive::new()
            .with_time(every)
            .with_interval(third)
            .with_retries(3);
        socket.set_tcp_keepalive(&probes)?;
    }
    Ok(())
}

/// Protected mode: without a password only this machine may connect.
fn is_foreign(peer: &SocketAddr, node: &NodeState) -> bool {
    !is_local(&peer.ip().to_canonical())
        && node.access.is_open()
        && node.configured(|it| it.protected_mode)
}

/// The longest time that Linux takes; a longer one would refuse every client.
const KEEPALIVE_MAX: Duration = Duration::from_secs(32_767);

/// After a failed accept, so that being out of descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const FULL: &[u8] = b"-ERR max number of clients reached\r\n";
const DENIED: &[u8] = b"-DENIED Quorlock runs in protected mode: no password is set, so only \
    clients on this machine may connect. Set requirepass, or protected-mode no if the network is \
    trusted, in the configuration or by CONFIG SET from this machine\r\n";
