//! Nodes that a program reaches by connections of its own making: in its process, without a socket.

use std::future::{pending, ready};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use quorlock_client::{AcquireError, BuildError, Redlock, RedlockBuilder, SettableClock, Wait};
use quorlock_server::{MemoryDisk, Node, NodeStream};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter, DuplexStream, ReadBuf,
    duplex,
};

use crate::threads::alone;
use crate::{TTL, acquire, probes, refused};

/// A node that can be stopped and started again, with the same disk and without a port.
#[derive(Clone)]
pub(crate) struct Embedded {
    node: Arc<Mutex<Option<Node>>>,
    socket: PathBuf,
    disk: Arc<MemoryDisk>,
}

impl Embedded {
    pub(crate) async fn start(folder: &tempfile::TempDir, number: usize) -> Self {
        let embedded = Self {
            node: Arc::new(Mutex::new(None)),
            socket: folder.path().join(format!("{number}.sock")),
            disk: Arc::new(MemoryDisk::default()),
        };
        embedded.restart().await;
        embedded
    }

    pub(crate) async fn five(folder: &tempfile::TempDir) -> Vec<Self> {
        let mut nodes = Vec::new();
        for number in 1..=5 {
            nodes.push(Self::start(folder, number).await);
        }
        nodes
    }

    pub(crate) async fn restart(&self) {
        self.start_as("serve").await;
    }

    async fn start_as(&self, first_start: &str) {
        let builder = Node::builder().ephemeral().disk(self.disk.clone());
        let socket = self.socket.to_str().unwrap();
        let node = builder
            .directive("unixsocket", &[socket])
            .directive("first-start", &[first_start])
            .directive("restart-delay-max", &["1s"])
            .start()
            .await
            .unwrap();
        node.serving().await.unwrap();
        *self.node.lock().unwrap() = Some(node);
    }

    pub(crate) async fn stop(&self) {
        let node = self.node.lock().unwrap().take();
        node.unwrap().stop().await.unwrap();
    }

    /// It stops, and starts again on an empty disk.
    pub(crate) async fn lose_disk(&mut self) {
        self.stop().await;
        self.disk = Arc::new(MemoryDisk::default());
        self.start_as("wait").await;
    }

    /// How often it has executed this command.
    pub(crate) async fn count(&self, command: &str) -> u64 {
        let text = self.call(&["INFO", "commandstats"]).await;
        let line = format!("cmdstat_{command}:calls=");
        let calls = text.split(&line).nth(1);
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    }

    /// What it answers.
    pub(crate) async fn call(&self, arguments: &[&str]) -> String {
        let (mut stream, mut reply) = (self.connect().unwrap(), vec![0; 1 << 16]);
        let mut request = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            request.push_str(&format!("${}\r\n{argument}\r\n", argument.len()));
        }
        stream.write_all(request.as_bytes()).await.unwrap();
        let bytes = stream.read(&mut reply).await.unwrap();
        String::from_utf8_lossy(&reply[..bytes]).into_owned()
    }

    pub(crate) fn connect(&self) -> io::Result<NodeStream> {
        let node = self.node.lock().unwrap();
        node.as_ref().ok_or(io::ErrorKind::NotConnected)?.connect()
    }
}

pub(crate) fn listed(nodes: &[Embedded]) -> RedlockBuilder {
    listed_behind(Redlock::builder(), nodes)
}

/// Lists nodes behind those that are listed already.
pub(crate) fn listed_behind(builder: RedlockBuilder, nodes: &[Embedded]) -> RedlockBuilder {
    let nodes = nodes.iter().cloned().enumerate();
    nodes.fold(builder, |builder, (number, node)| {
        builder.node_through(&format!("node{}", number + 1), move || {
            ready(node.connect())
        })
    })
}

/// How many sockets this process has.
fn sockets() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let opened = descriptors.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let is_socket = |opened: &PathBuf| opened.to_string_lossy().starts_with("socket:");
    opened.filter(is_socket).count()
}

#[test]
fn a_lock_on_five_nodes_of_the_process_takes_no_socket() {
    let test = "in_process::a_lock_on_five_nodes_of_the_process_takes_no_socket";
    alone(test, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let nodes = Embedded::five(&folder).await;
            let before = sockets();
            let (redlock, other) = (
                listed(&nodes).build().unwrap(),
                listed(&nodes).build().unwrap(),
            );
            // A runtime's own, for signals.
            let most = before + 1;
            assert_eq!(&*redlock.nodes()[4], "node5");
            let guard = acquire(&redlock, "a").await;
            let refusal = refused(&other, "a").await;
            assert!(matches!(refusal, AcquireError::Busy { .. }), "{refusal}");
            guard.extend().await.unwrap();
            assert!(sockets() <= most, "{} {before}", sockets());
            let waiting = other.lock("a").ttl(TTL).wait(Wait::For(TTL));
            let waiting = tokio::spawn(async move { waiting.acquire().await });
            assert!(guard.release_everywhere().await.is_free());
            let guard = waiting.await.unwrap().unwrap();
            assert!(guard.release().await.released());
            probes(&redlock, |nodes| {
                nodes.iter().all(quorlock_client::NodeStatus::votes)
            })
            .await;
            assert!(sockets() <= most, "{} {before}", sockets());
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_stopped_is_reached_again_by_its_connector() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let redlock = listed(&nodes).build().unwrap();
    let guard = acquire(&redlock, "a").await;
    for node in &nodes[..3] {
        node.stop().await;
    }
    let refusal = refused(&redlock, "b").await;
    assert!(
        matches!(refusal, AcquireError::NoQuorum { .. }),
        "{refusal}"
    );
    assert!(guard.is_valid());
    for node in &nodes[..3] {
        node.restart().await;
    }
    probes(&redlock, |nodes| nodes.iter().all(|node| node.votes())).await;
    assert!(guard.is_valid());
    assert!(acquire(&redlock, "b").await.release().await.released());
    guard.extend().await.unwrap();
    assert!(guard.release_everywhere().await.is_free());
}

/// A stream whose code panics.
struct Panics;

impl AsyncRead for Panics {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        panic!("as it was told")
    }
}

impl AsyncWrite for Panics {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        panic!("as it was told")
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        panic!("as it was told")
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        panic!("as it was told")
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("as it was told")
    }
}

/// A stream that takes nothing and says so without an end.
struct TakesNothing;

impl AsyncRead for TakesNothing {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for TakesNothing {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(0))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The first three nodes serve, and the other entries are as `add` lists them. Their states say why they do not answer.
async fn is_like_two_dead_nodes(
    whys: [&str; 2],
    add: impl FnOnce(RedlockBuilder) -> RedlockBuilder,
) {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let builder = listed(&nodes[..3]).node_deadline(Duration::from_millis(300));
    let redlock = add(builder).build().unwrap();
    let guard = acquire(&redlock, "a").await;
    let states = redlock.probe().await;
    let votes: Vec<bool> = states.iter().map(|node| node.votes()).collect();
    assert_eq!(votes, [true, true, true, false, false]);
    for (state, why) in states[3..].iter().zip(whys) {
        assert!(state.to_string().contains(why), "{state}");
    }
    guard.extend().await.unwrap();
    assert!(matches!(
        refused(&redlock, "a").await,
        AcquireError::Busy { .. }
    ));
    assert!(guard.release().await.released());
    // With one more away no majority is left.
    nodes[0].stop().await;
    let refusal = refused(&redlock, "a").await;
    assert!(
        matches!(refusal, AcquireError::NoQuorum { .. }),
        "{refusal}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_that_fails_is_a_node_that_does_not_answer() {
    is_like_two_dead_nodes(
        ["no way there", "no connection within its deadline"],
        |builder| {
            let fails = || ready(Err::<NodeStream, _>(io::Error::other("no way there")));
            builder
                .node_through("node4", fails)
                .node_through("node5", pending::<io::Result<NodeStream>>)
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_that_panics_is_a_node_that_does_not_answer() {
    is_like_two_dead_nodes(["panicked", "panicked"], |builder| {
        let early = || -> std::future::Ready<io::Result<NodeStream>> { panic!("as it was told") };
        let late = || async { panic!("as it was told") as io::Result<NodeStream> };
        builder
            .node_through("node4", early)
            .node_through("node5", late)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_never_answers_is_a_node_that_does_not() {
    let (ends, kept) = std::sync::mpsc::channel::<DuplexStream>();
    is_like_two_dead_nodes(["login was not answered", ""], |builder| {
        let silent = move || {
            let (end, other) = duplex(64);
            ends.send(other).unwrap();
            ready(Ok(end))
        };
        builder
            .node_through("node4", silent)
            .node_through("node5", || ready(Ok(TakesNothing)))
    })
    .await;
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_panics_is_a_node_that_does_not_answer() {
    is_like_two_dead_nodes(["panicked", "panicked"], |builder| {
        let panics = || ready(Ok(Panics));
        builder
            .node_through("node4", panics)
            .node_through("node5", panics)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_buffers_is_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let node = Embedded::start(&folder, 1).await;
    let buffered = move || ready(node.connect().map(BufWriter::new));
    let redlock = Redlock::builder()
        .node_through("node1", buffered)
        .build()
        .unwrap();
    assert!(acquire(&redlock, "a").await.release().await.released());
}

#[test]
fn a_name_is_no_address_and_is_listed_once() {
    let add = |builder: RedlockBuilder, name: &str| {
        builder.node_through(name, || ready(Ok(TakesNothing)))
    };
    for name in ["", "node 1", "redis://:secret@node1:7001", "a\nb"] {
        let built = add(Redlock::builder(), name).build();
        let Err(BuildError::Address(error)) = built else {
            panic!("{name:?}: {built:?}")
        };
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let twice = add(add(Redlock::builder(), "node1"), "node1").build();
    assert!(matches!(twice, Err(BuildError::Duplicate(_))), "{twice:?}");
}

/// The client reads the clock that its node reads: one move ends the lease for both, and neither before.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_a_node_and_a_client_share_moves_both() {
    let clock = Arc::new(SettableClock::new());
    let node = Node::builder().ephemeral().clock(clock.clone());
    let node = Arc::new(node.start().await.unwrap());
    let client = || {
        let node = Arc::clone(&node);
        let connect = move || ready(node.connect());
        let builder = Redlock::builder().node_through("node", connect);
        builder.clock(clock.clone()).build().unwrap()
    };
    let (redlock, other) = (client(), client());
    let lease = redlock.lock("a").ttl(TTL).acquire_lease().await.unwrap();
    clock.advance(TTL - Duration::from_secs(2));
    assert!(lease.is_valid());
    let refusal = refused(&other, "a").await;
    assert!(matches!(refusal, AcquireError::Busy { .. }), "{refusal}");
    clock.advance(Duration::from_secs(2));
    assert!(!lease.is_valid());
    let lease = other.lock("a").ttl(TTL).acquire_lease().await.unwrap();
    assert!(lease.is_valid());
}
