//! The connection of one node: made when it is first needed, kept, made again.
//!
//! Invariants: one connection per node, one write per turn of the loop for all that is queued. It
//! is closed only on a protocol error, a failed write, the node's own closing, or silence beyond
//! the ttl of what it sits on. Name resolution and connecting concern this node alone.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use redis_protocol::resp2::types::OwnedFrame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::node::Node;
use super::queue::{Link, Peer};
use super::stream::Stream;
use crate::address::{Endpoint, NodeAddress};
use crate::answer;
use crate::outcome::Cause;
use crate::reply::Replies;
use crate::request::{self, EXTEND_SCRIPT, RELEASE_SCRIPT, ScriptHash};
use crate::votes::Admission;

/// Keeps one node's connection for as long as the client lives.
pub(super) async fn run(node: Rc<Node>, address: NodeAddress, shared: Rc<Shared>) {
    let mut failures = 0_u32;
    loop {
        while !node.wants_connection(node.now()) {
            node.wake.notified().await;
        }
        node.state.borrow_mut().link = Link::Connecting;
        let limit = shared.settings.node_deadline_max;
        let opened = match timeout(limit, open(&node, &address, &shared)).await {
            Ok(opened) => opened,
            Err(_) => Err(unreachable("no connection within its deadline")),
        };
        let cause = match opened {
            Err(cause) => {
                failures = failures.saturating_add(1);
                node.remember_failure(node.now(), &cause);
                cause
            }
            Ok((mut stream, peer)) => {
                node.ready(node.now(), peer);
                let ended = serve(&node, &mut stream).await;
                failures = 0;
                tracing::debug!(node = %node.label, cause = %ended, "connection ended");
                ended
            }
        };
        let rest = rest(failures);
        node.fail(node.now(), &cause, rest);
        sleep(rest).await;
    }
}

/// Connects, logs in, and learns who the node is.
async fn open(
    node: &Node,
    address: &NodeAddress,
    shared: &Shared,
) -> Result<(Stream, Peer), Cause> {
    let mut stream = connect(address)
        .await
        .map_err(|error| unreachable(&error.to_string()))?;
    let (out, asked) = log_in(address, &shared.settings.client_name);
    let sent = stream.write_all(&out).await;
    sent.map_err(|error| unreachable(&error.to_string()))?;
    let unidentified = Err(Cause::Unidentified(Arc::from("INFO names no run_id")));
    let mut peer = Peer {
        identity: unidentified,
        takes_get: true,
        release_hash: None,
        extend_hash: None,
    };
    let mut replies = Replies::with_capacity(READ_BYTES);
    for what in asked {
        let reply = next_reply(&mut stream, &mut replies).await?;
        learn(&mut peer, what, &reply)?;
    }
    if !replies.is_empty() {
        return Err(unreachable("the node answers more than it was asked"));
    }
    admit(node, shared, &mut peer);
    Ok((stream, peer))
}

async fn connect(address: &NodeAddress) -> io::Result<Stream> {
    Ok(match &address.endpoint {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Stream::Tcp(stream)
        }
        Endpoint::Unix { path } => Stream::Unix(UnixStream::connect(path).await?),
    })
}

/// The requests of the log-in, all in one write, and what their replies are for.
fn log_in(address: &NodeAddress, client_name: &str) -> (Vec<u8>, Vec<Asked>) {
    let mut out = Vec::new();
    let mut asked = Vec::new();
    let mut ask = |what: Asked, arguments: &[&[u8]]| {
        request::write(&mut out, arguments);
        asked.push(what);
    };
    match (&address.user, &address.password) {
        (Some(user), Some(password)) => {
            ask(
                Asked::Must,
                &[b"AUTH", user.as_bytes(), password.as_bytes()],
            );
        }
        (None, Some(password)) => ask(Asked::Must, &[b"AUTH", password.as_bytes()]),
        _ => {}
    }
    if address.database != 0 {
        ask(
            Asked::Must,
            &[b"SELECT", address.database.to_string().as_bytes()],
        );
    }
    ask(Asked::May, &[b"CLIENT", b"SETNAME", client_name.as_bytes()]);
    ask(
        Asked::May,
        &[b"CLIENT", b"SETINFO", b"LIB-NAME", b"quorlock-client"],
    );
    ask(
        Asked::May,
        &[
            b"CLIENT",
            b"SETINFO",
            b"LIB-VER",
            env!("CARGO_PKG_VERSION").as_bytes(),
        ],
    );
    ask(Asked::Info, &[b"INFO", b"server"]);
    ask(Asked::ReleaseScript, &[b"SCRIPT", b"LOAD", RELEASE_SCRIPT]);
    ask(Asked::ExtendScript, &[b"SCRIPT", b"LOAD", EXTEND_SCRIPT]);
    (out, asked)
}

/// Takes one reply of the log-in in.
fn learn(peer: &mut Peer, what: Asked, reply: &OwnedFrame) -> Result<(), Cause> {
    match what {
        Asked::Must if matches!(reply, OwnedFrame::Error(_)) => {
            return Err(answer::refusal(reply));
        }
        Asked::Info => match answer::info(reply) {
            Ok(info) => {
                if let Some(identity) = info.identity {
                    peer.identity = Ok(identity);
                }
            }
            Err(cause) => {
                let text = format!("INFO is {cause}");
                peer.identity = Err(Cause::Unidentified(Arc::from(text)));
            }
        },
        Asked::ReleaseScript => peer.release_hash = hash(reply),
        Asked::ExtendScript => peer.extend_hash = hash(reply),
        Asked::Must | Asked::May => {}
    }
    Ok(())
}

/// Lets the node vote or not, by who it says it is.
fn admit(node: &Node, shared: &Shared, peer: &mut Peer) {
    let Ok(identity) = &peer.identity else {
        tracing::warn!(node = %node.label, "does not tell its identity and does not vote");
        return;
    };
    match shared.register.borrow_mut().admit(node.index, identity) {
        Admission::Votes => {}
        Admission::SameAs(other) => {
            tracing::warn!(node = %node.label, other, "is the same node as another one listed");
        }
        Admission::WentBack => {
            tracing::warn!(node = %node.label, %identity, "shows an older incarnation");
            peer.identity = Err(Cause::WentBack);
        }
    }
}

/// Writes and reads until the connection ends, and says why.
async fn serve(node: &Node, stream: &mut Stream) -> Cause {
    let mut replies = Replies::with_capacity(READ_BYTES);
    let mut writing = BytesMut::new();
    let mut check = Box::pin(sleep(CHECK_EVERY));
    loop {
        {
            let mut state = node.state.borrow_mut();
            if writing.is_empty() {
                writing.clear();
            }
            writing.extend_from_slice(&state.out);
            state.out.clear();
        }
        while !writing.is_empty() {
            match stream.try_write(&writing) {
                Ok(written) => writing.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return unreachable(&format!("writing failed: {error}")),
            }
        }
        let is_waiting = {
            let state = node.state.borrow();
            !state.in_flight.is_empty() || !state.deferred.is_empty()
        };
        tokio::select! {
            biased;
            ready = stream.readable() => {
                if let Err(error) = ready {
                    return unreachable(&format!("reading failed: {error}"));
                }
                if let Err(cause) = receive(node, stream, &mut replies) {
                    return cause;
                }
            }
            () = node.wake.notified() => {}
            _ = stream.writable(), if !writing.is_empty() => {}
            () = &mut check, if is_waiting => {
                check.as_mut().reset(tokio::time::Instant::now() + CHECK_EVERY);
                let now = node.now();
                node.send_deferred(now);
                let state = node.state.borrow();
                let oldest = state.in_flight.front();
                if oldest.is_some_and(|oldest| now.since(oldest.since) > silence_max(oldest.ttl)) {
                    return unreachable("silent for longer than the ttl");
                }
            }
        }
    }
}

/// Reads what is there and delivers every complete reply.
fn receive(node: &Node, stream: &mut Stream, replies: &mut Replies) -> Result<(), Cause> {
    match stream.try_read_buf(replies.room(READ_BYTES)) {
        Ok(0) => return Err(unreachable("the node closed the connection")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(unreachable(&format!("reading failed: {error}"))),
    }
    let now = node.now();
    loop {
        match replies.next() {
            Ok(Some(reply)) => {
                if !node.deliver(now, &reply) {
                    return Err(unreachable("the node answers more than it was asked"));
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => return Err(unreachable(&format!("protocol error: {error}"))),
        }
    }
}

async fn next_reply(stream: &mut Stream, replies: &mut Replies) -> Result<OwnedFrame, Cause> {
    loop {
        match replies.next() {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => {}
            Err(error) => return Err(unreachable(&format!("protocol error: {error}"))),
        }
        match stream.read_buf(replies.room(READ_BYTES)).await {
            Ok(0) => return Err(unreachable("the node closed the connection at log-in")),
            Ok(_) => {}
            Err(error) => return Err(unreachable(&error.to_string())),
        }
    }
}

/// What a reply of the log-in is for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// A failure means that requests would go to the wrong place.
    Must,
    May,
    Info,
    ReleaseScript,
    ExtendScript,
}

fn hash(reply: &OwnedFrame) -> Option<ScriptHash> {
    let OwnedFrame::BulkString(text) = reply else {
        return None;
    };
    let hash = ScriptHash::try_from(text.as_slice()).ok()?;
    hash.iter().all(u8::is_ascii_hexdigit).then_some(hash)
}

fn unreachable(text: &str) -> Cause {
    Cause::Unreachable(Arc::from(text))
}

/// Doubling with every failure, spread so that a node that comes back is not stormed.
fn rest(failures: u32) -> Duration {
    let most = REST_FIRST
        .saturating_mul(1 << failures.min(10))
        .min(REST_MAX);
    most.mul_f64(rand::random_range(0.5..1.0))
}

fn silence_max(ttl: Duration) -> Duration {
    ttl.max(SILENCE_LEAST)
}

const READ_BYTES: usize = 4096;
const CHECK_EVERY: Duration = Duration::from_millis(250);
const SILENCE_LEAST: Duration = Duration::from_secs(1);
const REST_FIRST: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(1);
