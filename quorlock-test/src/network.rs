//! What lies between clients and nodes: a proxy for each pair of them, which delays, holds back and goes on.
//!
//! Invariant: bytes are neither lost nor reordered, as in TCP: what a cut or a pause holds back arrives when it ends. The end
//! of a connection is held back as well. A node's replies are taken from it at once, so that what it owes is known.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use quorlock_server::NodeStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::member::Member;
use crate::messages::ValueCounter;
use crate::time::Time;

/// All connections of a cluster.
#[derive(Debug)]
pub(crate) struct TestNetwork {
    pub(crate) conditions: watch::Sender<Conditions>,
    /// How many pieces have moved.
    traffic: AtomicU64,
    /// Requests of the cluster's clients that nodes have, and have not answered.
    owed: AtomicI64,
}

/// What holds bytes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) paused: BTreeSet<usize>,
    /// Pairs of client and node.
    pub(crate) cut: BTreeSet<(usize, usize)>,
    /// Of each node, how much later its replies are.
    pub(crate) slow: Vec<Duration>,
}

/// From where to where a connection goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// `None`: a client that is not one of the cluster's.
    pub(crate) client: Option<usize>,
    pub(crate) node: usize,
}

/// One connection.
struct Connection {
    network: Arc<TestNetwork>,
    time: Arc<Time>,
    conditions: watch::Receiver<Conditions>,
    route: Route,
    /// This connection's part of what is owed.
    owed: AtomicI64,
}

impl TestNetwork {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            conditions: watch::Sender::new(Conditions {
                slow: vec![Duration::ZERO; nodes],
                ..Conditions::default()
            }),
            traffic: AtomicU64::new(0),
            owed: AtomicI64::new(0),
        }
    }

    /// Listens for a client on a free port of 127.0.0.1, and leads it to the node that `member` has at that moment.
    pub(crate) fn listen(
        self: &Arc<Self>,
        runtime: &Handle,
        route: Route,
        member: &Arc<Member>,
        time: &Arc<Time>,
    ) -> io::Result<SocketAddr> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (network, member, time) = (Arc::clone(self), Arc::clone(member), Arc::clone(time));
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener);
            let listener = listener.expect("this runtime has sockets");
            loop {
                let Ok((socket, _)) = listener.accept().await else {
                    // Out of descriptors, or a client that left in the queue: both pass.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                network.moved();
                let connection = Connection {
                    conditions: network.conditions.subscribe(),
                    network: Arc::clone(&network),
                    time: Arc::clone(&time),
                    route,
                    owed: AtomicI64::new(0),
                };
                tokio::spawn(connection.run(socket, Arc::clone(&member)));
            }
        });
        Ok(address)
    }

    /// How many pieces have moved so far.
    pub(crate) fn traffic(&self) -> u64 {
        self.traffic.load(Ordering::SeqCst)
    }

    /// Whether a node has yet to answer a request of the cluster's clients.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed.load(Ordering::SeqCst) > 0
    }

    fn moved(&self) {
        self.traffic.fetch_add(1, Ordering::SeqCst);
    }
}

impl Connection {
    async fn run(self, socket: TcpStream, member: Arc<Member>) {
        let _unimportant = socket.set_nodelay(true);
        let mut early = Vec::new();
        let socket = self.hold(socket, &mut early).await;
        // Without a node the client's connection ends at once.
        let Some(stream) = member.connect() else {
            return;
        };
        let (from_node, to_node) = tokio::io::split(stream);
        let Some(socket) = socket else {
            self.send(&early[..], to_node).await;
            self.network.moved();
            return;
        };
        let (from_client, to_client) = socket.into_split();
        let from_client = io::Cursor::new(early).chain(from_client);
        let (delivered, replies) = mpsc::unbounded_channel();
        let answers = async {
            tokio::join!(
                self.take_replies(from_node, delivered),
                self.deliver(to_client, replies)
            )
        };
        tokio::select! {
            () = self.send(from_client, to_node) => {}
            _ = answers => {}
        }
        self.network.moved();
    }

    /// Waits while a new connection is held back. One whose client closes meanwhile keeps no descriptor: what it has sent is left.
    async fn hold(&self, mut socket: TcpStream, early: &mut Vec<u8>) -> Option<TcpStream> {
        let closed = async {
            while early.len() < PIECE_BYTES {
                if socket.read_buf(early).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            // The rest stays in the socket, with the end behind it.
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = self.open() => return Some(socket),
            () = closed => drop(socket),
        }
        self.open().await;
        None
    }

    /// Until the client closes.
    async fn send(
        &self,
        mut client: impl AsyncRead + Unpin,
        mut node: tokio::io::WriteHalf<NodeStream>,
    ) {
        let (mut buffer, mut messages) = (vec![0; PIECE_BYTES], ValueCounter::default());
        loop {
            let count = client.read(&mut buffer).await.unwrap_or(0);
            self.network.moved();
            self.open().await;
            if count == 0 {
                return;
            }
            let piece = &buffer[..count];
            if node.write_all(piece).await.is_err() {
                // The node is gone. The client learns it once all replies have arrived.
                std::future::pending::<()>().await;
            }
            self.owe(messages.take(piece), 1);
        }
    }

    /// Takes replies from the node as soon as they are there.
    async fn take_replies(
        &self,
        mut node: impl AsyncRead + Unpin,
        delivered: mpsc::UnboundedSender<(Duration, Vec<u8>)>,
    ) {
        let (mut buffer, mut messages) = (vec![0; PIECE_BYTES], ValueCounter::default());
        loop {
            let count = node.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                // A node that has ended answers nothing any more, though its client may not know yet.
                self.owe_nothing();
                return;
            }
            let slow = self.conditions.borrow().slow[self.route.node];
            let piece = buffer[..count].to_vec();
            let ended = messages.take(&piece);
            let _ended = delivered.send((self.time.now().saturating_add(slow), piece));
            self.network.moved();
            self.owe(ended, -1);
        }
    }

    /// Hands replies to the client once they may arrive, then the end.
    async fn deliver(
        &self,
        mut client: impl AsyncWrite + Unpin,
        mut replies: mpsc::UnboundedReceiver<(Duration, Vec<u8>)>,
    ) {
        while let Some((at, piece)) = replies.recv().await {
            self.time.sleep_until(at).await;
            self.open().await;
            self.network.moved();
            if client.write_all(&piece).await.is_err() {
                return;
            }
            self.network.moved();
        }
        self.open().await;
    }

    /// Waits while bytes are held back.
    async fn open(&self) {
        let Route { client, node } = self.route;
        let mut conditions = self.conditions.clone();
        let is_open = |conditions: &Conditions| {
            let is_cut = client.is_some_and(|client| conditions.cut.contains(&(client, node)));
            !is_cut && !conditions.paused.contains(&node)
        };
        let _ended = conditions.wait_for(is_open).await;
    }

    fn owe(&self, messages: usize, sign: i64) {
        // Others than the cluster's clients may subscribe, or block.
        if self.route.client.is_some() {
            let messages = sign * i64::try_from(messages).expect("a piece has few messages");
            self.owed.fetch_add(messages, Ordering::SeqCst);
            self.network.owed.fetch_add(messages, Ordering::SeqCst);
        }
    }

    fn owe_nothing(&self) {
        let owed = self.owed.swap(0, Ordering::SeqCst);
        self.network.owed.fetch_sub(owed, Ordering::SeqCst);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.owe_nothing();
    }
}

const PIECE_BYTES: usize = 16 * 1024;

/// Of the machine's time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
