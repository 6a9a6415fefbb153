//! The network before a node in memory: connections, passed on byte by byte, that can be held up and delayed.
//!
//! Invariant: as with TCP, bytes arrive in order and none is lost. What is sent while the network is held up arrives once
//! it is not; no byte is read far ahead of that. When the node goes, its port and its connections close.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::clock;

/// What the network does to bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkConditions {
    /// Nothing passes until it is healed.
    pub(super) is_cut: bool,
    /// The machine hangs: nothing passes until it goes on.
    pub(super) is_paused: bool,
    /// What either side sends arrives this much later.
    pub(super) delay: Duration,
}

/// The way to one node. Dropped, it closes a moment later.
#[derive(Debug)]
pub(super) struct NodeProxy {
    accepting: JoinHandle<()>,
}

impl NodeProxy {
    /// Listens on a port of this machine, and passes on to another.
    pub(super) async fn open(
        port: u16,
        target: u16,
        conditions: watch::Receiver<LinkConditions>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let accepting = tokio::spawn(accept(listener, target, conditions));
        Ok(Self { accepting })
    }

    /// Closes the port, so that it can be opened again at once.
    pub(super) async fn close(mut self) {
        self.accepting.abort();
        let _aborted = (&mut self.accepting).await;
    }
}

impl Drop for NodeProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, target: u16, conditions: watch::Receiver<LinkConditions>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(connect(client, target, conditions.clone()));
                }
                // The process may open no further file.
                Err(_) => tokio::time::sleep(ACCEPT_STEP).await,
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn connect(client: TcpStream, target: u16, mut conditions: watch::Receiver<LinkConditions>) {
    pass(clock::now(), &mut conditions).await;
    let Ok(node) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        return;
    };
    // Unsent small segments would wait for acknowledgements.
    let _closed = (client.set_nodelay(true), node.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    tokio::join!(
        carry(from_client, to_node, conditions.clone()),
        carry(from_node, to_client, conditions),
    );
}

/// Carries bytes in one direction, until they end or no longer arrive.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut conditions: watch::Receiver<LinkConditions>,
) {
    let (send, mut sent) = mpsc::channel(SEGMENTS_MAX);
    let read = async move {
        let mut buffer = vec![0; SEGMENT_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let segment = (clock::now(), buffer[..count].to_vec());
            if send.send(segment).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, bytes)) = sent.recv().await {
            pass(at, &mut conditions).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        pass(clock::now(), &mut conditions).await;
        let _closed = to.shutdown().await;
    };
    let read_on = async {
        read.await;
        std::future::pending().await
    };
    tokio::select! {
        () = write => {}
        () = read_on => {}
    }
}

/// Waits until what was sent at this time arrives, by the conditions as they change.
async fn pass(sent: Duration, conditions: &mut watch::Receiver<LinkConditions>) {
    loop {
        let now = *conditions.borrow_and_update();
        let left = (sent + now.delay).saturating_sub(clock::now());
        let is_held_up = now.is_cut || now.is_paused;
        if !is_held_up && left.is_zero() {
            return;
        }
        tokio::select! {
            changed = conditions.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(left), if !is_held_up => {}
        }
    }
}

const SEGMENT_BYTES: usize = 1 << 14;
/// So many segments are under way in one direction of a connection; the sender waits with others.
const SEGMENTS_MAX: usize = 64;
const ACCEPT_STEP: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy before an echo, and a client of it.
    async fn echo(conditions: &watch::Sender<LinkConditions>) -> (NodeProxy, u16, TcpStream) {
        let node = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let target = node.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = node.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let proxy = NodeProxy::open(port, target, conditions.subscribe()).await;
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        (proxy.unwrap(), port, client.unwrap())
    }

    async fn read(client: &mut TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    #[tokio::test]
    async fn what_is_held_up_arrives_in_order_and_whole() {
        let conditions = watch::Sender::new(LinkConditions::default());
        let (_proxy, _, mut client) = echo(&conditions).await;
        client.write_all(b"before").await.unwrap();
        assert_eq!(read(&mut client, 6).await, b"before");
        for held_up in [
            LinkConditions {
                is_cut: true,
                ..LinkConditions::default()
            },
            LinkConditions {
                is_paused: true,
                ..LinkConditions::default()
            },
            LinkConditions {
                delay: Duration::from_secs(3_600),
                ..LinkConditions::default()
            },
        ] {
            conditions.send_replace(held_up);
            let sent: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
            client.write_all(&sent).await.unwrap();
            let mut byte = [0];
            let early = tokio::time::timeout(Duration::from_millis(50), client.peek(&mut byte));
            assert!(early.await.is_err(), "{held_up:?}");
            conditions.send_replace(LinkConditions::default());
            assert_eq!(read(&mut client, sent.len()).await, sent);
        }
    }

    #[tokio::test]
    async fn a_delay_is_passed_in_each_direction() {
        let conditions = watch::Sender::new(LinkConditions {
            delay: Duration::from_millis(40),
            ..LinkConditions::default()
        });
        let (_proxy, _, mut client) = echo(&conditions).await;
        let began = clock::now();
        client.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut client, 1).await, b"x");
        assert!(clock::now() - began >= Duration::from_millis(80));
    }

    #[tokio::test]
    async fn a_port_that_was_closed_refuses_and_can_be_opened_again() {
        let conditions = watch::Sender::new(LinkConditions::default());
        let (proxy, port, mut client) = echo(&conditions).await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut client, 1).await, b"x");
        proxy.close().await;
        assert!(
            TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .await
                .is_err()
        );
        let ended = client.read(&mut [0; 8]).await;
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
        let _again = NodeProxy::open(port, 1, conditions.subscribe())
            .await
            .unwrap();
    }
}
